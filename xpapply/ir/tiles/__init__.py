"""Graphs of images that are cut into tiles: how far each value reaches, and windows over images."""
