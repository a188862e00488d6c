"""torch's own ways to run all slices: batches, `vmap`, captured graphs and recorded lines."""

WAYS = BATCH, VMAP = "torch.batch", "torch.vmap"
"""What plans call the ways of `chunks.vectorized`."""
