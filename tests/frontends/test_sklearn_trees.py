"""Trees, forests and boosting of scikit-learn: equal to the last bit, where no function follows."""

import pickle
import re
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xpapply
import xpapply.arrays
from xpapply.limits import LIMITS

pytest.importorskip("sklearn")
pytest.importorskip("llvmlite")  # without it they run in batches, see test_sklearn.py
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
    ExtraTreeRegressor,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 5))
Y = X[:, 0] * 2 + X[:, 1] * X[:, 2]
THREE = np.digitize(Y, [-0.5, 0.5])
TWO = np.array(["no", "yes"])[(Y > 0).astype(int)]
BOTH = np.stack([THREE, THREE[::-1]], 1)
UNLIKE = np.stack([THREE, THREE > 0], 1)
_FEW = {"n_estimators": 7, "random_state": 0}
_ONE = {"random_state": 0, "max_depth": 6}

CASES = {
    "tree": (DecisionTreeClassifier(**_ONE), THREE),
    "tree of two": (DecisionTreeClassifier(**_ONE), TWO),
    "tree of two outputs": (DecisionTreeClassifier(**_ONE), BOTH),
    "tree of unlike outputs": (DecisionTreeClassifier(**_ONE), UNLIKE),
    "regression": (DecisionTreeRegressor(**_ONE), Y),
    "regression of three outputs": (DecisionTreeRegressor(**_ONE), X[:, :3] ** 2),
    "extra tree": (ExtraTreeClassifier(**_ONE), THREE),
    "extra regression": (ExtraTreeRegressor(**_ONE), Y),
    "leaf": (DecisionTreeRegressor(max_depth=1, min_samples_leaf=200), Y),
    "forest": (RandomForestClassifier(**_FEW), THREE),
    "forest of two": (RandomForestClassifier(max_depth=3, **_FEW), TWO),
    "forest of two outputs": (RandomForestClassifier(**_FEW), BOTH),
    "forest regression": (RandomForestRegressor(**_FEW), Y),
    "forest regression of outputs": (RandomForestRegressor(**_FEW), X[:, :3] ** 2),
    "extra trees": (ExtraTreesClassifier(**_FEW), THREE),
    "extra trees' regression": (ExtraTreesRegressor(**_FEW), Y),
    "boosting": (GradientBoostingClassifier(**_FEW), THREE),
    "boosting of two": (GradientBoostingClassifier(**_FEW), TWO),
    "exponential": (GradientBoostingClassifier(loss="exponential", **_FEW), TWO),
    "boosting from zero": (GradientBoostingRegressor(init="zero", **_FEW), Y),
    "boosted regression": (GradientBoostingRegressor(loss="huber", **_FEW), Y),
    "histograms": (HistGradientBoostingClassifier(max_iter=7), THREE),
    "histograms of two": (HistGradientBoostingClassifier(max_iter=7), TWO),
    "histograms' regression": (HistGradientBoostingRegressor(max_iter=7), Y),
    "histograms' poisson": (HistGradientBoostingRegressor(loss="poisson", max_iter=7), np.abs(Y)),
    "isolation": (IsolationForest(max_features=0.6, **_FEW), None),
    "isolation of few": (IsolationForest(max_samples=2, **_FEW), None),
    "pipeline": (make_pipeline(StandardScaler(), RandomForestClassifier(**_FEW)), THREE),
    "pipeline of numbers": (make_pipeline(StandardScaler(), ExtraTreesRegressor(**_FEW)), Y),
}
METHODS = "predict predict_proba predict_log_proba decision_function score_samples apply".split()
IN_THE_LOOP = {("tree of unlike outputs", "predict_proba")}
IN_THE_LOOP |= {("tree of unlike outputs", "predict_log_proba")}
"""What gives several results of unlike shapes."""


pytestmark = pytest.mark.usefixtures("quiet")


@pytest.fixture(scope="module")
def fitted():
    known = {}

    def find(name):
        if name not in known:
            one, wanted = CASES[name]
            known[name] = one.fit(X) if wanted is None else one.fit(X, wanted)
        return known[name]

    return find


def methods(name, one):
    for method in METHODS:
        if method == "apply" and (name.startswith("pipeline") or not hasattr(one, "tree_")):
            continue
        if hasattr(one, method) and (name, method) not in IN_THE_LOOP:
            yield method


def of_rows(f, arr, axis=-1):
    rows = np.moveaxis(arr, axis, -1)
    y = f(rows.reshape(-1, rows.shape[-1]))
    y = np.stack(y, 1) if isinstance(y, list) else y
    y = y.reshape((*rows.shape[:-1], *y.shape[1:]))
    axis %= arr.ndim
    core = range(rows.ndim - 1, y.ndim)
    return np.moveaxis(y, core, range(axis, axis + len(core)))


def same(got, want, rtol=1e-13):
    assert (type(got), got.shape, got.dtype) == (type(want), want.shape, want.dtype)
    if want.dtype.kind == "f":
        np.testing.assert_allclose(got, want, rtol, 1e-14)
    else:
        np.testing.assert_array_equal(got, want)


def near(one, arr):
    """Many numbers of an array made thresholds, or beside them, in float32 or float64."""
    known = []
    for part in getattr(one, "steps", [(None, one)]):
        part = part[1]
        for tree in np.ravel(getattr(part, "estimators_", [part])):
            if hasattr(tree, "tree_"):
                known.append(tree.tree_.threshold[tree.tree_.feature >= 0])
        for iteration in getattr(part, "_predictors", ()):
            known += [p.nodes["num_threshold"][p.nodes["is_leaf"] == 0] for p in iteration]
    known = np.concatenate(known) if known else np.zeros(1)
    known = known if len(known) else np.zeros(1)
    chosen = RNG.choice(known, arr.shape)
    other = np.nextafter(chosen.astype(np.float32), np.float32(RNG.choice([-np.inf, np.inf])))
    pick = RNG.integers(0, 4, arr.shape)
    with np.errstate(over="ignore"):
        return np.select([pick == 0, pick == 1], [chosen, other], arr).astype(arr.dtype)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int16", "bool"])
@pytest.mark.parametrize("name", CASES)
def test_they_are_what_the_methods_give(fitted, name, dtype):
    one = fitted(name)
    for method in methods(name, one):
        f = getattr(one, method)
        arr = (near(one, RNG.normal(size=(6, 5, 7))) * (3 if dtype == "int16" else 1)).astype(dtype)
        p = xpapply.explain(f, 1, arr)
        assert p.engine != "sklearn.batch", p.reasons
        want = of_rows(f, arr, 1)
        same(xpapply.apply_along_axis(f, 1, arr), want)
        same(p(arr, 1), want)
        assert (p.out_shape, p.out_dtype) == (want.shape, want.dtype.name)


SUMS = [k for k in CASES if not k.startswith(("isolation", "pipeline", "histograms' p"))]


@pytest.mark.parametrize("name", SUMS)
def test_sums_are_equal_to_the_last_bit(fitted, name):
    """Probabilities too, but those of boosting, which are exponentials."""
    one = fitted(name)
    arr = near(one, RNG.normal(size=(400, 5)))
    for method in ("predict", "predict_proba", "decision_function"):
        f = getattr(one, method, None)
        boosted = hasattr(one, "decision_function") and method == "predict_proba"
        if f is None or boosted or (name, method) in IN_THE_LOOP:
            continue
        np.testing.assert_array_equal(xpapply.apply_along_axis(f, -1, arr), of_rows(f, arr))


@settings(max_examples=25)
@given(data=st.data())
def test_random_forests(data):
    draw = data.draw
    rng = np.random.default_rng(draw(st.integers(0, 1 << 20)))
    features, outputs = draw(st.integers(1, 6)), draw(st.integers(1, 3))
    rows = rng.normal(size=(draw(st.integers(4, 80)), features))
    rows = rows * 10.0 ** rng.integers(-42, 30, features) if draw(st.booleans()) else rows
    if draw(st.booleans()):
        rows[rng.random(rows.shape) < 0.1] = 0.0
        rows[rng.random(rows.shape) < 0.1] = -0.0
    labels = draw(
        st.sampled_from([["a", "bbb", "cc"], [3, -7, 9], [False, True], [0.0, 2.0], ["x"]])
    )
    kind = draw(
        st.sampled_from(
            [
                DecisionTreeClassifier,
                DecisionTreeRegressor,
                ExtraTreeClassifier,
                RandomForestClassifier,
                ExtraTreesRegressor,
                RandomForestRegressor,
            ]
        )
    )
    wanted = rng.normal(size=(len(rows), outputs))
    if "Class" in kind.__name__:
        wanted = np.asarray(labels)[rng.integers(0, len(labels), wanted.shape)]
    wanted = wanted[:, 0] if outputs == 1 else wanted
    one = kind(max_depth=draw(st.integers(1, 12)), random_state=0)
    if hasattr(one, "n_estimators"):
        one.set_params(n_estimators=draw(st.integers(1, 6)))
    one.fit(rows, wanted)
    arr = near(one, np.concatenate([rows, rng.normal(size=(20, features))]))
    arr = arr.astype(draw(st.sampled_from(["float64", "float32"])))
    arr = np.asarray(arr, order=draw(st.sampled_from("CF")))
    for method in ("predict", "predict_proba"):
        f = getattr(one, method, None)
        if f is None:
            continue
        found = f(arr)
        if isinstance(found, list) and len({y.shape for y in found}) > 1:
            continue
        np.testing.assert_array_equal(xpapply.apply_along_axis(f, -1, arr), of_rows(f, arr))


@pytest.mark.parametrize("name", ["forest", "tree", "boosting of two", "isolation", "histograms"])
@given(data=st.data())
@settings(max_examples=15)
def test_shapes_axes_and_memory_orders(fitted, name, data):
    one = fitted(name)
    batch = data.draw(st.lists(st.integers(1, 5), min_size=0, max_size=3))
    axis = data.draw(st.integers(0, len(batch)))
    shape = (*batch[:axis], 5, *batch[axis:])
    order = data.draw(st.permutations(range(len(shape))))
    dtype = data.draw(st.sampled_from(["float64", "float32", "int32"]))
    arr = (RNG.normal(size=[shape[a] for a in order]) * 3).astype(dtype)
    arr = arr.transpose(np.argsort(order))
    arr = arr[tuple(slice(None, None, data.draw(st.sampled_from([1, -1]))) for _ in shape)]
    for method in methods(name, one):
        f = getattr(one, method)
        got, want = xpapply.apply_along_axis(f, axis, arr), of_rows(f, arr, axis)
        assert (np.shape(got), np.asarray(got).dtype) == (want.shape, want.dtype)
        same(np.asarray(got), want)


@pytest.mark.parametrize("name", ["tree", "forest", "pipeline", "histograms", "isolation"])
def test_missing_values_go_where_the_nodes_say(fitted, name):
    """Also where none were there when it was fitted: then most samples say where."""
    arr = near(fitted(name), RNG.normal(size=(6, 5, 40)))
    arr[RNG.random(arr.shape) < 0.2] = np.nan
    rows = X.copy()
    rows[RNG.random(rows.shape) < 0.2] = np.nan
    other = pickle.loads(pickle.dumps(fitted(name)))
    other.fit(rows, THREE) if name != "isolation" else other.fit(rows)
    for one in (fitted(name), other):
        for method in methods(name, one):
            f = getattr(one, method)
            for x in (arr, arr.astype("float32")):
                same(xpapply.apply_along_axis(f, 1, x), of_rows(f, x, 1))


def test_missing_values_are_not_asked_of_the_method(fitted, monkeypatch):
    one = fitted("forest")
    arr = RNG.normal(size=(40, 5))
    arr[::3, 1] = np.nan
    want = one.predict_proba(arr)
    f = one.predict_proba
    xpapply.explain(f, -1, arr)
    plan = xpapply.compile(f, (5,), "float64")
    np.testing.assert_array_equal(plan(arr, -1), want)


_REFUSED = ["tree", "forest", "boosting", "regression", "pipeline", "pipeline of numbers"]


@pytest.mark.parametrize("bad", [np.inf, -np.inf, 1e300, -1e300, 3.5e38, np.nan])
@pytest.mark.parametrize("name", _REFUSED)
def test_numbers_that_are_refused(fitted, name, bad):
    one = fitted(name)
    arr = RNG.normal(size=(6, 5, 7))
    xpapply.apply_along_axis(one, 1, arr)
    arr[3, 1, 4] = bad
    try:
        want = of_rows(one.predict, arr, 1)
    except ValueError as error:
        with pytest.raises(ValueError, match=re.escape(str(error))) as caught:
            xpapply.apply_along_axis(one, 1, arr)
        assert "raised at the slice arr[3, :, 4]" in caught.value.__notes__
    else:
        assert np.isnan(bad)
        same(xpapply.apply_along_axis(one, 1, arr), want)


@pytest.mark.parametrize("name", ["histograms", "isolation"])
def test_infinities_that_are_taken(fitted, name):
    one = fitted(name)
    arr = RNG.normal(size=(6, 5, 7))
    arr[3, 1, 4], arr[0, 0, 0], arr[1, 1, 1] = np.inf, -np.inf, 1e300
    for method in methods(name, one):
        f = getattr(one, method)
        same(xpapply.apply_along_axis(f, 1, arr), of_rows(f, arr, 1))


@pytest.mark.parametrize("number", [3.4e38, -3.4e38, 3.4028235e38, 1e-45, -1e-45, -0.0, 1e-320])
def test_the_ends_of_float32(number):
    rows = np.array([[number], [0.0], [-number], [1.0]] * 5)
    one = DecisionTreeRegressor().fit(rows, np.arange(20.0) % 4)
    beside = np.nextafter(rows.astype("f"), np.float32(0)).astype(float)
    arr = np.concatenate([rows, beside, -beside, rows / 2])
    np.testing.assert_array_equal(xpapply.apply_along_axis(one, -1, arr), one.predict(arr))


@pytest.mark.parametrize("name", [k for k in CASES if "unlike" not in k])
def test_compiled_plans(fitted, name):
    one = fitted(name)
    arr = RNG.normal(size=(20, 5))
    f = one.predict if np.asarray(one.predict(arr)).dtype.kind != "U" else one.predict_proba
    plan = pickle.loads(pickle.dumps(xpapply.compile(f, (5,), "float64")))
    same(plan(arr, -1), of_rows(f, arr))


@pytest.mark.parametrize("name", ["forest", "boosting", "histograms", "tree of two outputs"])
def test_plans_in_files(fitted, name, tmp_path):
    f = fitted(name).predict_proba
    xpapply.compile(f, (5,), "float64").save(tmp_path / "forest.xpapply")
    arr = RNG.normal(size=(20, 5))
    same(
        xpapply.apply_along_axis(xpapply.load_model(tmp_path / "forest.xpapply"), -1, arr),
        of_rows(f, arr),
    )


def test_compiled_plans_run_without_scikit_learn(fitted, tmp_path):
    plan = xpapply.compile(fitted("forest").predict_proba, (5,), "float64")
    arr = RNG.normal(size=(20, 5))
    (tmp_path / "plan").write_bytes(pickle.dumps((plan, arr)))
    script = (
        "import pickle, sys; import numpy as np; sys.modules['sklearn'] = None\n"
        f"plan, arr = pickle.loads(open({str(tmp_path / 'plan')!r}, 'rb').read())\n"
        "print(repr(plan(arr, -1).tolist()))"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    np.testing.assert_array_equal(eval(ran.stdout), fitted("forest").predict_proba(arr))


# which have no trees: what else there is runs
@pytest.mark.no_such_case(lambda xp: xp.engine in ("numpy", "torch"))
@pytest.mark.every_case
@pytest.mark.parametrize("name", ["forest", "boosting", "pipeline of numbers", "isolation"])
def test_on_other_libraries(fitted, name, xp):
    one = fitted(name)
    arr = xp.array(RNG.normal(size=(6, 5, 7)))
    host = xpapply.arrays.on_host(arr)
    for method in methods(name, one):
        f = getattr(one, method)
        with xp():
            got = xpapply.apply_along_axis(f, 1, arr)
        assert type(got) is type(arr)
        want = of_rows(f, host, 1)
        got = xpapply.arrays.on_host(got).astype(want.dtype)
        if xp.name == "jax":  # which has float32 alone
            np.testing.assert_allclose(got, want, 1e-4, 1e-6)
        else:
            same(got, want)


def test_explain_says_what_runs(fitted):
    p = xpapply.explain(fitted("forest").predict_proba, -1, np.zeros((100_000, 5)))
    assert p.engine == "cpu"
    assert p.kernels[0].startswith("one kernel for all trees")
    assert "trees %" in str(p.graph)
    assert "thread" in p.kernels[0]


def test_without_kernels_the_method_runs_in_batches(fitted, without_llvmlite):
    one = fitted("forest")
    arr = RNG.normal(size=(20, 5))
    p = xpapply.explain(one, -1, arr)
    assert p.engine == "sklearn.batch"
    assert "takes less time on a CPU" in "; ".join(p.reasons)
    same(xpapply.apply_along_axis(one, -1, arr), one.predict(arr))
    with xpapply.options(engine="array_api"):
        same(xpapply.apply_along_axis(one, -1, arr), one.predict(arr))


def test_large_forests_run_in_batches(fitted, monkeypatch):

    monkeypatch.setattr(LIMITS, "forest_bytes", 1 << 10)
    one = RandomForestClassifier(**_FEW).fit(X, THREE)
    p = xpapply.explain(one, -1, X)
    assert p.engine == "sklearn.batch"
    assert "nodes" in p.reasons[0]
    same(xpapply.apply_along_axis(one, -1, X), one.predict(X))


def test_what_has_no_formula():
    categories = np.stack([RNG.integers(0, 4, 300), X[:, 0]], 1).astype(float)
    one = HistGradientBoostingRegressor(categorical_features=[0], max_iter=5).fit(categories, Y)
    p = xpapply.explain(one, -1, categories)
    assert p.engine == "sklearn.batch"
    assert "categories" in p.reasons[0]
    same(xpapply.apply_along_axis(one, -1, categories), one.predict(categories))
    begun = GradientBoostingRegressor(init=LinearRegression(), **_FEW).fit(X, Y)
    p = xpapply.explain(begun, -1, X)
    assert p.engine == "sklearn.batch"
    assert "begins with what LinearRegression predicts" in p.reasons[0]
    same(xpapply.apply_along_axis(begun, -1, X), begun.predict(X))


def test_fitted_again_and_grown():
    for one in (RandomForestRegressor(**_FEW), GradientBoostingRegressor(**_FEW)):
        one.set_params(warm_start=True)
        for wanted, count in ((Y, 4), (Y, 8), (Y, 9)):
            one.set_params(n_estimators=count).fit(X, wanted)
            np.testing.assert_array_equal(xpapply.apply_along_axis(one, -1, X), one.predict(X))
    tree = DecisionTreeClassifier(**_ONE)
    for wanted in (THREE, TWO):
        tree.fit(X, wanted)
        np.testing.assert_array_equal(xpapply.apply_along_axis(tree, -1, X), tree.predict(X))


def test_inside_functions(fitted, plan_always):
    model = fitted("forest")

    def f(v):
        return model.predict_proba(v[None])[0].max()

    arr = RNG.normal(size=(30, 5, 20))
    p = xpapply.explain(f, 1, arr)
    assert any("formula" in kernel for kernel in p.kernels), (p.kernels, p.reasons)
    want = model.predict_proba(np.moveaxis(arr, 1, -1).reshape(-1, 5)).max(1).reshape(30, 20)
    np.testing.assert_array_equal(xpapply.apply_along_axis(f, 1, arr), want)
