"""Every library function of the tables with keyword arguments by their names, of rare slices too.

A rule takes a call for what it does along the axis; an argument that it does not look at, or takes
for another one, gives other numbers, exceptions or warnings for some slices.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import math
import random
import warnings
from typing import Any

import numpy as np

import xpapply
from xpapply.limits import LIMITS

from .alike import differ, short

try:
    import scipy
except ImportError:
    scipy = None  # type: ignore[assignment]

SLICES, LENGTH = 60, 12
_ALWAYS = {"few_slices": 0, "plan_worth": 0.0, "given_up_from": 1e9, "paths_at_least": 60.0}

_SHORT = ("v", "v[:6]", "v[v > 2]", "v[m]", "np.sort(v)", "v.reshape(3, 4)", "v.reshape(2, 3, 2)")
_ARRAYS = (
    *_SHORT,
    "v[6:]",
    "v[::-1]",
    "np.abs(v)",
    "v.tolist()",
    "(v > 2)",
    "w",
    "v + w",
    "v * 1j",
)
_NUMBERS = ("v[0]", "float(v[1])", "int(v.argmax())", "v.mean()", "0", "1", "2", "3", "0.5", "-1")
_OF: dict[str, tuple[str, ...]] = {
    "axis": ("0", "-1", "None", "1", "(0,)", "(0, 1)", "()"),
    "axes": ("None", "0", "(0,)", "[0]", "(1, 0)", "(-1, 0)"),
    "keepdims": ("True", "False"),
    "ddof": ("0", "1", "12", "1.5", "int(v.argmax())"),
    "correction": ("0", "1", "True", "False"),
    "bias": ("True", "False"),
    "where": ("v > 2", "True", "m", "False", "v.reshape(3, 4) > 2"),
    "initial": ("0", "5", "np.inf", "v[0]"),
    "dtype": ("float", "'f4'", "int", "complex", "np.float16", "bool", "None"),
    "out": ("None", "np.empty(12)", "np.zeros(6)", "v", "np.empty(())"),
    "nan_policy": ("'propagate'", "'omit'", "'raise'", "'bad'"),
    "alternative": ("'less'", "'greater'", "'two-sided'", "'bad'"),
    "method": (
        *("'linear'", "'lower'", "'nearest'", "'midpoint'", "'hazen'", "'weibull'", "'auto'"),
        *("'exact'", "'asymptotic'", "'average'", "'min'", "'dense'", "'ordinal'", "'direct'"),
        *("'fft'", "'pad'", "'gust'", "'lm'", "'bad'", "'median_unbiased'"),
    ),
    "mode": (
        *("'full'", "'same'", "'valid'", "'reflect'", "'constant'", "'nearest'", "'wrap'"),
        *("'mirror'", "'edge'", "'symmetric'", "'raise'", "'clip'", "'interp'", "'linear_ramp'"),
        *("'mean'", "'bad'", "'reduced'", "'r'", "'complete'"),
    ),
    "side": ("'left'", "'right'", "'bad'"),
    "kind": (
        "'stable'",
        "'heapsort'",
        "'linear'",
        "'cubic'",
        "'nearest'",
        "'previous'",
        "0",
        "None",
    ),
    "order": ("'C'", "'F'", "0", "1", "3", "2", "-1", "int(v.argmax())"),
    "ord": ("None", "1", "2", "np.inf", "0", "'fro'", "-1", "0.5"),
    "n": ("None", "4", "16", "1", "0", "int(v.argmax()) + 1"),
    "s": ("None", "3", "(3,)", "[16]", "0.0"),
    "norm": ("None", "'ortho'", "'forward'", "'bad'"),
    "type": ("'linear'", "'constant'", "1", "2", "3", "4"),
    "weights": ("None", "w", "w[:6]", "v", "np.ones(12)", "v > 2"),
    "w": ("None", "w", "w[:6]", "v"),
    "bins": ("5", "3", "[0, 1, 5]", "'auto'", "np.arange(5)", "int(v.argmax()) + 1", "'fd'", "v"),
    "range": ("None", "(0, 5)", "(v.min(), v.max())", "(3, 3)", "(5, 0)"),
    "density": ("True", "False"),
    "center": ("'mean'", "'median'", "'trimmed'", "np.median", "np.mean"),
    "scale": ("1.0", "'normal'", "2.0", "'bad'"),
    "q": ("50", "[25, 75]", "0.5", "[0.1, 0.5]", "v[0]", "-1", "2"),
    "deg": ("1", "2", "0", "12", "-1"),
    "full": ("True", "False"),
    "cov": ("True", "False", "'unscaled'"),
    "rcond": ("None", "-1", "0.1", "1e-3"),
    "rowvar": ("True", "False"),
    "a_min": ("0", "None", "v[0]", "w"),
    "a_max": ("5", "None", "v[1]", "w"),
    "min": ("0", "None", "v[0]"),
    "max": ("5", "None", "v[1]"),
    "left": ("None", "0", "np.nan", "v[0]"),
    "right": ("None", "0", "np.nan"),
    "period": ("None", "5", "0"),
    "prepend": ("0", "v[:1]", "v[0]", "[1, 2]"),
    "append": ("0", "v[:1]", "np.nan"),
    "dx": ("1.0", "0.5", "v[0]", "2"),
    "x": ("None", "np.arange(12)", "w", "v"),
    "size": ("3", "1", "(3,)", "4", "13"),
    "sigma": ("1", "0.5", "2.5", "0", "w"),
    "window": ("'hann'", "'boxcar'", "('kaiser', 3)", "None", "np.ones(4)"),
    "window_length": ("5", "3", "4", "11", "13"),
    "polyorder": ("1", "2", "5"),
    "deriv": ("0", "1"),
    "cval": ("0.0", "np.nan", "v[0]"),
    "origin": ("0", "1", "-1", "5"),
    "return_index": ("True", "False"),
    "return_inverse": ("True", "False"),
    "return_counts": ("True", "False"),
    "equal_nan": ("True", "False"),
    "assume_unique": ("True", "False"),
    "invert": ("True", "False"),
    "equal_var": ("True", "False"),
    "zero_method": ("'wilcox'", "'pratt'", "'zsplit'"),
    "proportiontocut": ("0.1", "0.0", "0.5", "0.25"),
    "limits": ("None", "(1, 8)", "(None, 5)", "(5, 1)"),
    "inclusive": ("(True, False)", "(True, True)", "(False, False)"),
    "fisher": ("True", "False"),
    "moment": ("1", "2", "3", "0", "[1, 2]"),
    "popmean": ("0", "v[0]", "2.5", "[1]"),
    "repeats": ("2", "0", "[1, 2] * 6", "int(v.argmax())"),
    "shift": ("1", "-2", "int(v.argmax())", "0.5", "30"),
    "k": ("0", "1", "-1", "2", "int(v.argmax())"),
    "kth": ("3", "0", "[2, 5]", "-1", "int(v.argmax())"),
    "pad_width": ("2", "(1, 2)", "((0, 3),)", "0", "int(v.argmax())"),
    "reps": ("2", "(2, 1)", "0"),
    "num": ("4", "24", "1", "0"),
    "decimals": ("0", "1", "-1"),
    "lower": ("True", "False"),
    "overwrite_a": ("True",),
    "overwrite_x": ("True",),
    "check_finite": ("True", "False"),
    "detrend": ("'constant'", "'linear'", "False"),
    "fs": ("1.0", "100", "v[0]"),
    "nperseg": ("4", "8", "12", "20"),
    "bc_type": ("'natural'", "'not-a-knot'", "'clamped'", "'periodic'"),
    "extrapolate": ("True", "False", "None", "'periodic'"),
    "fill_value": ("np.nan", "0.0", "'extrapolate'", "(0, 1)"),
    "bounds_error": ("True", "False"),
    "minlength": ("0", "20", "int(v.argmax())"),
    "base": ("2", "None", "10"),
    "b": (*_SHORT, "w", "None", "2", "[1.0, 0.5]", "[0.2] * 3"),
    "p": ("2", "1", "0.5", "np.inf", "v[0]", "3", "[1, 2]"),
    "nan": ("0.0", "v[0]", "-1"),
    "rtol": ("1e-5", "0.5"),
    "atol": ("1e-8", "2"),
    "casting": ("'unsafe'", "'same_kind'", "'no'"),
}
"""What arguments of a name are given, as in somebody's program."""


def _rows() -> list[tuple[str, Any]]:
    from xpapply.batching import numpy as of_numpy

    rows = [row.name for row in of_numpy.ROWS]
    if scipy is not None:
        from xpapply.batching import scipy as of_scipy

        rows += [row.name for row in of_scipy.ROWS]
    found = []
    for path in rows:
        if ".empty" in path:
            continue  # what memory held before
        module, _, name = path.rpartition(".")
        try:
            x = getattr(importlib.import_module(module), name)
            found.append((path, inspect.signature(x)))
        except (ImportError, AttributeError, ValueError, TypeError):
            continue
    return found


ROWS = functools.cache(_rows)


def _value(r: random.Random, name: str, p: inspect.Parameter) -> str:
    chosen = _OF.get(name)
    if chosen and r.random() < 0.85:
        return r.choice(chosen)
    if p.default is not inspect.Parameter.empty and type(p.default) in (bool, int, float, str):
        given = p.default
        if isinstance(given, bool):
            return str(not given)
        if isinstance(given, float) and not math.isfinite(given):
            return r.choice(_NUMBERS)
        return r.choice([repr(given), *_NUMBERS]) if not isinstance(given, str) else repr(given)
    return r.choice(_ARRAYS) if r.random() < 0.7 else r.choice(_NUMBERS)


def program(r: random.Random, path: str, signature: inspect.Signature) -> str:
    """A function that calls one with some of its arguments, by name or by place."""
    given, by_name = [], False
    places = inspect.Parameter.VAR_POSITIONAL in (p.kind for p in signature.parameters.values())
    for name, p in signature.parameters.items():
        needed = p.default is inspect.Parameter.empty
        if p.kind is p.VAR_KEYWORD:
            continue
        if p.kind is p.VAR_POSITIONAL:
            given += [r.choice(_ARRAYS) for _ in range(r.choice([1, 2, 2]))]
            by_name, places = True, False
            continue
        if not needed and r.random() > 2.5 / max(3, len(signature.parameters)):
            by_name = True
            continue
        first = needed and not given
        value = r.choice(_ARRAYS if r.random() < 0.5 else ("v",)) if first else _value(r, name, p)
        if p.kind is p.KEYWORD_ONLY or (by_name and p.kind is not p.POSITIONAL_ONLY):
            given.append(f"{name}={value}")
        elif places or p.kind is p.POSITIONAL_ONLY or r.random() < 0.6:
            given.append(value)
        else:
            by_name = True
            given.append(f"{name}={value}")
    call = f"{path}({', '.join(given)})"
    after = r.choice(["{}", "{}", "{}", "{}[0]", "{}.sum()", "np.asarray({}).ravel()[:1]"])
    return f"def f(v, w=w, m=m):\n    return {after.format(call)}\n"


def _array(r: random.Random) -> np.ndarray:
    rng = np.random.default_rng(r.randrange(2**32))
    x = rng.integers(0, 9, (SLICES, LENGTH)).astype(float)
    if r.random() < 0.6:
        x += rng.integers(0, 8, x.shape) / 8
    for row in rng.integers(8, SLICES, 8):
        rare = r.choice(["nan", "one", "inf", "zero", "same", "less", "large", "ties"])
        if rare in ("nan", "zero", "same"):
            x[row] = {"nan": np.nan, "zero": -0.0, "same": 3.0}[rare]
        elif rare in ("one", "inf"):
            x[row, r.randrange(LENGTH)] = np.nan if rare == "one" else np.inf
        else:
            x[row] = (
                -x[row] if rare == "less" else x[row] * 1e200 if rare == "large" else x[row] // 4
            )
    kind = r.choice(["f8", "f8", "f8", "i8", "f4", "i2", "u1", "?"])
    with np.errstate(all="ignore"):
        return (
            x.astype(kind)
            if kind[0] == "f"
            else np.nan_to_num(x, posinf=1).clip(-9, 99).astype(kind)
        )


def _outcome(apply: Any, f: Any, x: np.ndarray) -> tuple[Any, set[tuple[str, str]]]:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            found = apply(f, -1, x)
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
    said = {(w.category.__name__, str(w.message)) for w in seen}
    return found, {w for w in said if w[0] != "FallbackWarning"}


def case(r: random.Random, name: str = "") -> str | None:
    rows = [row for row in ROWS() if not name or row[0] == name]
    path, signature = r.choice(rows)
    source, x = program(r, path, signature), _array(r)
    rng = np.random.default_rng(5)
    given = {"np": np, "numpy": np, "w": rng.integers(1, 9, LENGTH) / 2, "__name__": "a_program"}
    given["m"] = np.arange(LENGTH) % 3 > 0
    if scipy is not None:
        importlib.import_module(path.rpartition(".")[0])
        given["scipy"] = scipy
    made = []
    for _ in range(2):
        space = dict(given, w=given["w"].copy())
        exec(source, space)  # what it writes into is its own
        made.append(space["f"])
    given_to = x.copy(), x.copy()
    want, said = _outcome(np.apply_along_axis, made[0], given_to[0])
    with LIMITS.set(**_ALWAYS):
        got, ours = _outcome(xpapply.apply_along_axis, made[1], given_to[1])
    if isinstance(want, np.ndarray) and want.dtype.hasobject:
        want, got = ([str(getattr(a, "shape", a)), str(a.dtype)] for a in (want, got))
        same = want == got
    else:
        same = not differ(want, got, True)
    if not same or said != ours or differ(given_to[0], given_to[1], False):
        return f"{source}{x.dtype}\nwant {short(want)} {said}\ngot  {short(got)} {ours}"
    return None
