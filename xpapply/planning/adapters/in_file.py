"""Arrays in files, results that go into one or into an array, and blocks on a device."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ... import labelled
from ...arrays import outputs
from ...errors import InputError
from ..application import Application
from ..chunked import streamed
from . import Adapted, Inner

if TYPE_CHECKING:
    from ..plan import Plan


def adapt(app: Application) -> Adapted | Application:
    """Run block by block, or write into `out`; otherwise go on with the array in memory."""
    kwargs, out = streamed.own_out(app.f, app.kwargs)
    if streamed.applies(app.arr, out):
        return BlockByBlock(replace(app, kwargs=kwargs), out)
    app = Application(app.f, app.axis, streamed.whole(app.arr), app.args, kwargs)
    return app if out is None else IntoMemory(app, out)


class BlockByBlock(Adapted):
    """The slices of what is read, or whose results are written, block by block."""

    def __init__(self, app: Application, out: Any) -> None:
        if labelled.wing(app.arr) is not None:
            raise InputError(
                "out= in a file and device= are for arrays without labels: give the array inside, "
                "da.data or df.to_numpy()"
            )
        self._app, self._out = app.settled(), out

    def results(self) -> Any:
        return self.plan()(self._app.arr, self._app.axis)

    def plan(self) -> Plan:
        return streamed.plan(self._app, self._out)


class IntoMemory(Inner):
    """The slices of an array whose results are written into another one."""

    def __init__(self, app: Application, out: Any) -> None:
        super().__init__(app)
        self._out = out

    def results(self) -> Any:
        streamed.check_in_memory(self._app.arr, self._out)
        outputs.write_into(self._out, super().results(), "out")
        return self._out
