"""Formulas of scikit-learn: linear models, scalers, decompositions, discriminant analysis."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import TraceError
from .writer import ChosenValue, Formula, FormulaWriter, Value, formula

# --- linear models ----------------------------------------------------------------------------


@formula(
    *("LinearModel.predict", "MultiOutputLinearModel.predict", "Ridge.predict"),
    *(
        "RidgeCV.predict",
        "BayesianRidge.predict",
        "ARDRegression.predict",
        "BaseSGDRegressor.predict",
    ),
)
def regression(b: FormulaWriter, est: Any, x: Value) -> Value:
    """``X @ coef_.T + intercept_``"""
    found = b.affine(est.coef_, x, est.intercept_)
    flat = np.ndim(est.coef_) == 1 or type(est).__name__.startswith("SGD")
    return b.number(found) if flat and found.shape else found


@formula("_GeneralizedLinearRegressor.predict")
def generalized(b: FormulaWriter, est: Any, x: Value) -> Value:
    """Behind the link."""
    found = b.affine(est.coef_, b.floats(x), est.intercept_)
    link = type(est._base_loss.link).__name__
    if link not in ("LogLink", "IdentityLink"):
        raise TraceError(f"the formula of {link} is not known")
    return np.exp(found) if link == "LogLink" else found


@formula("LinearClassifierMixin.decision_function", "LinearDiscriminantAnalysis.decision_function")
def linear_decision(b: FormulaWriter, est: Any, x: Value) -> Value:
    """Scores of classes; a single one for two classes."""
    found = b.affine(np.atleast_2d(est.coef_), x, est.intercept_)
    return b.number(found) if found.shape == (1,) else found


@formula("LinearClassifierMixin.predict", "_RidgeClassifierMixin.predict")
def linear_classes(b: FormulaWriter, est: Any, x: Value) -> ChosenValue:
    """The class with the highest score."""
    binarizer = getattr(est, "_label_binarizer", None)
    if getattr(binarizer, "y_type_", "").startswith("multilabel"):
        raise TraceError("several labels for one sample")
    scores = b.of(est, "decision_function", x)
    tolerance = b.tolerance(x, est.coef_, est.intercept_, scores)
    if scores.shape:
        return b.best(scores, tolerance, est.classes_)
    return b.positive(scores, tolerance, est.classes_)


def _expit(x: Value) -> Value:
    return 1.0 / (np.exp(-x) + 1.0)


@formula("LinearClassifierMixin._predict_proba_lr")
def one_against_rest(b: FormulaWriter, est: Any, x: Value) -> Value:
    """Probabilities of one class against all others, scaled to 1."""
    scores = b.of(est, "decision_function", x)
    found = _expit(scores)
    if not found.shape:
        return b.pair(found)
    total = b.total(found)
    return np.where(total == 0.0, 1.0 / found.shape[0], found / np.where(total == 0.0, 1.0, total))


@formula("LogisticRegression.predict_proba")
def logistic(b: FormulaWriter, est: Any, x: Value) -> Value:
    """Class probabilities: logistic for two classes, softmax for more."""
    if len(est.classes_) <= 2 or getattr(est, "multi_class", "multinomial") == "ovr":
        return one_against_rest(b, est, x)
    if getattr(est, "multi_class", "") == "auto" and est.solver == "liblinear":
        return one_against_rest(b, est, x)
    return b.op("softmax", b.of(est, "decision_function", x), axis=0)


@formula("SGDClassifier.predict_proba")
def sgd(b: FormulaWriter, est: Any, x: Value) -> Value:
    """Class probabilities for the loss `log_loss`."""
    if est.loss != "log_loss":
        raise TraceError(f"the formula of probabilities for loss={est.loss!r} is not known")
    return one_against_rest(b, est, x)


@formula(
    *(
        f"{name}.predict_log_proba"
        for name in (
            *("LogisticRegression", "SGDClassifier", "MLPClassifier"),
            *("DecisionTreeClassifier", "ForestClassifier", "GradientBoostingClassifier"),
        )
    )
)
def log_of_probabilities(b: FormulaWriter, est: Any, x: Value) -> Value:
    """Their logarithm."""
    return np.log(b.of(est, "predict_proba", x))


@formula("LinearDiscriminantAnalysis.predict_proba")
def discriminant(b: FormulaWriter, est: Any, x: Value) -> Value:
    """Probabilities, as of logistic regression."""
    scores = b.of(est, "decision_function", x)
    return b.op("softmax", scores, axis=0) if scores.shape else b.pair(_expit(scores))


@formula("LinearDiscriminantAnalysis.predict_log_proba")
def log_discriminant(b: FormulaWriter, est: Any, x: Value) -> Value:
    """Their logarithm; of 0 that of the smallest number."""
    found = b.of(est, "predict_proba", x)
    least = float(np.finfo(found.dtype).smallest_normal)
    return np.log(np.where(found == 0.0, least, found))


@formula("LinearDiscriminantAnalysis.transform")
def discriminant_axes(b: FormulaWriter, est: Any, x: Value) -> Value:
    """The projection."""
    few = est.scalings_[:, : est._max_components].T
    return b.product(few, x - est.xbar_ if est.solver == "svd" else x)


# --- scalers ------------------------------------------------------------------------------------


_SCALERS: dict[str, tuple[tuple[np.ufunc, np.ufunc, str, str], ...]] = {
    "StandardScaler": (
        (np.subtract, np.add, "mean_", "with_mean"),
        (np.divide, np.multiply, "scale_", "with_std"),
    ),
    "MinMaxScaler": ((np.multiply, np.divide, "scale_", ""), (np.add, np.subtract, "min_", "")),
    "MaxAbsScaler": ((np.divide, np.multiply, "scale_", ""),),
    "RobustScaler": (
        (np.subtract, np.add, "center_", "with_centering"),
        (np.divide, np.multiply, "scale_", "with_scaling"),
    ),
}
"""Steps of scalers: the operation, its inverse, with which numbers, and the setting to do it."""


def _scaler(name: str, back: bool) -> Formula:
    def write(b: FormulaWriter, est: Any, x: Value) -> Value:
        x = b.floats(x, half=True)
        for there, again, numbers, setting in _SCALERS[name][:: -1 if back else 1]:
            if not setting or getattr(est, setting):
                x = b.into(x, again if back else there, getattr(est, numbers))
        if back or not getattr(est, "clip", False):
            return x
        low, high = map(float, getattr(est, "feature_range", (-1.0, 1.0)))
        return np.clip(x, low, high)

    return write


for _name in _SCALERS:
    formula(f"{_name}.transform")(_scaler(_name, back=False))
    formula(f"{_name}.inverse_transform")(_scaler(_name, back=True))


@formula("Normalizer.transform")
def normalized(b: FormulaWriter, est: Any, x: Value) -> Value:
    """Divided by the norm, unless that is 0."""
    x = b.floats(x, half=True)
    if est.norm == "l2":
        norm = np.sqrt(b.total(x * x))
    else:
        norm = b.largest(x) if est.norm == "max" else b.total(np.abs(x))
    # scikit-learn takes norms below 10 eps for 0
    least = 10 * float(np.finfo(x.dtype).eps)
    return x / np.where(norm < least, 1.0, norm)


@formula("PolynomialFeatures.transform")
def polynomial(b: FormulaWriter, est: Any, x: Value) -> Value:
    """Products of features: each is one that was there before, times a feature."""
    x = b.floats(x, half=True)
    powers = np.asarray(est.powers_)
    if len(powers) > 512:
        raise TraceError(f"{len(powers)} products of features")
    known: dict[tuple[int, ...], Value] = {}

    def part(power: tuple[int, ...]) -> Value:
        wanted, steps = power, []
        while sum(wanted) > 1 and wanted not in known:
            first = next(k for k, n in enumerate(wanted) if n)
            steps.append((first, wanted))
            wanted = tuple(n - (k == first) for k, n in enumerate(wanted))
        if wanted not in known:
            known[wanted] = feature(wanted.index(1))
        found = known[wanted]
        for first, at in reversed(steps):
            found = known[at] = found * feature(first)
        return found

    def feature(k: int) -> Value:
        return b.op("index", x, key=((k, k + 1, 1),))

    one = b.array([1.0], x.aval.dtype)
    columns = [part(p) if any(p) else one for p in map(tuple, powers.tolist())]
    return b.node("concat", *columns, axis=0)


# --- decompositions ---------------------------------------------------------------------------


@formula("_BasePCA.transform", "IncrementalPCA.transform")
def components(b: FormulaWriter, est: Any, x: Value) -> Value:
    """The projection."""
    matrix = est.components_
    found = b.affine(matrix, b.floats(x), -(est.mean_ @ matrix.T))
    if est.whiten:
        scale = np.sqrt(est.explained_variance_)
        found = found / np.maximum(scale, np.finfo(scale.dtype).eps)
    return found


@formula("_BasePCA.inverse_transform")
def not_components(b: FormulaWriter, est: Any, x: Value) -> Value:
    """Back again."""
    matrix = est.components_
    if est.whiten:
        matrix = np.sqrt(est.explained_variance_[:, None]) * matrix
    return b.affine(matrix.T, b.floats(x), est.mean_)


@formula("TruncatedSVD.transform")
def truncated(b: FormulaWriter, est: Any, x: Value) -> Value:
    """The projection."""
    return b.product(est.components_, x)


@formula("TruncatedSVD.inverse_transform")
def not_truncated(b: FormulaWriter, est: Any, x: Value) -> Value:
    """Back again."""
    return b.product(est.components_.T, x)


@formula("FastICA.transform")
def independent(b: FormulaWriter, est: Any, x: Value) -> Value:
    """The projection of what is centred."""
    x = b.floats(x)
    return b.product(est.components_, b.into(x, np.subtract, est.mean_) if est.whiten else x)
