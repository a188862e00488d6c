"""torch's own ways to run all slices: batches, `vmap`, captured graphs and recorded lines."""

WAYS = BATCH, VMAP = "torch.batch", "torch.vmap"
"""Names of the ways of `chunks.vectorized` in plans."""
