"""Random calls of `vectorize` without and with signatures, and what numpy.vectorize makes of them.

Values, dtypes and classes of the results, exceptions, and for functions that are looped over which
calls of them were made, in which order, with what.
"""

from __future__ import annotations

import copy
import datetime
import math
import random
import re
import warnings
from decimal import Decimal

import numpy as np

import xpapply

# --- functions: of one argument and more, that tell what they were called with -------------------


def _text(a, *more, **named):
    return "neg" if not a else f"pos{len(more)}"


def _kind(a, *more, **named):
    return type(a).__name__


def _none(a, *more, **named):
    return None


def _same(a, *more, **named):
    return a


def _pair(a, *more, **named):
    return a, "x"


def _one(a, *more, **named):
    return (a,)


def _nothing(a, *more, **named):
    return ()


def _length(a, *more, **named):
    return len(a)


def _root(a, *more, **named):
    return math.sqrt(a)


def _inverse(a, *more, **named):
    return 1 / a


def _guarded(a, *more, **named):
    try:
        return 1 / a
    except (ZeroDivisionError, TypeError):
        return -1


def _number(a, b=2, *more, c=3, **named):
    return a * b + c


def _greater(a, b=1, *more, c=0, **named):
    return a if a > b else c


def _mixed(a, *more, **named):
    return a if str(a) < "5" else [a]


def _list(a, *more, **named):
    return [a, 1]


def _array(a, *more, **named):
    return np.zeros(2)


def _ragged(a, *more, **named):
    return (a, 1) if str(a) < "3" else (a, 1, 2)


FUNCTIONS = [_text, _kind, _none, _same, _pair, _one, _nothing, _length, _root, _inverse, _guarded]
FUNCTIONS += [_number, _greater, _mixed, _list, _array, _ragged]
OTYPES = [None, None, None, "d", "i", "O", "U", "dO", "OO", [float], [object, "U5"], ["U2"], "?"]
BUILTINS = [str, len, math.sqrt, abs, float, int, repr, type, math.isnan, complex]
SIGNATURES = ["()->()", "(n)->()", "(n)->(n)", "(n),(n)->()", "(),()->()", "()->(k)", "(n)->(),()"]
SHAPES = [(), (1,), (3,), (5,), (17,), (40,), (2, 3), (4, 5), (3, 1), (0,), (2, 0)]


def _recorded(f, calls, raises_at):
    """`f`, which notes what it is called with: what changes something outside is looped over."""

    def recorded(*args, **kwargs):
        calls.append((*map(_seen, args), *((n, _seen(x)) for n, x in kwargs.items())))
        if len(calls) == raises_at:
            raise KeyError("here")
        return f(*args, **kwargs)

    recorded.__name__ = f.__name__
    return recorded


def _seen(x):
    return type(x), str(x)


# --- arguments ------------------------------------------------------------------------------------


def _array_of(r: random.Random, shape: tuple[int, ...]):
    n = math.prod(shape)
    kind = r.choice("ffiiubcUSMmOOo")
    if kind == "f":
        flat = np.array([r.choice([0.0, -0.0, 1.5, -2.0, math.nan, 1e300]) for _ in range(n)])
        flat = flat.astype(r.choice(["f8", "f4", "f2", ">f8"]))
    elif kind in "iu":
        flat = np.array([r.randrange(8) for _ in range(n)], r.choice(["i8", "i4", "u1", "i2"]))
    elif kind == "b":
        flat = np.array([r.random() < 0.5 for _ in range(n)], bool)
    elif kind == "c":
        flat = np.array([complex(r.randrange(3), r.randrange(3)) for _ in range(n)], complex)
    elif kind in "US":
        flat = np.array(
            [r.choice(["", "a", "bcd", "12"]) for _ in range(n)], r.choice(["U3", "S3"])
        )
    elif kind == "M":
        flat = np.array([r.randrange(900) for _ in range(n)], "i8")
        flat = flat.astype(r.choice(["M8[D]", "M8[s]", "M8[ns]"]))
    elif kind == "m":
        flat = np.array([r.randrange(900) for _ in range(n)], "i8").astype("m8[s]")
    else:
        some = [
            None,
            1,
            2.5,
            "a",
            (1, 2),
            [3],
            Decimal("1.5"),
            True,
            10**30,
            datetime.date(2020, 1, 2),
        ]
        flat = np.empty(n, object)
        for i in range(n):
            flat[i] = r.choice(some) if kind == "O" else i
    x = flat.reshape(shape)
    how = r.randrange(6)
    if how == 1:
        x = np.asfortranarray(x)
    elif how == 2:
        x = x[::-1] if x.ndim else x
    elif how == 3:
        x = x.T
    elif how == 4:
        x = np.ma.array(x) if r.random() < 0.3 else x
    return x


def _argument(r: random.Random, shape: tuple[int, ...]):
    kind = r.randrange(10)
    if kind < 6:
        return _array_of(r, shape)
    if kind == 6:
        return r.choice([1, 2.5, True, "ab", None, 1j, np.float64(2), np.int8(3), Decimal("2")])
    if kind == 7:
        return r.choice([datetime.date(2020, 1, 1), np.datetime64("2020-01-01"), b"ab", 0, 0.0])
    flat = [r.choice([1, 2, 3]) for _ in range(r.choice([0, 1, 3, 5, 20]))]
    made = r.choice([flat, [float(a) for a in flat], [str(a) for a in flat], tuple(flat)])
    return [made, made] if kind == 9 and r.random() < 0.3 else made


def _of_signature(r: random.Random, text: str):
    loop, n = r.choice(SHAPES), r.choice([1, 2, 4])
    cores = text.split("->")[0].replace("),(", ")|(").split("|")
    args = []
    for core in cores:
        own = loop if r.random() < 0.8 else r.choice([(), loop[-1:], (1,) * len(loop)])
        shape = (*own, *((n,) if core == "(n)" else ()))
        args.append(_array_of(r, shape))
    return args


# --- cases ----------------------------------------------------------------------------------------


def _outcome(made, args, kwargs):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return made(*args, **kwargs)
        except Exception as error:
            return error


def _asks_for_ndim(want) -> bool:
    """Whether NumPy wants an array where results with a signature may be lists or numbers too."""
    return isinstance(want, Exception) and re.search("'ndim'|getset_desc", str(want)) is not None


def differ(want, got) -> str:
    """How two outcomes differ; "" if they do not."""
    if _asks_for_ndim(want):
        return ""
    if isinstance(want, Exception) or isinstance(got, Exception):
        if isinstance(want, Exception) and "do not broadcast" in str(got):
            return ""  # which is said before f is called
        return "" if type(want) is type(got) else "exceptions"
    if isinstance(want, tuple) or isinstance(got, tuple):
        if type(want) is not type(got) or len(want) != len(got):
            return "results"
        return next(filter(None, map(differ, want, got)), "")
    if type(want) is not type(got):
        return "classes"
    if isinstance(want, np.ndarray):
        if (want.shape, want.dtype) != (got.shape, got.dtype):
            return "shapes or dtypes"
        if want.dtype.kind == "f" and want.tobytes() != got.tobytes():
            same = np.array_equal(want, got, equal_nan=True)
            return "" if same else "numbers"
    return "" if repr(want) == repr(got) else "values"


def case(r: random.Random) -> str | None:
    with np.errstate(all="ignore"):
        return _case(r)


def _case(r: random.Random) -> str | None:
    signature = r.choice(SIGNATURES) if r.random() < 0.25 else None
    shape = r.choice(SHAPES)
    f, kwargs = r.choice(FUNCTIONS), {}
    how = {"otypes": r.choice(OTYPES), "cache": r.random() < 0.2, "signature": signature}
    if signature is not None:
        several = signature.count("(") - signature.partition("->")[0].count("(") > 1
        how["otypes"] = r.choice([None, "dO" if several else "d", "OO" if several else "O"])
        args = _of_signature(r, signature)
    else:
        args = [_argument(r, shape if r.random() < 0.8 else shape[-1:])]
        args += [
            _argument(r, r.choice([shape, shape[-1:], ()])) for _ in range(r.choice([0, 0, 1, 2]))
        ]
        if r.random() < 0.2:
            kwargs = {r.choice("cd"): _argument(r, r.choice([shape, ()]))}
        if r.random() < 0.2:
            how["excluded"] = set(r.sample([0, 1, 2, "c", "d"], r.choice([1, 2])))
    recorded, bad = r.random() < 0.7, r.choice([0, 0, 0, 1, 2, 3, 7, 20])
    if r.random() < 0.1:
        f, recorded = r.choice(BUILTINS), False
    seen: list[list] = [[], []]
    own, ours = [_recorded(f, c, bad) for c in seen] if recorded else (f, f)
    try:
        want_made = np.vectorize(own, **how)
    except Exception:
        return None
    our_made = xpapply.vectorize(ours, **how)
    told = f"{f.__name__} {how}, raises at {bad if recorded else None}\n{args!r}\n{kwargs!r}"
    for turn in range(r.choice([1, 2, 3])):
        for c in seen:
            c.clear()
        with xpapply.options(fallback="silent"):
            want = _outcome(want_made, copy.deepcopy(args), dict(kwargs))
            got = _outcome(our_made, copy.deepcopy(args), dict(kwargs))
        what = differ(want, got)
        unsaid = isinstance(want, Exception) and not seen[1]  # it is refused before f is called
        if _asks_for_ndim(want):
            return None
        if not what and recorded and seen[0] != seen[1] and not unsaid:
            what = f"calls: {seen[0]}\nand {seen[1]}"
        if what:
            return f"{told}\nturn {turn}, other {what}\nwant {want!r}\ngot  {got!r}"
    return None
