"""Functions of CuPy's slices as typed functions, and what they give for a stand-in's slices."""

import numpy as np
import standin_cupy

from xpapply.frontends.python.source.typed import Expected, Input, typed
from xpapply.functions.guards import Guards
from xpapply.ir.typed import Array
from xpapply.ir.typed.verify import verify


def made(f, dtype, results):
    """The typed function of one of CuPy's slices."""
    watch = Guards()
    watch.start(f)
    expected = [Expected(r.dtype.name, r.shape) for r in results]
    found = typed(f, [Input(0)], {}, [Array(dtype, 1)], expected, watch, "device")
    verify(found)
    return found


def of_standin(f, v):
    """What a function gives for a slice of the stand-in's, as CuPy's loop stores it."""
    with np.errstate(all="ignore"):
        found = f(standin_cupy.ndarray(v.copy()))
    return np.asarray(standin_cupy.unwrap(found))
