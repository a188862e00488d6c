"""What the loop warns of is shown, in its words, once; handlers of errors are called as often."""

import operator
import pickle
import threading
import warnings

import numpy as np
import pytest

import xpapply
from xpapply import errors
from xpapply.batching import Batched, syntax
from xpapply.runtime import error_state

RNG = np.random.default_rng(0)


def shown(apply, f, arr, action="default"):
    """The result, and what is shown of each warning: text, file and line."""
    f.__globals__.pop("__warningregistry__", None)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter(action)
        result = apply(f, -1, arr)
    return result, [(str(w.message), w.category, w.filename, w.lineno) for w in caught]


def floats():
    x = RNG.normal(size=(300, 8))
    x[100], x[200], x[150, 3] = np.inf, 0.0, np.nan
    return x


def errors_of_its_own(v):
    with np.errstate(divide="ignore"):
        return v[1] / v[0] * 0 + 1 / v[2]


def only_invalid(v):
    with np.errstate(all="ignore", invalid="warn"):
        return 1 / v[2] + (v[0] - v[1])


def silent(v):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return v[0] - v[1]


FUNCTIONS = {
    "scalar divide": (lambda v: v[0] / v[1], floats),
    "scalar subtract": (lambda v: v[0] - v[1], floats),
    "divide": (lambda v: 1 / v, floats),
    "ufunc of scalars": (lambda v: np.subtract(v[0], v[1]), floats),
    "log": (lambda v: np.log(v), floats),
    "std": (lambda v: v.std(), floats),
    "ptp": (lambda v: np.ptp(v), floats),
    "inner": (lambda v: np.inner(v[:3], [0.0, 1.0, 0.0]), floats),
    "dot": (lambda v: v.dot(v * 0), floats),
    "branch": (lambda v: v[0] / v[1] if v[2] > 0 or v[0] == 0 else v[3], floats),
    "errstate in f": (errors_of_its_own, floats),
    "warn in f": (only_invalid, floats),
    "filter in f": (silent, floats),
    "cast": (lambda v: v.astype(np.int32), floats),
    "unsigned": (lambda v: v[1] - v[0], lambda: RNG.integers(0, 255, (300, 4)).astype("u1")),
    "negative": (lambda v: -v[0], lambda: np.full((300, 2), -128, "i1")),
    "sum of two": (lambda v: v[0] + v[1], lambda: np.full((300, 2), 2**62)),
    "first": (lambda v: v[0] * v[1], lambda: np.r_[[[2**40] * 2], np.ones((299, 2), int)]),
    "last": (lambda v: v[0] * v[1], lambda: np.r_[np.ones((299, 2), int), [[2**40] * 2]]),
    "floor_divide": (lambda v: v[0] // v[1], lambda: RNG.integers(0, 2, (300, 2))),
    "none": (lambda v: v[0] + v[1], lambda: np.ones((300, 2), "u1")),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_warnings_are_those_of_the_loop(name):
    f, data = FUNCTIONS[name]
    arr = data()
    wanted, of_loop = shown(np.apply_along_axis, f, arr)
    with xpapply.options(engine="numpy", fallback="raise"):
        for _ in range(2):  # while it is traced, and afterwards
            found, caught = shown(xpapply.apply_along_axis, f, arr)
            np.testing.assert_array_equal(found, wanted)
            assert sorted(set(caught)) == sorted(of_loop) == sorted(set(of_loop))
    _, again = shown(xpapply.apply_along_axis, f, arr)
    assert sorted(again) == sorted(of_loop)


def test_a_first_call_shows_them_once():
    f = eval("lambda v: np.sqrt(v[0]) - v[1] / v[2]", {"np": np})
    arr = np.tile(floats(), (20, 1))
    _, of_loop = shown(np.apply_along_axis, f, arr)
    assert shown(xpapply.apply_along_axis, f, arr)[1] == of_loop


def same_as_errors(f, arr):
    """Where warnings are errors, both raise the same."""
    said = []
    for apply in (np.apply_along_axis, xpapply.apply_along_axis):
        with pytest.raises(RuntimeWarning) as raised:
            shown(apply, f, arr, "error")
        said.append(str(raised.value))
    assert said[0] == said[1]


def test_warnings_as_errors_are_raised_as_in_the_loop():
    for name in ("scalar divide", "unsigned"):
        f, data = FUNCTIONS[name]
        arr = data()
        same_as_errors(f, arr)


@pytest.mark.parametrize("how", ["call", "log"])
def test_a_handler_of_errors_is_called_once_per_slice(how):
    class Handler(list):
        def write(self, text):
            self.append(text)

        def __call__(self, *found):
            self.append(found)

    arr = np.zeros((500, 4))
    f = lambda v: 1 / v[0]  # noqa: E731
    warmed = lambda v: 1 / v[0]  # noqa: E731
    with np.errstate(all="ignore"):
        xpapply.apply_along_axis(warmed, -1, np.zeros((5000, 4)))
    for g in (f, warmed, warmed):
        seen = []
        for apply in (np.apply_along_axis, xpapply.apply_along_axis):
            handler = Handler()
            with np.errstate(all=how, call=handler), xpapply.options(fallback="silent"):
                apply(g, -1, arr)
            seen.append(list(handler))
        assert len(seen[0]) == 500
        assert seen[0] == seen[1]
    with np.errstate(all="ignore"):  # not for good
        assert xpapply.explain(warmed, -1, arr).vectorized
    with np.errstate(all=how, call=Handler()):
        assert how in xpapply.explain(warmed, -1, np.zeros((500, 5))).reasons[0]


def test_integers_that_overflow_do_not_part_slices():
    arr = RNG.integers(0, 255, (3000, 4)).astype("u1")

    def f(v):
        return v[1] - v[0]

    with warnings.catch_warnings(), xpapply.options(fallback="raise"):
        warnings.simplefilter("ignore")
        for first in ([5, 3, 0, 0], [3, 5, 0, 0]):
            arr[0] = first
            found = xpapply.apply_along_axis(f, -1, arr)
            np.testing.assert_array_equal(found, arr[:, 1] - arr[:, 0])
            plan = xpapply.explain(f, -1, arr)
            assert plan.engine == "numpy"
            assert "grouped" not in plan.kernels[0]


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "i4", "u4", "i8", "u8"])
@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "negative", "absolute"])
def test_overflow_of_integers_is_seen_exactly(dtype, name):
    info = np.iinfo(dtype)
    if info.bits == 8:
        numbers = np.arange(info.min, info.max + 1)
    else:
        ends = [info.min, info.max, info.max // 2, int(info.max**0.5), 0, 3, info.min // 2]
        numbers = {min(max(x + d, info.min), info.max) for x in ends for d in range(-2, 3)}
        numbers = np.array(sorted(numbers), dtype)
    python = {"negative": operator.neg, "absolute": abs}.get(name)
    if python is not None:
        operands = [numbers.astype(dtype)]
    else:
        python = {"add": operator.add, "subtract": operator.sub, "multiply": operator.mul}[name]
        operands = [x.ravel().astype(dtype) for x in np.meshgrid(numbers, numbers)]
    exact = [python(*map(int, row)) for row in zip(*operands, strict=True)]
    wanted = np.array([not info.min <= x <= info.max for x in exact])
    for k in {*np.flatnonzero(wanted)[:50], *np.flatnonzero(~wanted)[:50]}:
        seen = []
        with np.errstate(over="call", call=lambda *kind, seen=seen: seen.append(kind)):
            given = [Batched(x[k : k + 1]) for x in operands]
            syntax.INTEGERS.rule(np, None, (name, given, np.dtype(dtype)), {})
        assert bool(seen) == wanted[k], exact[k]
    with np.errstate(all="ignore"):
        found = getattr(np, name)(*operands)
    np.testing.assert_array_equal(syntax._OVERFLOWS[name](found, *operands), wanted)


def test_one_slice_with_an_error_is_found():
    x = np.arange(1.0, 101.0)
    y = x.copy()
    inverse = lambda part: 1 / y[part]  # noqa: E731
    noted = set()
    with error_state.noting(noted.add, error_state.IGNORED | {"divide": "call"}):
        1 / np.zeros(3)
        y[3] = 0
        inverse(np.arange(100))
    y[3] = x[3]
    elsewhere, place = sorted(noted, key=lambda found: found[1] is inverse.__code__)
    assert place[0] == elsewhere[0] == "divide by zero"
    for k in (0, 1, 50, 98, 99):
        y[:] = x
        y[k] = 0
        assert error_state.first_with(place, inverse, 100) == k
        assert error_state.first_with(elsewhere, inverse, 100) is None
    y[:] = x
    assert error_state.first_with(place, inverse, 100) is None
    assert error_state.first_with(("overflow", *place[1:]), inverse, 100) is None


# --- warnings of library code ---------------------------------------------------------------------


def with_ends():
    x = floats()
    x[100], x[50] = 1.0, np.nan
    return x


K = np.arange(8.0)
LIBRARY = {
    "nanmean": lambda v: np.nanmean(v),
    "nanmax": lambda v: np.nanmax(v),
    "nanmedian": lambda v: np.nanmedian(v),
    "mean of a mask": lambda v: v[v > 0.9].mean(),
    "cov": lambda v: np.cov(v[:1]),
    "two texts": lambda v: np.corrcoef(v, K)[0, 1],
}


def scipys():
    stats = pytest.importorskip("scipy.stats")
    signal = pytest.importorskip("scipy.signal")
    return {
        "pearsonr": lambda v: stats.pearsonr(v, K)[0],
        "spearmanr": lambda v: stats.spearmanr(v, K)[0],
        "skew": lambda v: stats.skew(v),
        "kurtosis": lambda v: stats.kurtosis(v),
        "zscore": lambda v: stats.zscore(v),
        "gmean": lambda v: stats.gmean(v),
        "welch": lambda v: signal.welch(v)[1],
        "medfilt": lambda v: signal.medfilt(v, 11),
        "wiener": lambda v: signal.wiener(v, 3),
    }


SCIPYS = "pearsonr spearmanr skew kurtosis zscore gmean welch medfilt wiener".split()


def of_library(name):
    return LIBRARY.get(name) or scipys()[name]


QUANTILES = {
    "percentile": lambda v: np.percentile(v, 40),
    "quantile": lambda v: np.quantile(v, 0.3, keepdims=True),
    "nanpercentile": lambda v: np.nanpercentile(v, 40, method="hazen"),
    "several": lambda v: np.percentile(v, [40, 60]),
}


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint8"])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("name", QUANTILES)
def test_quantiles_of_integers_that_wrap(name, share, dtype):
    """NumPy warns of one number that is between two, and not of several."""
    ends, rng = np.iinfo(dtype), np.random.default_rng(0)
    many = int(200 * share)
    arr = rng.integers(0, 50, (200, 9)).astype(dtype)
    arr[0], arr[1] = ends.min, ends.max
    arr[200 - many :] = rng.choice(np.array([ends.min, ends.max], dtype), (many, 9))
    wanted, of_loop = shown(np.apply_along_axis, QUANTILES[name], arr)
    for engine in ("numpy", ""):
        with xpapply.options(engine=engine, fallback="silent"):
            for _ in range(3):
                found, caught = shown(xpapply.apply_along_axis, QUANTILES[name], arr)
                np.testing.assert_allclose(found, wanted, rtol=1e-12)
                assert sorted(set(caught)) == sorted(of_loop)
    if dtype.startswith("int"):
        assert bool(of_loop) == (share > 0 and name != "several")


@pytest.mark.parametrize("name", [*LIBRARY, *SCIPYS])
def test_warnings_of_libraries_are_those_of_the_loop(name):
    f, arr = of_library(name), with_ends()
    wanted, of_loop = shown(np.apply_along_axis, f, arr)
    with xpapply.options(engine="numpy", fallback="raise"):
        for _ in range(2):
            found, caught = shown(xpapply.apply_along_axis, f, arr)
            np.testing.assert_allclose(found, wanted, rtol=1e-12)
            assert sorted(set(caught)) == sorted(of_loop)
    assert of_loop or name == "gmean"


@pytest.mark.parametrize("block_bytes", [0, 1 << 12])
def test_a_warning_of_one_slice_in_the_last_block(block_bytes):
    f, arr = (lambda v: np.nanmax(v) + np.cov(v[:4])), RNG.normal(size=(5000, 8))
    with xpapply.options(block_bytes=block_bytes, engine="numpy"):
        assert shown(xpapply.apply_along_axis, f, arr)[1] == []
        arr[-1] = np.nan
        _, of_loop = shown(np.apply_along_axis, f, arr)
        assert shown(xpapply.apply_along_axis, f, arr)[1] == of_loop != []


@pytest.mark.parametrize("name", ["nanmax", "pearsonr"])
def test_filters_of_the_user_hold(name):
    f, arr = of_library(name), with_ends()
    with xpapply.options(engine="numpy"):
        for _ in range(2):
            assert shown(xpapply.apply_along_axis, f, arr, "ignore")[1] == []
            same_as_errors(f, arr)
    before = list(warnings.filters)
    shown(xpapply.apply_along_axis, f, arr)
    assert warnings.filters == before


def test_ignored_warnings_cost_no_further_calls(monkeypatch):
    calls = []
    f, arr = LIBRARY["nanmax"], with_ends()
    with xpapply.options(engine="numpy"):
        shown(xpapply.apply_along_axis, f, arr)
        monkeypatch.setattr(error_state, "first_with", lambda *given: calls.append(given))
        assert shown(xpapply.apply_along_axis, f, arr, "ignore")[1] == []
        assert calls == []
        shown(xpapply.apply_along_axis, f, arr)
        assert calls


def test_warnings_of_other_threads_are_shown():
    """The filter for what is noted is there for all threads, and matches in one."""
    found = []

    def elsewhere():
        warnings.warn("from another thread", UserWarning, stacklevel=1)

    def run(part):
        warnings.warn(f"noted {len(part)}", UserWarning, stacklevel=1)
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with error_state.noting(found.append, error_state.IGNORED):
            run(range(300))
            errors.warn("one of ours")
        run(range(2))
    assert [place[0] for place in found] == ["noted 0"]
    said = [str(w.message) for w in caught]
    assert said == ["from another thread", "one of ours", "noted 2", "from another thread"]


def test_filters_that_are_made_anew_from_ours():
    """As scikit-learn does for its workers: by the pattern, which is sent to other processes."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with error_state.noting(set().add, error_state.IGNORED):
            (action, message, category, module, line), *_ = pickle.loads(
                pickle.dumps(warnings.filters)
            )
            assert (module, line) == (None, 0)
        warnings.filterwarnings(action, message.pattern, category)
        warnings.warn("shown", UserWarning, stacklevel=1)
    assert [str(w.message) for w in caught] == ["shown"]


def test_products_of_few_rows():
    """A product of matrices, of which one has a single row, may be silent."""
    m = np.array([[10.25, -5.5, 2.75], [-5.5, 6.0, -1.5], [2.75, -1.5, 5.0625]])
    x = np.array([[0, 0, 0], [1, -1, np.inf], [0, np.inf, np.inf]] * 2, "f4")[:5]
    f = lambda v: np.sqrt(v @ m @ v)  # noqa: E731
    with xpapply.options(engine="numpy"):
        for arr in (x, x[:3], x[::-1]):
            _, of_loop = shown(np.apply_along_axis, f, arr)
            for _ in range(2):
                assert shown(xpapply.apply_along_axis, f, arr)[1] == of_loop
