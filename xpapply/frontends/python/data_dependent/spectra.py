"""Eigenvalues and roots, which NumPy gives as real numbers where all of a slice are real.

Slices part by that. From NumPy 2.5 on they are complex for all.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ....batching import Batched, BatchingRule
from ..trace.arrays import as_array
from ..trace.functions import function_call
from ..trace.recorder import Recorder
from ..trace.tracer import Tracer


@functools.cache
def _are_complex() -> bool:
    """Whether eigenvalues of a real matrix are complex, whatever they are."""
    return bool(np.linalg.eigvals(np.eye(2)).dtype.kind == "c")


def _complex(values: Any) -> Any:
    """As complex numbers, which those of some slice may be."""
    if isinstance(values, tuple):
        return tuple(map(_complex, values))
    return values.astype(np.result_type(values.dtype, np.complex64))


def _values(xp: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    return Batched(_complex(xp.linalg.eigvals(args[0].array)))


def _pairs(xp: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    return tuple(map(Batched, _complex(tuple(xp.linalg.eig(args[0].array)))))


VALUES = BatchingRule("numpy.linalg.eigvals, complex", _values, fresh=True)
PAIRS = BatchingRule("numpy.linalg.eig, complex", _pairs, fresh=True)


def _is_plain(recorder: Recorder, a: Any) -> bool:
    """Whether `a` is a real array of NumPy's that depends on the slice."""
    moving = isinstance(a, Tracer) and a.ref is not None and isinstance(a.value, np.ndarray)
    return moving and recorder.library == "numpy" and a.dtype.kind in "fiub"


def eigvals(recorder: Recorder, a: Any) -> Any:
    """As complex numbers, or their real parts."""
    if not _is_plain(recorder, a) or a.ndim != 2 or _are_complex():
        return NotImplemented
    found = recorder.call(VALUES, lambda x: _complex(np.linalg.eigvals(x)), (a,))
    return found.real if (found.imag == 0).all() else found


def eig(recorder: Recorder, a: Any) -> Any:
    """The same with eigenvectors."""
    if not _is_plain(recorder, a) or a.ndim != 2 or _are_complex():
        return NotImplemented
    kind: Any = type(recorder.real(lambda: np.linalg.eig(a.value)))
    found = recorder.call(PAIRS, lambda x: _complex(tuple(np.linalg.eig(x))), (a,))
    is_real = (found[0].imag == 0).all()
    return kind(*(x.real for x in found)) if is_real else kind(*found)


def roots(recorder: Recorder, p: Any) -> Any:
    """Eigenvalues of the companion matrix, as NumPy computes them."""
    p = as_array(recorder, p)
    if not _is_plain(recorder, p) or p.ndim != 1 or p.size == 0:
        return NotImplemented
    there, n = p != 0, p.size
    if not there.any():
        return recorder.constant(np.array([]))
    first, zeros = int(there.argmax()), int(there[::-1].argmax())
    p = p[first : n - zeros]
    p = p if p.dtype.kind == "f" else p.astype(float)
    if p.size > 1:
        top = (-p[1:] / p[0]).reshape(1, p.size - 1)
        below = np.eye(p.size - 1, dtype=p.dtype)[:-1]
        matrix = function_call(recorder, np.concatenate, ([top, below],), {})
        found = function_call(recorder, np.linalg.eigvals, (matrix,), {})
    else:
        found = recorder.constant(np.array([]))
    if not zeros:
        return found
    return function_call(recorder, np.hstack, ([found, np.zeros(zeros, found.dtype)],), {})
