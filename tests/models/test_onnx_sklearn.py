"""Models that skl2onnx writes: as onnxruntime and scikit-learn compute them."""

import numpy as np
import pytest
from onnx_models import by_runtime, model, saved

import xpapply
from xpapply.ir.graph import ShapeDtype
from xpapply.models.onnx import load

skl2onnx = pytest.importorskip("skl2onnx")
from sklearn import (  # noqa: E402
    decomposition,
    ensemble,
    linear_model,
    neighbors,
    neural_network,
    pipeline,
    svm,
    tree,
)
from sklearn import preprocessing as pre  # noqa: E402

rng = np.random.default_rng(0)
X = rng.normal(size=(120, 4)).astype(np.float32)
Y = X @ np.array([1.0, -2.0, 0.5, 0.0]) + 0.1
TOL = {"rtol": 1e-5, "atol": 1e-6}
LABELS = (np.digitize(Y, [-1.0, 1.0]) * 3 + 2).astype(np.int64)  # 2, 5, 8


def written(estimator, path, **options):
    kind = skl2onnx.common.data_types.FloatTensorType([None, 4])
    made = skl2onnx.to_onnx(
        estimator,
        initial_types=[("x", kind)],
        options={id(estimator): options} if options else None,
    )
    path.write_bytes(made.SerializeToString())
    return path


GRAPHS = {
    "linear": linear_model.LinearRegression(),
    "ridge": linear_model.Ridge(),
    "two targets": linear_model.LinearRegression(),
    "mlp": neural_network.MLPRegressor(hidden_layer_sizes=(8, 8), max_iter=20, random_state=0),
    "scaled": pipeline.make_pipeline(pre.StandardScaler(), linear_model.Lasso(0.01)),
    "scaler": pre.StandardScaler(),
    "min and max": pre.MinMaxScaler(),
    "normalizer": pre.Normalizer(),
    "pca": decomposition.PCA(2),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", GRAPHS)
def test_regressors_and_transformers(tmp_path, name):
    y = np.stack([Y, Y**2], 1) if name == "two targets" else Y
    path = written(GRAPHS[name].fit(X, y), tmp_path / "model.onnx")
    f = load(path)
    plan = xpapply.explain(f, 1, X)
    assert plan.graph is not None, plan.reasons
    got = xpapply.apply_along_axis(f, 1, X)
    want = by_runtime(path, X)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    direct = getattr(GRAPHS[name], "predict", None) or GRAPHS[name].transform
    np.testing.assert_allclose(got.ravel(), np.ravel(direct(X)), rtol=1e-3, atol=1e-4)


CLASSIFIERS = {
    "logistic": linear_model.LogisticRegression(),
    "scaled": pipeline.make_pipeline(pre.StandardScaler(), linear_model.LogisticRegression()),
    "mlp": neural_network.MLPClassifier(hidden_layer_sizes=(8,), max_iter=20, random_state=0),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("zipmap", [True, False])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers(tmp_path, name, classes, zipmap):
    labels = LABELS if classes == 3 else (LABELS > 3) * 4
    estimator = CLASSIFIERS[name].fit(X, labels)
    options = {} if zipmap else {"zipmap": False}
    path = written(estimator, tmp_path / "model.onnx", **options)
    with pytest.raises(xpapply.InputError, match=r"2 outputs: .*Say which one: output="):
        load(path)
    second = "output_probability" if zipmap else "probabilities"
    f = load(path, output=second)
    assert xpapply.explain(f, 1, X).graph is not None
    got = xpapply.apply_along_axis(f, 1, X)
    np.testing.assert_allclose(got, estimator.predict_proba(X), rtol=1e-3, atol=1e-4)
    f = load(path, output="output_label" if zipmap else "label")
    plan = xpapply.explain(f, 1, X)
    assert plan.graph is not None, plan.reasons
    got = xpapply.apply_along_axis(f, 1, X)
    assert got.dtype == np.int64
    want = by_runtime(path, X, "output_label" if zipmap else "label")
    np.testing.assert_array_equal(got, want)


def test_labels_that_are_texts(tmp_path):
    estimator = linear_model.LogisticRegression().fit(X, np.array(["a", "b", "c"])[LABELS // 3])
    path = written(estimator, tmp_path / "model.onnx", zipmap=False)
    with pytest.raises(
        xpapply.InputError, match=r"'label'.*is not an array of numbers.*probabilities"
    ):
        load(path, output="label")
    f = load(path, output="probabilities")
    np.testing.assert_allclose(
        xpapply.apply_along_axis(f, 1, X), estimator.predict_proba(X), rtol=1e-3, atol=1e-4
    )


FORESTS = {
    "tree": tree.DecisionTreeRegressor(max_depth=5),
    "forest": ensemble.RandomForestRegressor(7, random_state=0),
    "boosting": ensemble.GradientBoostingRegressor(n_estimators=9, random_state=0),
    "extra": ensemble.ExtraTreesRegressor(5, max_depth=4, random_state=0),
}


@pytest.mark.parametrize("name", FORESTS)
def test_trees(tmp_path, name):
    path = written(FORESTS[name].fit(X, Y), tmp_path / "model.onnx")
    f = load(path)
    x = np.concatenate([X, X * 3, np.full((1, 4), np.inf), np.zeros((1, 4))]).astype(np.float32)
    plan = xpapply.explain(f, 1, x)
    assert plan.graph is not None, plan.reasons
    assert any(n.op == "trees" for n in plan.graph.nodes)
    np.testing.assert_allclose(xpapply.apply_along_axis(f, 1, x), by_runtime(path, x), **TOL)
    for engine in ("array_api", "onnx.batch"):
        with xpapply.options(engine=engine):
            got = xpapply.apply_along_axis(f, 1, x)
        np.testing.assert_allclose(got, by_runtime(path, x), **TOL)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", ["forest", "boosting", "tree"])
def test_trees_of_classes(tmp_path, name, classes):
    labels = LABELS if classes == 3 else (LABELS > 3) * 4
    estimator = {
        "forest": ensemble.RandomForestClassifier(7, random_state=0),
        "boosting": ensemble.GradientBoostingClassifier(n_estimators=9, random_state=0),
        "tree": tree.DecisionTreeClassifier(max_depth=4),
    }[name].fit(X, labels)
    path = written(estimator, tmp_path / "model.onnx", zipmap=False)
    x = np.concatenate([X, X * 3])
    for output in ("probabilities", "label"):
        f = load(path, output=output)
        plan = xpapply.explain(f, 1, x)
        assert plan.graph is not None, plan.reasons
        got, want = xpapply.apply_along_axis(f, 1, x), by_runtime(path, x, output)
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, **TOL)
    np.testing.assert_array_equal(got, estimator.predict(x))


def lists(**changed):
    """Two trees: a branch with two leaves, and a leaf."""
    found = {
        "nodes_treeids": [0, 0, 0, 1],
        "nodes_nodeids": [0, 1, 2, 0],
        "nodes_featureids": [1, 0, 0, 0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF", "LEAF"],
        "nodes_values": [0.5, 0.0, 0.0, 0.0],
        "nodes_truenodeids": [1, 0, 0, 0],
        "nodes_falsenodeids": [2, 0, 0, 0],
        "target_treeids": [0, 0, 1],
        "target_nodeids": [1, 2, 0],
        "target_ids": [0, 0, 0],
        "target_weights": [1.0, 2.0, 10.0],
        "n_targets": 1,
    }
    return {k: v for k, v in (found | changed).items() if v is not None}


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"nodes_modes": ["BRANCH_LT", "LEAF", "LEAF", "LEAF"]},
        {"nodes_missing_value_tracks_true": [1, 0, 0, 0]},
        {"base_values": [3.0]},
        {"aggregate_function": "AVERAGE"},
    ],
)
def test_what_trees_say(tmp_path, changed):
    nodes = [("TreeEnsembleRegressor", ["x"], ["y"], lists(**changed))]
    path = saved(model(nodes, (2,)), tmp_path)
    x = np.array([[0, 0.5], [0, 0.50001], [0, np.nan], [0, -np.inf], [9, np.inf]], np.float32)
    f = load(path)
    assert xpapply.explain(f, 1, x).graph is not None
    np.testing.assert_allclose(xpapply.apply_along_axis(f, 1, x), by_runtime(path, x), **TOL)


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"nodes_truenodeids": [0, 0, 0, 0]}, "not trees"),
        ({"nodes_truenodeids": [7, 0, 0, 0]}, "not there"),
        ({"nodes_falsenodeids": [1, 0, 0, 0]}, "not trees"),
        ({"nodes_nodeids": [0, 1, 1, 0]}, "same number"),
        ({"nodes_values": [0.5]}, "several lengths"),
        ({"nodes_values": [np.nan, 0.0, 0.0, 0.0]}, "NaN"),
        ({"nodes_featureids": [5, 0, 0, 0]}, "features outside 2"),
        ({"nodes_featureids": [-5, 0, 0, 0]}, "features outside 2"),
        ({"target_ids": [0, 0, 4]}, "weights of 1 results"),
        ({"target_nodeids": [0, 2, 0]}, "leaves that do not exist"),
        ({"aggregate_function": "MAX"}, "aggregate_function"),
        ({"post_transform": "LOGISTIC"}, "post_transform"),
        ({"nodes_modes": ["BRANCH_EQ", "LEAF", "LEAF", "LEAF"]}, "branches by BRANCH_EQ"),
        ({"n_targets": 1 << 40}, "base values"),
    ],
)
def test_trees_that_are_none(tmp_path, changed, match):
    nodes = [("TreeEnsembleRegressor", ["x"], ["y"], lists(**changed))]
    f = load(saved(model(nodes, (2,)), tmp_path))
    with pytest.raises(xpapply.UnsupportedError, match=match):
        f.lift(ShapeDtype((2,), "float32"))


def test_deep_trees(tmp_path):
    n = 2001
    inner = np.arange(n) % 2 == 0
    inner[-1] = False
    deep = {
        "nodes_treeids": [0] * n,
        "nodes_nodeids": list(range(n)),
        "nodes_featureids": [0] * n,
        "nodes_modes": ["BRANCH_LEQ" if k else "LEAF" for k in inner],
        "nodes_values": [0.0] * n,
        "nodes_truenodeids": [k + 1 if inner[k] else 0 for k in range(n)],
        "nodes_falsenodeids": [k + 2 if inner[k] else 0 for k in range(n)],
        "target_treeids": [0],
        "target_nodeids": [n - 1],
        "target_ids": [0],
        "target_weights": [1.0],
    }
    nodes = [("TreeEnsembleRegressor", ["x"], ["y"], deep)]
    f = load(saved(model(nodes, (2,)), tmp_path))
    with pytest.raises(xpapply.UnsupportedError, match="more than 500 levels"):
        f.lift(ShapeDtype((2,), "float32"))


OTHERS = {
    "svm": svm.SVR(),
    "neighbours": neighbors.KNeighborsRegressor(),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_has_no_graph_runs_through_onnxruntime(tmp_path, name):
    path = written(OTHERS[name].fit(X, Y), tmp_path / "model.onnx")
    f = load(path)
    plan = xpapply.explain(f, 0, X.T)
    assert plan.engine == "onnx.batch"
    assert plan.vectorized
    assert any("no graph" in reason and "node" in reason for reason in plan.reasons)
    np.testing.assert_allclose(xpapply.apply_along_axis(f, 0, X.T), by_runtime(path, X).T, **TOL)
    np.testing.assert_allclose(f(X[3]), by_runtime(path, X[3:4])[0], **TOL)
    big = np.tile(X, (300, 1)).reshape(50, 720, 4)
    got = xpapply.apply_along_axis(f, 2, big)
    np.testing.assert_allclose(got, by_runtime(path, big.reshape(-1, 4)).reshape(50, 720, 1), **TOL)
    import torch

    got = xpapply.apply_along_axis(f, 1, torch.from_numpy(X))
    np.testing.assert_allclose(got.numpy(), by_runtime(path, X), **TOL)
