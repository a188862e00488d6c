"""The graph of a network as steps on buffers, image by image in tiles, segment by segment."""
