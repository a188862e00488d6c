"""The graph of one slice: its ops, its nodes, how it is batched and rewritten."""
