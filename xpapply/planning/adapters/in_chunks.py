"""Arrays of dask: each chunk takes the same way when dask computes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..application import Application
from ..chunked import blockwise
from . import Adapted

if TYPE_CHECKING:
    from ..plan import Plan


class InChunks(Adapted):
    """The slices of an array of dask."""

    def __init__(self, app: Application) -> None:
        self._app = app.settled()

    def results(self) -> Any:
        app = self._app
        return blockwise.plan(app, tell=True)(app.arr, app.axis)

    def plan(self) -> Plan:
        return blockwise.plan(self._app, tell=False)


adapt = InChunks
