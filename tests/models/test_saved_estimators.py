"""Plans of estimators in files: every one that the table of docs/sklearn.md names."""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import xpapply

pytest.importorskip("sklearn")
from sklearn.base import is_classifier, is_regressor
from sklearn.compose import TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils import all_estimators

RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 5))
Y = X[:, 0] * 2 + X[:, 1]
TWO, THREE = (Y > 0).astype(int), np.digitize(Y, [-0.8, 0.8]) * 2
METHODS = (
    "predict predict_proba predict_log_proba decision_function transform inverse_transform "
    "score_samples apply"
).split()

OF_OTHERS = {
    "Pipeline": lambda: make_pipeline(StandardScaler(), LogisticRegression()),
    "FeatureUnion": lambda: make_union(StandardScaler(), StandardScaler()),
    "TransformedTargetRegressor": lambda: TransformedTargetRegressor(
        Ridge(), func=np.log1p, inverse_func=np.expm1
    ),
    "GridSearchCV": lambda: GridSearchCV(LogisticRegression(), {"C": [0.5, 1.0]}, cv=2),
    "RandomizedSearchCV": lambda: RandomizedSearchCV(
        LogisticRegression(), {"C": [0.5, 1.0]}, n_iter=2, cv=2
    ),
    "FrozenEstimator": lambda: FrozenEstimator(LogisticRegression().fit(X, THREE)),
    "FunctionTransformer": lambda: make_pipeline(
        FunctionTransformer(np.exp, np.log), StandardScaler()
    ),
}
EVERY = dict(all_estimators())
FEW = {"n_estimators": 4, "max_iter": 30, "random_state": 0, "n_components": 2, "max_depth": 3}
OWN = {
    "NuSVC": {"nu": 0.2},
    "GaussianMixture": {"n_components": 3, "max_iter": 30, "random_state": 0},
    "HistGradientBoostingClassifier": {"max_iter": 3},
    "HistGradientBoostingRegressor": {"max_iter": 3},
    "LinearDiscriminantAnalysis": {"n_components": 1},
    "IsolationForest": {"n_estimators": 4, "random_state": 0},
    "OrthogonalMatchingPursuitCV": {"cv": 3, "max_iter": 3},
    **{k: {"cv": 3} for k in ("LarsCV", "LassoLarsCV")},
    "LogisticRegressionCV": {"Cs": 2, "cv": 2, "max_iter": 30, "random_state": 0},
    "MLPClassifier": {"hidden_layer_sizes": (6,), "max_iter": 30, "random_state": 0},
    "MLPRegressor": {"hidden_layer_sizes": (6,), "max_iter": 30, "random_state": 0},
}


def _named():
    """What the table names: patterns with a star, and groups of modules, as well."""
    table = Path(__file__).parents[2].joinpath("docs", "sklearn.md").read_text()
    table = "".join(line for line in table.splitlines(True) if line.startswith("| "))
    found = set()
    for name in re.findall(r"`([A-Z]\w+\*?)`", table):
        pattern = re.compile(f"{name.replace('*', '(Classifier|Regressor)')}$")
        some = [k for k in {*EVERY, *OF_OTHERS} if pattern.match(k)]
        assert some, name
        found.update(some)
    for module, text in (("linear_model", "all linear models"), ("naive_bayes", "naive Bayes")):
        assert text in table
        found.update(k for k, c in EVERY.items() if f".{module}." in c.__module__)
    return sorted(found)


NAMED = _named()
WITHOUT = {"CategoricalNB", "RANSACRegressor", "SGDOneClassSVM"}
"""Which the table names as those without a formula."""


def _made(name):
    if name in OF_OTHERS:
        return OF_OTHERS[name]()
    kind = EVERY[name]
    known = kind().get_params()
    own = OWN.get(name) or {k: x for k, x in FEW.items() if k in known}
    return kind(**own)


def _fitted(name, labels):
    est = _made(name)
    rows = np.abs(X) if name in ("MultinomialNB", "ComplementNB") else X
    if name == "FrozenEstimator":
        return est
    inner = getattr(est, "estimator", None) or est
    wanted = labels if is_classifier(inner) else np.abs(Y)
    wanted = X[:, :2] if name.startswith("MultiTask") else wanted
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        needs = is_classifier(est) or is_regressor(est)
        return est.fit(rows, wanted) if needs else est.fit(rows)


def _width(est, method):
    return est.transform(X[:1]).shape[1] if method == "inverse_transform" else X.shape[1]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [k for k in NAMED if k not in WITHOUT])
def test_every_method_that_compiles_is_saved(name, tmp_path):
    saved = 0
    for labels in (TWO, THREE):
        est = _fitted(name, labels)
        for method in (m for m in METHODS if hasattr(est, m)):
            f, n = getattr(est, method), _width(est, method)
            # those of k-means want what they were fitted to
            for dtype in ("float64", "float32")[: 1 if "KMeans" in name else 2]:
                try:
                    plan = xpapply.compile(f, (n,), dtype)
                except xpapply.UnsupportedError:
                    assert method not in ("predict", "transform"), "the table names it"
                    continue
                plan.save(tmp_path / "est.xpapply")
                again = xpapply.load_model(tmp_path / "est.xpapply")
                assert again.graph == plan.graph
                arr = np.abs(RNG.normal(size=(20, n)).astype(dtype))
                np.testing.assert_array_equal(again(arr), plan(arr))
                saved += 1
        if not is_classifier(est):
            break
    assert saved


def test_plans_that_leave_out_what_has_a_default(tmp_path, monkeypatch):
    """As versions before wrote them."""
    from xpapply.ir import saved

    est = LogisticRegression().fit(X, THREE)
    plan = xpapply.compile(est, (5,), "float64")
    nodes = [
        n if n.op != "argmax" else type(n)(n.op, n.args, (("axis", (0,)),), n.aval)
        for n in plan.graph.nodes
    ]
    assert nodes != list(plan.graph.nodes)
    old = type(plan.graph)(tuple(nodes), plan.graph.outs, plan.graph.consts)
    plain = lambda n: {k: saved._encoded(v) for k, v in n.attrs}  # noqa: E731
    for attributes in (saved._attributes, plain):
        monkeypatch.setattr(saved, "_attributes", attributes)
        saved.write(tmp_path / "old.xpapply", old, {"name": "LogisticRegression"})
        data = (tmp_path / "old.xpapply").read_bytes()
        assert (b'{"axis":[0]}' in data) == (attributes is plain)
        again = xpapply.load_model(tmp_path / "old.xpapply")
        assert again.graph == plan.graph
        np.testing.assert_array_equal(again(X), est.predict(X))
