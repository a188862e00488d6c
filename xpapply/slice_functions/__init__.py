"""Functions of slices of any length: `special`, `elementwise`, `reduction` and `bincount`."""
