"""torch's own ways to run all slices: batches, `vmap`, captured graphs and recorded lines."""
