"""Programs whose inner work is one function per slice: fits, filters, recurrences, texts, solvers.

They are modelled on public code, which calls NumPy's loop for them. Hardly any of their functions
can run for all slices at once: optimisers call back, loops go on to convergence, tables are written
in place, matrices depend on where there are data.
"""

from __future__ import annotations

from .idioms import Idiom
from .scalar_functions import Entry

ROWS: list[Idiom | Entry] = []
