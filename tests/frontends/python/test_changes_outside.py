"""What may change under a function without a name of its own changing: each call sees it."""

import abc
import array
import functools
import mmap
import sys
import types
import warnings

import numpy as np
import pytest

import xpapply

X = np.random.default_rng(0).random((1200, 6))


def follows(f, *changes):
    with xpapply.options(fallback="silent"):
        for change in (lambda: None, *changes):
            change()
            np.testing.assert_allclose(
                xpapply.apply_along_axis(f, -1, X), np.apply_along_axis(f, -1, X), rtol=1e-12
            )


def test_rows_of_tables():
    table = np.array([(1.0, 2.0), (3.0, 4.0)], [("gain", "f8"), ("k", "f8")])
    row, rows = table[1], [np.rec.array(table)[0]]
    follows(
        lambda v: np.median(v) * row["gain"] + rows[0].k,
        lambda: table["gain"].__setitem__(1, 5.0),
        lambda: row.__setitem__("gain", 7.0),
        lambda: setattr(rows[0], "k", 9.0),
    )


@pytest.mark.parametrize("kind", ["bytearray", "array", "mmap", "memoryview"])
def test_memory(kind):
    raw = np.ones(6).tobytes()
    made = {
        "bytearray": lambda: bytearray(raw),
        "array": lambda: array.array("d", raw),
        "mmap": lambda: mmap.mmap(-1, 48),
        "memoryview": lambda: memoryview(np.ones(6)),
    }[kind]()
    follows(
        lambda v: np.median(v * np.frombuffer(made)),
        lambda: np.frombuffer(made).__setitem__(slice(6), 3.0),
        lambda: np.frombuffer(made).__setitem__(2, 30.0),
    )


def test_modules_whose_class_makes_attributes():
    gain = [1.0]

    class Module(types.ModuleType):
        @property
        def gain(self):
            return gain[0]

    class Lazy(types.ModuleType):
        def __getattr__(self, name):
            return gain[0]

    class Whole(types.ModuleType):
        def __getattribute__(self, name):
            return gain[0]  # its name is a number too

    for module in (Module("one"), Lazy("two"), Whole("three")):
        follows(lambda v: np.median(v) * module.gain, lambda: gain.__setitem__(0, gain[0] + 1))  # noqa: B023


@pytest.mark.parametrize("kind", ["module", "partial", "cached", "dispatched", "impure"])
def test_attributes_that_come_later(kind):
    def helper(n):
        return n * 2.0

    def impure(n):
        X[0] = n

    holder = {
        "module": types.ModuleType("config"),
        "partial": functools.partial(max, 1),
        "cached": functools.lru_cache(helper),
        "dispatched": functools.singledispatch(helper),
        "impure": impure,
    }[kind]
    put, take = lambda: setattr(holder, "scale", 3.0), lambda: delattr(holder, "scale")
    follows(lambda v: np.median(v) * getattr(holder, "scale", 1.0), put, take)
    follows(lambda v: np.median(v) * (3 if hasattr(holder, "scale") else 1), put, take)


def test_classes_of_classes_and_names():
    limit = [1]

    class Kind(abc.ABC):  # noqa: B024
        pass

    class Meta(type):
        def __instancecheck__(cls, x):
            return limit[0] > 1

    class Strange(metaclass=Meta):
        pass

    class Own:
        pass

    own = Own()
    follows(lambda v: v.max() if isinstance(own, Kind) else v.std(), lambda: Kind.register(Own))
    follows(lambda v: v.max() if isinstance(own, Strange) else 0, lambda: limit.__setitem__(0, 2))
    follows(
        lambda v: v.max() if type(own).__name__ == "Own" else v.std(),
        lambda: setattr(Own, "__name__", "Other"),
    )


def test_modules_that_are_replaced(monkeypatch):
    one, two = types.ModuleType("settings_x"), types.ModuleType("settings_x")
    one.k, two.k = 1.0, 5.0

    def f(v):
        import settings_x

        return np.median(v) * settings_x.k

    monkeypatch.setitem(sys.modules, "settings_x", one)
    follows(f, lambda: sys.modules.__setitem__("settings_x", two))


def test_options_of_texts():
    third, was = np.ones(2) / 3, np.get_printoptions()
    try:
        for f in (
            lambda v: np.median(v) * len(str(third)),
            lambda v: np.median(v) * len(np.array2string(third)),
            lambda v: np.median(v) * np.get_printoptions()["precision"],
        ):
            follows(f, lambda: np.set_printoptions(3), lambda: np.set_printoptions(8))
    finally:
        np.set_printoptions(**was)


def test_settings_of_torch():
    torch = pytest.importorskip("torch")

    def with_float64():
        torch.set_default_dtype(torch.float64)

    try:
        for f in (
            lambda v: (torch.tensor([0.1, 0.2]) * torch.from_numpy(v[:2])).sum().numpy(),
            lambda v: v.max() * (2 if torch.get_default_dtype() == torch.float32 else 3),
        ):
            follows(f, with_float64, lambda: torch.set_default_dtype(torch.float32))
        grad = lambda v: v.max() * (2 if torch.is_grad_enabled() else 3)  # noqa: E731
        follows(grad, lambda: torch.set_grad_enabled(False), lambda: torch.set_grad_enabled(True))
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_grad_enabled(True)


def test_large_weights_of_torch():
    torch = pytest.importorskip("torch")
    nn = torch.nn
    net = nn.Sequential(nn.Linear(6, 800), nn.ReLU(), nn.Linear(800, 800), nn.Linear(800, 2)).eval()
    x = X[:64].astype(np.float32)
    view = net[2].weight.detach().numpy()

    def want():
        with torch.no_grad():
            return net(torch.from_numpy(x)).numpy()

    for change in (
        lambda: None,
        lambda: net[2].weight.data[300].fill_(0.5),
        lambda: view.__setitem__((77, 5), 100.0),
    ):
        change()
        np.testing.assert_allclose(xpapply.apply_along_axis(net, -1, x), want(), atol=1e-3)


def test_trees_that_are_written_to():
    ensemble = pytest.importorskip("sklearn.ensemble")
    tree = pytest.importorskip("sklearn.tree")
    for model in (
        ensemble.RandomForestRegressor(4, random_state=0),
        ensemble.GradientBoostingRegressor(n_estimators=4, random_state=0),
        tree.DecisionTreeRegressor(random_state=0),
    ):
        model.fit(X[:200], X[:200, 0])
        for k in range(3):
            np.testing.assert_allclose(
                xpapply.apply_along_axis(model, -1, X[:60]), model.predict(X[:60])
            )
            one = np.ravel(getattr(model, "estimators_", model))[k % 2 - 1]
            one.tree_.value[...] *= 5


def test_what_constants_warn_of():
    def f(v):
        return np.median(v) + np.sqrt(-3.0) * 0

    def g(v):
        return np.median(v) + np.sqrt(np.full(2, -3.0)).max() * 0

    for f in (f, g):  # noqa: B020
        for _ in range(2):
            with warnings.catch_warnings(record=True) as seen, xpapply.options(fallback="silent"):
                warnings.simplefilter("always")
                xpapply.apply_along_axis(f, -1, X)
            assert seen
        with (
            xpapply.options(fallback="silent"),
            np.errstate(all="raise"),
            pytest.raises(FloatingPointError),
        ):
            xpapply.apply_along_axis(f, -1, X)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_what_special_functions_of_constants_raise():
    special = pytest.importorskip("scipy.special")

    def f(v):
        return np.median(v) + 0 * special.gammaln(-1.0)

    with xpapply.options(fallback="silent"):
        xpapply.apply_along_axis(f, -1, X)
        with special.errstate(all="raise"), pytest.raises(special.SpecialFunctionError):
            xpapply.apply_along_axis(f, -1, X)


# --- relatives that were tried later --------------------------------------------------------------


@pytest.mark.parametrize("basis", ["Polynomial", "Chebyshev", "Legendre", "HermiteE"])
def test_polynomials_in_place(basis):
    p = getattr(np.polynomial, basis)([1.0, 2.0], domain=[-2.0, 1.0])
    follows(
        lambda v: np.median(v) * p(2.0),
        lambda: p.coef.__setitem__(0, 5.0),
        lambda: setattr(p, "coef", np.array([3.0, 0.5])),
        lambda: p.domain.__setitem__(0, -3.0),
    )


def test_callable_objects_of_scipy():
    stats, interpolate = (
        pytest.importorskip("scipy.stats"),
        pytest.importorskip("scipy.interpolate"),
    )
    density = stats.gaussian_kde(X[0])
    follows(lambda v: np.median(v) * density(0.5)[0], lambda: density.set_bandwidth(0.1))
    spline = interpolate.CubicSpline([0.0, 1.0, 2.0], [0.0, 1.0, 5.0])
    for f in (lambda v: np.median(v) * float(spline(0.5)), lambda v: spline(v).sum()):
        follows(f, lambda: spline.c.__setitem__((0, 0), 9.0), lambda: spline.c.__imul__(0.5))


def test_hashes_that_code_of_the_user_makes():
    class Key:
        k = 1

        def __hash__(self):
            return int(Key.k)

        def __getattr__(self, name):
            raise AttributeError(name)

    key = Key()
    follows(lambda v: np.median(v) * hash(key), lambda: setattr(Key, "k", 3))
    table = {key: 2.0}
    follows(lambda v: np.median(v) * table.get(key, 1.0), lambda: setattr(Key, "k", 4))


def test_texts_of_tensors():
    torch = pytest.importorskip("torch")
    try:
        follows(
            lambda v: np.median(v) * len(str(torch.ones(2) / 3)),
            lambda: torch.set_printoptions(precision=2),
            lambda: torch.set_printoptions(sci_mode=True),
        )
    finally:
        torch.set_printoptions(profile="default")


# --- what constants alone give, which warns in each call ------------------------------------------

ONE, NONE = np.float64(1.0), np.float64(0.0)
CONSTANT = {
    "a quotient": lambda v: np.median(v) + (ONE / NONE > 0),
    "an overflow": lambda v: np.median(v) + (np.float64(1e308) * 10 > 0),
    "of integers": lambda v: np.median(v) + (np.int8(100) + np.int8(100)),
    "in place": lambda v: np.median(v) + (np.ones(2) / np.zeros(2))[0].clip(0, 1),
    "a library's warning": lambda v: np.median(v) + np.isnan(np.nanmean([np.nan])),
    "a fit": lambda v: np.median(v) + len(np.polyfit([1.0, 1.0], [1.0, 1.0], 1)),
    "a conversion": lambda v: np.median(v) + np.array([1j]).astype(float)[0],
    "a helper's": lambda v: np.median(v) + quotient(ONE),
}


def quotient(a):
    return (a / NONE).clip(0.0, 3.0)


@pytest.mark.parametrize("name", CONSTANT)
def test_constants_that_warn(name):
    f = CONSTANT[name]

    def told(apply, how):
        with np.errstate(all=how), warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            try:
                apply(f, -1, X)
            except FloatingPointError as error:
                return str(error)
        return {
            str(w.message) for w in found if not issubclass(w.category, xpapply.FallbackWarning)
        }

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        xpapply.apply_along_axis(f, -1, X)
    for how in "warn", "warn", "raise", "ignore":
        assert told(xpapply.apply_along_axis, how) == told(np.apply_along_axis, how), how


def test_what_libraries_compute_of_the_slice_is_no_constant():
    """Their own code divides by nothing, as `std` of one number does."""
    x = np.random.default_rng(0).random((1200, 1))
    f = lambda v: v.std(ddof=1) + np.vectorize(lambda t: np.float64(t) / 0.0)(v).max()  # noqa: E731
    for g in (lambda v: np.nan_to_num(v.std(ddof=1)) + v[0], f):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            said = "".join(xpapply.explain(g, -1, x).reasons)
            np.testing.assert_array_equal(
                xpapply.apply_along_axis(g, -1, x), np.apply_along_axis(g, -1, x)
            )
        assert "constants alone" not in said
