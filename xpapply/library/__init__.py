"""Library functions of a slice in plain Python, which are compiled with what calls them.

Each runs uncompiled too: that is its test.
"""
