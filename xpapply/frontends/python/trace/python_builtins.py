"""Python's own functions and `math` on tracers."""

from __future__ import annotations

import builtins
import functools
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ....batching import syntax
from ....batching.scalars import COMPENSATED, LARGEST, OF_INTEGERS, ROUND, SUM
from ....errors import TraceError
from ....limits import LIMITS
from ..sandbox import ambient
from . import choices, scalars
from .arrays import as_array, cast
from .functions import function_call
from .recorder import Recorder
from .stand_ins import Counted, Traced, tracers, values
from .tracer import Tracer, must
from .ufuncs import ufunc_call

# --- numbers ------------------------------------------------------------------------------


def _number(x: Tracer) -> Tracer:
    """`x` without axes."""
    return x.reshape(()) if np.ndim(x.value) else x


def plain(x: Tracer, kind: type) -> Any:
    """A number as Python's `float`, `int`, `bool` or `complex`."""
    value = x.recorder.real(kind, x.value)
    if x.ref is None:
        return value
    if type(x.value) is kind:
        return x
    if np.ndim(x.value):
        raise x.recorder.refuse(f"{kind.__name__}() of an array")
    if kind is int and np.asarray(x.value).dtype.name in ("int64", "uint64"):
        if abs(value) > LARGEST:
            x.recorder.raised(OverflowError("a large Python integer"))
            raise TraceError("a large Python integer")
        must(x <= int(LARGEST))
        if np.asarray(x.value).dtype.name == "int64":
            must(x >= -int(LARGEST))
    return x.recorder.call(
        syntax.NUMBER, lambda _: value, (x,), batch=((x, np.dtype(kind)), {}), check=False
    )


def whole(x: Tracer, ufunc: Any, python: Callable[[Any], int]) -> Any:
    """A float made whole, as a Python integer."""
    value = x.recorder.real(python, x.value)
    if x.ref is None:
        return value
    if np.asarray(x.value).dtype.kind in "fc":
        must(abs(cast(x, np.float64)) <= LARGEST)  # NaN and inf raise in Python
        x = ufunc_call(x.recorder, ufunc, "__call__", (x,), {})
    return plain(x, int)


def to_int(x: Tracer) -> Any:
    """``int(x)``."""
    return whole(_scalar(x), np.trunc, int)


def _scalar(x: Tracer) -> Tracer:
    if np.ndim(x.value):
        raise x.recorder.refuse("a number of an array")
    return x


def rounded(x: Tracer, digits: int | None) -> Any:
    """``round(x, digits)``."""
    if isinstance(x.value, np.ndarray):
        return x.recorder.real(round, x.value)
    if digits is None:
        return whole(x, np.rint, round)
    if x.weak and isinstance(x.value, float) and type(digits) is int and 0 <= digits <= 15:
        real = x.recorder.real(round, x.value, digits)
        return x.recorder.call(ROUND, lambda *_: real, (x, digits), check=False)
    if x.weak:
        # Python rounds the decimal number, NumPy scales and rounds
        return scalars.call(x.recorder, round, (x, digits), {})
    return function_call(x.recorder, np.round, (x, digits), {})


# --- builtins that go through an iterable ---------------------------------------------------


def _vector(recorder: Recorder, iterable: Any) -> Tracer | None:
    """An iterable of traced numbers of one kind as one array."""
    if isinstance(iterable, Tracer):
        return iterable if np.ndim(iterable.value) == 1 and iterable.ref is not None else None
    if not isinstance(iterable, (list, tuple)) or not iterable:
        return None
    kinds = {(type(x.value), np.ndim(x.value)) if isinstance(x, Tracer) else None for x in iterable}
    if len(kinds) > 1 or None in kinds:
        return None
    kind = kinds.pop()
    weak = kind is not None and not issubclass(kind[0], (np.ndarray, np.generic))
    if kind is None or kind[1] or weak:
        return None
    return as_array(recorder, list(iterable))  # type: ignore[no-any-return]


def _listed(iterable: Any) -> Any:
    return iterable if isinstance(iterable, (Tracer, list, tuple, dict, set)) else list(iterable)


def _total(recorder: Recorder, iterable: Any, /, start: Any = 0) -> Any:
    x = iterable if isinstance(iterable, Tracer) else None
    if x is None or x.ref is None or type(start) is not int or start or not len(x):
        if not COMPENSATED or isinstance(start, (str, bytes, bytearray)):
            return sum(iterable, start)
        return _compensated(recorder, iterable, start)
    if x.dtype == bool:
        x = x.astype(np.int64)
    if x.dtype.kind in "iu":
        # a sum that overflows warns in the loop
        wide = function_call(recorder, np.cumsum, (x.astype(np.float64),), {})
        most = min(float(np.iinfo(x.dtype).max), 2.0**62)
        must((abs(wide) <= most).all())
    # one after the other, as Python adds, not in pairs as NumPy does
    return function_call(recorder, np.cumsum, (x,), {"dtype": x.dtype, "axis": 0})[-1] + 0


def _kind(x: Any) -> type:
    return type(x.value) if isinstance(x, Tracer) else type(x)


def _is_long(x: Any) -> bool:
    """Whether it fits in 64 bits, if it is an integer."""
    value = x.value if isinstance(x, Tracer) else x
    return type(value) is not int or -(2**63) <= value < 2**63


def _compensated(recorder: Recorder, iterable: Any, total: Any) -> Any:
    """``sum(iterable, total)`` of a Python that makes up for what is lost where it rounds.

    It begins with integers, goes on with floats and then with complex numbers, and adds as ``+``
    does from the first object on that is none of them; an integer of more than 64 bits is none.
    """
    whole, later = _kind(total) is int and _is_long(total), COMPENSATED
    numbers = []
    if _kind(total) in later:
        numbers, later = [total], later[later.index(_kind(total)) + 1 :]
    for x in iterable:
        fits = _is_long(x)
        if numbers and _kind(x) in (_kind(numbers[0]), float, int, bool) and (fits or OF_INTEGERS):
            numbers.append(x)
            continue
        begins = bool(numbers) or (whole and _kind(x) not in (int, bool))
        total = (_sum(recorder, numbers) if numbers else total) + x
        numbers, whole = [], whole and not begins and fits and _is_long(total)
        if begins and _kind(total) in later:
            numbers, later = [total], later[later.index(_kind(total)) + 1 :]
    return _sum(recorder, numbers) if numbers else total


def _sum(recorder: Recorder, numbers: list[Any]) -> Any:
    """The sum of floats, or complex numbers, and integers, from the first on."""
    if not any(True for _ in tracers(numbers)):
        return sum(numbers[1:], numbers[0])
    if _kind(numbers[0]) is complex:
        return scalars.call(recorder, sum, (numbers[1:], numbers[0]), {})
    real = sum(values(numbers[1:]), values(numbers[0]))
    floats = tuple(_kind(x) is float for x in numbers)
    return recorder.call(SUM, lambda *_: real, (numbers, floats), check=False)


def no_nan(recorder: Recorder, x: Tracer) -> None:
    """Slices with a NaN are left to ``f`` itself."""
    if x.dtype.kind in "fc":
        if np.isnan(x.value).any():
            # it depends on where they are
            recorder.raised(ValueError("an order of NaN"), decided=False)
            return
        must(ufunc_call(recorder, np.isnan, "__call__", (x,), {}).any() == False)  # noqa: E712


def _extreme(name: str) -> Callable[..., Any]:
    python = getattr(builtins, name)

    def extreme(recorder: Recorder, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1:
            args = (_listed(args[0]),)
        if not kwargs and recorder.library == "numpy":
            listed = args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args
            found = choices.extreme(recorder, name, tuple(listed))
            if found is not NotImplemented:
                return found
        x = _vector(recorder, args[0] if len(args) == 1 else list(args))
        if x is None or kwargs or not len(x):
            return python(*args, **kwargs)
        no_nan(recorder, x)
        # the first of equal ones, as in Python: 0.0 and -0.0 are equal
        return _one_of(x[function_call(recorder, getattr(np, f"arg{name}"), (x,), {})])

    return extreme


def _one_of(found: Any) -> Any:
    """A copy of an operand, in whose place Python has the operand itself: it is not written to."""
    if isinstance(found, Tracer) and (
        found.recorder.library != "numpy" or not isinstance(found.value, np.generic)
    ):
        found.owned = False
    return found


def _sorted(recorder: Recorder, iterable: Any, /, *, key: Any = None, reverse: bool = False) -> Any:
    if isinstance(iterable, Counted) and key is None and not reverse:
        ordered = iterable.ordered()
        if ordered is not None:
            return ordered
    iterable = _listed(iterable)
    x = _vector(recorder, iterable)
    if x is None or key is not None:
        return sorted(iterable, key=key, reverse=reverse)
    no_nan(recorder, x)
    found = function_call(recorder, np.sort, (x[::-1] if reverse else x,), {"kind": "stable"})
    return [_one_of(y) for y in (found[::-1] if reverse else found)]


def _truths(name: str) -> Callable[..., Any]:
    python = getattr(builtins, name)

    def booleans(recorder: Recorder, iterable: Any, /) -> Any:
        # an iterator is not read beyond the first answer
        x = _vector(recorder, iterable)
        if x is None:
            return python(iterable)
        return plain(function_call(recorder, getattr(np, name), (x != 0,), {}), bool)

    return booleans


def _isinstance(recorder: Recorder, x: Any, classes: Any, /) -> bool:
    if ambient.decides_instances(real(classes)):
        raise recorder.refuse("code of a class of classes says what its instances are")
    ambient.watch_registered(recorder.stage.watch)
    if not isinstance(x, Traced):
        return isinstance(real(x), real(classes))
    classes = real(classes)
    if recorder.library == "numpy":
        return isinstance(x.value, classes)
    listed = classes if isinstance(classes, tuple) else (classes,)
    if isinstance(x.value, (np.ndarray, np.generic)):
        return any(c.__module__.partition(".")[0] == recorder.library for c in listed)
    return isinstance(x.value, classes)


def real(x: Any) -> Any:
    """The object that a substitute stands for."""
    if isinstance(x, tuple):
        return tuple(map(real, x))
    return x.__xpapply_real__ if hasattr(type(x), "__xpapply_substitute__") else x


def _type(recorder: Recorder, x: Any, *rest: Any) -> Any:
    if rest:
        raise recorder.refuse("it makes a class")
    if isinstance(x, Traced):
        return (np.ndarray is type(x.value) and recorder.stage.substitute(np.ndarray)) or type(
            x.value
        )
    cls = type(real(x))
    ambient.watch_name(recorder.stage.watch, cls)
    return cls.__mro__[1] if hasattr(x, "_xp_stage") and cls is type(x) else cls


def _callable(recorder: Recorder, x: Any, /) -> bool:
    return callable(real(x))


def _hasattr(recorder: Recorder, x: Any, name: str, /) -> bool:
    return hasattr(x.value if isinstance(x, Traced) else x, name)


def _number_of(kind: type) -> Callable[..., Any]:
    def convert(recorder: Recorder, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs and isinstance(args[0], Tracer):
            x = choices.number(args[0])
            if kind is int:
                return to_int(x) if x.ref is not None else int(x.value)
            if kind is not complex or isinstance(x.value, complex):
                return plain(x, kind)
        if kind is complex and any(map(_moving, (*args, *kwargs.values()))):
            for x in (*args, *kwargs.values()):
                if isinstance(x, Tracer):
                    _scalar(x)
            return recorder.operations.complex_numbers.of_numbers(recorder, args, kwargs)
        return kind(*args, **kwargs)

    return convert


def _len(recorder: Recorder, x: Any, /) -> Any:
    return x.length() if isinstance(x, Counted) else len(x)


BUILTINS: dict[str, Callable[..., Any]] = {
    "max": _extreme("max"),
    "min": _extreme("min"),
    "sum": _total,
    "sorted": _sorted,
    "all": _truths("all"),
    "any": _truths("any"),
    "isinstance": _isinstance,
    "type": _type,
    "hasattr": _hasattr,
    "len": _len,
    "callable": _callable,
}
"""Builtins that are replaced; each gets the recorder first."""

NUMBERS: dict[type, Callable[..., Any]] = {k: _number_of(k) for k in (float, int, bool, complex)}

HARMLESS = frozenset(
    (
        "abs callable chr dict divmod enumerate filter frozenset getattr iter list map "
        "next ord pow range reversed round slice str tuple zip repr format bytes hex bin "
        "Ellipsis NotImplemented None True False __debug__ issubclass ascii oct memoryview "
        "bytearray hash"
    ).split()
)
"""Builtins that may be used as they are: tracers answer, or refuse, by their dunders."""


# --- math -------------------------------------------------------------------------------------


def _finite(x: Any) -> Any:
    return abs(x) < math.inf


def _not(condition: Any) -> Any:
    return condition == False  # noqa: E712


_DOMAINS: dict[str, tuple[str, Callable[..., Any] | None]] = {
    "sqrt": ("sqrt", lambda x: _not(x < 0)),
    "log": ("log", lambda x: _not(x <= 0)),
    "log2": ("log2", lambda x: _not(x <= 0)),
    "log10": ("log10", lambda x: _not(x <= 0)),
    "log1p": ("log1p", lambda x: _not(x <= -1)),
    "exp": ("exp", None),
    "expm1": ("expm1", None),
    "sin": ("sin", lambda x: _not(abs(x) == math.inf)),
    "cos": ("cos", lambda x: _not(abs(x) == math.inf)),
    "tan": ("tan", lambda x: _not(abs(x) == math.inf)),
    "asin": ("arcsin", lambda x: _not(abs(x) > 1)),
    "acos": ("arccos", lambda x: _not(abs(x) > 1)),
    "atan": ("arctan", None),
    "atan2": ("arctan2", None),
    "sinh": ("sinh", None),
    "cosh": ("cosh", None),
    "tanh": ("tanh", None),
    "asinh": ("arcsinh", None),
    "acosh": ("arccosh", lambda x: _not(x < 1)),
    "atanh": ("arctanh", lambda x: _not(abs(x) >= 1)),
    "fabs": ("abs", None),
    "degrees": ("degrees", None),
    "radians": ("radians", None),
    "hypot": ("hypot", None),
    "copysign": ("copysign", None),
    "fmod": ("fmod", None),
    "erf": ("erf", None),
    "erfc": ("erfc", None),
}
"""The function of NumPy or SciPy, and where Python's does not raise."""

_TESTS = frozenset(("isnan", "isinf", "isfinite"))
_WHOLE = {"floor": np.floor, "ceil": np.ceil, "trunc": np.trunc}


def math_function(recorder: Recorder, python: Any, name: str) -> Any:
    """A member of `math` for tracers, all slices at once where NumPy has it."""
    each = scalars.function(recorder, python, name)
    if name in _WHOLE:
        return lambda x: whole(x, _WHOLE[name], python) if _moving(x) else python(_plain(x))
    if name in _TESTS:

        def test(x: Any) -> Any:
            if not _moving(x):
                return python(_plain(x))
            return plain(
                ufunc_call(recorder, getattr(np, name), "__call__", (_scalar(x),), {}), bool
            )

        return test
    if name == "gcd":
        return functools.partial(_gcd, recorder, each)
    if name not in _DOMAINS:
        return each
    numpy_name, domain = _DOMAINS[name]
    module = np if hasattr(np, numpy_name) else None

    def function(*args: Any) -> Any:
        nonlocal module
        args = tuple(map(choices.number, args))
        if not any(map(_moving, args)):
            return python(*map(_plain, args))
        module = module or _special(recorder)
        if module is None:
            return each(*args)
        if len(args) != (2 if name in ("atan2", "hypot", "copysign", "fmod") else 1):
            return each(*args)
        recorder.real(python, *map(_plain, args))
        numbers = [plain(_scalar(x), float) if isinstance(x, Tracer) else float(x) for x in args]
        if domain is not None:
            must(domain(*numbers))
        if name == "fmod":
            must(numbers[1] != 0)
            must(_finite(numbers[0]))
        given = tuple(numbers)
        recorder.stage.watch.look(module, "entry", numpy_name)
        found = recorder.call(
            syntax.MATH, lambda *a: python(*a), given, batch=((numpy_name, *given), {}), check=False
        )
        if name in ("exp", "expm1", "sinh", "cosh", "hypot"):
            if _all_finite(given):
                must(_finite(found))
        return found

    if name != "log":
        return function

    def log(*args: Any) -> Any:
        if len(args) != 2 or not any(map(_moving, args)):
            return function(*args)
        return function(args[0]) / function(args[1])

    return log


def _special(recorder: Recorder) -> Any:
    """`scipy.special`, if there is SciPy, and if what takes so long to load may pay."""
    if "scipy.special" not in sys.modules:
        recorder.pay(LIMITS.scipy_loading, "to load scipy.special")
    try:
        import scipy.special
    except ImportError:
        return None
    return scipy.special


def _gcd(recorder: Recorder, each: Callable[..., Any], *args: Any) -> Any:
    """``math.gcd``: of two integers by NumPy's."""
    given = [_plain(x) for x in args]
    simple = len(args) == 2 and all(type(x) is int and abs(x) <= LARGEST for x in given)
    if not simple or not any(map(_moving, args)):
        return each(*args)
    found = recorder.real(math.gcd, *given)
    return recorder.call(syntax.PYTHON, lambda *_: found, ("gcd", *args, "int64"), check=False)


def _all_finite(numbers: tuple) -> bool:
    return all(bool(_finite(x)) for x in numbers)


def _moving(x: Any) -> bool:
    return isinstance(x, Tracer) and x.ref is not None


def _plain(x: Any) -> Any:
    return x.value if isinstance(x, Tracer) else x


__all__ = ["BUILTINS", "HARMLESS", "NUMBERS", "cast", "math_function", "tracers", "values"]
