"""Arrays that come in blocks: of dask, and in files that are larger than the memory."""
