"""Numbers of Python that depend on the slice: their arithmetic raises where NumPy's warns.

Slices for which Python raises are left to ``f`` itself.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from ....batching import syntax
from ....batching.scalars import LARGEST
from ....errors import TraceError
from .stand_ins import values
from .tracer import Tracer, must


def arithmetic(recorder: Any, ufunc: Any, python: Any, a: Any, b: Any) -> Any:
    """What an operator gives for two of them, in a call of NumPy."""
    name = ufunc.__name__
    real_a, real_b = values(a), values(b)
    if isinstance(real_a, complex) or isinstance(real_b, complex):
        return recorder.operations.complex_numbers.arithmetic(recorder, python, a, b)
    result = recorder.real(python, real_a, real_b)
    integers = not isinstance(real_a, float) and not isinstance(real_b, float)
    if name in ("divide", "floor_divide", "remainder") and isinstance(b, Tracer):
        must(b != 0)
    if name == "power":
        if not _has_power(a, b, integers):
            return recorder.operations.scalars.call(recorder, python, (a, b), {})
    if name in ("left_shift", "right_shift") and isinstance(b, Tracer):
        must(b >= 0)
        must(b < 32)
    large = name in ("add", "subtract", "multiply", "power", "left_shift")
    if integers and (large or (name == "floor_divide" and (isinstance(b, Tracer) or b == -1))):
        # Python's integers do not overflow
        if not -(2**53) <= result <= 2**53:
            recorder.raised(OverflowError("a large Python integer"))
            raise TraceError("a large Python integer")
        factor, times = b, name
        if name == "left_shift":
            factor, times = arithmetic(recorder, np.power, operator.pow, 2.0, b), "multiply"
        big = recorder.call(
            syntax.PYTHON, lambda *_: float(result), (times, a, factor, "float64"), check=False
        )
        must(abs(big) <= LARGEST)
    if isinstance(real_a, float) != isinstance(real_b, float):
        from ....ir.numpy_ufuncs import COMPARISONS

        whole = b if isinstance(real_a, float) else a
        if ufunc in COMPARISONS and isinstance(
            whole, Tracer
        ):  # Python compares all digits, NumPy those of a float
            must(abs(recorder.operations.plain(whole, float)) <= LARGEST)
    dtype = (
        "bool" if isinstance(result, bool) else "int64" if isinstance(result, int) else "float64"
    )
    found = recorder.call(syntax.PYTHON, lambda *_: result, (name, a, b, dtype), check=False)
    if name == "power":
        must(abs(found) < math.inf)
    return found


def _has_power(a: Any, b: Any, integers: bool) -> bool:
    """Whether ``a ** b`` is a call of NumPy; slices for which Python raises are left to ``f``."""
    if integers:
        if b < 0:
            must(a != 0)
        return True
    if not isinstance(b, Tracer) and math.isfinite(b) and (b == int(b) or b > 0):
        if b < 0:
            must(a != 0)
        return bool(b == int(b) or a >= 0)
    return bool(a > 0)
