"""Formulas of scikit-learn: networks, clusters, mixtures, naive Bayes, support vectors."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from ...errors import TraceError
from .writer import ChosenValue, FormulaWriter, Value, formula

# --- networks -----------------------------------------------------------------------------------

_ACTIVATIONS = {"logistic": "sigmoid", "tanh": "tanh", "relu": "relu", "identity": ""}


def _layers(b: FormulaWriter, est: Any, x: Value) -> tuple[Value, Value]:
    """Input of the last layer, and its value before activation."""
    before = x
    last = len(est.coefs_) - 1
    for k, (weights, bias) in enumerate(zip(est.coefs_, est.intercepts_, strict=True)):
        before, x = x, b.affine(weights.T, x, bias)
        name = _ACTIVATIONS.get(est.activation)
        if name is None:
            raise TraceError(f"the activation {est.activation!r} is not known")
        x = b.op(name, x) if name and k < last else x
    return before, x


def _out(b: FormulaWriter, est: Any, x: Value) -> Value:
    name = est.out_activation_
    if name == "softmax":
        return b.op("softmax", x, axis=0)
    if name not in ("identity", "logistic"):
        raise TraceError(f"the activation {name!r} of results is not known")
    return b.op("sigmoid", x) if name == "logistic" else x


@formula("MLPRegressor.predict")
def network(b: FormulaWriter, est: Any, x: Value) -> Value:
    """The layers."""
    found = _out(b, est, _layers(b, est, x)[1])
    return b.number(found) if found.shape == (1,) else found


@formula("MLPClassifier.predict_proba")
def network_probabilities(b: FormulaWriter, est: Any, x: Value) -> Value:
    """The layers."""
    found = _out(b, est, _layers(b, est, x)[1])
    return b.pair(b.number(found)) if found.shape == (1,) else found


@formula("MLPClassifier.predict")
def network_classes(b: FormulaWriter, est: Any, x: Value) -> ChosenValue:
    """The class with the highest probability."""
    if est._label_binarizer.y_type_ not in ("binary", "multiclass"):
        raise TraceError("several labels for one sample")
    before, scores = _layers(b, est, x)
    tolerance = b.tolerance(before, est.coefs_[-1].T, est.intercepts_[-1], scores)
    if scores.shape == (1,):
        return b.positive(b.number(scores), tolerance, est.classes_)
    return b.best(scores, tolerance, est.classes_)


# --- clusters -----------------------------------------------------------------------------------


@formula("_BaseKMeans.predict", "KMeans.predict", "MiniBatchKMeans.predict")
def cluster(b: FormulaWriter, est: Any, x: Value) -> ChosenValue:
    """The centre that is nearest."""
    x, centres = b.floats(x), est.cluster_centers_
    half = -0.5 * np.einsum("km,km->k", centres, centres)
    scores = b.affine(centres, x, half)
    tolerance = b.tolerance(x, centres, half, scores)
    return b.best(scores, tolerance, np.arange(len(centres), dtype=np.int32))


@formula("_BaseKMeans.transform")
def distances(b: FormulaWriter, est: Any, x: Value) -> Value:
    """Distances to the centres, in float64 for float32 input."""
    x, centres = b.floats(x), est.cluster_centers_
    dtype = np.result_type(x.dtype, centres.dtype).name
    wide, centres = b.cast(x, "float64"), centres.astype(np.float64)
    squared = b.affine(-2.0 * centres, wide, np.einsum("km,km->k", centres, centres))
    return b.cast(np.sqrt(np.maximum(squared + b.total(wide * wide), 0.0)), dtype)


# --- likelihoods ----------------------------------------------------------------------------------


def _posterior(b: FormulaWriter, joint: Value) -> Value:
    return joint - b.logsumexp(joint)


def _likeliest(b: FormulaWriter, joint: Value, x: Value, matrix: Any, labels: Any) -> ChosenValue:
    return b.best(joint, b.tolerance(x, matrix, 1.0, joint), labels)


@formula("_BaseNB.predict_joint_log_proba")
def joint_of_bayes(b: FormulaWriter, est: Any, x: Value) -> Value:
    """Joint log-likelihood of classes and a sample."""
    return _joint(b, est, x)[0]


@formula("_BaseNB.predict_log_proba")
def log_bayes(b: FormulaWriter, est: Any, x: Value) -> Value:
    """Log-probabilities of classes, given the sample."""
    return _posterior(b, _joint(b, est, x)[0])


@formula("_BaseNB.predict_proba")
def bayes(b: FormulaWriter, est: Any, x: Value) -> Value:
    """Probabilities of classes, given the sample."""
    return np.exp(b.of(est, "predict_log_proba", x))


@formula("_BaseNB.predict")
def class_of_bayes(b: FormulaWriter, est: Any, x: Value) -> ChosenValue:
    """The likeliest one."""
    joint, matrix = _joint(b, est, x)
    return _likeliest(b, joint, x, matrix, est.classes_)


def _joint(b: FormulaWriter, est: Any, x: Value) -> tuple[Value, np.ndarray]:
    """The logarithms of joint probabilities, and what the sample is multiplied with."""
    kind = type(est).__name__
    if kind == "GaussianNB":
        scale = np.sqrt(0.5 / est.var_)
        rest = np.log(est.class_prior_) - 0.5 * np.log(2.0 * np.pi * est.var_).sum(1)
        away = (x - est.theta_) * scale
        return -b.total(away * away, axis=1) + rest, scale
    logs: Any = getattr(est, "feature_log_prob_", None)
    if kind == "MultinomialNB":
        return b.affine(logs, x, est.class_log_prior_), logs
    if kind == "ComplementNB":
        alone = len(est.classes_) == 1
        return b.affine(logs, x, est.class_log_prior_ * alone), logs
    if kind == "BernoulliNB":
        negative = np.log(1 - np.exp(logs))
        rest = est.class_log_prior_ + negative.sum(axis=1)
        if est.binarize is not None:
            x = b.cast(x > float(est.binarize), "float64")
        return b.affine(logs - negative, x, rest), logs - negative
    raise TraceError(f"the formula of {kind} is not known")


def _weighted(b: FormulaWriter, est: Any, x: Value) -> tuple[Value, np.ndarray]:
    """The logarithms of the densities of a mixture, and what the sample is multiplied with."""
    if type(est).__name__ != "GaussianMixture":
        raise TraceError(f"the formula of {type(est).__name__} is not known")
    if x.aval.dtype not in ("float64", "float32"):
        raise TraceError("a GaussianMixture rounds what it computes of integers")
    means, factors, form = est.means_, est.precisions_cholesky_, est.covariance_type
    count, features = means.shape
    if form in ("diag", "spherical"):
        scale = factors if form == "diag" else np.repeat(factors[:, None], features, 1)
        log_det = np.log(scale).sum(1)
        away = x * scale - means * scale
    else:
        each = factors if form == "full" else np.repeat(factors[None], count, 0)
        log_det = np.log(np.einsum("kmm->km", each)).sum(1)
        scale = each.transpose(0, 2, 1).reshape(-1, features)
        centre = np.einsum("kmn,km->kn", each, means).reshape(-1)
        away = b.op("reshape", b.affine(scale, x, -centre), shape=(count, features))
    rest = log_det - 0.5 * features * np.log(2 * np.pi) + np.log(est.weights_)
    return b.total(away * away, axis=1) * -0.5 + rest, scale


@formula("BaseMixture.score_samples")
def density(b: FormulaWriter, est: Any, x: Value) -> Value:
    """Log-density."""
    return b.logsumexp(_weighted(b, est, x)[0])


@formula("BaseMixture.predict_proba")
def responsibilities(b: FormulaWriter, est: Any, x: Value) -> Value:
    """Probabilities of components."""
    return np.exp(_posterior(b, _weighted(b, est, x)[0]))


@formula("BaseMixture.predict")
def component(b: FormulaWriter, est: Any, x: Value) -> ChosenValue:
    """The likeliest one."""
    joint, matrix = _weighted(b, est, x)
    return _likeliest(b, joint, x, matrix, np.arange(joint.shape[0]))


# --- support vectors ------------------------------------------------------------------------------


def _kernel(b: FormulaWriter, est: Any, x: Value) -> Value:
    """Kernel of a sample and each support vector, in float64."""
    if est._sparse or not isinstance(est.kernel, str) or est.kernel == "precomputed":
        raise TraceError(f"the formula of kernel={est.kernel!r} is not known")
    x, vectors, gamma = b.cast(x, "float64"), est.support_vectors_, b.array(est._gamma, "float64")
    if est.kernel == "linear":
        return b.product(vectors, x)
    if est.kernel == "rbf":
        squared = b.affine(-2.0 * vectors, x, np.einsum("km,km->k", vectors, vectors))
        return np.exp(-np.maximum(squared + b.total(x * x), 0.0) * gamma)
    inner = b.product(vectors, x) * gamma + b.array(est.coef0, "float64")
    if est.kernel == "sigmoid":
        return np.tanh(inner)
    if est.kernel != "poly" or not 1 <= est.degree <= 16 or int(est.degree) != est.degree:
        raise TraceError(f"the formula of kernel={est.kernel!r} is not known")
    found = inner
    for _ in range(int(est.degree) - 1):
        found = found * inner
    return found


@formula("BaseLibSVM.predict", "OneClassSVM.decision_function")
def support_regression(b: FormulaWriter, est: Any, x: Value) -> Value:
    """A sum of kernels."""
    return b.number(b.affine(est._dual_coef_, _kernel(b, est, x), est._intercept_))


@formula("OneClassSVM.score_samples")
def score_of_one(b: FormulaWriter, est: Any, x: Value) -> Value:
    """The score of a one-class SVM: its decision without the offset."""
    return support_regression(b, est, x) + b.array(est.offset_[0], "float64")


@formula("OneClassSVM.predict")
def one_class(b: FormulaWriter, est: Any, x: Value) -> ChosenValue:
    """1 inside, -1 outside."""
    kernel = _kernel(b, est, x)
    score = b.number(b.affine(est._dual_coef_, kernel, est._intercept_))
    tolerance = b.tolerance(kernel, est._dual_coef_, est._intercept_, score)
    return b.positive(score, tolerance, np.array([-1, 1], np.intp))


def _pairs(est: Any) -> np.ndarray:
    """Coefficients of the kernels for each pair of classes."""
    of_class, coefficients = (
        np.repeat(np.arange(len(est.classes_)), est._n_support),
        est._dual_coef_,
    )
    found = []
    for i, j in itertools.combinations(range(len(est.classes_)), 2):
        found.append(coefficients[j - 1] * (of_class == i) + coefficients[i] * (of_class == j))
    return np.array(found)


def _of_pairs(b: FormulaWriter, est: Any, x: Value) -> tuple[Value, Value]:
    """The decision for each pair of classes, positive for the first; and what rounding may move."""
    kernel, matrix = _kernel(b, est, x), _pairs(est)
    scores = b.affine(matrix, kernel, est._intercept_)
    return scores, b.tolerance(kernel, matrix, est._intercept_, scores)


def _votes(est: Any) -> tuple[np.ndarray, np.ndarray]:
    """The two classes of each pair's decision."""
    each = list(itertools.combinations(range(len(est.classes_)), 2))
    first = np.array([[float(i == k) for i, _ in each] for k in range(len(est.classes_))])
    second = np.array([[float(j == k) for _, j in each] for k in range(len(est.classes_))])
    return first, second


@formula("BaseSVC.decision_function")
def support_decision(b: FormulaWriter, est: Any, x: Value) -> Value:
    """Decision of pairs, or votes with a tie-break."""
    scores, _ = _of_pairs(b, est, x)
    if len(est.classes_) == 2:
        return -b.number(scores)
    if est.decision_function_shape != "ovr":
        return scores
    first, second = _votes(est)
    against = b.cast(scores < 0.0, "float64")
    votes = b.product(first, 1.0 - against) + b.product(second, against)
    sums = b.product(first - second, scores)
    return votes + sums / ((np.abs(sums) + 1.0) * 3.0)


@formula("BaseSVC.predict")
def support_classes(b: FormulaWriter, est: Any, x: Value) -> ChosenValue:
    """The class with the most votes; of equal ones the first."""
    if est.break_ties and len(est.classes_) > 2:
        raise TraceError("break_ties=True")
    scores, tolerance = _of_pairs(b, est, x)
    first, second = _votes(est)
    won = b.cast(scores > 0.0, "float64")
    votes = b.product(first, won) + b.product(second, 1.0 - won)
    clear = b.cast(np.abs(scores) > tolerance, "float64")  # NaN is not
    known = b.total(clear) == float(clear.shape[0])
    return ChosenValue(b.position(votes), known, est.classes_)
