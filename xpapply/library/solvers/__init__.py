"""Solvers of a slice that take several pages, in plain Python for the compiler."""
