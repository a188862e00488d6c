"""Measurements of xpapply beside other ways; see README.md."""
