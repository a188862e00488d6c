"""Random functions that make arrays and write into pieces and views of them."""

from __future__ import annotations

import random

import numpy as np

import xpapply
from xpapply.errors import TraceError, UnsupportedError

from .alike import differ, outcome

DTYPES = ("float64", "float64", "float64", "float32", "int64", "int16", "bool")
OPERATORS = "+= -= *= /= //= %= **= &= |= ^= <<= >>=".split()
TAME = "+= -= *=".split()
GARBAGE = (0, 77, -99, 3, float("nan"))
"""What may be in memory that nothing was written into."""
UFUNCS = "add subtract multiply maximum minimum".split()


class Program:
    """The lines of a function of a slice, drawn one after the other."""

    def __init__(self, r: random.Random, length: int) -> None:
        self.r, self.n = r, length
        self.lines: list[str] = []
        self.arrays: dict[str, tuple[int, ...]] = {}
        self.count = 0

    def draw(self) -> str:
        """The source of the function."""
        for _ in range(self.r.choice([1, 1, 2])):
            self.make()
        for _ in range(self.r.randrange(1, 7)):
            self.r.choice(
                [self.write] * 5
                + [self.view] * 4
                + [self.make, self.call, self.call, self.number, self.rows, self.branch]
            )()
        some = self.r.sample(sorted(self.arrays), min(len(self.arrays), self.r.randrange(1, 3)))
        if self.r.random() < 0.5:
            parts = [f"np.ravel({x})" for x in sorted(self.arrays)]
            self.lines.append(f"return np.concatenate([{', '.join(parts)}])")
        elif len(some) == 1:
            self.lines.append(f"return {some[0]}")
        else:
            self.lines.append(f"return {' + '.join(f'{x}.sum()' for x in some)}")
        return "def f(v):\n" + "".join(f"    {line}\n" for line in self.lines)

    def name(self, prefix: str, shape: tuple[int, ...]) -> str:
        """A new array."""
        self.count += 1
        self.arrays[f"{prefix}{self.count}"] = shape
        return f"{prefix}{self.count}"

    def make(self) -> None:
        """An array of its own."""
        n, r = self.n, self.r
        vectors = [
            "v.copy()", "np.copy(v)", "np.array(v)", "v * 2", "np.zeros_like(v)", f"np.zeros({n})",
            "np.empty_like(v)", f"np.empty({n})", f"np.ones({n}, v.dtype)", "np.sort(v)",
            "v[::-1].copy()", f"np.arange({n})", f"np.ndarray({n})", f"np.full({n}, 2.5)",
        ]  # fmt: skip
        tables = [
            f"np.zeros((3, {n}))", "np.stack([v, v, v])", f"np.empty((3, {n}), v.dtype)",
            "np.tile(v, (3, 1))", f"np.ones((3, {n}), v.dtype)", "np.outer([1, 2, 3], v)",
        ]  # fmt: skip
        if r.random() < 0.7:
            made, shape = r.choice(vectors), (n,)
        else:
            made, shape = r.choice(tables), (3, n)
        name = self.name("y", shape)
        self.lines.append(f"{name} = {made}")
        if "empty" in made or "ndarray" in made:
            fill = r.choice(["[:] = v", "[...] = 1", "[v > 0] = 1", "[:2] = 3", "[0] = v[0]"])
            if len(shape) > 1 and "v >" in fill:
                fill = "[:, 0] = 1"
            self.lines.append(f"{name}{fill}")
            if r.random() < 0.5:
                again = "[v <= 0] = v[0]" if "v >" in fill else "[...] = v"
                self.lines.append(f"{name}{again}")

    def key(self, shape: tuple[int, ...]) -> tuple[str, tuple[int, ...] | None]:
        """An index, and the shape of what is there (None: it is a copy)."""
        r, n = self.r, shape[-1]
        a, b = sorted(r.sample(range(n + 1), 2)) if n else (0, 0)
        one = r.randrange(-n, n) if n else 0
        step = r.choice([1, 1, 2, -1])
        part = f"{a}:{b}" if step == 1 else (f"{a}:{b}:2" if step == 2 else f"{b - 1}:None:-1")
        length = {1: b - a, 2: (b - a + 1) // 2, -1: b}[step]
        simple = [(f"{part}", (length,)), (":", (n,)), ("...", (n,))]
        copies = [
            (f"{one}", ()), (f"[{one}, 0]", (2,)), ("[0, 0]", (2,)), (f"np.array([{one}])", (1,)),
        ]  # fmt: skip
        if len(shape) == 1:
            masks = [("v > 0", None), ("v == v[0]", None)] if n == self.n else []
            moving = [("np.argmax(v)", ())] if n == self.n else []
            key, inner = r.choice(simple * 3 + copies + masks * 2 + moving)
            return key, inner
        row = r.randrange(-shape[0], shape[0])
        key, inner = r.choice(
            [
                (f"{row}", (n,)), (f":, {part}", (shape[0], length)), (f"{row}, {part}", (length,)),
                (f":, {one}", (shape[0],)), (f"::2, {part}", ((shape[0] + 1) // 2, length)),
                (f"{row}, {one}", ()), ("[0, 1]", (2, n)), (f"..., {one}", (shape[0],)),
                (f"[0, 1], {one}", (2,)), ("None, 0", (1, n)),
            ]
        )  # fmt: skip
        return key, inner

    def right(self, shape: tuple[int, ...] | None) -> str:
        """What is written there."""
        r = self.r
        numbers = ["2", "-1", "1.5", "v[0]", "v.sum()", "len(v)", "True", "v.max()", "3"]
        if shape is None or not shape or r.random() < 0.5:
            return r.choice(numbers)
        fitting = [x for x, s in self.arrays.items() if s == shape]
        found = [f"{x}" for x in fitting] * 2
        if shape[-1] <= self.n:
            found += [f"v[:{shape[-1]}]", f"v[::-1][:{shape[-1]}] * 2"]
        return r.choice(found or numbers)

    def write(self) -> None:
        """An assignment, most often an augmented one."""
        r = self.r
        x = r.choice(sorted(self.arrays))
        op = r.choice(["="] + TAME * 3 + OPERATORS)
        if r.random() < 0.2:
            if op != "=":
                self.lines.append(f"{x} {op} {self.right(self.arrays[x])}")
            return
        if len(self.arrays[x]) == 2 and r.random() < 0.3:
            k = r.randrange(self.arrays[x][1]) if self.arrays[x][1] else 0
            self.lines.append(f"{x}.T[{k}] {op} {self.right(self.arrays[x][:1])}")
            return
        if r.random() < 0.1:
            k = r.randrange(max(1, int(np.prod(self.arrays[x]))))
            self.lines.append(f"{x}.flat[{k}] {op} {self.right(())}")
            return
        key, shape = self.key(self.arrays[x])
        self.lines.append(f"{x}[{key}] {op} {self.right(shape)}")

    def view(self) -> None:
        """A view, which is written to later."""
        r = self.r
        x = r.choice(sorted(self.arrays))
        shape = self.arrays[x]
        if len(shape) == 2 and r.random() < 0.5:
            ways = [
                (f"{x}.T", shape[::-1]), (f"{x}.ravel()", (shape[0] * shape[1],)),
                (f"{x}.reshape(-1)", (shape[0] * shape[1],)), (f"{x}[::-1].T", shape[::-1]),
                (f"np.swapaxes({x}, 0, 1)", shape[::-1]), (f"np.transpose({x})", shape[::-1]),
            ]  # fmt: skip
            made, inner = r.choice(ways)
        elif len(shape) == 1 and r.random() < 0.3:
            ways = [
                (f"{x}.reshape(1, -1)", (1, shape[0])), (f"np.flip({x})", shape),
                (f"np.asarray({x})", shape), (f"np.atleast_1d({x})", shape),
                (f"{x}[:, None]", (shape[0], 1)), (f"np.expand_dims({x}, 0)", (1, shape[0])),
                (f"np.squeeze({x})", shape), (f"{x}.view()", shape),
            ]  # fmt: skip
            made, inner = r.choice(ways)
        else:
            key, found = self.key(shape)
            if not found:
                return
            made, inner = f"{x}[{key}]", found
        self.lines.append(f"{self.name('w', inner)} = {made}")

    def call(self) -> None:
        """A function that writes."""
        r = self.r
        x = r.choice(sorted(self.arrays))
        shape = self.arrays[x]
        n = shape[-1]
        k = r.randrange(n) if n else 0
        ufunc, right = r.choice(UFUNCS), self.right(shape)
        ways = [
            f"np.{ufunc}({x}, {right}, out={x})", f"{x}.fill({self.right(())})", f"{x}.sort()",
            f"np.copyto({x}, {right})", f"np.negative({x}, out={x})",
            f"np.put({x}, [0, {k}], {self.right(())})", f"np.clip({x}, -1, 1, out={x})",
            f"{x}.flat[0] = {self.right(())}", f"np.{ufunc}.at({x}, 0, {self.right(())})",
            f"np.{ufunc}.at({x}, [0, 0], {self.right(())})",
        ]  # fmt: skip
        if len(shape) == 1:
            ways += [
                f"np.{ufunc}.at({x}, [0, {k}, 0], {self.right((3,))})",
                f"np.{ufunc}.at({x}, np.argmax(v) % {max(n, 1)}, {self.right(())})",
                f"np.put_along_axis({x}, np.array([0, {k}]), {self.right(())}, 0)",
            ]
            if n == self.n:
                ways += [
                    f"np.putmask({x}, v > 0, {self.right(())})",
                    f"np.add({x}, 1, out={x}, where=v > 0)",
                    f"np.place({x}, v > 0, {self.right(())})",
                ]
        elif n:
            ways += [f"np.fill_diagonal({x}, {self.right(())})"]
        self.lines.append(r.choice(ways))

    def number(self) -> None:
        """A number that goes through the elements, with `max` and `min`."""
        r = self.r
        start = r.choice(["0.0", "0", "v[0]", "1.5"])
        low, high = r.choice(["0.0", "0", "-1.0", "v[0]"]), r.choice(["1.0", "2", "v[-1]"])
        step = r.choice(
            [
                f"max(t + x, {low})", f"max({low}, t + x)", f"min(t - x, {high})",
                f"min(max(t + x, {low}), {high})", f"max(min({high}, t + x), {low})",
                f"max(t, x, {low})", f"max(t * 0.5 + x, {low})", f"abs(max(t - x, {low}))",
                f"max(min(t, x), {low}) * 2", f"max(t + float(x), {low})",
            ]
        )  # fmt: skip
        self.lines += [f"t = {start}", "for x in v:", f"    t = {step}"]
        x = r.choice(sorted(self.arrays))
        key, _ = self.key(self.arrays[x])
        self.lines.append(r.choice([f"{x}[{key}] += t", f"{x}[{key}] = t", f"{x} *= t"]))
        if r.random() < 0.3:
            self.lines.append("return t")

    def rows(self) -> None:
        """A loop over the rows, or the elements."""
        r = self.r
        x = r.choice(sorted(self.arrays))
        if len(self.arrays[x]) == 2:
            op = r.choice(TAME)
            self.lines += [f"for row in {x}:", f"    row {op} {self.right(self.arrays[x][1:])}"]
            if r.random() < 0.5:
                self.lines.append(f"    row[0] {r.choice(TAME)} row[-1]")
        else:
            n = self.arrays[x][0]
            self.lines += [
                f"for i in range(1, {n}):",
                f"    {x}[i] {r.choice(TAME)} {x}[i - 1] {r.choice(['', '* 2', '+ v[0]'])}",
            ]

    def branch(self) -> None:
        """Something that is written for some slices only."""
        r = self.r
        x = r.choice(sorted(self.arrays))
        key, shape = self.key(self.arrays[x])
        self.lines += ["if v[0] > 0:", f"    {x}[{key}] {r.choice(TAME)} {self.right(shape)}"]


def case(r: random.Random) -> str | None:
    length, dtype = r.choice([2, 3, 4, 5, 8]), r.choice(DTYPES)
    source = Program(r, length).draw()
    rng = np.random.default_rng(r.randrange(2**32))
    x = rng.choice([-2.5, -1, 0, 0.5, 1, 2, 3], (200, length))
    x = (abs(x) if r.random() < 0.2 else x).astype(dtype)
    if dtype.startswith("float") and r.random() < 0.2:
        x[rng.integers(0, len(x), 3), 0] = np.nan, np.inf, -0.0
    want, *others = (outcome(np.apply_along_axis, _function(source, k), x) for k in GARBAGE)
    f = _function(source)
    try:
        with xpapply.options(engine=r.choice(["numpy", "numpy", ""])):
            got = outcome(_applied, f, x)
    except _Refused:
        return None
    if any(differ(want, other, False) for other in others):  # by what was in memory
        return None
    if differ(want, got, True):
        return f"{source}\n{dtype}, {length}\n{_shown(want, got, x)}"
    return None


class _Refused(BaseException):
    """No way but the loop."""


def _applied(f, axis: int, x):
    try:
        return xpapply.apply_along_axis(f, axis, x)
    except (TraceError, UnsupportedError) as error:
        raise _Refused from error


def _shown(want, got, x) -> str:
    if isinstance(want, str) or isinstance(got, str) or want.shape != got.shape:
        return f"want {str(want)[:300]}\ngot  {str(got)[:300]}"
    rows = (want != got) & ((want == want) | (got == got))
    k = int(np.argmax(rows.reshape(len(x), -1).any(1)))
    return f"row {k} {x[k]}\nwant {want.dtype} {want[k]}\ngot  {got.dtype} {got[k]}"


def _function(source: str, garbage: float | None = None):
    """The function; `garbage`: what is in the memory that nothing was written into."""
    names: dict = {"np": np}
    if garbage is not None:
        for name in ("empty", "empty_like", "ndarray"):
            source = source.replace(f"np.{name}(", f"{name}(")
            names[name] = _filled(getattr(np, name), garbage)
    exec(compile(source, "<pieces>", "exec"), names)
    return names["f"]


def _filled(make, garbage):
    def made(*args):
        found = make(*args)
        found.fill(garbage if found.dtype.kind == "f" or garbage == garbage else -1)
        return found

    return made
