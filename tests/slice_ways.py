"""Functions of slices and the ways in which threads can share slices, on a GPU and on the host."""

import contextlib
import functools
import math
from dataclasses import dataclass, replace
from types import SimpleNamespace
from unittest import mock

import host_cxx
import numpy as np
from hypothesis import strategies as st

import xpapply
from xpapply import arrays, special
from xpapply.arrays.layout import Layout, Operand
from xpapply.backends import array_api
from xpapply.codegen.cost import Device
from xpapply.ir.slices.slice_graph import written

# --- functions --------------------------------------------------------------------------------

extent = xpapply.reduction(
    lambda x: (x, x),
    lambda a, b: (np.minimum(a[0], b[0]), np.maximum(a[1], b[1])),
    lambda s: (s[0], s[1] - s[0]),
)
distance = xpapply.reduction(
    lambda x, y: ((x - y) * (x - y), 1.0),
    lambda a, b: (a[0] + b[0], a[1] + b[1]),
    lambda s: s[0] / s[1],
    (0, 0),
)
powers = xpapply.reduction(
    lambda x: tuple(x**k for k in range(1, 10)),
    lambda a, b: tuple(np.maximum(p, q) for p, q in zip(a, b, strict=True)),
    lambda s: s[0] + s[8],
)
soft_threshold = xpapply.elementwise(
    lambda x, y: (np.sign(x) * np.maximum(abs(x) - y, 0), x > y, np.floor(x))
)


@dataclass(frozen=True)
class Case:
    """A function of slices: arrays of these dtypes, then numbers."""

    name: str
    call: object
    dtypes: tuple[str, ...]
    numbers: tuple = ()

    @functools.cached_property
    def kinds(self):
        return tuple((d, True) for d in self.dtypes) + tuple(
            (n.dtype.name, False) for n in self.numbers
        )

    @functools.cached_property
    def graph(self):
        return written(self.call._write, self.kinds)[0]

    @property
    def in_order(self):
        return any(by.name in ("argmax", "argmin") for by, _ in self.graph.accumulations())


def _case(name, dtypes, *numbers):
    calls = special.formulas.calls | {
        "argmax": special.formulas.argmax_and_max,
        "squares": special.formulas.squared_diff,
        "extent": extent._call,
        "distance": distance._call,
        "powers": powers._call,
        "threshold": soft_threshold._call,
    }
    calls |= {f"norm {o}": special.formulas.norm_call(special.formulas.norm, o, 1) for o in _ORDS}
    calls |= {
        f"normalize {o}": special.formulas.norm_call(special.formulas.normalize, o, 1)
        for o in _ORDS
    }
    calls["complex norm 2"] = special.formulas.norm_call(special.formulas.norm, "2", 2)
    calls["complex normalize 1"] = special.formulas.norm_call(special.formulas.normalize, "1", 2)
    return Case(
        f"{name} of {' '.join(dtypes.split())}", calls[name], tuple(dtypes.split()), numbers
    )


_ORDS = ("0", "1", "2", "inf", "-inf", "p", "-p")
_HALF, _ONE, _TINY = np.float64(0.5), np.float64(1), np.float64(1e-3)
CASES = [
    _case("logsumexp", "float32"),
    _case("softmax", "float32"),
    _case("softmax", "float16"),
    _case("log_softmax", "float64"),
    _case("mean_var", "uint8", _ONE),
    _case("mean_var", "float32", _HALF),
    _case("standardize", "float32", _ONE, _TINY),
    _case("signed_logsumexp", "float32 float32"),
    _case("weighted_logsumexp", "float64 int8"),
    _case("argmax", "float32"),
    _case("argmax", "int8"),
    _case("norm p", "float64", np.float64(3)),
    _case("norm -inf", "int16"),
    _case("normalize 2", "float32"),
    _case("squares", "int32 uint8"),
    _case("complex_softmax", "float64 float64"),
    _case("extent", "int32"),
    _case("extent", "float32"),
    _case("distance", "float32 float64"),
    _case("threshold", "float16 float32"),
    _case("powers", "float64"),
]
EVERY = [
    *CASES,
    *(
        _case(name, "float32 float32", *numbers)
        for name, numbers in {
            "complex_logsumexp": (),
            "complex_signed_logsumexp": (),
            "complex_log_softmax": (),
            "complex_mean_var": (_ONE,),
            "complex_standardize": (_ONE, _TINY),
            "complex norm 2": (),
            "complex normalize 1": (),
        }.items()
    ),
    *(_case(f"norm {o}", "float32", *[np.float64(3)] * (o in ("p", "-p"))) for o in _ORDS),
    *(_case(f"normalize {o}", "float16", *[np.float64(3)] * (o in ("p", "-p"))) for o in _ORDS),
]


def case(name):
    return next(c for c in EVERY if c.name == name)


# --- ways -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Way:
    """A way in which threads share slices that does not ask whether that is fast."""

    lanes: int = 1
    slices: int = 64
    vector: int = 1
    vectors: int = 4
    across: bool = False
    in_registers: bool = False
    split: bool = False
    blocks: int = 1
    exact: bool = False
    """The kernel knows the length."""

    def __str__(self):
        words = [f"{self.lanes}x{self.slices}", f"{self.vector}*{self.vectors}"]
        words += [w for w in ("across", "in_registers", "split", "exact") if getattr(self, w)]
        return "-".join(words) + (str(self.blocks) if self.split else "")

    def sharing(self, chosen):
        """What stands in for `backends.cupy.slices.sharing`, which is `chosen`."""

        def forced(graph, layout, dims, processors):
            from xpapply.backends.cupy import slices

            share, _ = chosen(graph, layout, dims, processors)
            vector = min(self.vector, slices._vector(slices._strided(layout), dims, share.steps))
            length = math.prod(n for n, _ in dims.core)
            vectors = (
                max(1, -(-length // (self.lanes * vector))) if self.in_registers else self.vectors
            )
            return replace(
                share,
                lanes=self.lanes,
                slices=self.slices,
                vector=vector,
                vectors=vectors,
                across=self.across,
                in_registers=self.in_registers,
                split=self.split,
                length=length if self.exact else 0,
            ), self.blocks

        return forced


WAYS = [
    Way(in_registers=True),
    Way(in_registers=True, exact=True),
    Way(in_registers=True, vector=8),
    Way(vectors=5),
    Way(vector=4, vectors=2),
    Way(across=True, in_registers=True),
    Way(across=True, vectors=3),
    Way(split=True, blocks=2, vectors=3),
    Way(split=True, blocks=7, vector=2, vectors=1, across=True),
    Way(2, 64, in_registers=True, vector=4),
    Way(4, 8, in_registers=True),
    Way(8, 16, across=True, in_registers=True),
    Way(16, 16, across=True, vectors=2),
    Way(32, 4, in_registers=True, exact=True),
    Way(32, 4, vector=2, vectors=2),
    Way(32, 2, across=True, in_registers=True, exact=True),
    Way(32, 3, across=True, vectors=1),
    Way(64, 1, in_registers=True),
    Way(64, 2, vector=4, vectors=1),
    Way(256, 1, in_registers=True, exact=True),
    Way(1024, 1, vectors=1),
    Way(128, 1, split=True, blocks=2, vectors=1),
    Way(32, 4, split=True, blocks=7, vector=4, vectors=1),
    Way(16, 8, split=True, blocks=3, across=True, vectors=2),
]


@contextlib.contextmanager
def forced(way):
    """Threads share slices in this way."""
    from xpapply.backends.cupy import slices

    with mock.patch.object(slices, "sharing", way.sharing(slices.sharing)):
        yield


# --- the host as a device ---------------------------------------------------------------------


def _allocated(size):
    memory = np.full(size + 16, 0xA5, np.uint8)
    return SimpleNamespace(memory=memory, ptr=memory.ctypes.data + -memory.ctypes.data % 16)


_host_function = functools.cache(host_cxx.slice_function)


class Host:
    """`xpapply.backends.cupy.slices` runs its kernels on the host, compiled as C++."""

    @contextlib.contextmanager
    def __call__(self, processors=16):
        from xpapply.backends.cupy import compiler, slices

        device = Device(processors, 1e9, 1e12, "mma", 1 << 17)
        cuda = SimpleNamespace(
            alloc=_allocated,
            Device=lambda number: contextlib.nullcontext(),
            runtime=SimpleNamespace(getDevice=lambda: 0),
        )
        with (
            mock.patch.object(compiler, "device", return_value=device),
            mock.patch.object(
                compiler, "function", lambda text, name, *_: _host_function(text, name)
            ),
            mock.patch.object(slices, "cupy", SimpleNamespace(cuda=cuda)),
        ):
            yield

    def array(self, x, memory):
        """What a kernel gets for `x`, a view of `memory`."""
        place = SimpleNamespace(ptr=x.ctypes.data)
        names = ("shape", "strides", "dtype", "itemsize", "ndim")
        known = {name: getattr(x, name) for name in names}
        return SimpleNamespace(data=place, device=SimpleNamespace(id=0), memory=memory, **known)

    def back(self, y):
        """The memory of an array after kernels ran."""
        return y.memory


class Gpu:
    """The same on a device."""

    def __call__(self, processors=16):
        self._memory = {}
        return contextlib.nullcontext()

    def array(self, x, memory):
        import cupy

        own = cupy.asarray(memory)
        at = x.ctypes.data - memory.ctypes.data
        y = cupy.ndarray(x.shape, x.dtype, own.data + at, x.strides)
        self._memory[id(y)] = own
        return y

    def back(self, y):
        return self._memory[id(y)].get()


# --- arrays -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """How an array lies in memory: axes slowest first, steps along them, gaps, an offset."""

    order: tuple[int, ...]
    steps: tuple[int, ...]
    padding: int = 1
    offset: int = 0

    def array(self, shape, dtype):
        """An array that lies so, and all the memory around it, which is filled with 0xA5."""
        strides, step = [0] * len(shape), 1
        for k, a in enumerate(reversed(self.order)):
            strides[a] = step * self.steps[a]
            step *= max(1, shape[a]) * abs(self.steps[a])
            if k == 0:
                step = -(-step // self.padding) * self.padding
        size = np.dtype(dtype).itemsize
        memory = np.full((step + 64) * size + 32, 0xA5, np.uint8)
        memory = memory[-memory.ctypes.data % 16 :]
        first = -sum(min(0, s * (n - 1)) for s, n in zip(strides, shape, strict=True))
        start = (32 + first + self.offset) * size
        x = np.ndarray(shape, dtype, memory.data, start, [s * size for s in strides])
        return x, memory


@st.composite
def places(draw, ndim, last=None):
    """Places of arrays of some dims; those with `last` have that axis side by side in memory."""
    order = list(draw(st.permutations(range(ndim))))
    steps = draw(st.lists(st.sampled_from([1, 1, 1, 2, -1, -2]), min_size=ndim, max_size=ndim))
    plain = draw(st.booleans())
    if plain or last is not None:
        steps = [1] * ndim
    if last is not None:
        order.remove(last)
        order.append(last)
    padding = draw(st.sampled_from([1, 8]))
    padding = padding if last is None else 8  # rows start where vectors can
    return Place(tuple(order), tuple(steps), padding, draw(st.sampled_from([0, 0, 0, 1])))


def numbers_like(rng, shape, dtype, odd):
    """Numbers, some of them equal; NaN, infinities and -0.0 among them."""
    kind = np.dtype(dtype).kind
    if kind == "b":
        return rng.random(shape) < 0.5
    if kind in "iu":
        return rng.integers(0 if kind == "u" else -100, 100, shape).astype(dtype)
    x = np.round(rng.standard_normal(shape) * 3, 2).astype(dtype)
    if odd:
        some = rng.random(shape) < odd
        x[some] = rng.choice(np.array([np.nan, np.inf, -np.inf, -0.0], dtype), int(some.sum()))
    return x


def layout_of(shape, axes, inputs, outs):
    """The layout of arrays that all have as many dims as `shape`."""

    def operand(x):
        if not getattr(x, "ndim", 0):
            return Operand(x.dtype.name, None)
        strides = zip(x.strides, x.shape, strict=True)
        return Operand(x.dtype.name, tuple(0 if n == 1 else s // x.itemsize for s, n in strides))

    return Layout(shape, axes, tuple(map(operand, inputs)), tuple(map(operand, outs)))


def contiguous_layout(graph, kinds, shape, axes):
    """The layout of arrays in C order."""

    def operand(dtype, dims):
        steps = [math.prod(dims[a + 1 :]) for a in range(len(dims))]
        return Operand(dtype, tuple(0 if n == 1 else s for s, n in zip(steps, dims, strict=True)))

    inputs = [operand(d, shape) if vector else Operand(d, None) for d, vector in kinds]
    kept = tuple(1 if a in axes else n for a, n in enumerate(shape))
    outs = [
        operand(graph.nodes[o].aval.dtype, shape if graph.is_vector(o) else kept)
        for o in graph.outs
    ]
    return Layout(shape, axes, tuple(inputs), tuple(outs))


def defined(graph, shape, axes, inputs):
    """What the definition gives of the same numbers."""

    def wide(x):  # arrays broadcast along the batch dims alone
        own = [shape[a] if a in axes else n for a, n in enumerate(x.shape)]
        return np.broadcast_to(x, own) if x.ndim else x

    given = [wide(x) for x in inputs]
    with np.errstate(all="ignore"):
        found = array_api.evaluate(arrays.compat(given[0]), graph, given, axes=axes)
    kept = tuple(1 if a in axes else n for a, n in enumerate(shape))
    wanted = [shape if graph.is_vector(o) else kept for o in graph.outs]
    return [np.broadcast_to(y, s) for y, s in zip(found, wanted, strict=True)]


def agree(graph, got, want, length, inputs):
    """Results but for rounding: NaN and infinities in the same places."""
    narrow = min(
        (np.finfo(n.aval.dtype).bits for n in graph.nodes if n.aval.dtype.startswith("f")),
        default=64,
    )
    eps = {16: 1e-3, 32: 1.2e-7, 64: 2.3e-16}[narrow]
    sizes = [np.abs(x[np.isfinite(x)].astype(float)).max(initial=1) for x in inputs]
    for k, (y, w) in enumerate(zip(got, want, strict=True)):
        assert y.dtype == w.dtype
        if w.dtype.kind != "f":
            np.testing.assert_array_equal(y, w, err_msg=f"result {k}")
            continue
        finite = np.abs(w[np.isfinite(w)].astype(float)).max(initial=0)
        atol = eps * (16 + length) * max(finite, *sizes)
        np.testing.assert_allclose(
            y.astype(float),
            w.astype(float),
            rtol=eps * (64 + length),
            atol=atol,
            err_msg=f"result {k}",
        )
