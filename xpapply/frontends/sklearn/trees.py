"""Formulas of scikit-learn: decision trees, forests, boosting, isolation forests.

All are the op ``trees``. The leaves are added up in the order in which the estimators add them, so
sums are equal to the last bit, and so is what is decided by them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...errors import TraceError
from ...ir.forest import Tree, descent
from .writer import ChosenValue, FormulaWriter, Takes, Value, formula

_BEYOND = 3.4028235677973366e38
"""The bound beyond which float32 is infinite, which scikit-learn refuses."""


def _of_estimator(est: Any, values: np.ndarray, features: Any = None) -> Tree:
    """A decision tree as a `Tree`; `features`: indices of the features that it was fitted to."""
    tree = est.tree_
    feature = np.maximum(tree.feature, 0)
    feature = feature if features is None else np.asarray(features)[feature]
    there = getattr(tree, "missing_go_to_left", None)
    missing = np.ones(tree.node_count) if there is None else there
    left, right = tree.children_left, tree.children_right
    return Tree(left, right, feature, tree.threshold, missing, values)


def _columns(
    b: FormulaWriter, x: Value, trees: Sequence[Sequence[Tree]], start: np.ndarray
) -> Value:
    """Columns of the result, from trees for each."""
    parts = [descent(b, x, t, s) for t, s in zip(trees, start, strict=True)]
    return parts[0] if len(parts) == 1 else b.node("concat", *parts, axis=0)


# --- what scikit-learn takes ------------------------------------------------------------------


def _float32(b: FormulaWriter, x: Value, *, nan: bool) -> Value:
    """A sample in float32, as trees compare it; values that they refuse go to the method."""
    found = b.cast(x, "float32")
    if b.nodes[x.index].op == "input":
        b.takes = Takes(nan=nan, below=_BEYOND if x.aval.dtype == "float64" else None)
    elif x.dtype.kind == "f":
        b.odd.append(b.total(found * np.float32(0)))  # NaN where a number is not finite
    return found


def _takes_nan(est: Any) -> bool:
    """Whether an estimator of trees takes NaN."""
    one = est.estimators_[0] if hasattr(est, "estimators_") else est
    ask = getattr(one, "_support_missing_values", None)
    return ask is not None and bool(ask(np.zeros((1, 1), np.float32)))


# --- trees and forests ------------------------------------------------------------------------


def _sums(b: FormulaWriter, est: Any, x: Value) -> Value:
    """Sums over all trees, for each output and class."""
    alone = not hasattr(est, "estimators_")
    several = [est] if alone else est.estimators_
    x = _float32(b, x, nan=_takes_nan(est))
    trees = []
    for one in several:
        value = np.asarray(one.tree_.value)
        trees.append(_of_estimator(one, value.reshape(len(value), -1)))
    found = descent(b, x, trees, np.zeros(trees[0].values.shape[1]))
    return found if alone else found / b.array(float(len(several)), "float64")


def _parts(b: FormulaWriter, est: Any, sums: Value) -> list[Value]:
    """The probabilities of each output."""
    counts = np.atleast_1d(est.n_classes_).tolist()
    most = sums.shape[0] // len(counts)
    if counts == [most]:
        return [sums]
    found = []
    for k, count in enumerate(counts):
        found.append(b.op("index", sums, key=((k * most, k * most + count, 1),)))
    return found


@formula("DecisionTreeClassifier.predict_proba", "ForestClassifier.predict_proba")
def probabilities(b: FormulaWriter, est: Any, x: Value) -> Value:
    """Class probabilities; one row per output."""
    parts = _parts(b, est, _sums(b, est, x))
    if len(parts) == 1:
        return parts[0]
    if len({p.shape for p in parts}) > 1:
        raise TraceError(f"its {len(parts)} results have several shapes")
    return b.op("reshape", b.node("concat", *parts, axis=0), shape=(len(parts), *parts[0].shape))


def _classes(b: FormulaWriter, est: Any, x: Value) -> ChosenValue:
    parts = _parts(b, est, _sums(b, est, x))
    if len(parts) == 1:
        return ChosenValue(
            b.op("argmax", parts[0], axis=(0,), keepdims=False), None, np.asarray(est.classes_)
        )
    # the labels of all outputs, one after the other, have the dtype of the first
    labels = [np.asarray(c).astype(np.asarray(est.classes_[0]).dtype) for c in est.classes_]
    chosen, before = [], 0
    for part, own in zip(parts, labels, strict=True):
        index = b.op("argmax", part, axis=(0,), keepdims=False) + np.int64(before)
        chosen.append(b.op("reshape", index, shape=(1,)))
        before += len(own)
    return ChosenValue(b.node("concat", *chosen, axis=0), None, np.concatenate(labels))


@formula("ForestClassifier.predict")
def forest_classes(b: FormulaWriter, est: Any, x: Value) -> ChosenValue:
    """The likeliest class, of equal ones the first."""
    return _classes(b, est, x)


@formula("ForestRegressor.predict", "BaseDecisionTree.predict")
def mean_of_trees(b: FormulaWriter, est: Any, x: Value) -> Any:
    """The mean of what trees predict, or what one does: numbers, or a class."""
    if hasattr(est, "classes_"):
        return _classes(b, est, x)
    found = _sums(b, est, x)
    return b.number(found) if est.n_outputs_ == 1 else found


@formula("BaseDecisionTree.apply")
def leaf(b: FormulaWriter, est: Any, x: Value) -> Value:
    """The number of the leaf."""
    x = _float32(b, x, nan=_takes_nan(est))
    numbers = np.arange(est.tree_.node_count, dtype=np.float64)[:, None]
    return b.cast(b.number(descent(b, x, [_of_estimator(est, numbers)], 0.0)), "int64")


# --- boosting ---------------------------------------------------------------------------------


def _raw(b: FormulaWriter, est: Any, x: Value) -> Value:
    """The sums of `GradientBoosting*`, one for each class of more than two."""
    if est.init_ != "zero" and not type(est.init_).__name__.startswith("Dummy"):
        raise TraceError(f"it begins with what {type(est.init_).__name__} predicts")
    x = _float32(b, x, nan=False)
    begin = est._raw_predict_init(np.zeros((1, est.n_features_in_), np.float32))[0]
    columns = []
    for of_class in est.estimators_.T:
        scaled = [est.learning_rate * one.tree_.value.reshape(-1, 1) for one in of_class]
        columns.append([_of_estimator(o, v) for o, v in zip(of_class, scaled, strict=True)])
    return _columns(b, x, columns, begin)


def _raw_of_histograms(b: FormulaWriter, est: Any, x: Value) -> Value:
    """Raw predictions of `HistGradientBoosting*`."""
    if getattr(est, "_preprocessor", None) is not None:
        raise TraceError("features that are categories")
    small = x.aval.dtype in ("float32", "float16")  # their order is that of float64
    known = b.nodes[x.index].op == "input"
    x = b.cast(x, "float32" if small else "float64")
    if known:
        b.takes = Takes(nan=True, infinite=True)
    columns: list[list[Tree]] = [[] for _ in range(est.n_trees_per_iteration_)]
    for of_iteration in est._predictors:
        for column, one in zip(columns, of_iteration, strict=True):
            column.append(_of_predictor(one.nodes))
    begin = np.ravel(est._baseline_prediction).astype(np.float64)
    return _columns(b, x, columns, begin)


def _of_predictor(nodes: np.ndarray) -> Tree:
    if nodes["is_categorical"].any():
        raise TraceError("features that are categories")
    leaf = nodes["is_leaf"].astype(bool)
    return Tree(
        np.where(leaf, -1, nodes["left"].astype(np.int64)),
        np.where(leaf, -1, nodes["right"].astype(np.int64)),
        nodes["feature_idx"].astype(np.int64),
        nodes["num_threshold"].astype(np.float64),
        nodes["missing_go_to_left"],
        nodes["value"][:, None].astype(np.float64),
    )


_BOTH = ("GradientBoostingClassifier", "HistGradientBoostingClassifier")


@formula("GradientBoostingRegressor.predict", *(f"{name}.decision_function" for name in _BOTH))
def _decision(b: FormulaWriter, est: Any, x: Value) -> Value:
    hist = type(est).__name__.startswith("Hist")
    found = _raw_of_histograms(b, est, x) if hist else _raw(b, est, x)
    return b.number(found) if found.shape == (1,) else found


@formula("HistGradientBoostingRegressor.predict")
def boosted_by_histograms(b: FormulaWriter, est: Any, x: Value) -> Value:
    """The sum, after the link function."""
    found = _decision(b, est, x)
    link = type(est._loss.link).__name__
    if link not in ("LogLink", "IdentityLink"):
        raise TraceError(f"the formula of {link} is not known")
    return np.exp(found) if link == "LogLink" else found


@formula(*(f"{name}.predict" for name in _BOTH))
def boosted_classes(b: FormulaWriter, est: Any, x: Value) -> ChosenValue:
    """The class with the highest sum; of two the second, if the sum is above 0."""
    sums = _decision(b, est, x)
    if sums.shape:
        return ChosenValue(b.op("argmax", sums, axis=(0,), keepdims=False), None, est.classes_)
    second = sums > 0.0 if type(est).__name__.startswith("Hist") else sums >= 0.0
    return ChosenValue(b.cast(second, "int64"), None, est.classes_)


@formula(*(f"{name}.predict_proba" for name in _BOTH))
def boosted_probabilities(b: FormulaWriter, est: Any, x: Value) -> Value:
    """Class probabilities of boosted trees, by the loss."""
    sums = _decision(b, est, x)
    loss = type(est._loss).__name__
    if loss == "HalfMultinomialLoss":
        return b.op("softmax", sums, axis=0)
    if loss not in ("HalfBinomialLoss", "ExponentialLoss"):
        raise TraceError(f"the formula of probabilities for {loss} is not known")
    sums = sums * 2.0 if loss == "ExponentialLoss" else sums
    return b.pair(1.0 / (np.exp(-sums) + 1.0))


# --- isolation forests ------------------------------------------------------------------------


def _isolated(b: FormulaWriter, est: Any, x: Value) -> Value:
    known = b.nodes[x.index].op == "input"
    x = b.cast(x, "float32")
    if known:
        b.takes = Takes(nan=True, infinite=True)
    some = est._max_features != est.n_features_in_
    trees = []
    for one, features, steps, rest in zip(
        est.estimators_,
        est.estimators_features_,
        est._decision_path_lengths,
        est._average_path_length_per_tree,
        strict=True,
    ):
        values = (steps + rest - 1.0)[:, None]
        trees.append(_of_estimator(one, values, features if some else None))
    depths = b.number(descent(b, x, trees, 0.0))
    most = len(trees) * _mean_path(est._max_samples)
    return np.power(2.0, -(depths / b.array(most, "float64"))) if most else depths * 0.0 + 0.5


def _mean_path(samples: float) -> float:
    """The average path length of an unsuccessful search in a tree of so many samples."""
    if samples <= 2:
        return float(samples == 2)
    return float(2.0 * (np.log(samples - 1.0) + np.euler_gamma) - 2.0 * (samples - 1.0) / samples)


@formula("IsolationForest.score_samples")
def isolation(b: FormulaWriter, est: Any, x: Value) -> Value:
    """Near -1 where few steps lead to a leaf."""
    return -_isolated(b, est, x)


@formula("IsolationForest.decision_function")
def isolation_decision(b: FormulaWriter, est: Any, x: Value) -> Value:
    """Below 0 for what is isolated."""
    return -_isolated(b, est, x) - b.array(est.offset_, "float64")


@formula("IsolationForest.predict")
def isolated(b: FormulaWriter, est: Any, x: Value) -> ChosenValue:
    """-1 for what is isolated, else 1."""
    score = isolation_decision(b, est, x)
    inside = b.cast(score >= 0.0, "float64")
    return ChosenValue(inside, np.abs(score) > b.array(1e-9, "float64"), np.array([-1, 1]))
