"""Writing the formulas of estimators as graphs: what they have in common."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...errors import TraceError
from ...ir.numpy_builder import NumPyBuilder
from ...ir.rewrite import MATVEC

Value = Any
"""An `ir.builder.Value`, with NumPy's ufuncs."""

Formula = Callable[["FormulaWriter", Any, Value], Any]

FORMULAS: dict[str, Formula] = {}
"""Formulas by qualified name of the method: overridden methods have another one."""


def formula(*names: str) -> Callable[[Formula], Formula]:
    """A function that writes methods of these qualified names."""

    def decorate(write: Formula) -> Formula:
        FORMULAS.update(dict.fromkeys(names, write))
        return write

    return decorate


@dataclass
class ChosenValue:
    """A choice among labels.

    Attributes
    ----------
    index : Value
        Which one, of any dtype: kernels keep to that of the scores.
    sure : Value or None
        Whether rounding cannot have decided it, a boolean; None: it never does.
    labels : array
        What they are.
    """

    index: Value
    sure: Value | None
    labels: np.ndarray


class Takes(NamedTuple):
    """Numbers that a method accepts in a sample.

    Attributes
    ----------
    nan, infinite : bool
        Whether these.
    below : float or None
        What magnitudes have to be below, if not all numbers are.
    """

    nan: bool = False
    infinite: bool = False
    below: float | None = None


class FormulaWriter(NumPyBuilder):
    """Builds the graph of a method of an estimator.

    Attributes
    ----------
    takes : Takes
        What the method takes for its input: all else is asked of the method itself.
    odd : list of Value
        Numbers that are NaN where the method may refuse what has come of its input on the way.
    shows : bool
        Whether a choice is never sure for a sample with NaN or infinities, so that no method need
        look for these before.
    """

    def __init__(self, consts: Iterable[np.ndarray] = ()) -> None:
        super().__init__(consts)
        self.takes = Takes()
        self.odd: list[Value] = []
        self.shows = False

    def of(self, estimator: Any, name: str, x: Value) -> Any:
        """The result of an estimator's method for a sample."""
        method = inspect.unwrap(getattr(type(estimator), name))
        found = getattr(method, "fn", method)  # of those that are there for some estimators only
        key = inspect.unwrap(found).__qualname__
        write = FORMULAS.get(key)
        if write is None:
            raise TraceError(f"the formula of {key} is not known")
        return write(self, estimator, x)

    def floats(self, x: Value, half: bool = False) -> Value:
        """Convert input for methods of float64 and float32; `half`: float16 as well."""
        keeps = ("float64", "float32", "float16") if half else ("float64", "float32")
        return x if x.aval.dtype in keeps else self.cast(x, "float64")

    def array(self, x: Any, dtype: str) -> Value:
        """A constant."""
        return self.const(np.array(x, dtype, order="C"))

    def product(self, matrix: Any, x: Value) -> Value:
        """``matrix @ x``, in the dtype that NumPy has for them."""
        matrix = np.asarray(matrix)
        dtype = np.result_type(matrix.dtype, x.dtype).name
        return self.node(
            "einsum", self.array(matrix, dtype), self.cast(x, dtype), subscripts=MATVEC
        )

    def affine(self, matrix: Any, x: Value, more: Any) -> Value:
        """``matrix @ x + more``; of a vector one number."""
        matrix = np.asarray(matrix)
        found = self.product(np.atleast_2d(matrix), x)
        size = np.size(more)
        if np.ndim(more) > 1 or size not in (1, found.shape[0]):
            raise TraceError("coefficients of other shapes than known")
        # no numbers in the graph itself: it would be another one for each estimator
        dtype = found.aval.dtype if type(more) in (int, float) else np.asarray(more).dtype.name
        found = found + self.array(np.ravel(more) if size > 1 or matrix.ndim == 1 else more, dtype)
        return self.number(found) if matrix.ndim == 1 else found

    def number(self, x: Value) -> Value:
        """An array of one number as that number."""
        return self.op("reshape", x, shape=())

    def into(self, x: Value, ufunc: np.ufunc, y: Any) -> Value:
        """``ufunc(x, y, out=x)``."""
        return ufunc(x, self.array(y, x.aval.dtype) if np.ndim(y) else self.operand(y, x.dtype))

    def largest(self, x: Value) -> Value:
        """The largest magnitude in a vector."""
        return self.op("max", np.abs(x), axis=(0,), keepdims=False)

    def total(self, x: Value, axis: int = 0) -> Value:
        """The sum along an axis."""
        return self.op("sum", x, axis=(axis,), keepdims=False)

    def logsumexp(self, x: Value) -> Value:
        """Log-sum-exp of a vector, shifted by its maximum."""
        high = self.op("max", x, axis=(0,), keepdims=False)
        return np.log(self.total(np.exp(x - high))) + high

    def pair(self, p: Value) -> Value:
        """``[1 - p, p]``"""
        dtype = p.aval.dtype
        return p * self.array([-1.0, 1.0], dtype) + self.array([1.0, 0.0], dtype)

    # --- labels ---------------------------------------------------------------------------

    def tolerance(self, x: Value, matrix: Any, more: Any, scores: Value) -> Value:
        """The bound of rounding in scores that are a product with `matrix`, and some more.

        Far more than it does: what is nearer is asked of the estimator, which costs little.
        """
        row = float(np.abs(matrix).sum(-1).max()) if np.size(matrix) else 0.0
        rest = float(np.abs(more).max()) if np.size(more) else 0.0
        rel, dtype = _near(x, scores), scores.aval.dtype
        high = self.largest(self.cast(x, dtype)) if x.shape else np.abs(x)
        self.shows |= self._is_input(x)
        return high * self.array(row * rel, dtype) + self.array((rest + 1.0) * rel, dtype)

    def _is_input(self, x: Value) -> bool:
        node = self.nodes[x.index]
        return node.op == "input" or (node.op == "cast" and self.nodes[node.args[0]].op == "input")

    def position(self, scores: Value) -> Value:
        """The position of the highest score, in the dtype of scores."""
        dtype = scores.aval.dtype
        found = self.op("argmax", scores, axis=(0,), keepdims=False)
        return self.cast(found, dtype if dtype in ("float32", "float64") else "int64")

    def best(self, scores: Value, tolerance: Value, labels: Any) -> ChosenValue:
        """The label with the highest score."""
        labels = np.asarray(labels)
        if scores.shape != labels.shape:
            raise TraceError(f"scores {scores.shape} for labels {labels.shape}")
        high = self.op("max", scores, axis=(0,), keepdims=False)
        tolerance = tolerance + np.abs(high) * _near(scores)
        near = self.cast(scores >= high - tolerance, scores.aval.dtype)
        return ChosenValue(self.position(scores), self.total(near) == 1.0, labels)

    def positive(self, score: Value, tolerance: Value, labels: Any) -> ChosenValue:
        """The second label where a score is above 0."""
        index = self.cast(score > 0.0, score.aval.dtype)
        return ChosenValue(index, np.abs(score) > tolerance, np.asarray(labels))


def _near(*values: Value) -> float:
    """The relative difference that rounding might make, with plenty to spare."""
    exact = all(v.dtype.kind != "f" or v.dtype.itemsize == 8 for v in values)
    return 1e-9 if exact else 1e-4
