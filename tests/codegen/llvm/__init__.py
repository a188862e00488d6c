"""A package, so that files here may have names that others have."""
