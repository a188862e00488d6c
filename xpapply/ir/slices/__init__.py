"""Graphs of slices of any length: what is accumulated along them, and networks that are such."""
