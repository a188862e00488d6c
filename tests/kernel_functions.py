"""Random Python functions that kernels are made of, their arrays, and what rounding may change.

`draw` writes a function of one slice: arithmetic, ufuncs, masks, reductions, comparisons, paths.
Unlike `random_functions`, it lets functions compare, round and branch on what they computed: a
kernel must leave what rounding decides to NumPy. How much rounding may change a result is found
by trying: `Noisy` arrays change the last places of all that NumPy computes with them.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

# --- functions --------------------------------------------------------------------------------

CONSTANTS = ("0", "1", "2", "-1", "0.5", "3.0", "1e-3", "-2.5", "100", "1e20", "7")
_COMMON = "abs negative square sqrt exp log log1p expm1 tanh sin cos arctan floor ceil"
_RARE = "trunc rint sign reciprocal exp2 log2 log10 sinh cosh fabs positive cbrt arcsin arctanh"
UFUNCS = (*_COMMON.split() * 4, *_RARE.split())
OF_TWO = (*("maximum", "minimum", "arctan2") * 4, "fmax", "fmin", "hypot", "copysign", "power")
REDUCTIONS = (*("sum", "mean", "max", "min", "std", "var", "argmax", "argmin") * 3, "ptp", "prod")
OF_MASKED = (*("sum", "mean", "max", "min", "std", "var", "size") * 3, "prod")
TESTS = (*("isfinite", "isnan", "isinf") * 4, "signbit")
WITHOUT_NAN = ("nansum", "nanmean", "nanmax", "nanmin", "nanstd", "nanvar")
COMPARISONS = (">", "<", ">=", "<=", "==", "!=")
MOVES = (
    "np.sort({})",
    "np.sort({})[::-1]",
    "np.cumsum({})",
    "np.cumprod({})",
    "{}[::-1]",
    "np.roll({}, 1)",
    "{}.argsort(kind='stable')",
    "np.maximum.accumulate({})",
    "np.diff({}, prepend=0)",
    "np.gradient({})",
    "np.convolve({}, [0.5, 1.0, 0.25], 'same')",
    "np.interp({}, [-1.0, 0.0, 2.0], [0.0, 3.0, 1.0])",
    "np.searchsorted([-1.0, 0.0, 2.0], {})",
    "np.flip({})",
)
PICKED = (
    "{}[0]",
    "{}[-1]",
    "np.median({})",
    "({} @ v)",
    "np.sort({})[0]",
    "np.argsort({}, kind='stable')[-1]",
    "np.cumsum({})[-1]",
    "np.percentile({}, 30)",
    "np.quantile({}, 0.9)",
    "np.trapezoid({})",
    "np.linalg.norm({})",
    "({0}[1:] - {0}[:-1]).max()",
    "np.nanmedian({})",
)


class _Writer:
    def __init__(self, r: Any, length: int) -> None:
        self.r, self.length = r, length
        self.depth = 0
        self.vectors, self.numbers, self.masks = ["v"], list[str](), list[str]()
        self.lines = ["def f(v):"]

    def pick(self, *several: Any) -> Any:
        return several[self.r.randrange(len(several))]

    def chance(self, p: float) -> bool:
        return self.r.random() < p

    def constant(self) -> str:
        return self.pick(*CONSTANTS)

    def vector(self, depth: int) -> str:
        if depth <= 0 or self.chance(0.15):
            return self.pick(*self.vectors, *["v"] * 2)
        kind = self.r.randrange(16)
        a = self.vector(depth - 1)
        if kind < 4:
            b = self.pick(self.vector, self.number, lambda d: self.constant())(depth - 1)
            a, b = self.pick((a, b), (a, b), (b, a))
            return f"({a} {self.pick('+', '-', '*', '/')} {b})"
        if kind < 7:
            return f"np.{self.pick(*UFUNCS)}({a})"
        if kind == 7:
            b = self.pick(self.vector, self.number, lambda d: self.constant())(depth - 1)
            return f"np.{self.pick(*OF_TWO)}({a}, {b})"
        if kind < 10:
            b = self.pick(self.vector, self.number, lambda d: self.constant())(depth - 1)
            a, b = self.pick((a, b), (b, a))
            return f"np.where({self.mask(depth - 1)}, {a}, {b})"
        if kind == 10:
            return f"np.clip({a}, {self.pick('0, 2', '-1, None', '0.5, 3.5', 'None, 1')})"
        if kind == 11:
            return f"({a} ** {self.pick('2', '3', '0.5', '-1', '1.5', '2.0')})"
        if kind == 12:
            w = self.pick("np.arange({})", "np.linspace(-1, 2, {})", "np.ones({})")
            return f"({a} {self.pick('+', '*', '-')} {w.format(self.length)})"
        if kind == 13:
            how = self.pick("({0} - {0}.mean())", "({0} / {0}.sum())", "({0} - {0}.max())")
            return how.format(a)
        if kind == 14:
            return self.pick(*MOVES).format(a)
        return f"(({a} - {a}.mean()) / {a}.std())"

    def number(self, depth: int) -> str:
        if depth <= 0 or self.chance(0.1):
            if self.numbers and self.chance(0.6):
                return self.pick(*self.numbers)
            return f"{self.vector(0)}.{self.pick('sum', 'max', 'mean', 'min')}()"
        kind = self.r.randrange(12)
        a = self.vector(depth - 1)
        if kind < 4:
            return f"{a}.{self.pick(*REDUCTIONS)}()" if "ptp" not in a else f"np.ptp({a})"
        if kind < 6:
            b = self.pick(self.number, lambda d: self.constant())(depth - 1)
            return f"({self.number(depth - 1)} {self.pick('+', '-', '*', '/')} {b})"
        if kind == 6:
            x = self.number(depth - 1)
            # of functions of Python's integers `Noisy` does not know how far off they are
            return x if "len(" in x or ".size" in x else f"np.{self.pick(*UFUNCS)}({x})"
        if kind < 9:
            how = self.pick(*OF_MASKED)
            return f"{a}[{self.mask(depth - 1)}].{how}" + "()" * (how != "size")
        if kind == 9:
            return f"np.{self.pick(*WITHOUT_NAN)}({a})"
        if kind == 10:
            m = self.mask(depth - 1)
            return self.pick(
                f"np.count_nonzero({m})", f"{m}.sum()", f"len({a}[{m}])", f"{m}.mean()"
            )
        how = self.pick("({} * v).sum()", "np.ptp({})", self.pick(*PICKED))
        return how.format(a)

    def mask(self, depth: int) -> str:
        if self.masks and self.chance(0.2):
            return self.pick(*self.masks)
        kind = self.r.randrange(8)
        if kind < 4 or depth <= 0:
            a = self.vector(depth - 1)
            b = self.constant() if self.chance(0.7) else self.vector(depth - 1)
            if self.chance(0.15):
                b = self.number(depth - 1)
            return f"({a} {self.pick(*COMPARISONS)} {b})"
        if kind < 6:
            return f"np.{self.pick(*TESTS)}({self.vector(depth - 1)})"
        if kind == 6:
            return f"(~{self.mask(depth - 1)})"
        return f"({self.mask(depth - 1)} {self.pick('&', '|')} {self.mask(depth - 1)})"

    def condition(self, depth: int) -> str:
        kind = self.r.randrange(4)
        if kind == 0:
            return f"{self.mask(depth - 1)}.{self.pick('any', 'all')}()"
        a = f"{self.vector(0)}.{self.pick('max', 'min')}()" if kind == 1 else self.number(depth - 1)
        return f"{a} {self.pick(*COMPARISONS)} {self.constant()}"

    def result(self, what: str, depth: int) -> str:
        if what == "vector":
            return self.vector(depth)
        if what == "number":
            return self.number(depth)
        if what == "mask":
            return self.mask(depth)
        return f"np.array([{self.number(depth)}, {self.number(depth)}])"

    def write(self) -> str:
        depth = self.pick(1, 2, 2, 3, 3, 4)
        what = self.pick(*("vector", "number", "number") * 3, "mask", "numbers")
        for k in range(self.pick(0, 0, 1, 2)):
            kind, names = self.pick(
                (self.vector, self.vectors), (self.number, self.numbers), (self.mask, self.masks)
            )
            self.lines.append(f"    x{k} = {kind(depth - 1)}")
            names.append(f"x{k}")
        for _ in range(self.pick(0, 0, 0, 1, 2)):
            self.lines.append(f"    if {self.condition(2)}:")
            value = self.result(what, depth - 1)
            if what == "number" and self.chance(0.2):
                value = self.pick("0.0", "1.0", "np.nan")
            self.lines.append(f"        return {value}")
        self.lines.append(f"    return {self.result(what, depth)}")
        while (unused := self._unused()) is not None:  # their warnings would not be seen
            del self.lines[unused]
        return "\n".join(self.lines) + "\n"

    def _unused(self) -> int | None:
        """The line of a value that no other uses, mostly."""
        for k, line in enumerate(self.lines):
            name, is_value, _ = line.strip().partition(" = ")
            if is_value and not any(name in x for x in self.lines[k + 1 :]):
                return None if self.chance(0.02) else k
        return None


def draw(r: Any, length: int) -> str:
    """The source of a function of slices of this length."""
    return _Writer(r, length).write()


def make(source: str) -> Any:
    """The function itself; new every time, so nothing is known of it."""
    space: dict[str, Any] = {"np": np, "__name__": "random_kernel"}
    exec(compile(source, "<random function>", "exec"), space)
    return space["f"]


# --- arrays -----------------------------------------------------------------------------------

DTYPES = (
    ("float64",) * 4 + ("float32",) * 4 + ("int64", "int32", "uint8", "int8", "bool", "float16")
)
LAYOUTS = ("C",) * 8 + (
    "F",
    "steps",
    "negative",
    "broadcast",
    "misaligned",
    "record",
    "foreign",
    "read-only",
    "last",
)


@dataclass(frozen=True)
class Slices:
    """An array, the axis of its slices, and how it was made."""

    array: np.ndarray
    axis: int
    layout: str

    def __repr__(self) -> str:
        x = self.array
        return f"{self.layout} {x.dtype.str}{x.shape} along {self.axis}\n{x!r}"


def slices(r: Any, longest: int = 70) -> Slices:
    """Slices of any kind of numbers, anywhere in memory."""
    length = r.choice([1 + r.randrange(9), 1 + r.randrange(20), r.randrange(longest + 1)])
    batch = r.choice([(17 + r.randrange(50),), (5, 4), (2, 3, 7), (1, 30), (3,)])
    return _slices(r, length, (0, 3) if r.random() < 0.01 else batch)


def long_slices(r: Any) -> Slices:
    """The same, but few and long: kernels go through them piece by piece."""
    length = r.choice([4096, 9000, 40_000, 70_001]) + r.randrange(-40, 40)
    return _slices(r, length, r.choice([(2,), (1, 3), (20,)]))


def _slices(r: Any, length: int, batch: tuple[int, ...]) -> Slices:
    axis = r.randrange(len(batch) + 1)
    shape = (*batch[:axis], length, *batch[axis:])
    dtype = np.dtype(r.choice(DTYPES))
    x = _numbers(np.random.default_rng(r.randrange(2**32)), shape, dtype, r.randrange(8), axis)
    layout = r.choice(LAYOUTS)
    return Slices(laid_out(x, layout, axis), axis, layout)


def _numbers(rng: Any, shape: tuple[int, ...], dtype: np.dtype, kind: int, axis: int) -> np.ndarray:
    """Kinds: 0 ties, 1 positive, 2 any, 3 with odd ones, 4 of all sizes, 5 equal in each slice,
    6 of one decimal, 7 that cancel."""
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        low = 0 if dtype.kind == "u" else -4
        x = rng.integers(low, 10, shape).astype(dtype)
        if kind >= 3:
            info = np.iinfo(dtype)
            some = rng.random(shape) < 0.2
            x[some] = rng.integers(info.min, info.max, some.sum(), dtype, endpoint=True)
        return x
    if kind == 0:
        return (rng.integers(-3, 4, shape) / 2).astype(dtype)
    x = (3 * rng.standard_normal(shape)).astype(dtype)
    if kind == 6:
        return (rng.integers(-9, 10, shape) / 10).astype(dtype)
    if kind == 7:
        y = np.moveaxis(x, axis, 0)
        half = len(y) // 2
        y[half : 2 * half] = -y[:half]
        return x
    if kind == 1:
        return np.abs(x) + dtype.type(0.1)
    if kind == 5:
        x[...] = np.take(x, [0] * min(1, shape[axis]), axis) if x.size else x
    if kind in (3, 4):
        info = np.finfo(dtype)
        odd = [np.nan, np.inf, -np.inf, -0.0, 0.0, float(info.smallest_subnormal), float(info.tiny)]
        if kind == 4:
            big = float(info.max)
            odd += [big, -big, big / 2, 1e-30, 1e17, -1e17, 1e-3, 710.0, -745.0, 88.8, -104.0]
        at = [n if a != axis else 1 for a, n in enumerate(shape)]
        some = (rng.random(shape) < 0.2) & (rng.random(at) < 0.3)
        with np.errstate(over="ignore"):
            x[some] = rng.choice(np.array(odd).astype(dtype), int(some.sum()))
    return x


def laid_out(x: np.ndarray, layout: str, axis: int) -> np.ndarray:
    """The same numbers, elsewhere in memory."""
    if layout == "F":
        return np.asfortranarray(x)
    if layout == "steps":
        wide = np.zeros([2 * n for n in x.shape], x.dtype)[
            tuple(slice(None, None, 2) for _ in x.shape)
        ]
        wide[...] = x
        return wide
    if layout == "negative":
        turned = tuple(slice(None, None, -1) for _ in x.shape)
        return x[turned].copy()[turned]
    if layout == "broadcast":
        a = 0 if axis else x.ndim - 1
        one = x[tuple(slice(0, 1) if k == a else slice(None) for k in range(x.ndim))]
        return np.broadcast_to(one, x.shape) if one.size else x
    if layout == "misaligned":
        memory = np.zeros(x.nbytes + 1, np.uint8)
        y = memory[1:].view(x.dtype).reshape(x.shape)
        y[...] = x
        return y
    if layout == "record":
        records = np.zeros(x.shape, np.dtype([("a", "u1"), ("x", x.dtype)], align=False))
        records["x"] = x
        return records["x"]
    if layout == "foreign":
        return x.astype(x.dtype.newbyteorder())
    if layout == "read-only":
        x.flags.writeable = False
    if layout == "last":
        return np.moveaxis(np.ascontiguousarray(np.moveaxis(x, axis, -1)), -1, axis)
    return x


# --- what rounding may change -----------------------------------------------------------------


class Noisy(np.ndarray):
    """Numbers of which the results of NumPy's calls are off by some last places.

    What is decided by them is written down: the outcome of comparisons, what was rounded to
    integers, positions, and which numbers are finite.
    """

    rng = np.random.default_rng(0)
    side = 0
    """1 or -1: all are that much larger, or smaller."""
    functions = places = 0.0
    """How far exponentials and their kin may be off, in last places, and how far all else."""
    decided: ClassVar[list[bytes]] = []

    @classmethod
    def changed(cls, x: Any, places: float) -> Any:
        """`x` with other last places, but for zeros, infinities and NaN."""
        x = np.asarray(x)
        if x.dtype.kind != "f":
            return x.view(cls)
        info = np.finfo(x.dtype)
        off = np.full(x.shape, cls.side) if cls.side else cls.rng.uniform(-1, 1, x.shape)
        with np.errstate(all="ignore"):
            found = x * (1 + places * info.eps * off).astype(x.dtype)
            small = (x != 0) & (np.abs(x) < 1e3 * info.tiny) & (places > 0)
            steps = (np.sign(off) * 2 * info.smallest_subnormal).astype(x.dtype)
            found = np.where(small, found + steps, found)
            return np.where(np.isfinite(x), found, x).astype(x.dtype).view(cls)

    @classmethod
    def decides(cls, x: Any) -> None:
        x = np.asarray(x)
        cls.decided.append(x.astype(float if x.dtype.kind == "f" else x.dtype).tobytes())

    def __array_ufunc__(
        self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **kwargs: Any
    ) -> Any:
        given = list(map(_plain, inputs))
        if method == "reduce" and ufunc in (np.add, np.multiply):
            if kwargs.get("dtype") is not None:  # a mean of integers
                given[0] = np.asarray(given[0]).astype(kwargs["dtype"])
            # the rounding of many terms, one after the other, does not cancel in long slices
            places = self.places * (1 + np.sqrt(np.size(given[0])) / 8)
            given[0] = _plain(self.changed(given[0], places))
        if out is not None:
            kwargs["out"] = tuple(map(_plain, out))
        found = getattr(ufunc, method)(*given, **kwargs)
        if isinstance(found, tuple):
            return found
        dtype = np.asarray(found).dtype
        if dtype.kind != "f" or ufunc in _ROUNDING:
            self.decides(found)
        else:
            self.decides(np.where(np.isnan(found), 2, np.isinf(found)))
        if ufunc in _CHOOSING and self.functions and dtype.kind == "f":
            # of 0.0 and -0.0 NumPy gives either, as the lanes of the CPU have it
            found = np.where(
                found == 0, np.copysign(0, self.rng.uniform(-1, 1, found.shape)), found
            )
            found = found.astype(dtype)
        if out is not None:
            return out[0]
        if dtype.kind != "f" or ufunc in _EXACT:
            return np.asarray(found).view(Noisy)
        return self.changed(found, self.places if ufunc in _ARITHMETIC else self.functions)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        found = super().__array_function__(func, types, args, kwargs)
        return found.view(Noisy) if type(found) is np.ndarray else found

    def argmax(self, *args: Any, **kwargs: Any) -> Any:
        return self._decided("argmax", args, kwargs)

    def argmin(self, *args: Any, **kwargs: Any) -> Any:
        return self._decided("argmin", args, kwargs)

    def argsort(self, *args: Any, **kwargs: Any) -> Any:
        return self._decided("argsort", args, kwargs)

    def _decided(self, name: str, args: Any, kwargs: Any) -> Any:
        found = getattr(_plain(self), name)(*args, **kwargs)
        self.decides(found)
        return np.asarray(found).view(Noisy)


def _plain(x: Any) -> Any:
    return x.view(np.ndarray) if isinstance(x, Noisy) else x


_ROUNDING = (np.floor, np.ceil, np.trunc, np.rint, np.sign)
_CHOOSING = (np.maximum, np.minimum, np.fmax, np.fmin)
_EXACT = (
    *_ROUNDING, *_CHOOSING, np.negative, np.absolute, np.fabs, np.positive, np.copysign,
)  # fmt: skip
_ARITHMETIC = (
    np.add, np.subtract, np.multiply, np.divide, np.sqrt, np.square, np.reciprocal, np.matmul,
)  # fmt: skip


def allowed(f: Any, v: np.ndarray, want: np.ndarray) -> tuple[Any, Any]:
    """How far the result of a slice may be off, and where it is a zero whose sign is certain.

    A kernel decides nothing that its rounding could decide, so tries that decide otherwise do not
    count: only where exponentials alone change what is decided, anything goes.
    """
    v = v.astype(v.dtype.newbyteorder("="))
    base = _tried(f, v, want, 0, 0.0, 0.0)
    certain = want == 0 if want.dtype.kind == "f" else np.zeros(want.shape, bool)
    for k in range(6):
        found, decided = _tried(f, v, want, k, 2.0, 0.0)
        if decided != base[1]:
            return np.inf, np.zeros(want.shape, bool)
        certain = certain & (found == 0) & (np.signbit(found) == np.signbit(want))
    if want.dtype.kind != "f":
        return 0.0, certain
    off = np.zeros(want.shape)
    with np.errstate(all="ignore"):
        wide = v.astype(np.longdouble) if v.dtype.kind == "f" else v  # NumPy's own rounding
        tries = [_tried(f, v, want, k, 2.0, 2.0) for k in range(8)]
        for found, decided in (*tries, _tried(f, wide, want, 0, 0.0, 0.0)):
            if decided == base[1]:
                apart = np.abs(found.astype(float) - want.astype(float))
                off = np.maximum(off, np.where(np.isnan(apart), 0, apart))
                certain = certain & (found == 0) & (np.signbit(found) == np.signbit(want))
        kinds = [want.dtype, v.dtype if v.dtype.kind == "f" else np.dtype("f8")]
        eps = max(float(np.finfo(d).eps) for d in kinds)
        grain = max(float(np.finfo(d).smallest_subnormal) for d in kinds)
        size = np.abs(want.astype(float))
        return 16 * off + 8 * eps * np.where(np.isfinite(size), size, 0) + 4 * grain, certain


def _tried(
    f: Any, v: np.ndarray, want: np.ndarray, seed: int, functions: float, places: float
) -> tuple[np.ndarray, list[bytes]]:
    """The result of a slice with noise, and what was decided."""
    Noisy.rng, Noisy.decided = np.random.default_rng(seed), []
    Noisy.side = {1: 1, 2: -1}.get(seed, 0)
    Noisy.functions, Noisy.places = functions, places
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            found = np.asarray(_plain(f(v.view(Noisy)))).astype(want.dtype)
        except Exception as error:
            return np.full(want.shape, np.nan).astype(want.dtype), [repr(error).encode()]
    same = (
        np.broadcast_to(found, want.shape) if found.ndim == 0 or found.shape == want.shape else want
    )
    return same, [*Noisy.decided, np.isfinite(found).tobytes(), np.isnan(found).tobytes()]
