"""One file per library: graph in, callable on that library's arrays out."""
