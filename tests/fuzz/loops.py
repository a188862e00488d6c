"""Random functions with loops, compiled from their source, slice by slice against Python.

A slice that compiled code has not marked has the bits that the function gives; one for which the
function raises, or NumPy warns, is marked. A few slices also go through the evaluator, which is
the definition of each instruction.
"""

from __future__ import annotations

import ast
import collections
import contextlib
import itertools
import random
import re
import signal
import tempfile
import time
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from random_functions.complex_loops import ComplexProgram
from random_functions.loops import Program

from xpapply.backends.cpu.typed import LANES, Compiled, why_not
from xpapply.errors import TraceError, UnsupportedError
from xpapply.frontends.python.source.numbers import DTYPES
from xpapply.frontends.python.source.typed import Expected, Input, typed
from xpapply.functions.guards import Guards
from xpapply.ir.typed import Array
from xpapply.ir.typed.evaluate import evaluate
from xpapply.ir.typed.function import WARNED
from xpapply.ir.typed.verify import verify
from xpapply.limits import LIMITS

MAY_SKIP = why_not()
SHRINKING = 30.0
"""Seconds for making a program that differs shorter."""
WARNINGS = (RuntimeWarning, np.exceptions.ComplexWarning)
SLICES = 10
counts: collections.Counter[str] = collections.Counter()
"""What became of programs, and of slices."""
reasons: collections.Counter[str] = collections.Counter()
"""Why programs were refused."""
apart: collections.Counter[str] = collections.Counter()
"""Why slices cannot go side by side."""
marks: collections.Counter[str] = collections.Counter()
"""Why slices were marked for which the function gives a result."""
_folder = tempfile.TemporaryDirectory()
_number = itertools.count()


class Skipped(BaseException):
    """A program that says nothing."""


class Given(NamedTuple):
    """What a program is run on."""

    slices: np.ndarray
    outs: bool
    """Whether a tuple is several results."""
    more: tuple[np.ndarray, ...] = ()
    """Slices of further arguments."""
    numbers: bool = False
    """Whether slices are numbers, which become Python's."""

    @property
    def all(self) -> list[np.ndarray]:
        """The slices of all arguments."""
        return [self.slices, *self.more]


# --- arrays -----------------------------------------------------------------------------------


def drawn(r: random.Random, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Ordinary slices, and a few of special values."""
    rng = np.random.default_rng(r.randrange(2**32))
    kind = np.dtype(dtype)
    if kind.kind == "c":
        parts = drawn(r, "float64", shape), drawn(r, "float64", shape)
        with np.errstate(all="ignore"):
            return (parts[0] + 1j * parts[1]).astype(dtype)
    if kind.kind == "f":
        x = (rng.standard_normal(shape) * r.choice([1, 1, 3, 30])).astype(dtype)
        if r.random() < 0.3:
            x = np.round(x).astype(dtype)
        info = np.finfo(dtype)
        special = [np.nan, np.inf, -np.inf, -0.0, 0.0, info.max, info.tiny, 1e-3, 1.0]
    elif kind.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    else:
        low = 0 if kind.kind == "u" else -20
        x = rng.integers(low, 21, shape).astype(dtype)
        limits = np.iinfo(dtype)
        special = [limits.min, limits.max, limits.max - 1, 0, 1, limits.max // 2]
    for k in range(shape[0]):
        if r.random() < 0.2:
            flat = x[k].reshape(-1)
            for _ in range(r.choice([1, 1, 2])):
                flat[r.randrange(flat.size)] = r.choice(special)
            x[k] = flat.reshape(x[k].shape)
    return x


# --- what Python does ---------------------------------------------------------------------------


def made(source: str) -> Any:
    """The function of a source, in a file of its own."""
    path = Path(_folder.name) / f"program_{next(_number)}.py"
    path.write_text(source)
    space: dict[str, Any] = {"__name__": path.stem}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(source, str(path), "exec"), space)
    return space["f"]


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """End what takes long: integers that grow for ever. A busy machine ends nothing else."""
    if not hasattr(signal, "setitimer"):
        yield
        return

    def late(*_: Any) -> None:
        raise Skipped("it takes long")

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds, 0.02)  # again, where a program catches it
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def outcome(f: Any, *args: Any) -> tuple[Any, str]:
    """What a function gives for slices, which it may write to; why it has to be marked."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            found = f(*args)
        except Skipped:
            raise
        except Exception as error:
            return None, f"{type(error).__name__}: {error}"
    why = [str(w.message) for w in said if issubclass(w.category, WARNINGS)]
    return found, why[0] if why else ""


def expected(result: Any) -> Expected | None:
    """The dtype and shape of a result, if compiled code may give such."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            a = np.asarray(result)
    except (ValueError, OverflowError):
        return None
    if a.dtype.kind == "U" and a.size and type(result) in (str, tuple, list):
        several = (result,) if a.ndim == 0 else result
        are_texts = a.ndim < 2 and all(type(y) is str for y in several)
        return Expected("text", a.shape, a.dtype.itemsize // 4) if are_texts else None
    if a.dtype.name not in DTYPES or a.ndim > 2 or not a.size:
        return None
    return Expected(a.dtype.name, a.shape)


def stored(result: Any, outs: list[np.ndarray], at: int) -> str:
    """Put a result where it goes, as the loop does; why it has to be marked."""
    several = result if len(outs) > 1 else (result,)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            if not isinstance(several, tuple) or len(several) != len(outs):
                return "another number of results"
            for out, one in zip(outs, several, strict=True):
                if np.shape(one) != out.shape[1:]:
                    return "a result of another shape"
                out[at] = one
        except Skipped:
            raise
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    why = [str(w.message) for w in said if issubclass(w.category, WARNINGS)]
    return why[0] if why else ""


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two results have the same bits, but for the payload of NaN."""
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    if a.dtype.kind == "c":
        return same(a.real, b.real) and same(a.imag, b.imag)
    if a.dtype.kind != "f":
        return bool(np.array_equal(a, b))
    nan = np.isnan(a)
    if not np.array_equal(nan, np.isnan(b)):
        return False
    return bool(
        np.array_equal(a, b, equal_nan=True) and (np.signbit(a) == np.signbit(b))[~nan].all()
    )


# --- one program ------------------------------------------------------------------------------


def compared(source: str, given: Given, *, counted: bool = False) -> str | None:
    """What differs between compiled code and Python."""
    f = made(source)
    x = given.all
    written = [a.copy() for a in x]
    with limited(2.0):
        some = zip(*([y.item() for y in a] if given.numbers else a for a in written), strict=True)
        found = [outcome(f, *these) for these in some]
        good = [k for k, (result, why) in enumerate(found) if not why and expected(result)]
        if not good:
            raise Skipped("no slice gives a result")
        result = found[good[0]][0]
        several = given.outs and isinstance(result, tuple)
        wanted = [expected(y) for y in (result if several else (result,))]
        if not all(wanted):
            raise Skipped("results of no kind that is compiled")
        results = [w for w in wanted if w is not None]
        firsts = result if several else (result,)
        dtypes = [
            np.asarray(y).dtype if w.dtype == "text" else w.dtype
            for y, w in zip(firsts, results, strict=True)
        ]
        loop = [np.zeros((len(x[0]), *w.shape), d) for w, d in zip(results, dtypes, strict=True)]
        whys = [why or stored(y, loop, k) for k, (y, why) in enumerate(found)]
    kinds = [a.dtype.name if given.numbers else Array(a.dtype.name, a.ndim - 1) for a in x]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program, compiled = _compiled(source, f, kinds, given.numbers, results, counted)
        outs = _places(loop, program)
        mine = [a.copy() for a in x]
        mark = compiled.run(mine, outs, 1, originals=x)
        codes, outs = outs, _texts(program, outs, loop)
    if counted:
        _count(program, mark, whys)
    if not program.writes:
        written = mine = x
    said = _differs(program, x, [*loop, *written], [*outs, *mine], mark, whys)
    said = said or _side_by_side(compiled, x, loop, mark, whys, counted)
    return said or _evaluated(program, x, codes, mark)


_last: dict[Any, tuple[Any, Compiled]] = {}
"""What was made of one source: of slices of another length the same, if the results are alike."""


def _compiled(
    source: str,
    f: Any,
    kinds: list[Any],
    numbers: bool,
    results: list[Expected],
    counted: bool,
) -> Any:
    key = (source, *kinds, numbers, *results)
    if key in _last:
        return _last[key]
    guards = Guards()
    guards.start(f)
    begun = time.perf_counter()
    try:
        inputs = [Input(k, numbers) for k in range(len(kinds))]
        program = typed(f, inputs, {}, kinds, results, guards)
    finally:
        if counted:
            counts["ms typed"] += round(1e3 * (time.perf_counter() - begun))
    verify(program)
    counts["with functions"] += counted and bool(program.functions)
    if next(iter(_last), key)[0] != source:
        _last.clear()
    _last[key] = program, Compiled(program)
    return _last[key]


def _places(loop: list[np.ndarray], program: Any) -> list[np.ndarray]:
    """Room for results: numbers stand for texts, or for their letters."""
    if program.spells:
        return [np.zeros((len(y), y.nbytes // len(y) // 4), np.int64) for y in loop]
    return [np.zeros(y.shape, np.int64 if y.dtype.kind == "U" else y.dtype) for y in loop]


def _texts(program: Any, outs: list[np.ndarray], loop: list[np.ndarray]) -> list[np.ndarray]:
    """Results with the texts that numbers stand for."""
    if program.spells:
        return [
            x.astype(np.uint32).view(y.dtype).reshape(y.shape)
            for x, y in zip(outs, loop, strict=True)
        ]
    return [
        np.array(program.texts or [""], y.dtype)[x] if y.dtype.kind == "U" else x
        for x, y in zip(outs, loop, strict=True)
    ]


def _side_by_side(
    compiled: Compiled,
    x: list[np.ndarray],
    loop: list[np.ndarray],
    mark: np.ndarray,
    whys: list[str],
    counted: bool,
) -> str | None:
    """What differs where slices go side by side, if they can."""
    outs = _places(loop, compiled.made)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = compiled.run(x, outs, 1, form=LANES)
    except UnsupportedError as why:
        if counted:
            counts["not side by side"] += 1
            apart[re.sub(r"line \d+|\d+", "", str(why))] += 1
        return None
    counts["side by side"] += counted
    if (found[mark == 0] != 0).any():
        k = int(np.flatnonzero((found != 0) & (mark == 0))[0])
        return f"side by side: slice {_of(x, k)} is marked"
    outs = _texts(compiled.made, outs, loop)
    said = _differs(compiled.made, x, loop, outs, found, whys)
    return said and f"side by side: {said}"


def _count(program: Any, mark: np.ndarray, whys: list[str]) -> None:
    counts["slices"] += len(mark)
    counts["slices that raise or warn"] += sum(map(bool, whys))
    counts["slices marked"] += int(np.count_nonzero(mark))
    for m, why in zip(mark, whys, strict=True):
        if m and not why:
            counts["slices marked without need"] += 1
            marks["a warning" if m == WARNED else program.marks[m - 1].why] += 1


def _differs(
    program: Any,
    x: list[np.ndarray],
    loop: list[np.ndarray],
    outs: list[np.ndarray],
    mark: np.ndarray,
    whys: list[str],
) -> str | None:
    for k, why in enumerate(whys):
        if mark[k]:
            continue
        if why:
            return f"slice {_of(x, k)} is not marked: {why}"
        for out, want in zip(outs, loop, strict=True):
            if not same(out[k], want[k]):
                return f"slice {_of(x, k)} differs: {out[k]!r}, in Python {want[k]!r}"
    return None


def _of(x: list[np.ndarray], k: int) -> str:
    return ", ".join(repr(a[k]) for a in x)


def _evaluated(
    program: Any, x: list[np.ndarray], outs: list[np.ndarray], mark: np.ndarray
) -> str | None:
    picked = sorted({0, len(x[0]) - 1, *np.flatnonzero(mark)[:2].tolist()})
    for k in picked:
        here = [np.zeros(y.shape[1:], y.dtype) for y in outs]
        with limited(5.0), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            m = evaluate(program, [a[k].copy() for a in x], here)
        if m == WARNED or mark[k] == WARNED:
            continue
        if m != mark[k]:
            return f"evaluator: slice {_of(x, k)} has mark {m}, compiled {mark[k]}"
        if not m and not all(same(a, b[k]) for a, b in zip(here, outs, strict=True)):
            return f"evaluator: slice {_of(x, k)} gives {here!r}, compiled {[b[k] for b in outs]!r}"
    return None


def case(r: random.Random) -> str | None:
    """Draw a program, compare, and shorten it where something differs."""
    dtype = r.choice(["float64"] * 6 + ["float32"] * 3 + ["int64"] * 2 + sorted(DTYPES))
    return case_of(r, dtype, ComplexProgram if r.random() < 0.04 else Program)


def case_of(r: random.Random, dtype: str, programs: Any) -> str | None:
    """The same, of slices of a dtype; complex ones have programs of their own."""
    if MAY_SKIP is not None:
        return None
    ndim = r.choice([1] * 7 + [2])
    shape = (SLICES, *(r.choice([1, 2, 3, 5, 8, 12]) for _ in range(ndim)))
    given = Given(drawn(r, dtype, shape), r.random() < 0.3)
    kind = np.dtype(dtype).kind
    if kind == "c":
        source = ComplexProgram(r, ndim, given=True).draw()
    else:
        source = programs(r, ndim, kind in "iub").draw()
    with LIMITS.set(typed_shared=r.choice((1, LIMITS.typed_shared))):  # short functions as well
        return looked_at(source, given)


def looked_at(source: str, given: Given) -> str | None:
    """Compare, and shorten where something differs."""
    counts["programs"] += 1
    found = _found(source, given, counted=True)
    if found is None:
        return None
    return _shortened(source, given, found)


def _found(source: str, given: Given, *, counted: bool = False) -> str | None:
    """What is wrong with a program; None: nothing, or it is refused."""
    try:
        found = compared(source, given, counted=counted)
    except Skipped as why:
        if counted:
            counts[f"skipped: {why}"] += 1
        return None
    except TraceError as why:
        if counted:
            counts["refused"] += 1
            reasons[
                re.sub(r"\(line \d+\)|-?\d[\d.e+]*|\b[a-z]\d+\b|: .*", "", str(why)).strip()
            ] += 1
        return None
    except SyntaxError:
        return None
    except Exception as error:
        tail = error.__traceback__
        while tail is not None and tail.tb_next is not None:
            tail = tail.tb_next
        where = f"{Path(tail.tb_frame.f_code.co_filename).name}:{tail.tb_lineno}" if tail else ""
        return f"{type(error).__name__} at {where}: {error}"
    if counted:
        counts["compiled"] += 1
    return found


# --- shrinking --------------------------------------------------------------------------------


def _kind(found: str) -> str:
    """What sort of fault it is, so that shrinking does not go over to another one."""
    if "not marked" in found:
        return "not marked"
    return (
        found.split(":")[0].split(" array")[0] if "Error" in found or "eval" in found else "differs"
    )


def _shorter(tree: ast.Module) -> Iterator[ast.Module]:
    """Trees with something less, the largest parts first."""
    places: list[tuple[int, int, str, int]] = []
    for n, node in enumerate(ast.walk(tree)):
        for name in ("body", "orelse", "finalbody", "handlers"):
            some = getattr(node, name, None)
            if not isinstance(some, list):
                continue
            for k, s in enumerate(some):
                places.append((-sum(1 for _ in ast.walk(s)), n, name, k))
    for _, n, name, k in sorted(places):
        for how in ("drop", "inside"):
            copy = ast.parse(ast.unparse(tree))
            nodes = list(ast.walk(copy))
            if n >= len(nodes):
                continue
            some = getattr(nodes[n], name, None)
            if not isinstance(some, list) or k >= len(some):
                continue
            s = some[k]
            if isinstance(s, (ast.FunctionDef, ast.Return)) and n and s is some[-1]:
                continue
            if isinstance(nodes[n], ast.While) and "w_" in ast.unparse(s).split("\n")[0]:
                continue
            inner = getattr(s, "body", None) if how == "inside" else []
            if inner is None or (isinstance(s, ast.FunctionDef) and how == "inside"):
                continue
            some[k : k + 1] = inner
            if not some and name == "body":
                some.append(ast.Pass())
            yield copy
    yield from _simpler(tree)


def _simpler(tree: ast.Module) -> Iterator[ast.Module]:
    """Trees with one expression less."""
    count = sum(isinstance(n, ast.expr) for n in ast.walk(tree))
    for at in range(count):
        for part in range(4):
            copy = ast.parse(ast.unparse(tree))
            target = [n for n in ast.walk(copy) if isinstance(n, ast.expr)]
            if at >= len(target):
                break
            inner = [n for n in ast.iter_child_nodes(target[at]) if isinstance(n, ast.expr)]
            if part >= len(inner):
                break
            if isinstance(getattr(target[at], "ctx", ast.Load()), ast.Store):
                break
            if isinstance(inner[part], ast.Name) and inner[part].id in ("np", "math"):
                continue
            yield _Replaced(target[at], inner[part]).visit(copy)


class _Replaced(ast.NodeTransformer):
    """Puts one expression in the place of another one."""

    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> Any:
        return self.new if node is self.old else super().visit(node)


def _shortened(source: str, given: Given, found: str) -> str:
    """A shorter program with such a fault, and what is wrong with it."""
    end = time.perf_counter() + SHRINKING
    kind, smaller = _kind(found), True
    while smaller and time.perf_counter() < end:
        smaller = False
        for tree in _shorter(ast.parse(source)):
            if time.perf_counter() > end:
                break
            try:
                text = ast.unparse(ast.fix_missing_locations(tree)) + "\n"
                one = _found(text, given)
            except (ValueError, AttributeError, RecursionError):
                continue
            if one is not None and _kind(one) == kind and len(text) < len(source):
                source, found, smaller = text, one, True
                break
    dtypes = ", ".join(f"{x.dtype}, {x.shape}" for x in given.all)
    return f"{source}\n{dtypes}, several results: {given.outs}\n{found}"


def report() -> str:
    """What became of all programs until now."""
    lines = [f"{n:8d} {what}" for what, n in counts.most_common()]
    lines += ["not side by side:", *(f"{n:8d} {why}" for why, n in apart.most_common(20))]
    lines += ["refused:", *(f"{n:8d} {why}" for why, n in reasons.most_common(40))]
    lines += ["marked without need:", *(f"{n:8d} {why}" for why, n in marks.most_common(25))]
    return "\n".join(lines)


__all__ = [
    "Given", "case", "case_of", "compared", "counts", "drawn", "looked_at", "made", "report",
    "types",
]  # fmt: skip
