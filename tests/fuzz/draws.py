"""Random functions that draw random numbers: values, exceptions, and the generators afterwards.

They draw from generators of several kinds, legacy ones and those that they make of a seed, in
branches and loops, as many numbers as the slice says: none, one or more.
"""

from __future__ import annotations

import collections
import random
import warnings
from typing import Any

import numpy as np

import xpapply
from xpapply.errors import UnsupportedError

from .alike import differ, short
from .loops import made

KINDS = ("PCG64", "PCG64", "PCG64", "MT19937", "SFC64", "Philox", "PCG64DXSM")
counts: collections.Counter[str] = collections.Counter()
"""What became of programs."""
_HEAD = """import numpy as np
rng = np.random.Generator(np.random.{0}({2}))
other = np.random.Generator(np.random.{1}({3}))
own = np.random.RandomState({2})
STATES = lambda: (rng.bit_generator.state, other.bit_generator.state, own.get_state(legacy=False),
                  np.random.get_state(legacy=False))
"""
_SEEDS = (
    "np.random.default_rng({i})", "np.random.default_rng([{i}, {j}])",
    "np.random.Generator(np.random.PCG64({i}))", "np.random.default_rng(({j}, {i}, 3, 4, {j}))",
    "np.random.default_rng(np.random.SeedSequence({i}, spawn_key=({j},)))",
)  # fmt: skip
_LEGACY_SEED = "np.random.RandomState({i})"
_NUMBERS = {
    "normal": "{x}, {p}", "standard_normal": "", "uniform": "{x}, {x} + {p}",
    "exponential": "{p}", "standard_exponential": "", "poisson": "{p}",
}  # fmt: skip
"""Those of all, with parameters; `p` is seldom below zero."""
_MORE = _NUMBERS | {
    "random": "", "gamma": "{p}, {p}", "standard_gamma": "{p}", "beta": "{p}, {p}",
    "lognormal": "{x}", "laplace": "{x}, {p}", "rayleigh": "{p}", "standard_t": "{p}",
    "geometric": "0.3", "weibull": "{p}", "wald": "{p}, {p}", "binomial": "{j}, 0.3",
}  # fmt: skip


def _whole(r: random.Random) -> str:
    """A whole number of the slice, or a constant."""
    return r.choice(["int(abs(v[0]) * 1000)", "len(v)", str(r.randrange(9)), "int(v[-1] * 9)"])


def _float(r: random.Random) -> str:
    return r.choice(["v[0]", "v[-1]", "s", "0.5", "-0.0", "abs(v[0])", "1"])


def _filled(r: random.Random, text: str) -> str:
    p = r.choice(
        ["abs(v[0]) + 0.1", "abs(v[-1])", "2.5", "1", "1.5", "v[0]"][: r.choice([5, 5, 6])]
    )
    return text.format(x=_float(r), p=p, i=_whole(r), j=r.randrange(1, 2**34) >> r.randrange(34))


def _size(r: random.Random) -> str:
    return r.choice(["0", "1", "2", "7", "len(v)", "n", "(2, 3)", "(n, 2)", "v.shape", "(0, 4)"])


def _draw(r: random.Random, owner: str, legacy: bool) -> str:
    """A number that is drawn, or made of some."""
    kind = r.random()
    if kind < 0.4:
        name = r.choice(list(_NUMBERS if legacy else _MORE))
        given = _filled(r, (_NUMBERS if legacy else _MORE)[name])
        if r.random() < 0.3:
            return f"{owner}.{name}({given})"
        return f"{owner}.{name}({given}{', ' * bool(given)}size={_size(r)}).sum()"
    if kind < 0.55:
        draw = f"{owner}.{'randint' if legacy else 'integers'}"
        if r.random() < 0.4:
            return f"{draw}({r.choice(['3', 'n + 1', '1 << 32', '(1 << 31) + 7', '1 << 40'])})"
        limits = _filled(r, r.choice(["{i} + 1", "-3, {i}", "0, 5", "n + 1"]))
        return f"{draw}({limits}, size={_size(r)}).sum()"
    if kind < 0.75:
        what = r.choice(["v", "n", "v[1:]", "(v > 0)", "np.arange(n)"])
        return f"({owner}.permutation({what}) * {r.choice(['1', '0.5'])}).cumsum().sum()"
    if kind < 0.9:
        what, more = r.choice(["v", "5", "v[:2]"]), r.choice(["", ", replace=False"])
        size = r.choice(["0", "1", "2", "n"]) if more else _size(r)
        return f"{owner}.choice({what}, {size}{more}).sum()"
    return f"{owner}.{'random_sample' if legacy else 'random'}({_size(r)}).sum()"


class _Program:
    """A function's text, line after line."""

    def __init__(self, r: random.Random) -> None:
        self.r, self.owners = r, [("rng", False), ("rng", False), ("other", False)]
        self.owners += [("np.random", True), ("own", True)]
        self.lines = ["def f(v):", "    s, n = 0.0, int(abs(v[0]) * 3)"]
        for _ in range(r.randrange(1, 4)):
            self._statement("    ")
        self.lines.append(f"    return {r.choice(['s', 's', 'v + s', 'np.array([s, n, s * n])'])}")

    def _statement(self, to: str, depth: int = 2) -> None:
        r, add = self.r, self.lines.append
        kind = r.random()
        if depth and kind < 0.2:
            first = _draw(r, *r.choice(self.owners)) if r.random() < 0.3 else "v[0]"
            add(f"{to}if {first} > {r.choice(['0', 'v[-1]', '0.5'])}:")
            self._block(to, depth)
            if r.random() < 0.6:
                add(f"{to}else:")
                self._block(to, depth)
        elif depth and kind < 0.35:
            add(f"{to}for k in range({r.choice(['n', '2', 'len(v)'])}):")
            self._block(to, depth)
        elif kind < 0.45:
            legacy = r.random() < 0.3
            made = _LEGACY_SEED if legacy else r.choice(_SEEDS)
            name = f"g{len(self.lines)}"
            add(f"{to}{name} = {_filled(r, made)}")
            self.owners.append((name, legacy))
            add(f"{to}s += {_draw(r, name, legacy)}")
        elif kind < 0.5:
            add(f"{to}{r.choice(['np.random', 'own'])}.seed({_whole(r)})")
        elif kind < 0.6:
            owner = r.choice(self.owners)[0]
            add(f"{to}w = v.copy()")
            add(f"{to}{owner}.shuffle(w)")
            add(f"{to}s += w[0] - 0.5 * w[-1]")
        else:
            add(f"{to}s += {_draw(r, *r.choice(self.owners))}")

    def _block(self, to: str, depth: int) -> None:
        before = len(self.owners)
        for _ in range(self.r.randrange(1, 3)):
            self._statement(f"{to}    ", depth - 1)
        del self.owners[before:]  # those that it has made may not be there afterwards


def _outcome(apply: Any, f: Any, x: np.ndarray, states: tuple[Any, ...]) -> Any:
    """A result or an exception, what was warned of, and the states afterwards."""
    space = f.__globals__
    np.random.set_state(states[3])
    space["own"].set_state(states[2])
    for name, state in zip(("rng", "other"), states, strict=False):
        space[name].bit_generator.state = state
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            found = apply(f, -1, x.copy())
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
    after = repr(space["STATES"]())
    return found, {str(w.message) for w in said}, after


def case(r: random.Random) -> str | None:
    """Draw a program, and compare two calls, each after what the one before has drawn."""
    head = _HEAD.format(r.choice(KINDS), r.choice(KINDS), r.randrange(99), r.randrange(99))
    source = head + "\n".join(_Program(r).lines) + "\n"
    f, g = made(source), np.random.default_rng(r.randrange(2**32))
    x = g.normal(size=(r.choice([30, 60]), r.choice([1, 2, 5, 12])))
    if r.random() < 0.3:
        x = np.round(x)
    kept = np.random.get_state(legacy=False)
    states = f.__globals__["STATES"]()
    if r.random() < 0.3:
        f.__globals__["rng"].integers(0, 9, dtype=np.int32)  # it keeps the other half
        states = f.__globals__["STATES"]()
    try:
        want = _outcome(np.apply_along_axis, f, x, states)
        with xpapply.options(engine="cpu", fallback="silent"):
            try:
                explained = xpapply.explain(f, -1, x)
            except UnsupportedError as error:
                counts[str(error).split("not compiled: ")[-1][:60]] += 1
                return None
            except Exception:
                counts["the first slice raises"] += 1
                return None
            counts["compiled"] += 1
            got = [_outcome(xpapply.apply_along_axis, f, x, states) for _ in range(2)]
    finally:
        np.random.set_state(kept)
    for one in got:
        if differ(want[0], one[0], False) or want[1] != one[1] or want[2] != one[2]:
            told = f"want {short(want[0])} {want[1]}\ngot  {short(one[0])} {one[1]}"
            same = "the same state" if want[2] == one[2] else "another state"
            return f"{source}\n{x.shape} {explained.kernels} {same}\n{told}"
    return None


def report() -> str:
    """What became of programs."""
    return "\n".join(f"{n:6} {why}" for why, n in counts.most_common(25))
