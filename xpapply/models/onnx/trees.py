"""Decision trees of ai.onnx.ml, as the op of trees."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import TraceError
from ...ir.builder import Value
from ...ir.forest import Tree, descent
from ...ir.ops import F
from ...limits import LIMITS
from .ml import after, looked_up
from .program import ML, DecodedNode
from .writer import Given, OnnxWriter, row

_MODES = ("BRANCH_LEQ", "BRANCH_LT", "LEAF")


def _ints(n: DecodedNode, name: str) -> np.ndarray:
    return np.array(n.attr(name) or (), np.int64)


class _Forest:
    """The nodes of all trees, each a place in the file's lists."""

    def __init__(self, n: DecodedNode, kind: str, width: int) -> None:
        if n.attr("nodes_values_as_tensor") is not None:
            raise TraceError("thresholds of float64")
        tree, node = _ints(n, "nodes_treeids"), _ints(n, "nodes_nodeids")
        count = len(tree)
        modes = n.attr("nodes_modes") or ()
        if odd := set(modes) - set(_MODES):
            raise TraceError(f"branches by {sorted(odd)[0]}")
        self.leaf = np.array([m == "LEAF" for m in modes], bool)
        self.feature = _ints(n, "nodes_featureids")
        threshold = np.array(n.attr("nodes_values") or (), np.float32)
        missing = n.attr("nodes_missing_value_tracks_true") or (0,) * count
        self.missing = np.array(missing, bool)
        yes, no = _ints(n, "nodes_truenodeids"), _ints(n, "nodes_falsenodeids")
        parts = (node, self.leaf, self.feature, threshold, self.missing, yes, no)
        if not count or {len(p) for p in parts} != {count} or np.isnan(threshold).any():
            raise TraceError("lists of nodes of several lengths, or thresholds that are NaN")
        below = np.nextafter(threshold, np.float32(-np.inf))
        strict = np.array([m == "BRANCH_LT" for m in modes], bool)
        self.threshold = np.where(strict, below, threshold)
        self._at = {key: k for k, key in enumerate(zip(tree.tolist(), node.tolist(), strict=True))}
        if len(self._at) < count:
            raise TraceError("nodes with the same number")
        inner = np.flatnonzero(~self.leaf)
        self.left, self.right = np.full(count, -1), np.full(count, -1)
        self.left[inner] = self._places(tree[inner], yes[inner])
        self.right[inner] = self._places(tree[inner], no[inner])
        children = np.concatenate([self.left[inner], self.right[inner]])
        parents = np.bincount(children, minlength=count)
        self.roots = np.flatnonzero(parents == 0)
        if parents.max() > 1 or not np.array_equal(np.unique(tree), np.sort(tree[self.roots])):
            raise TraceError("nodes that are not trees")
        if len(self.roots) > LIMITS.onnx_trees:
            raise TraceError(f"{len(self.roots):,} trees")
        if count * width > LIMITS.onnx_tree_values:
            raise TraceError(f"{width:,} results of {count:,} nodes")
        self.values = np.zeros((count, width))
        where = self._places(_ints(n, f"{kind}_treeids"), _ints(n, f"{kind}_nodeids"))
        ids, weights = _ints(n, f"{kind}_ids"), np.array(n.attr(f"{kind}_weights") or ())
        if not len(where) == len(ids) == len(weights) or not len(ids):
            raise TraceError("lists of weights of several lengths, or of float64")
        if min(ids) < 0 or max(ids) >= width or not self.leaf[where].all():
            raise TraceError(f"weights of {width} results or of leaves that do not exist")
        np.add.at(self.values, (where, ids), weights)

    def _places(self, tree: np.ndarray, node: np.ndarray) -> np.ndarray:
        try:
            both = zip(tree.tolist(), node.tolist(), strict=True)
            return np.array([self._at[key] for key in both], np.int64)
        except KeyError as error:
            raise TraceError(f"node {error.args[0]} is not there") from None

    def trees(self) -> list[Tree]:
        """Each by itself, from its root on."""
        found = [self._of_root(root) for root in self.roots.tolist()]
        if sum(len(t.left) for t in found) < len(self.leaf):  # a circle
            raise TraceError("nodes that are not trees")
        return found

    def _of_root(self, root: int) -> Tree:
        levels, level = [], np.array([root])
        while len(level):  # no node has two parents, and the root has none: this ends
            levels.append(level)
            inner = level[~self.leaf[level]]
            level = np.concatenate([self.left[inner], self.right[inner]])
            if len(levels) > LIMITS.onnx_tree_depth:
                raise TraceError(f"trees of more than {LIMITS.onnx_tree_depth} levels")
        own = np.concatenate(levels)
        place = np.full(len(self.leaf) + 1, -1) if len(self.roots) == 1 else None
        if place is not None:
            place[own] = np.arange(len(own))
            left, right = place[self.left[own]], place[self.right[own]]
        else:
            known = {k: i for i, k in enumerate(own.tolist())} | {-1: -1}
            left, right = (
                np.array([known[k] for k in side[own].tolist()]) for side in (self.left, self.right)
            )
        return Tree(
            left,
            right,
            self.feature[own],
            self.threshold[own],
            self.missing[own],
            self.values[own],
        )


def _sums(
    w: OnnxWriter, n: DecodedNode, x: Given, kind: str, width: int, base: np.ndarray
) -> Value:
    """Sum the leaves of a slice: float32, of shape (1, width)."""
    v = w.value(x)
    if len(v.shape) != 2 or v.shape[0] != 1 or v.aval.dtype != "float32":
        raise TraceError(f"trees of {v.aval}")
    forest = _Forest(n, kind, width)
    inner = forest.feature[~forest.leaf]
    if len(inner) and not 0 <= inner.min() <= inner.max() < v.shape[1]:
        raise TraceError(f"features outside {v.shape[1]}")
    writes: Any = w
    found = descent(writes, F.reshape(v, shape=v.shape[1:]), forest.trees(), base)
    if n.attr("aggregate_function", "SUM") == "AVERAGE":
        found = found / float(len(forest.roots))
    elif n.attr("aggregate_function", "SUM") != "SUM":
        raise TraceError(f"aggregate_function={n.attr('aggregate_function')!r}")
    return F.reshape(w.op("cast", found, dtype="float32"), shape=(1, width))  # type: ignore[no-any-return]


def _base(n: DecodedNode, width: int) -> np.ndarray:
    given = n.attr("base_values")
    found = (
        np.array(given)
        if given
        else np.zeros(width if 0 < width <= LIMITS.onnx_tree_results else 0)
    )
    if len(found) != width or n.attr("base_values_as_tensor") is not None:
        raise TraceError(f"{len(found)} base values of {width} results, or of float64")
    return found


@row("TreeEnsembleRegressor", domain=ML)
def _regressor(w: OnnxWriter, n: DecodedNode, x: Given) -> Value:
    width = n.attr("n_targets", 1)
    if n.attr("post_transform", "NONE") != "NONE":  # which onnxruntime leaves out
        raise TraceError(f"post_transform={n.attr('post_transform')!r}")
    return _sums(w, n, x, "target", width, _base(n, width))


@row("TreeEnsembleClassifier", domain=ML)
def _classifier(w: OnnxWriter, n: DecodedNode, x: Given) -> tuple[Given, Given]:
    texts = n.attr("classlabels_strings") or ()
    labels = n.attr("classlabels_int64s") or range(len(texts))
    ids: tuple[int, ...] = n.attr("class_ids") or ()
    table = np.array(labels, np.int64)
    if len(labels) == 2 and len(set(ids)) == 1:  # one score, of which the other is made
        place, scores = _of_two(w, n, x, ids[0])
    else:
        sums = _sums(w, n, x, "class", len(labels), _base(n, len(labels)))
        place, scores = w.op("argmax", sums, axis=(1,), keepdims=False), after(w, n, sums)
    return None if texts else looked_up(w, table, place), scores


def _of_two(w: OnnxWriter, n: DecodedNode, x: Given, at: int) -> tuple[Value, Value]:
    """Choose between two classes, and their scores, where the file has those of one."""
    sums = _sums(w, n, x, "class", 2, np.zeros(2))
    base = n.attr("base_values") or (0.0,)
    if len(base) != 1:
        raise TraceError("two base values of one score")
    one = F.index(sums, key=((None, None, None), (at, at + 1, 1))) + float(np.float32(base[0]))
    how = n.attr("post_transform", "NONE")
    if min(n.attr("class_weights")) >= 0 and how == "NONE":
        pair, second = [1.0 - one, one], one > 0.5
    elif min(n.attr("class_weights")) < 0 and how == "LOGISTIC":
        pair, second = [w.op("sigmoid", -one), w.op("sigmoid", one)], one > 0.0
    else:
        raise TraceError(f"one score of two classes, with post_transform={how!r}")
    place = F.reshape(w.op("cast", second, dtype="int64"), shape=(1,))
    return place, w.op("concat", *pair, axis=1)
