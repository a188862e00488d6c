"""Complex numbers as pairs of real arrays: what functions of slices compute with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import arrays, labelled
from .function import Slicewise


def is_complex(x: Any) -> bool:
    """Whether an array, or what has one inside, is of complex numbers."""
    dtype = getattr(x, "dtype", None)
    if dtype is None:
        dtype = labelled.dtype(x)
    if dtype is None:
        return np.iscomplexobj(x)
    kind = getattr(dtype, "kind", None)  # torch's dtypes have none
    return "complex" in str(dtype) if kind is None else kind == "c"


def parts_of(x: Any) -> tuple[Any, Any]:
    """Real and imaginary part: views, where the library has them."""
    if (wing := labelled.wing(x)) is not None:
        return wing.sliced(lambda given, _: parts_of(given[0]), (x,), ())  # type: ignore[no-any-return]
    if arrays.library(x) is None:
        x = np.asarray(x)
    if arrays.library(x) in ("numpy", "cupy", "torch"):
        return x.real, x.imag
    xp = arrays.compat(x)
    return xp.real(x), xp.imag(x)


def joined(re: Any, im: Any) -> Any:
    """A complex array of its parts."""
    if (wing := labelled.wing(re)) is not None:
        return wing.sliced(lambda given, _: joined(*given), (re, im), ())
    name, xp = arrays.library(re), arrays.compat(re)
    if name == "torch":
        return xp.complex(re, im)
    if name == "jax":
        import jax

        return jax.lax.complex(re, im)
    if name == "dask":
        dtype = np.result_type(re.dtype, np.complex64)
        return re.map_blocks(joined, im, dtype=dtype, meta=re._meta.astype(dtype))
    if name not in ("numpy", "cupy"):
        with np.errstate(all="ignore"):  # the standard has nothing better
            return re + 1j * im
    both = xp.empty_like(re, dtype=np.result_type(re.dtype, np.complex64))
    both.real, both.imag = re, im
    return both[()] if name == "numpy" else both


def in_parts(call: Slicewise, given: Sequence[Any], axis: int | tuple[int, ...] | None) -> Any:
    """A complex result per element, its parts written where they are to be."""
    x = given[0]
    if arrays.library(x) not in ("numpy", "cupy"):
        return joined(*call(given, axis))
    xp = arrays.compat(x)
    both = xp.empty_like(x, dtype=np.result_type(x.dtype, np.complex64), order="C")
    call(given, axis, False, (both.real, both.imag))
    return both[()] if arrays.library(x) == "numpy" else both
