"""Kinds of values: integers, complex numbers, floats of 16 bits, texts."""
