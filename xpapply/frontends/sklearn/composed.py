"""Formulas of scikit-learn: estimators that are made of others."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import TraceError
from .writer import FormulaWriter, Value, formula


def _steps(b: FormulaWriter, est: Any, x: Value) -> tuple[Any, Value]:
    """The last step of a pipeline, and what the others make of a sample."""
    *before, last = [step for _, step in est.steps]
    for step in before:
        if step not in (None, "passthrough"):
            x = b.of(step, "transform", x)
    return last, x


def _last(name: str) -> Any:
    def write(b: FormulaWriter, est: Any, x: Value) -> Any:
        last, x = _steps(b, est, x)
        if last in (None, "passthrough"):
            return x
        return b.of(last, name, x)

    return write


def _inner(name: str) -> Any:
    def write(b: FormulaWriter, est: Any, x: Value) -> Any:
        return b.of(est.best_estimator_, name, x)

    return write


def _frozen(name: str) -> Any:
    def write(b: FormulaWriter, est: Any, x: Value) -> Any:
        return b.of(est.estimator, name, x)

    return write


for _name in (
    *("predict", "predict_proba", "predict_log_proba", "decision_function"),
    *("transform", "score_samples"),
):
    formula(f"Pipeline.{_name}")(_last(_name))
    formula(f"BaseSearchCV.{_name}")(_inner(_name))
    formula(f"FrozenEstimator.{_name}")(_frozen(_name))


@formula("FeatureUnion.transform")
def union(b: FormulaWriter, est: Any, x: Value) -> Value:
    """Concatenate the results of all transformers."""
    if est.transformer_weights or any(isinstance(t, str) for _, t in est.transformer_list):
        raise TraceError("a FeatureUnion with weights, or without some of its transformers")
    parts = [b.of(t, "transform", x) for _, t in est.transformer_list]
    dtype = np.result_type(*(p.dtype for p in parts)).name
    return b.node("concat", *(b.cast(p, dtype) for p in parts), axis=0)


@formula("TransformedTargetRegressor.predict")
def transformed(b: FormulaWriter, est: Any, x: Value) -> Value:
    """Predict, and transform back."""
    found = b.of(est.regressor_, "predict", x)
    alone = not found.shape
    found = b.op("reshape", found, shape=(1,)) if alone else found
    back = b.of(est.transformer_, "inverse_transform", found)
    return b.number(back) if est._training_dim == 1 and back.shape == (1,) else back


@formula("FunctionTransformer.inverse_transform")
def inverse_function(b: FormulaWriter, est: Any, x: Value) -> Value:
    """Apply the inverse function: a ufunc of NumPy, or the identity."""
    given = est.inverse_func
    if est.inv_kw_args or not (given is None or isinstance(given, np.ufunc)):
        raise TraceError("the function of a FunctionTransformer is not a ufunc of NumPy")
    return x if given is None else given(x)


@formula("FunctionTransformer.transform")
def function(b: FormulaWriter, est: Any, x: Value) -> Value:
    """Apply the function: a ufunc of NumPy, or the identity."""
    if est.kw_args or not (est.func is None or isinstance(est.func, np.ufunc)):
        raise TraceError("the function of a FunctionTransformer is not a ufunc of NumPy")
    return x if est.func is None else est.func(x)
