"""Functions that have been dearer than NumPy's loop once, and their relatives."""

from __future__ import annotations

from .idioms import Idiom
from .scalar_functions import Entry

ROWS: list[Idiom | Entry] = []
