"""Paths as graphs of the op table, by topic; `to_graph.py` writes them.

A topic has ``CALLS`` and ``FUNCTIONS``, by the names of calls and of NumPy's and SciPy's functions.
"""
