"""Programs whose inner work is one function per slice: fits, filters, recurrences, texts, solvers.

They are modelled on public code, which calls NumPy's loop for them. Their functions are those that
nothing can run for all slices at once, or only just: optimisers that call back, loops to convergence,
tables written in place, matrices that depend on where there are data.
"""

from __future__ import annotations

from .idioms import Idiom
from .scalar_functions import Entry

ROWS: list[Idiom | Entry] = []
