"""Reading a function's source, without types."""
