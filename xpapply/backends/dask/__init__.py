"""dask's arrays: whatever is computed of them is computed of their blocks, when dask wants them.

Nothing here computes: a block is an array of NumPy or CuPy, and what runs there is what runs on
such an array alone. `blocks.py` makes the graph of tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...ir.graph import Graph
from .. import Backend


class Dask(Backend):
    """Runs no graphs: each block has an engine of its own."""

    name = "dask"

    def why_not(self, graph: Graph, given: Sequence[Any]) -> str | None:
        """Refuse: blocks run one by one, each on an engine of its own."""
        return "its blocks run one by one, each on an engine of its own"


BACKEND = Dask()
