"""Functions that pandas calls for each row, element, window or group, run at once.

pandas hands on Series: a row with the names of its columns, a window with a part of the index.
`series.py` and `returns.py` write such a function anew, by what `labels.py` says of the Series: as
one of an array or of several numbers, with the same lines. `applied.py` runs that one at once, or
pandas' own loop with the function itself; `results.py` makes pandas' results of numbers. What
pandas applies it to is in `rows.py`, `elements.py`, `windows.py` and `groups.py`. `engine.py` is
what ``engine=xpapply`` finds, and `xpapply.patching` puts the others in the places of pandas' own.
"""
