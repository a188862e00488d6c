"""Random functions with loops, some of whose numbers are others in each call.

They are arguments, globals, variables of an enclosing function, defaults, attributes, or bound by
`functools.partial`. What was compiled with some of them is given others: results have the bits of
the plain loop, and its exceptions and warnings are told.
"""

from __future__ import annotations

import ast
import collections
import functools
import math
import random
import warnings
from typing import Any

import numpy as np
from random_functions.loops import Program

import xpapply
from xpapply.backends.cpu.typed import why_not
from xpapply.functions.cache import families
from xpapply.limits import LIMITS

from .loops import Skipped, drawn, limited, made

MAY_SKIP = why_not()
SLICES = 12
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 1e-3, -7.25, 1e300, math.inf, -math.inf, math.nan)
INTS = (0, 1, 2, 3, -1, 5, 8, 2**31, 2**62, -(2**63), 2**64)
TYPES = (float, float, float, np.float64, np.float32, int, int, np.int64, bool)
IN_MAKERS = ("closure", "default")
OF_PROGRAMS = {"K": 3, "R": 0.75, "G": np.float32(1.5), "J": np.int8(7)}
"""Globals that programs read."""
counts: collections.Counter[str] = collections.Counter()
ALWAYS = {"plan_worth": 0.0, "typed_worth": 0.0, "few_slices": 0}


class _Named(ast.NodeTransformer):
    """Names in the place of some numbers."""

    def __init__(self, r: random.Random, how: str) -> None:
        self.r, self.how = r, how
        self.was: dict[str, Any] = {}

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if type(node.value) not in (int, float) or len(self.was) > 2 or self.r.random() < 0.6:
            return node
        name = f"given_{len(self.was)}"
        self.was[name] = node.value
        found = ast.Name(name, ast.Load())
        if self.how == "attribute":
            return ast.Attribute(ast.Name("holder", ast.Load()), name, ast.Load())
        return found

    def visit_match_case(self, node: ast.match_case) -> ast.AST:
        node.body = [self.visit(x) for x in node.body]  # names in patterns are others
        return node


def _like(r: random.Random, was: Any) -> Any:
    """Another number, most often of its type and near."""
    kind = r.choice(TYPES) if r.random() < 0.15 else type(was)
    if kind is bool:
        return r.random() < 0.5
    near = float(was) if abs(was) < 1e9 else 1.0
    if kind in (float, np.float64, np.float32):
        with np.errstate(all="ignore"):
            more = near + r.choice([0.5, -0.25, 1e-9])
            return kind(r.choice(FLOATS) if r.random() < 0.3 else more)
    x = r.choice(INTS) if r.random() < 0.2 else int(near) + r.randrange(-2, 3)
    return x if kind is int else kind(max(min(x, 100), -100))


class Holder:
    """Has numbers as attributes."""

    def __init__(self, values: dict[str, Any]) -> None:
        vars(self).update(values)


def case(r: random.Random) -> str | None:
    if MAY_SKIP is not None:
        return None
    dtype = r.choice(["float64"] * 6 + ["float32", "int64"])
    source = Program(r, 1, dtype == "int64").draw()
    tree = ast.parse(source)
    how = r.choice(["argument", "keyword", "partial", "global", "closure", "default", "attribute"])
    last = tree.body[-1]
    assert isinstance(last, ast.FunctionDef)
    named = _Named(r, how)
    last.body = [named.visit(x) for x in last.body]
    values = dict(named.was)
    if how in ("argument", "keyword", "partial", "default"):
        last.args.args += [ast.arg(n) for n in values]
    if how == "default":
        last.args.defaults += [ast.Name(n, ast.Load()) for n in values]
    if how in IN_MAKERS:
        parameters = ast.arguments([], [ast.arg(n) for n in values], None, [], [], None, [])
        inner = [last, ast.Return(ast.Name(last.name, ast.Load()))]
        tree.body[-1] = ast.FunctionDef("make", parameters, inner, [], type_params=[])
    if how == "global":
        values |= {n: x for n, x in OF_PROGRAMS.items() if r.random() < 0.3}
    if not values:
        return None
    text = ast.unparse(ast.fix_missing_locations(tree))
    space = _space(text, how)
    x = drawn(r, dtype, (SLICES, r.choice([1, 2, 3, 5, 8])))
    done: list[dict[str, Any]] = []
    with xpapply.options(fallback="silent"), LIMITS.set(**ALWAYS):
        for _ in range(6):
            f, args, kwargs = _called(how, space, last.name, values)
            done.append(dict(values))
            try:
                with limited(5.0):
                    want = _outcome(np.apply_along_axis, f, x.copy(), args, kwargs)
            except Skipped:
                return None
            got = _outcome(xpapply.apply_along_axis, f, x.copy(), args, kwargs)
            if want != got:
                return f"{text}\n{how}\n{x!r}\nafter {done}\nwant {want}\ngot  {got}"
            for n in values:
                if r.random() < 0.7:
                    values[n] = _like(r, values[n])
    counts["programs"] += 1
    known = families(f)
    counts["programs that were given numbers"] += any(x.loop for x in (known or {}).values())
    return None


def report() -> str:
    """What became of programs."""
    return str(dict(counts))


def _space(text: str, how: str) -> dict[str, Any]:
    """The globals of a source that stands in a file."""
    found: Any = made(text + "\n" if how not in IN_MAKERS else f"{text}\nf = make")
    return found.__globals__


def _called(
    how: str, space: dict[str, Any], name: str, values: dict[str, Any]
) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    if how in IN_MAKERS:
        return space["make"](**values), (), {}
    f = space[name]
    if how == "argument":
        return f, (*values.values(),), {}
    if how == "keyword":
        return f, (), dict(values)
    if how == "partial":
        return functools.partial(f, **values), (), {}
    if how == "attribute":
        if "holder" in space:
            vars(space["holder"]).update(values)
        else:
            space["holder"] = Holder(values)
    else:
        space.update(values)
    return f, (), {}


def _outcome(apply: Any, f: Any, x: np.ndarray, args: Any, kwargs: Any) -> Any:
    """The bits of a result and what was written, or the exception; what was warned of."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            result = apply(f, 1, x, *args, **kwargs)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    told = {str(w.message) for w in said if issubclass(w.category, RuntimeWarning)}
    return str(result.dtype), result.shape, _bits(result), _bits(x), tuple(sorted(told))


def _bits(x: np.ndarray) -> Any:
    if x.dtype.hasobject:
        return repr(x.tolist())
    if x.dtype.kind in "fc":
        x = np.where(np.isnan(x), np.nan, x)
    return x.tobytes()
