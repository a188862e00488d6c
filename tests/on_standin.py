"""Functions of CuPy's slices as typed functions, and what they give for a stand-in's slices."""

import contextlib
from unittest import mock

import numpy as np
import standin_cupy

from xpapply.codegen.llvm.typed import device
from xpapply.frontends.python.source.typed import Expected, Input, typed
from xpapply.functions.guards import Guards
from xpapply.ir.typed import Array
from xpapply.ir.typed.evaluate import evaluate
from xpapply.ir.typed.verify import verify
from xpapply.planning.python.typed_on_device import TypedOnDevice


def made(f, dtype, results, length=0):
    """The typed function of one of CuPy's slices; `length`: of all of them, if that is known."""
    watch = Guards()
    watch.start(f)
    expected = [Expected(r.dtype.name, r.shape) for r in results]
    found = typed(f, [Input(0, length=length)], {}, [Array(dtype, 1)], expected, watch, "device")
    verify(found)
    return found


def of_standin(f, v):
    """What a function gives for a slice of the stand-in's, as CuPy's loop stores it."""
    with np.errstate(all="ignore"):
        found = f(standin_cupy.ndarray(v.copy()))
    return np.asarray(standin_cupy.unwrap(found))


class Evaluated:
    """In the place of what runs a typed function on a device."""

    width, waits, seconds, has_compiled = 1, False, 0.0, True

    def __init__(self, made):
        self.made, self.why_not = made, device.why_not(made) or ""

    def kept(self, *_):
        return None

    def run(self, arrays, outs, batch, seconds, originals, short=True):
        shape = outs[0].shape[:batch]
        marks = np.zeros(shape, np.uint16)
        for at in np.ndindex(*shape):
            slices = [x._array[at] for x in arrays]
            out = [o._array[(*at, ...)] for o in outs]
            marks[at] = evaluate(self.made, slices, out, is_first=not any(at))
        return marks if marks.any() else None


@contextlib.contextmanager
def evaluated_on_standin():
    """The stand-in for CuPy, where typed functions are evaluated in plain Python."""

    def backend(made):
        assert made.fetches or device.why_not(made) is None
        return Evaluated(made)

    with standin_cupy.installed() as found, contextlib.ExitStack() as stack:
        own = mock.patch.object(TypedOnDevice, "_backend", staticmethod(backend))
        stack.enter_context(own)  # within what refuses there, and so gone before that
        stack.enter_context(np.errstate(all="ignore"))
        yield found
