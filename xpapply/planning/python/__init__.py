"""Plans of Python functions: trace, decide, run at once or in the loop."""
