"""Library functions of texts, in plain Python, for the compiler."""
