"""The drop-in: whatever numpy.apply_along_axis does, ours does too."""

import copy
import functools
import threading
import warnings
from unittest import mock

import numpy as np
import pytest

import xpapply
from conftest import library
from xpapply.testing import assert_parity

pytestmark = pytest.mark.filterwarnings("ignore:the matrix subclass")

RNG = np.random.default_rng(0)
CUBE = RNG.standard_normal((2, 3, 4))


class Tagged(np.ndarray):
    """A subclass that keeps its class through __array_wrap__."""


def as_matrix(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.matrix(x)


def outcome(apply, f, axis, arr, *args, **kwargs):
    """The result and its class, or the error's class and text."""
    try:
        result = apply(f, axis, copy.deepcopy(arr), *args, **kwargs)  # f may write into it
    except Exception as error:
        return type(error), str(error), None
    assert isinstance(result, (np.ndarray, np.generic))
    return type(result), (result.shape, result.dtype), result


def assert_same(f, axis, arr, *args, **kwargs):
    ours = outcome(xpapply.apply_along_axis, f, axis, arr, *args, **kwargs)
    numpys = outcome(np.apply_along_axis, f, axis, arr, *args, **kwargs)
    assert ours[:2] == numpys[:2]
    if numpys[2] is None:
        return
    a, b = ours[2], numpys[2]
    if isinstance(b, np.ma.MaskedArray):
        np.testing.assert_array_equal(np.ma.getmaskarray(a), np.ma.getmaskarray(b))
        a, b = a.data, b.data
    if b.dtype.hasobject:
        assert [repr(x) for x in a.ravel()] == [repr(x) for x in b.ravel()]
    else:
        np.testing.assert_array_equal(a, b)
    assert a.flags.c_contiguous == b.flags.c_contiguous


def write_into(v):
    v += 1
    return v[:2]


def first_int_then_float(v):
    return 1 if v[0] == 0 else 2.75


FUNCTIONS = {
    "scalar": np.sum,
    "python float": lambda v: float(v[0]),
    "python bool": lambda v: bool(v[0] > 0),
    "list": lambda v: [v[0], 2.0],
    "tuple": lambda v: (v[0], v[-1], 0),
    "1-d": np.sort,
    "shorter": lambda v: v[:1],
    "empty": lambda v: v[:0],
    "2-d": lambda v: np.outer(v, v),
    "3-d": lambda v: np.ones((2, 1, 3)) * v[0],
    "0-d": lambda v: np.asarray(v[0]),
    "matrix": lambda v: as_matrix(v[:2]),
    "diag": np.diag,
    "string": lambda v: f"{v[0]:.1f}",
    "complex": lambda v: v * 1j,
    "object": lambda v: np.array([None, v[0]], dtype=object),
    "none": lambda v: None,
    "tagged": lambda v: v.view(Tagged),
    "masked": lambda v: np.ma.masked_less(v, 0),
    "first int, then float": first_int_then_float,
    "argmax": np.argmax,
    "writes": write_into,
}

ARRAYS = {
    "cube": CUBE,
    "fortran": np.asfortranarray(CUBE),
    "int": np.arange(24).reshape(2, 3, 4),
    "bool": CUBE > 0,
    "float16": CUBE.astype(np.float16),
    "big-endian": CUBE.astype(">f4"),
    "1-d": CUBE[0, 0],
    "tagged": CUBE.copy().view(Tagged),
    "masked": np.ma.masked_greater(CUBE, 0.5),
    "matrix": as_matrix(CUBE[0]),
    "read-only": np.broadcast_to(CUBE[0], (2, 3, 4)),
    "reversed": CUBE[::-1, :, ::-1],
    "object": np.array([[1, 2], [3, 4]], dtype=object),
    "list": [[3.0, 1.0], [2.0, 0.0]],
    "no batch": np.zeros((0, 3)),
    "no slice": np.zeros((3, 0)),
    "0-d": np.float64(3.0),
}


@pytest.mark.parametrize("axis", [0, -1, 1, True, 7, -9])
@pytest.mark.parametrize("array", ARRAYS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_as_numpy(function, array, axis):
    assert_same(FUNCTIONS[function], axis, ARRAYS[array])


def test_every_slice_once_in_c_order():
    arr = np.arange(24).reshape(2, 3, 4)
    seen = []
    xpapply.apply_along_axis(lambda v: seen.append(v.tolist()), 1, arr)
    expected = []
    np.apply_along_axis(lambda v: expected.append(v.tolist()), 1, arr)
    assert seen == expected
    assert len(seen) == 8


def test_writes_reach_the_array():
    arr = np.zeros((2, 3))
    xpapply.apply_along_axis(write_into, 1, arr)
    np.testing.assert_array_equal(arr, np.ones((2, 3)))


def test_strings():
    words = np.array([["a", "bc"], ["d", "e"]])
    assert_same(lambda v: "".join(v.tolist()), 1, words)


@pytest.mark.parametrize("error", [KeyError, StopIteration, ValueError, RuntimeError, SystemExit])
def test_exceptions_pass_unchanged(error):
    raised = error("mine")

    def f(v):
        raise raised

    with pytest.raises(error) as caught:
        xpapply.apply_along_axis(f, 0, np.zeros((2, 3)))
    assert caught.value is raised


def test_arguments_belong_to_f():
    def f(v, *args, **kwargs):
        assert args == (1, "two")
        assert kwargs == {"axis": 3, "arr": 4, "engine": "x"} or not kwargs
        return v.sum()

    xpapply.apply_along_axis(f, 0, np.zeros((2, 3)), 1, "two")
    with pytest.raises(TypeError):  # NumPy's own names are taken there too
        xpapply.apply_along_axis(f, 0, np.zeros((2, 3)), 1, "two", axis=3, arr=4)
    assert_same(lambda v, engine: v.sum() + engine, 0, CUBE, engine=2)


# --- networks on every kind of array --------------------------------------------------


@pytest.fixture(scope="module")
def net(torch):
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2)).eval()


@pytest.fixture
def mlp():
    rng = np.random.default_rng(1)
    return xpapply.MLP(
        [rng.standard_normal((5, 4)), rng.standard_normal((1, 5))], activation="tanh"
    )


DTYPES = (
    *("?", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8"),
    *(">f4", ">f8", ">i2", ">u4", "g"),
)


@pytest.mark.parametrize("dtype", DTYPES)
def test_networks_take_every_real_dtype(net, mlp, dtype):
    arr = (CUBE * 50).astype(np.int8).astype(dtype)
    for f in (net, mlp):
        assert_parity(f, 2, arr)


@pytest.mark.parametrize("array", ["fortran", "reversed", "read-only", "masked"])
def test_networks_take_every_layout(net, mlp, array):
    for f in (net, mlp):
        assert_parity(f, 2, ARRAYS[array])


def test_read_only_memmap(net, tmp_path):
    path = tmp_path / "volume.raw"
    CUBE.astype("f4").tofile(path)
    volume = np.memmap(path, "f4", "r", shape=(2, 3, 4))
    result = assert_parity(net, 2, volume)
    np.testing.assert_array_equal(result, xpapply.apply_along_axis(net, 2, np.array(volume)))


def test_subclasses_keep_their_class(net):
    with xpapply.options(fallback="silent"):  # NumPy's loop alone knows what they mean
        result = xpapply.apply_along_axis(net, 1, as_matrix(CUBE[0]))
        expected = np.apply_along_axis(lambda v: np.zeros(2, "f4"), 1, as_matrix(CUBE[0]))
        assert type(result) is type(expected)
        assert type(xpapply.apply_along_axis(net, 2, CUBE.view(Tagged))) is Tagged


@pytest.mark.parametrize("dtype", ["c8", "O", "U3"])
def test_networks_refuse_what_is_no_real_number(net, mlp, dtype):
    arr = np.ones((2, 4), dtype)
    for f in (net, mlp):
        with xpapply.options(fallback="silent"), pytest.raises(ValueError, match="real numbers"):
            xpapply.apply_along_axis(f, 1, arr)


def test_networks_and_empty_arrays(net, mlp):
    for f in (net, mlp):
        with pytest.raises(ValueError, match="Cannot apply_along_axis when any iteration"):
            xpapply.apply_along_axis(f, 1, np.zeros((0, 4)))
        with pytest.raises(xpapply.InputError, match="features"):
            xpapply.apply_along_axis(f, 1, np.zeros((3, 0)))
        with pytest.raises(np.exceptions.AxisError):
            xpapply.apply_along_axis(f, 2, np.zeros((3, 4)))


def test_networks_on_one_slice_and_lists(net, mlp):
    for f in (net, mlp):
        assert_parity(f, 0, CUBE[0, 0])
        assert_parity(f, -1, CUBE[0].tolist())
        assert_parity(f, True, CUBE[0])


def test_many_slices_run_in_blocks(net, mlp):
    arr = RNG.standard_normal((70, 4, 300)).astype("f4")
    for f in (net, mlp):
        whole = assert_parity(f, 1, arr[:2])
        for how in ({"block_bytes": 1 << 12}, {"threads": 1}, {"threads": 3}):
            with xpapply.options(**how):
                np.testing.assert_allclose(
                    xpapply.apply_along_axis(f, 1, arr)[:2], whole, rtol=1e-4, atol=1e-5
                )


# --- the plain loop on libraries that have none ---------------------------------------


def cumulative(v):
    return v * v[0]


# whose own loop takes fewer kinds of results
NOT_CUPYS = pytest.mark.no_such_case(lambda xp: xp.name == "cupy")


@NOT_CUPYS
@pytest.mark.parametrize(
    "f",
    [
        cumulative,
        lambda v: v[0],
        lambda v: [v[0], v[1]],
        lambda v: (v, v),
        lambda v: 3,
        lambda v: v[:, None] * v[None, :],
        functools.partial(lambda k, v: v + k, 2.0),
    ],
)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_loop_on_any_library(xp, f, axis):
    library("array_api_compat")
    expected = np.apply_along_axis(f, axis, CUBE)
    arr = xp.array(CUBE)
    with xpapply.options(fallback="silent"):
        result = xpapply.apply_along_axis(f, axis, arr)
    assert type(result) is type(arr)
    assert str(result.device) == str(arr.device)
    np.testing.assert_allclose(xp.numpy(result), expected, rtol=1e-6)


@NOT_CUPYS
def test_loop_on_any_library_keeps_numpys_contract(xp):
    apply = xpapply.apply_along_axis
    with xpapply.options(fallback="silent"):
        with pytest.raises(ValueError, match="Cannot apply_along_axis when any iteration"):
            apply(cumulative, 1, xp.array(np.zeros((0, 3), np.float32)))
        with pytest.raises(np.exceptions.AxisError):
            apply(cumulative, 2, xp.array(np.zeros((2, 3), np.float32)))
        seen = []
        apply(lambda v: seen.append(float(v[0])) or v, 0, xp.array(np.arange(6.0).reshape(1, 6)))
        assert seen == [0, 1, 2, 3, 4, 5]
        # the first result fixes the dtype
        halves = iter([1, 2.75])
        result = apply(lambda v: next(halves), 1, xp.array(np.zeros((2, 3), np.float32)))
        assert xp.numpy(result).tolist() == [1, 2]
        lengths = iter([1, 2])
        with pytest.raises(ValueError, match="shape"):
            apply(lambda v: v[: next(lengths)], 1, xp.array(np.zeros((2, 3), np.float32)))


@pytest.mark.parametrize("engine", ["", "loop"])
def test_lists_are_the_arrays_that_numpy_makes_of_them(engine):
    """Of slices along several axes too."""
    functions = [
        lambda v: [int(v.sum()) * 10**20, v.max()],
        lambda v: [v.max(), "text"],
        lambda v: [None, v.max()],
        lambda v: (v.max(), [1, 2][0], True),
        lambda v: [[1, v.max()], [2, 3]],
    ]
    x = np.arange(24.0).reshape(4, 6)
    for f in functions:
        want = np.apply_along_axis(f, -1, x)
        flat = lambda p, f=f: f(p.reshape(-1))  # noqa: E731
        with xpapply.options(engine=engine, fallback="silent"):
            got = xpapply.apply_along_axis(flat, (1, 2), x.reshape(4, 2, 3))
        assert got.dtype == want.dtype
        assert [*map(repr, got.flat)] == [*map(repr, want.flat)]


def test_objects_in_a_result_are_those_that_f_returns():
    """Some can not be copied."""
    held = [object(), iter(()), threading.Lock()]
    x = np.random.default_rng(0).standard_normal((900, 3))
    for one in held:
        with xpapply.options(fallback="silent"):
            got = xpapply.apply_along_axis(lambda v, one=one: [one, [v.max(), 1][0]], -1, x)
        assert got.shape == (900, 2)
        assert all(y is one for y in got[:, 0])
    both = outcomes(lambda v: (np.nditer(v.max()), 1), x)
    assert both[0] == both[1]


def outcomes(f, x):
    found = []
    for apply in (np.apply_along_axis, xpapply.apply_along_axis):
        try:
            found.append(apply(f, -1, x))
        except Exception as error:
            found.append(f"{type(error).__name__}: {error}")
    return found


class HasAll:
    """An object with every attribute that anybody asks for, as mocks are."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return HasAll()

    def around(self, i):
        return i

    def __call__(self, v):
        return float(v.max())


@pytest.mark.parametrize("slices", [3, 300])
@pytest.mark.parametrize(
    "make", [HasAll, lambda: mock.Mock(side_effect=HasAll()), lambda: functools.partial(HasAll())]
)
def test_attributes_of_functions_are_their_own(make, slices):
    x = np.random.default_rng(0).standard_normal((slices, 4))
    with xpapply.options(fallback="silent"):
        np.testing.assert_array_equal(xpapply.apply_along_axis(make(), 1, x), x.max(1))
