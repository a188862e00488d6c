"""Functions that make arrays and write into pieces of them, and `max` and `min` of numbers."""

import numpy as np
import pytest

import xpapply

X = np.random.default_rng(0).integers(-4, 5, (40, 6)) / 2


def run(f, x=X, dtype=None):
    """The result at once, which has to be the loop's."""
    x = x if dtype is None else x.astype(dtype)
    with xpapply.options(engine="numpy"), np.errstate(all="ignore"):
        found = xpapply.apply_along_axis(f, -1, x)
        want = np.apply_along_axis(f, -1, x)
    assert found.dtype == want.dtype
    np.testing.assert_array_equal(found, want, strict=True)


OPERATORS = "+= -= *= /= //= %= **=".split()
INTEGERS = "&= |= ^= <<= >>=".split()
PIECES = "y[:3] y[::2] y[::-1] y[...] y[[0, 2]] y[v > 0] y[1] y[-1:] y.flat[1] y[2:][1:] y.T[:2]"


def function(*lines, start="y = v.copy()", end="return y"):
    text = "".join(f"    {line}\n" for line in (start, *lines, end))
    names = {"np": np}
    exec(compile(f"def f(v):\n{text}", "<pieces>", "exec"), names)
    return names["f"]


@pytest.mark.parametrize("piece", PIECES.replace(", ", ",").replace(" > ", ">").split())
@pytest.mark.parametrize("op", OPERATORS)
def test_augmented_assignment_to_a_piece(piece, op):
    run(function(f"{piece} {op} 2"))
    run(function(f"{piece} {op} v[0] + 4"))


@pytest.mark.parametrize("op", INTEGERS)
def test_augmented_assignment_of_integers(op):
    run(function(f"y[1:4] {op} 2", f"y[0] {op} 1"), abs(X) * 2, "int64")


def test_matrix_product_in_place():
    m = np.arange(9.0).reshape(3, 3)

    def f(v):
        y = v.reshape(2, 3).copy()
        y @= m
        y[:1] @= m
        return y

    run(f)


@pytest.mark.parametrize(
    "lines",
    [
        ["w = y[1:]", "w *= 2", "w[0] = 7", "y[2] += w[2]", "return w"],
        ["w = y[1:5]", "u = w[1:3]", "y[:] = 1", "u -= v[0]", "w[0] += u[0]"],
        ["a, b = y[:3], y[3:]", "a[:] = b", "b[:] = a * 2"],
        ["a = y[::2]", "b = y[1::2]", "a += b", "b *= a", "y[0] = b[0]", "return a * b"],
        ["w = y.reshape(2, 3)", "w[0] *= 3", "w.T[1] = v[0]", "y[0] -= 1", "return w + y[0]"],
        ["w = y.reshape(2, 3).T", "for row in w:", "    row += row[0]"],
        ["w = np.flip(y)", "w[:2] = v[:2]", "y[0] *= 5", "return w"],
        ["w = y.ravel()[1:].view()", "w += 1", "np.negative(w, out=w)"],
        ["w = np.asarray(y)", "w[0] = 3", "y[1] = w[0] + 1", "return w"],
        ["np.add(y[1:], y[:-1], out=y[1:])"],
        ["y[1:] += y[:-1]", "y[:-1] *= y[1:]"],
        ["w = y[:3]", "w += 1", "w = w + 1", "w += 1", "return y[:3] + w"],
        ["y.flat[2] = v[0]", "y.flat[[0, 1]] = v[2:4]", "y.flat = y[::-1]"],
        ["w = y[2:]", "w.sort()", "w.fill(w[0])"],
        ["np.put(y, [0, 5], v[1])", "np.copyto(y[1:3], v[:2])"],
        ["w = np.zeros((3, 6))", "w[1] += v", "w[:, 2] *= 2", "w.T[0] = 1", "return w"],
        [
            "w = np.zeros((2, 3, 2))",
            "w[0, 1] -= v[:2]",
            "w.transpose(2, 0, 1)[1] = v[0]",
            "return w",
        ],
        ["w = np.stack([v, v])", "np.put(w, [1, 8], v[0])", "w.flat[3] *= 2", "return w"],
    ],
)
def test_views_are_the_same_memory(lines):
    run(function(*lines, end="" if "return" in lines[-1] else "return y"))
    run(function(*lines, end="return y"))


def test_the_slice_is_not_written_into():
    x = X.copy()

    def f(v):
        w = v[1:]
        w += 1
        return w.sum()

    refused = pytest.raises(xpapply.UnsupportedError, match="writes into the slice")
    with refused, xpapply.options(engine="numpy"):
        xpapply.apply_along_axis(f, -1, x)
    assert (x == X).all()


@pytest.mark.parametrize("name", "add subtract multiply maximum".split())
@pytest.mark.parametrize("at", ["1", "[0, 0, 3]", "np.array([2, 2])", "slice(1, 4)", "v.argmax()"])
def test_ufunc_at(name, at):
    run(function(f"np.{name}.at(y, {at}, 2)", f"np.{name}.at(y, {at}, v[0])"))
    run(function("np.add.at(y, [0, 0, 1], v[:3])", "np.negative.at(y, [1, 1])"))


def test_casts_are_those_of_numpy():
    run(function("y[:3] *= np.float64(1.5)", "y[0] = 2.7"), dtype="float32")
    f = function("y[:3] *= 1.5")
    with pytest.raises(np._core._exceptions.UFuncTypeError, match="Cannot cast ufunc 'multiply'"):
        xpapply.apply_along_axis(f, -1, X.astype(int))


EMPTY = ["np.empty_like(v)", "np.empty(6)", "np.ndarray(6)", "np.ndarray(shape=(6,), dtype='f8')"]


@pytest.mark.parametrize("start", EMPTY)
@pytest.mark.parametrize(
    "lines",
    [
        ["y[:] = v"],
        ["y[0] = v[0]", "y[1:] = v[1:] - v[:-1]"],
        ["y[v > 0] = 1", "y[v <= 0] = v[v <= 0]"],
        ["for i in range(6):", "    y[i] = v[i] * 2"],
        ["np.multiply(v, 2, out=y)"],
        ["np.add(v, 1, out=y, where=v > 0)", "y[v <= 0] = 3"],
        ["w = y[::2]", "w[...] = v[:3]", "y[1::2] = w"],
        ["y.fill(1)", "y[0] += v[0]"],
        ["y[0] = v[0]", "return y[0] + y[:1].sum()"],
        ["y.flat[:] = v"],
        ["w = y.reshape(2, 3)", "w[0] = 1", "w[1, :] = v[:3]"],
    ],
)
def test_empty_arrays_are_filled(start, lines):
    run(function(*lines, start=f"y = {start}", end="" if "return" in lines[-1] else "return y"))


@pytest.mark.parametrize(
    "lines",
    [
        ["y[0] = v[0]"],
        ["y *= 2"],
        ["y[1:] = v[1:]", "y[1] = y[0]"],
        ["y[:5] = v[:5]", "return y.sum()"],
        ["w = y[1:]", "y[:2] = 1", "return w[:2] * 1"],
    ],
)
def test_what_was_never_written_is_not_read(lines):
    f = function(*lines, start="y = np.empty(6)", end="" if "return" in lines[-1] else "return y")
    with (
        xpapply.options(engine="numpy"),
        pytest.raises(xpapply.UnsupportedError, match="nothing was written"),
    ):
        xpapply.apply_along_axis(f, -1, X)


def test_whether_all_was_written_may_depend_on_the_slice():
    def f(v):
        y = np.empty_like(v)
        y[v > -2] = 1
        return y.sum() if v.min() > -2 else 0.0

    run(f)


def test_slices_in_which_something_was_not_written_are_left_to_f():
    calls = []

    def f(v):
        y = np.full_like(v, 5) if calls else np.empty_like(v)
        y[v < 2] = v[v < 2]
        return y[:3]

    x = np.where(X < 2, X, 0.0)
    run(f, x)
    x[30, 4] = x[31, 0] = 2
    with xpapply.options(engine="numpy"):
        found = xpapply.apply_along_axis(f, -1, x)
    np.testing.assert_array_equal(np.delete(found, 31, 0), np.delete(x[:, :3], 31, 0))


def test_kind_of_array():
    def f(v):
        made = type(v)(v.shape, float)
        made[:] = v
        return made if type(v) in (np.ndarray,) and isinstance(made, np.ndarray) else -made

    run(f)


# --- max and min ------------------------------------------------------------------------------

STEPS = [
    "t = max(t + x, 0.0)",
    "t = max(0, t + x)",
    "t = min(max(t + x, -1.0), 1)",
    "t = max(-1.5, min(t * 0.5 + x, 2.0))",
    "t = max(min(t, x), 0.0) * 2 + x",
    "t = max(t + float(x), 0)",
    "s = max(s + x, 0.0); t = max(t, s)",
    "t = abs(max(t - x, 0.5))",
    "t = max([t + x, 0.0])",
    "t = max(t, x, -0.0)",
    "t = max(t + x, s, 1.0); s = min(s, t)",
    "t += max(x, 0.0) > 1",
    "t = t + 1 if max(x, 0.0) > 1 else t",
]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
def test_max_and_min_of_numbers_and_constants(step, dtype):
    x = X.copy()
    if dtype != "int64":
        x[3, 2], x[4, 1], x[5] = np.nan, np.inf, -0.0
    f = function("s = 0.0", "for x in v:", f"    {step}", start="t = 0.0", end="return t")
    run(f, x, dtype)
    xpapply.functions.cache.clear()
    g = function("for i, x in enumerate(v):", f"    {step}", "    y[i] = t",
                 start="y = np.empty(6); t = 0.0; s = 0.0")  # fmt: skip
    run(g, x, dtype)


def test_a_loop_with_max_does_not_part():
    x = np.random.default_rng(1).normal(size=(500, 40))

    def f(v):
        t = most = 0.0
        for x in v:
            t = max(t + x, 0.0)
            most = max(most, t)
        return most

    with xpapply.options(fallback="raise"):
        assert xpapply.explain(f, -1, x).vectorized
        found = xpapply.apply_along_axis(f, -1, x)
    np.testing.assert_array_equal(found, np.apply_along_axis(f, -1, x))


def test_a_list_of_them_has_the_dtype_of_the_loops():
    def f(v):
        t, found = 0.0, []
        for x in v:
            t = max(0, t + float(x) - 5.0 * (v[0] > 0))
            found.append(t)
        return found

    run(f)
    run(f, X[np.argsort(-X[:, 0])])  # the first slice gives integers


@pytest.mark.parametrize("constant", [0.1, -0.0, 1e-60, 1e60, float("nan"), 2**60, 10**30, True])
def test_constants_that_the_other_kind_does_not_hold(constant):
    def f(v):
        t = max(v[0], constant) + v[1]
        return min(t, constant) if v[2] > 0 else t * 3

    for dtype in ("float64", "float32", "int16")[: 2 + (abs(constant) < 2)]:
        run(f, dtype=dtype)


SIZES = [
    "y = np.zeros(n); y[:1] += v[0]; return y.sum() * n",
    "return np.arange(n).sum() + v[0]",
    "y = np.empty((n, 2)); y[:] = v[0]; y[:, 1] *= 2; return y.sum()",
    "return np.eye(n + 1).sum()",
    "return (np.ones(n, dtype=np.float32) * np.arange(n)).sum()",
    "return np.full(n, 2.5).sum() + v[1]",
    "return np.arange(1, n + 1) @ np.sort(v[v > 0])",
    "return np.arange(n)",
]


@pytest.mark.parametrize("line", SIZES[:-1])
@pytest.mark.parametrize("n", ["len(v[v > 0])", "np.count_nonzero(v > 0)", "int(v.argmax())"])
def test_sizes_that_depend_on_the_slice(line, n):
    if "@" in line and "argmax" in n:
        line = line.replace("np.sort(v[v > 0])", "np.ones(n)")
    run(function(f"n = {n}", line, end=""))


def test_sizes_of_results_have_to_be_the_same():
    f = function("n = np.count_nonzero(v > 0)", SIZES[-1], end="")
    with pytest.raises(ValueError, match="could not broadcast"):
        np.apply_along_axis(f, -1, X)
    with pytest.raises(ValueError, match="could not broadcast"):
        xpapply.apply_along_axis(f, -1, X)


def test_prominences_and_widths_of_peaks():
    signal = pytest.importorskip("scipy.signal")

    def f(v):
        peaks, _ = signal.find_peaks(v)
        found = signal.peak_prominences(v, peaks)[0]
        return found.sum() + signal.peak_widths(v, peaks, 0.5)[0].sum()

    run(f, np.random.default_rng(0).normal(size=(40, 30)))


@pytest.mark.parametrize("kind", ["csr_matrix", "csr_array", "csc_matrix", "csc_array"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
def test_sparse_matrices(kind, dtype):
    sparse = pytest.importorskip("scipy.sparse")
    dense = np.random.default_rng(0).normal(size=(9, 6)) * (np.arange(54) % 3 > 0).reshape(9, 6)
    s = getattr(sparse, kind)(dense)

    def f(v):
        return (s @ v)[:4] + s.dot(v * 2)[: s.shape[0] - 5]

    x = np.random.default_rng(1).normal(size=(300, 6)) * 5
    x[3, 2], x[4, 1] = np.nan, np.inf
    x = (np.clip(np.nan_to_num(x), -9, 9) if dtype == "int64" else x).astype(dtype)
    run(f, x)
    s.data[0] = 7
    run(f, x)
    s.data = s.data * 2
    run(f, x)
    s.indices = s.indices[::-1].copy()
    run(f, x)


@pytest.mark.parametrize(
    "f",
    [
        lambda v: v.flat[0] * 2, lambda v: v.flat[1:4].sum(), lambda v: sum(x for x in v.flat),
        lambda v: 1 if v.flat[0] > 0.5 else 0.25, lambda v: v.flat[[3, 0]] + v.flat[-1],
        lambda v: v.T.flat[1] - v[1:].flat[0], lambda v: np.array([x * x for x in v.flat]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("axes", [(1, 2), (2, 1)])
def test_elements_of_slices_of_two_axes_depend_on_them(f, axes):
    """Nothing is ever written into the slice: its elements were constants then."""
    for seed in range(8):  # few slices, so that those that are compared may agree by chance
        x = np.random.default_rng(seed).standard_normal((9, 2, 3))
        want = [f(v) for v in np.moveaxis(x, axes, (1, 2))]
        with xpapply.options(engine="numpy"):
            got = xpapply.apply_along_axis(f, axes, x)
            assert "constant" not in str(xpapply.explain(f, axes, x))
        np.testing.assert_allclose(got, np.asarray(want, got.dtype), rtol=1e-13)
