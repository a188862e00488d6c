"""Operators of classical models (ai.onnx.ml): scalers, linear models, labels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...errors import TraceError
from ...ir.builder import Value
from ...ir.ops import F
from .layers import product
from .program import ML, DecodedNode, ints
from .shapes import cut
from .writer import Given, OnnxWriter, axis_of, row


def _floats(w: OnnxWriter, x: Given) -> Value:
    v = w.value(x)
    return v if v.aval.dtype == "float32" else w.op("cast", v, dtype="float32")  # type: ignore[no-any-return]


def _factors(w: OnnxWriter, n: DecodedNode, name: str, default: float, dtype: str) -> Value:
    found = np.array(n.attr(name) or (default,), np.float32).astype(dtype)
    return w.value(found if found.size > 1 else found.reshape(()))


@row("Scaler", domain=ML)
def _scaler(w: OnnxWriter, n: DecodedNode, x: Given) -> Any:
    v = w.value(x)
    v = v if v.dtype.kind == "f" else _floats(w, v)
    y = v - _factors(w, n, "offset", 0.0, v.aval.dtype)
    return _floats(w, y * _factors(w, n, "scale", 1.0, v.aval.dtype))


@row("Normalizer", domain=ML)
def _normalizer(w: OnnxWriter, n: DecodedNode, x: Given) -> Any:
    v = _floats(w, x)
    last, norm = (len(v.shape) - 1,), n.attr("norm", "MAX")
    if norm == "MAX":
        by = F.max(v, axis=last, keepdims=True)
    elif norm == "L1":
        by = F.sum(F.abs(v), axis=last, keepdims=True)
    elif norm == "L2":
        by = F.sqrt(F.sum(v * v, axis=last, keepdims=True))
    else:
        raise TraceError(f"the norm {norm!r}")
    return v / F.where(by == 0.0, 1.0, by)


def _linear(w: OnnxWriter, n: DecodedNode, x: Given, rows: int) -> Value:
    v, c = _floats(w, x), np.array(n.attr("coefficients"), np.float32)
    if len(v.shape) != 2 or c.size != rows * v.shape[1]:
        raise TraceError(f"{c.size} coefficients of {rows} results, of a value {v.shape}")
    y = product(w, c.reshape(rows, -1), v)
    offsets = n.attr("intercepts")
    if not offsets:
        return y
    if len(offsets) != rows:
        raise TraceError(f"{len(offsets)} intercepts of {rows} results")
    return y + w.const(np.array(offsets, np.float32))  # type: ignore[no-any-return]


def after(w: OnnxWriter, n: DecodedNode, y: Value) -> Value:
    """Apply the final transform of scores."""
    how = n.attr("post_transform", "NONE")
    if how not in ("NONE", "LOGISTIC", "SOFTMAX"):
        raise TraceError(f"post_transform={how!r}")
    if how == "LOGISTIC":
        return w.op("sigmoid", y)  # type: ignore[no-any-return]
    return w.op("softmax", y, axis=1) if how == "SOFTMAX" else y  # type: ignore[no-any-return]


@row("LinearRegressor", domain=ML)
def _regressor(w: OnnxWriter, n: DecodedNode, x: Given) -> Value:
    return after(w, n, _linear(w, n, x, n.attr("targets", 1)))


@row("LinearClassifier", domain=ML)
def _classifier(w: OnnxWriter, n: DecodedNode, x: Given) -> tuple[Given, Given]:
    texts = n.attr("classlabels_strings") or ()
    labels = n.attr("classlabels_ints") or range(len(texts))
    if len(labels) < 2 or len(n.attr("intercepts") or labels) != len(labels):
        raise TraceError(f"{len(labels)} labels of {len(n.attr('intercepts') or ())} scores")
    scores = _linear(w, n, x, len(labels))
    place = w.op("argmax", scores, axis=(1,), keepdims=False)
    label = None if texts else looked_up(w, np.array(labels, np.int64), place)
    return label, after(w, n, scores)


def looked_up(w: OnnxWriter, table: np.ndarray, places: Value) -> Value:
    """``table[places]``, of numbers in one dimension."""
    count = len(table)
    if np.array_equal(table, np.arange(count)):
        return places if places.dtype == table.dtype else w.op("cast", places, dtype=table.dtype)  # type: ignore[no-any-return]
    w.room(*places.shape, count)
    apart = F.reshape(places, shape=(*places.shape, 1))
    chosen = F.equal(apart, w.const(np.arange(count).astype(places.dtype)))
    numbers = F.where(chosen, w.const(table), w.scalar(0, table.dtype.name))
    return F.sum(numbers, axis=(len(places.shape),), keepdims=False)  # type: ignore[no-any-return]


@row("ArrayFeatureExtractor", domain=ML)
def _extracted(w: OnnxWriter, n: DecodedNode, x: Given, places: Given) -> Value:
    v = w.value(x)
    count = math.prod(places.shape)
    if isinstance(places, np.ndarray):
        last, flat = len(v.shape) - 1, ints(places, "places")
        parts = [cut(v, last, k, k + 1) for k in flat]
        y = parts[0] if len(parts) == 1 else w.op("concat", *parts, axis=last)
        return y if last else F.reshape(y, shape=(1, count))  # type: ignore[no-any-return]
    table = w.known(x, "a table")
    if table.size != table.shape[-1] or table.dtype.kind not in "iuf":
        raise TraceError(f"a table of shape {table.shape}, dtype {table.dtype}")
    if table.dtype.kind == "f" and not np.isfinite(table).all():
        raise TraceError("a table with infinities or NaN")
    row_ = w.made(table, "row", lambda: table.reshape(-1))
    found = looked_up(w, row_, F.reshape(places, shape=(count,)))
    return F.reshape(found, shape=(1, count))  # type: ignore[no-any-return]


@row("Binarizer", domain=ML)
def _binarizer(w: OnnxWriter, n: DecodedNode, x: Given) -> Value:
    v = w.value(x)
    return F.where(v > n.number("threshold", 0.0), 1, F.where(v > v, v, 0))  # type: ignore[no-any-return]


@row("Imputer", domain=ML)
def _imputer(w: OnnxWriter, n: DecodedNode, x: Given) -> Value:
    v = w.value(x)
    if v.dtype.kind != "f":
        raise TraceError(f"of {v.aval.dtype}")
    missing = n.number("replaced_value_float", 0.0)
    gone = v != v if math.isnan(missing) else v == missing
    return F.where(gone, _factors(w, n, "imputed_value_floats", 0.0, v.aval.dtype), v)  # type: ignore[no-any-return]


@row("FeatureVectorizer", domain=ML)
def _side_by_side(w: OnnxWriter, n: DecodedNode, *parts: Given) -> Value:
    values = [_floats(w, x) for x in parts]
    axis = axis_of(1, len(values[0].shape))
    return w.op("concat", *values, axis=axis) if len(values) > 1 else values[0]  # type: ignore[no-any-return]
