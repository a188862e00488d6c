"""vectorize of functions that return named tuples, dicts and dataclasses: arrays in the same."""

import dataclasses
import warnings
from collections import Counter, OrderedDict, namedtuple

import numpy as np
import pytest

import xpapply
from xpapply.functions.purity import is_record

X = np.random.default_rng(0).normal(size=(40, 5, 9))
Ends = namedtuple("Ends", "low high")


@dataclasses.dataclass
class Moments:
    mean: float
    rest: np.ndarray
    unit: str = "m"


@dataclasses.dataclass(frozen=True)
class Checked:
    low: float
    high: float

    def __post_init__(self):
        if self.low > self.high:
            raise ValueError("low > high")


def ends(v):
    return Ends(v.min(), v.max())


def as_dict(v):
    return {"mean": v.mean(), "rest": v - v.mean()}


def moments(v):
    return Moments(v.mean(), v - v.mean())


def checked(v):
    return Checked(v.min(), v.max())


def nested(v):
    return {"ends": Ends(v.min(), v.max()), "n": len(v), "all": Moments(v.sum(), v * 2, None)}


def texts(v):
    return {"sign": "+" if v[0] > 0 else "minus", "nothing": None}


def leaves(x):
    """The arrays of a container, with where they are."""
    if isinstance(x, dict):
        parts = x.items()
    elif dataclasses.is_dataclass(x):
        parts = ((f.name, getattr(x, f.name)) for f in dataclasses.fields(x))
    elif isinstance(x, tuple):
        parts = zip(getattr(x, "_fields", range(len(x))), x, strict=True)
    else:
        return [((), x)]
    return [((type(x).__name__, name, *path), y) for name, p in parts for path, y in leaves(p)]


CASES = {
    ends: "(n)->(),()",
    as_dict: "(n)->(),(n)",
    moments: "(n)->(),(n),()",
    checked: "(n)->(),()",
    nested: "(n)->(),(),(),(),(n),()",
    texts: "(n)->(),()",
}


@pytest.mark.parametrize("engine", ["", "loop"])
@pytest.mark.parametrize("f", CASES, ids=lambda f: f.__name__)
def test_containers(f, engine):
    made = xpapply.vectorize(f, signature=CASES[f])
    wanted = [[dict(leaves(f(v))) for v in row] for row in X]
    for _ in range(3):
        with xpapply.options(engine=engine, fallback="silent"):
            got = dict(leaves(made(X)))
        assert got.keys() == wanted[0][0].keys()
        for name, array in got.items():
            want = [[one[name] for one in row] for row in wanted]
            text = isinstance(want[0][0], (str, type(None)))
            want = np.array(want, object if text else None)
            assert array.dtype == want.dtype
            assert array.shape == want.shape
            if text:
                assert (array == want).all()
            else:
                np.testing.assert_allclose(array, want, rtol=1e-12, atol=1e-15)


def deeper(v):
    return {"ends": Ends(v.min(), v.max()), "range": v.max() - v.min()}


@pytest.mark.parametrize("f", [ends, as_dict, deeper], ids=lambda f: f.__name__)
def test_they_run_on_all_slices_at_once(f):
    with xpapply.options(fallback="raise"):
        xpapply.vectorize(f, signature=CASES.get(f, "(n)->(),(),()"))(X)


def test_dataclasses_run_on_all_slices_at_once():
    @dataclasses.dataclass
    class Line:
        slope: float
        at: np.ndarray

    def f(v):
        made = Line(v[1] - v[0], v * 2)
        return made if made.slope > 0 else Line(0.0, v)

    with xpapply.options(fallback="raise"):
        got = xpapply.vectorize(f, signature="(n)->(),(n)")(X)
    assert isinstance(got, Line)
    np.testing.assert_allclose(got.slope, np.maximum(X[..., 1] - X[..., 0], 0))


def test_what_is_a_record():
    @dataclasses.dataclass
    class Counting:
        a: float
        made: object = dataclasses.field(default_factory=object)

    @dataclasses.dataclass
    class Derived:
        a: float

        @property
        def twice(self):
            return 2 * self.a

    assert is_record(Moments)
    assert not any(map(is_record, (Checked, Counting, Derived, Ends, int)))


def test_functions_of_numbers_with_otypes():
    def f(a, b):
        return {"sum": a + b, "product": a * b}

    got = xpapply.vectorize(f, otypes=["f4", "i8"])(np.arange(300), 2)
    assert {k: x.dtype for k, x in got.items()} == {"sum": np.float32, "product": np.int64}
    np.testing.assert_array_equal(got["sum"], np.arange(300) + 2)


def test_one_leaf():
    got = xpapply.vectorize(lambda v: {"mean": v.mean()}, signature="(n)->()")(X)
    np.testing.assert_allclose(got["mean"], X.mean(-1))


def test_other_numbers_of_results_are_an_error():
    with pytest.raises(ValueError, match="expected 3, got 2"):
        xpapply.vectorize(ends, signature="(n)->(),(),()")(X)


def test_other_kinds_for_some_slices_are_an_error():
    def f(v):
        return {"a": v[0], "b": 1.0} if v[0] == X[0, 0, 0] else {"a": v[0], "c": 1.0}

    made = xpapply.vectorize(f, signature="(n)->(),()")
    with (
        xpapply.options(fallback="silent"),
        pytest.raises(ValueError, match=r"dict\(a, c\), and dict\(a, b\)") as info,
    ):
        made(X)
    assert "index (0, 1)" in "".join(info.value.__notes__)


def test_the_order_of_keys_does_not_matter():
    def f(v):
        return {"a": v[0], "b": -v[0]} if v[0] > 0 else {"b": -v[0], "a": v[0]}

    got = xpapply.vectorize(f, signature="(n)->(),()")(X)
    np.testing.assert_array_equal(got["a"], X[..., 0])
    np.testing.assert_array_equal(got["b"], -X[..., 0])


@pytest.mark.parametrize("where", [None, X[..., 0] > 0])
def test_keywords_of_a_call(where):
    made = xpapply.vectorize(as_dict, signature="(n)->(),(n)")
    got = made(np.moveaxis(X, -1, 0), axes=[(0,), (), (0,)], where=True if where is None else where)
    assert got["rest"].shape == (9, 40, 5)
    out = np.empty((40, 5)), np.empty((40, 5, 9))
    assert made(X, out=out)[0] is out[0]
    np.testing.assert_allclose(out[1], X - X.mean(-1, keepdims=True))


def test_results_of_scipy():
    stats = pytest.importorskip("scipy.stats")
    x, y = X[0], X[1]
    fit = lambda a, b: stats.linregress(a, b)  # noqa: E731
    wanted = [stats.linregress(a, b) for a, b in zip(x, y, strict=True)]
    five = xpapply.vectorize(fit, signature="(n),(n)->(),(),(),(),()")(x, y)
    six = xpapply.vectorize(fit, signature="(n),(n)->(),(),(),(),(),()")(x, y)
    assert type(six) is type(wanted[0])
    assert type(five) is tuple  # as NumPy makes of it, which does not know the sixth
    for k, name in enumerate(("slope", "intercept", "rvalue", "pvalue", "stderr")):
        want = [getattr(w, name) for w in wanted]
        np.testing.assert_allclose(five[k], want, rtol=1e-9)
        np.testing.assert_allclose(getattr(six, name), want, rtol=1e-9)
    np.testing.assert_allclose(six.intercept_stderr, [w.intercept_stderr for w in wanted])


@pytest.mark.parametrize("f", [ends, as_dict, moments], ids=lambda f: f.__name__)
def test_apply_along_axis_makes_of_them_what_numpy_does(f):
    want = np.apply_along_axis(f, -1, X[:2, :2])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xpapply.FallbackWarning)
        for x in (X[:2, :2], X):
            got = xpapply.apply_along_axis(f, -1, x)[:2, :2]
            assert got.dtype == want.dtype
            assert got.shape == want.shape
            assert dict(leaves(got.flat[0])).keys() == dict(leaves(want.flat[0])).keys()


@pytest.mark.parametrize("name", ["ttest_1samp", "shapiro", "kstest", "wilcoxon"])
def test_named_tuples_of_scipy_are_tuples(name):
    stats = pytest.importorskip("scipy.stats")
    more = {"ttest_1samp": (0.0,), "kstest": ("norm",)}.get(name, ())
    f = lambda v: getattr(stats, name)(v, *more)  # noqa: E731
    want = np.vectorize(f, signature="(n)->(),()")(X[:2])
    got = xpapply.vectorize(f, signature="(n)->(),()")(X[:2])
    assert type(got) is tuple
    np.testing.assert_allclose(got, want, rtol=1e-9)


@dataclasses.dataclass
class Held:
    number: float


@pytest.mark.parametrize(
    "make",
    [
        lambda a: Ends(a, -a),
        lambda a: {"m": a},
        lambda a: Counter({"a": 2, "b": int(a > 3)}),
        lambda a: OrderedDict(x=a),
        lambda a: Held(a),
        lambda a: {} if a > 3 else {"b": a},
        lambda a: (a, a),
        lambda a: None,
    ],
)
@pytest.mark.parametrize("otypes", [[object], "O", [np.dtype(object)]])
@pytest.mark.parametrize("length", [1, 3, 50, 5000])
def test_an_array_of_objects_holds_containers(make, otypes, length):
    x = np.arange(float(length))
    want = np.vectorize(make, otypes=otypes)(x)
    made = xpapply.vectorize(make, otypes=otypes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xpapply.FallbackWarning)
        for got in (made(x), made(x)):
            assert type(got) is np.ndarray
            assert got.dtype == object
            assert [*map(type, got)] == [*map(type, want)]
            assert got.tolist() == want.tolist()


def test_an_array_of_objects_of_slices():
    f = lambda v: {"m": v.max(), "n": len(v)}  # noqa: E731
    want = np.vectorize(f, signature="(n)->()", otypes=[object])(X[:2])
    got = xpapply.vectorize(f, signature="(n)->()", otypes=[object])(X[:2])
    assert got.dtype == object
    assert got.tolist() == want.tolist()


def test_labels_of_an_array_of_objects():
    xr = pytest.importorskip("xarray")
    x = xr.DataArray(np.arange(50.0), dims="t")
    got = xpapply.vectorize(lambda a: {"m": a}, otypes=[object])(x)
    assert got.dims == ("t",)
    assert got.values.tolist() == [{"m": float(k)} for k in range(50)]
