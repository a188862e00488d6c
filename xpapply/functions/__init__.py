"""Facts of a function that is applied: what it reaches, whether it changes, what it takes."""
