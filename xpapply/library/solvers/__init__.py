"""Solvers of a slice in plain Python, which are compiled with the functions that they call."""
