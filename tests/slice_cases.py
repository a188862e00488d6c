"""What the tests of functions of slices have in common: libraries, arrays with axes, the loop."""

import itertools

import numpy as np
from hypothesis import strategies as st

from xpapply import testing

# --- arrays with axes -------------------------------------------------------------------------

REAL = ("bool", "int8", "int32", "int64", "uint8", "float16", "float32", "float64")
EXPONENTS = {"float16": (-2, 1), "float32": (-6, 6), "float64": (-30, 30)}
"""Powers of ten in which squares and cubes are numbers, too."""


@st.composite
def arrays(draw, dtypes=REAL, special=True, exponents=None, empty=True, least=0):
    """Arrays of 0 to 4 dims, in any layout; lengths of 0 and 1 among them."""
    ndim = draw(st.integers(least, 4))
    shape = draw(
        st.lists(
            st.sampled_from([0, 1, 1, 2, 3, 5] if empty else [1, 2, 3, 5]),
            min_size=ndim,
            max_size=ndim,
        )
    )
    dtype = np.dtype(draw(st.sampled_from(dtypes)))
    real = np.dtype({"complex64": "float32", "complex128": "float64"}.get(dtype.name, dtype))
    scale = 10.0 ** draw(st.integers(*(exponents or EXPONENTS).get(real.name, (0, 0))))
    offset = draw(st.sampled_from([0, 0, 0, 1e3])) if real.itemsize > 2 else 0
    odd = special and draw(st.booleans())
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))

    def fill(s):
        flat = (int(np.prod(s)),)
        x = testing.strategies._values(rng, flat, real, scale, odd)
        if real.kind == "f" and offset:
            x = x + real.type(offset * scale)
        if dtype.kind == "c":
            x = x + 1j * testing.strategies._values(rng, flat, real, 3.0, False)
        return x.astype(dtype).reshape(s)

    order = draw(st.sampled_from(testing.ORDERS)) if ndim else "C"
    return np.asarray(testing.strategies._layout(order, shape, rng, fill))


@st.composite
def with_axis(draw, *args, none=True, **kwargs):
    """Such an array, and an axis: an integer, a tuple or None."""
    x = draw(arrays(*args, **kwargs))
    kinds = ["none"] * none + (["one", "one", "several"] if x.ndim else [])
    kind = draw(st.sampled_from(kinds))
    if kind == "none":
        return x, None
    some = draw(st.permutations(range(x.ndim)))
    some = some[: 1 if kind == "one" else draw(st.integers(1, x.ndim))]
    axes = tuple(a - x.ndim * draw(st.booleans()) for a in some)
    return x, axes[0] if kind == "one" else axes


def axes_of(axis, ndim):
    """The axes of a slice, ascending."""
    if axis is None:
        return tuple(range(ndim))
    return tuple(sorted(a % ndim for a in (axis if isinstance(axis, tuple) else (axis,))))


def slices(axis, *arrays):
    """The shape of the batch, and the flat slices of all arrays, one after the other."""
    arrays = np.broadcast_arrays(*arrays)
    axes = axes_of(axis, arrays[0].ndim)
    batch = [a for a in range(arrays[0].ndim) if a not in axes]
    shape = tuple(arrays[0].shape[a] for a in batch)
    last = [x.transpose(*batch, *axes) for x in arrays]
    found = [[x[i].ravel() for x in last] for i in itertools.product(*(range(n) for n in shape))]
    return shape, found


def loop(f, axis, *arrays, keepdims=False, dtype=float):
    """`f` of every slice by a plain loop: numbers, where the batch dims stand."""
    shape, found = slices(axis, *arrays)
    results = [f(*s) for s in found]
    y = np.array(results, dtype).reshape(shape)
    ndim = np.broadcast(*arrays).ndim if arrays else 0
    return np.expand_dims(y, axes_of(axis, ndim)) if keepdims else y


def loop_in_place(f, axis, x, dtype=float):
    """The same for functions that return a slice as long as theirs."""
    axes = axes_of(axis, x.ndim)
    batch = [a for a in range(x.ndim) if a not in axes]
    order = (*batch, *axes)
    _, found = slices(axis, x)
    y = np.array([f(*s) for s in found], dtype)
    return y.reshape([x.shape[a] for a in order]).transpose(np.argsort(order))


def eps(dtype):
    """What rounding to a dtype may change, relatively; integers are computed in float64."""
    dtype = np.dtype(dtype)
    return float(np.finfo(dtype if dtype.kind in "fc" else float).eps)


def close(got, expected, rtol, atol=0.0):
    """Equal shapes, NaN and infinities; numbers as close as said."""
    got = np.asarray(got)
    assert got.shape == np.shape(expected)
    with np.errstate(all="ignore"):
        expected = np.asarray(expected).astype(got.dtype)  # float16 overflows
        finite = np.isfinite(expected)
        np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
        odd = ~finite & ~np.isnan(expected)
        np.testing.assert_array_equal(got[odd], expected[odd])
        kind = np.result_type(got.dtype, np.float64)
        off = np.abs(got.astype(kind) - expected.astype(kind))
        allowed = np.broadcast_to(rtol * np.abs(expected.astype(kind)) + atol, off.shape)
    wrong = finite & ~(off <= allowed)
    assert not wrong.any(), (got[wrong], expected[wrong], allowed[wrong])


def run(lib, f, *given, **kwargs):
    """A function on arrays of a library; results as NumPy's."""
    with lib():
        own = [lib.array(x) if isinstance(x, np.ndarray) else x for x in given]
        result = f(*own, **kwargs)
        return tuple(map(lib.numpy, result)) if isinstance(result, tuple) else lib.numpy(result)
