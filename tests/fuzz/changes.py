"""Random functions of something outside them, which changes between calls.

What is known of a function holds for as long as nothing has changed that it depends on: globals,
closures, attributes that are there or may come, memory, rows of tables, settings of libraries.
"""

from __future__ import annotations

import array
import collections
import ctypes
import functools
import mmap
import random
import types
import warnings
from typing import Any

import numpy as np

from xpapply.limits import LIMITS

from .alike import differ, outcome
from .loops import made

SLICES = 300


class Holder:
    """Something with attributes, of a class written in Python."""

    kind = 2.0


def _numbers(r: random.Random, n: int = 4) -> list[float]:
    return [r.choice([0.0, 1.0, -2.0, 3.5, 0.25]) + r.randrange(3) for _ in range(n)]


def _array(r: random.Random) -> tuple[Any, str, list[Any]]:
    x = np.array(_numbers(r))

    def one() -> None:
        x[r.randrange(4)] += 1.5

    def all_of_it() -> None:
        x[:] = np.resize(_numbers(r), x.shape)

    def form() -> None:
        x.shape = (-1,) if x.ndim == 2 else (2, -1)

    def dtype() -> None:
        if x.ndim == 1:
            x.dtype = r.choice(["f8", "i8", "f4", "i4"])

    one_axis = ["h.sum()", "h.flat[1]", "(v * h.sum()).sum()", "float(h.max())", "len(str(h))"]
    if r.random() < 0.5:
        return x, r.choice([*one_axis, "h[1]", "(v * h).sum()"]), [one, all_of_it]
    return x, r.choice([*one_axis, "len(h)", "h.ndim", "h.size"]), [all_of_it, form, dtype]


def _memory(r: random.Random) -> tuple[Any, str, list[Any]]:
    raw = np.array(_numbers(r)).tobytes()
    kind = r.randrange(5)
    made: Any = bytearray(raw)
    if kind == 1:
        made = array.array("d", raw)
    elif kind == 2:
        made = mmap.mmap(-1, 32)
        made[:] = raw
    elif kind == 3:
        made = (ctypes.c_double * 4).from_buffer_copy(raw)
    elif kind == 4:
        made = memoryview(np.frombuffer(raw).copy())

    def write() -> None:
        np.frombuffer(made)[r.randrange(4)] += 1.5

    read = ["np.frombuffer(h).sum()", "(v * np.frombuffer(h)).sum()"]
    return made, r.choice(read + ["np.asarray(h).sum()"] * (kind in (1, 3, 4))), [write]


def _row(r: random.Random) -> tuple[Any, str, list[Any]]:
    table = np.array([(1.0, 2.0), (3.0, 4.0)], [("gain", "f8"), ("k", "f8")])
    row = (np.rec.array(table) if r.random() < 0.3 else table)[1]
    holder: Any = r.choice([row, [row], {"row": row}])
    read = {list: "h[0]", dict: "h['row']"}.get(type(holder), "h")

    def write() -> None:
        row["gain"] = row["gain"] + 1.5

    return holder, f"{read}['gain'] * {read}[1]", [write]


def _attribute(r: random.Random) -> tuple[Any, str, list[Any]]:
    def helper(x: Any) -> Any:
        return x

    holder: Any = r.choice(
        [
            Holder(),
            types.ModuleType("config"),
            types.SimpleNamespace(),
            functools.partial(max, 1),
            functools.lru_cache(helper),
            functools.singledispatch(helper),
            helper,
            type("Own", (), {}),
        ]
    )

    def put() -> None:
        holder.scale = r.choice([3.0, 4.0, 5.0]) + r.randrange(9)

    def take() -> None:
        if "scale" in vars(holder):
            del holder.scale

    if r.random() < 0.5:
        put()
    read = ["getattr(h, 'scale', 1.0)", "(3.0 if hasattr(h, 'scale') else 1.0)"]
    return holder, r.choice(read), [put, take]


def _container(r: random.Random) -> tuple[Any, str, list[Any]]:
    kind = r.choice([list, dict, set, collections.deque])
    if kind is dict:
        holder: Any = {"a": 1.0, "b": 2.0}
        changes = [lambda: holder.update(a=holder["a"] + 1), lambda: holder.update(c=3.0)]
        return holder, r.choice(["h['a']", "h.get('c', 0.5)", "sum(h.values())"]), changes
    holder = kind([1.0, 2.0])
    put = holder.add if kind is set else holder.append
    return holder, r.choice(["len(h)", "sum(h)", "float(9.5 in h)"]), [lambda: put(9.5)]


def _class(r: random.Random) -> tuple[Any, str, list[Any]]:
    cls: Any = type("Mine", (Holder,), {})
    holder = cls()

    def kind() -> None:
        cls.kind = 3.0 + r.randrange(9)

    def name() -> None:
        cls.__name__ = "Other" * r.randrange(1, 4)

    def as_property() -> None:
        cls.kind = property(lambda self: 7.0)

    return (
        holder,
        r.choice(["h.kind", "len(type(h).__name__)", "len(h.__class__.__name__)"]),
        [
            kind,
            name,
            as_property,
        ],
    )


def _printing(r: random.Random) -> tuple[Any, str, list[Any]]:
    def change() -> None:
        np.set_printoptions(precision=r.randrange(2, 9))

    read = ["len(str(h))", "len(f'{h}')", "np.get_printoptions()['precision']"]
    return np.ones(2) / 3, r.choice([*read, "len(np.array2string(h))"]), [change]


KINDS = (_array, _memory, _row, _attribute, _container, _class, _printing)
BODIES = ("np.median(v) * {}", "v.max() + {}", "v.std() if {} > 2 else v.min()")
LOOPS = (
    "for a in v:\n            s += a * {} if a > 0.5 else 1.0",
    "k = {}\n        for a in v:\n            s = s * 0.5 + a * k if a < k else s - k",
)
"""These are compiled from their source."""
_ALWAYS: dict[str, Any] = {"plan_worth": 0.0, "typed_worth": 0.0, "few_slices": 0}


def case(r: random.Random) -> str | None:
    import xpapply

    kind = r.choice(KINDS)
    h, read, changes = kind(r)
    body = r.choice(BODIES).format(read)
    reached = r.randrange(3)
    space: dict[str, Any] = {"np": np, "__name__": "a_program"}
    if reached == 0:
        source = f"lambda v: {body}"
        space["h"] = h
    elif reached == 1:
        source = f"(lambda h: lambda v: {body})(given)"
        space["given"] = h
    else:
        source = f"(lambda helper: lambda v: helper(v))(lambda v: {body})"
        space["h"] = h
    looped = r.random() < 0.4
    if looped:
        body = r.choice(LOOPS).format(read)
        source = f"def make(h):\n    def f(v):\n        s = 0.0\n        {body}\n        return s\n"
        source = f"import numpy as np\n\n\n{source}\n    return f\n\n\nf = make\n"
        f = made(source)(h)
    else:
        f = eval(source, space)
    x = np.random.default_rng(r.randrange(2**32)).random((SLICES, 4))
    was = np.get_printoptions()
    done = []
    try:
        for _ in range(4):
            want = outcome(np.apply_along_axis, f, x)
            with LIMITS.set(**(_ALWAYS if looped else {})):
                got = outcome(xpapply.apply_along_axis, f, x)
            if differ(want, got, True):
                return f"{source}\n{kind.__name__} {h!r}\nafter {done}\nwant {want}\ngot  {got}"
            change = r.choice([*changes, lambda: None])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of forms of arrays that are set
                change()
            done.append(change.__name__)
    finally:
        np.set_printoptions(**was)
    return None
