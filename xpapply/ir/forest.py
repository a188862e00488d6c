"""Decision trees, as estimators and files have them, as the op ``trees``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..errors import TraceError
from ..limits import LIMITS
from .builder import Builder, Value


class Tree(NamedTuple):
    """A tree, node by node; the first is the root, and a leaf has no left child: -1.

    Attributes
    ----------
    left, right : ndarray
        The children.
    feature, threshold : ndarray
        What goes right is above the threshold.
    missing_left : ndarray
        Whether NaN goes left.
    values : ndarray
        A row for each node, of which those of leaves count.
    """

    left: np.ndarray
    right: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    missing_left: np.ndarray
    values: np.ndarray


class _InPairs(NamedTuple):
    """The nodes of a tree, level by level, the children of each side by side."""

    order: np.ndarray
    child: np.ndarray
    depth: int


def _in_pairs(tree: Tree) -> _InPairs:
    levels, depth = [np.zeros(1, np.intp)], 0
    child = np.arange(len(tree.left))
    count = 1
    while True:
        level = levels[-1]
        inner = level[tree.left[level] >= 0]
        if not len(inner):
            break
        child[inner] = count + 2 * np.arange(len(inner))
        levels.append(np.stack([tree.left[inner], tree.right[inner]], 1).ravel().astype(np.intp))
        count += 2 * len(inner)
        depth += 1
    order = np.concatenate(levels)
    places = np.arange(len(order))
    return _InPairs(order, np.where(tree.left[order] >= 0, child[order], places), depth)


def _rounded_down(threshold: np.ndarray) -> np.ndarray:
    """A threshold in float32 with the same float32 numbers above it."""
    with np.errstate(over="ignore"):
        found = threshold.astype(np.float32)
    return np.where(found > threshold, np.nextafter(found, np.float32(-np.inf)), found)


def descent(b: Builder, x: Value, trees: Sequence[Tree], start: Any) -> Value:
    """``start`` and the values of the leaves that `x` comes to, added up: a vector."""
    start = np.atleast_1d(np.asarray(start, np.float64))
    nodes = sum(len(t.left) for t in trees)
    nbytes = nodes * (13 + np.dtype(x.dtype).itemsize + 8 * len(start))
    if nbytes > LIMITS.forest_bytes:
        raise TraceError(
            f"its trees have {nodes:,} nodes, {nbytes >> 20:,} MiB: above "
            f"{LIMITS.forest_bytes >> 20} MiB they are left to the method itself"
        )
    features, thresholds, children, after, values, roots = [], [], [], [], [], []
    at = depth = 0
    for tree in trees:
        order, child, steps = _in_pairs(tree)
        leaf = tree.left[order] < 0
        features.append(np.where(leaf, 0, tree.feature[order]))
        threshold = np.where(leaf, np.inf, tree.threshold[order])
        thresholds.append(_rounded_down(threshold) if x.dtype.itemsize == 4 else threshold)
        children.append(child + at)
        after.append(~leaf & ~tree.missing_left[order].astype(bool))
        values.append(tree.values[order])
        roots.append(at)
        at += len(order)
        depth = max(depth, steps)

    def array(numbers: Any, dtype: str) -> Value:
        made: Value = b.const(np.array(numbers, dtype, order="C"))
        return made

    def joined(parts: list[np.ndarray], dtype: str) -> Value:
        return array(np.concatenate(parts), dtype)

    found: Value = b.node(
        "trees",
        x,
        joined(features, "int32"),
        joined(thresholds, x.aval.dtype),
        joined(children, "int32"),
        joined(after, "bool"),
        joined(values, "float64"),
        array(roots, "int32"),
        array(start, "float64"),
        depth=depth,
    )
    return found
