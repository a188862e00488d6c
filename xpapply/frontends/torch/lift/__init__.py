"""Modules and functions of torch as graphs of the op table."""
