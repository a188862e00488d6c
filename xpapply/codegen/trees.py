"""Decision trees as kernels read them: packed nodes, and the CUDA kernel that goes down them.

A node is 8 bytes where it can be: its threshold in float32, then its feature, whether NaN goes to
the second one of its children, and where the first one is, counted from the root. Else it is 16
bytes, with the threshold in float64 and 32 bits for each of the two others. Children lie side by
side. A leaf is its own child, with a threshold that nothing is above, so that all slices may take
as many steps as the deepest leaf wants.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

FEATURE_BITS = 10
"""Bits of a small node for the feature; the next is for NaN, the others for the child."""
CHILD_SHIFT = FEATURE_BITS + 1
_CHILDREN = 1 << (32 - CHILD_SHIFT)
WIDE_AFTER = 31
"""The bit of the feature of a large node that says where NaN goes."""
NAME = "xpapply_trees"
THREADS = 128
"""Threads of a block on a GPU."""
_SHARED_BYTES = 32 << 10
"""Bytes of shared memory for the numbers of slices: several blocks fit on a multiprocessor."""
_SUMS = 16
"""Numbers of a result up to which a thread keeps them in registers."""


class Packed(NamedTuple):
    """The nodes of some trees.

    Attributes
    ----------
    nodes : ndarray
        Of all trees, one after the other: small ones with a field ``t`` and one ``word``, large
        ones with ``t``, ``feature`` and ``child``.
    trees : ndarray of int64, shape (trees, 2)
        The first node of each, and the steps to its deepest leaf.
    values : ndarray of float64, shape (nodes, width)
        What each leaf has.
    start : ndarray of float64, shape (width,)
        What the leaves are added to.
    small : bool
        Whether nodes are the small ones.
    ways : bool
        Whether NaN goes to the second child of some node.
    """

    nodes: np.ndarray
    trees: np.ndarray
    values: np.ndarray
    start: np.ndarray
    small: bool
    ways: bool


def pack(
    features: int,
    feature: np.ndarray,
    threshold: np.ndarray,
    child: np.ndarray,
    after: np.ndarray,
    values: np.ndarray,
    roots: np.ndarray,
    start: np.ndarray,
) -> Packed:
    """The constants of the op ``trees``, for slices of so many features."""
    ends = np.append(roots[1:], len(feature))
    of_tree = np.repeat(np.arange(len(roots)), ends - roots)
    relative = child - roots[of_tree]
    sizes = ends - roots
    small = (
        threshold.dtype == np.float32
        and features <= 1 << FEATURE_BITS
        and int(sizes.max(initial=0)) <= _CHILDREN
    )
    if small:
        nodes = np.empty(len(feature), [("t", "<f4"), ("word", "<u4")])
        word = feature.astype(np.uint32) | after.astype(np.uint32) << FEATURE_BITS
        nodes["word"] = word | relative.astype(np.uint32) << CHILD_SHIFT
    else:
        nodes = np.empty(len(feature), [("t", "<f8"), ("feature", "<u4"), ("child", "<u4")])
        nodes["feature"] = feature.astype(np.uint32) | after.astype(np.uint32) << WIDE_AFTER
        nodes["child"] = relative
    nodes["t"] = threshold
    depths = _depths(child, roots, ends)
    return Packed(
        nodes,
        np.ascontiguousarray(np.stack([roots.astype(np.int64), depths], 1)),
        np.ascontiguousarray(values, np.float64),
        np.ascontiguousarray(start, np.float64),
        small,
        bool(after.any()),
    )


def _depths(child: np.ndarray, roots: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """The steps from each root to its deepest leaf."""
    found = np.zeros(len(roots), np.int64)
    for k, (root, end) in enumerate(zip(roots.tolist(), ends.tolist(), strict=True)):
        own = child[root:end] - root
        level = np.array([0])
        while True:
            inner = level[own[level] != level]
            if not len(inner):
                break
            found[k] += 1
            level = np.concatenate([own[inner], own[inner] + 1])
    return found


# --- a GPU -------------------------------------------------------------------------------------

ARGUMENTS = ("x", "nodes", "values", "trees", "start", "y", "slices", "tree_count", "step", "next")
"""Arguments of the kernel. `step` is the distance between numbers of a slice, `next` between
slices, in elements; results are ``(width, slices)``, contiguous."""


def source(dtype: str, features: int, width: int, small: bool) -> str:
    """The CUDA kernel: one thread per slice, which goes down all trees and adds up in their order.

    Parameters
    ----------
    dtype : str
        Of the slices: float32 or float64.
    features, width : int
        Numbers of a slice, and of a result.
    small : bool
        Whether nodes have 8 bytes.
    """
    t = {"float32": "float", "float64": "double"}[dtype]
    shared = features * THREADS * (4 if t == "float" else 8) <= _SHARED_BYTES
    node = _SMALL if small else _LARGE
    lines = []
    if shared:
        lines.append(f"  __shared__ {t} own[{features * THREADS}];")
        lines.append(f"  for (int k = 0; k < {features}; ++k)")
        lines.append("    own[k * XP_THREADS + threadIdx.x] = x[i * next + k * step];")
    at = "own[feature * XP_THREADS + threadIdx.x]" if shared else "x[i * next + feature * step]"
    if width <= _SUMS:
        lines += [f"  double sum{k} = start[{k}];" for k in range(width)]
        add = [f"    sum{k} += leaf[{k}];" for k in range(width)]
        end = [f"  y[{k} * slices + i] = sum{k};" for k in range(width)]
    else:
        lines.append(f"  for (int k = 0; k < {width}; ++k) y[k * slices + i] = start[k];")
        add = [f"    for (int k = 0; k < {width}; ++k) y[k * slices + i] += leaf[k];"]
        end = []
    body = "\n".join(
        [
            *lines,
            "  for (long long tree = 0; tree < tree_count; ++tree) {",
            "    const long long root = trees[2 * tree];",
            "    const int depth = (int)trees[2 * tree + 1];",
            "    const XpNode* const own_nodes = nodes + root;",
            "    unsigned at = 0;",
            "    for (int level = 0; level < depth; ++level) {",
            "      const XpNode node = own_nodes[at];",
            f"      const unsigned feature = {node.feature};",
            f"      const {t} number = {at};",
            f"      const bool after = {node.after};",
            "      const unsigned next_at = "
            f"{node.child} + (number > node.t || (number != number && after));",
            "      if (next_at == at) break;",
            "      at = next_at;",
            "    }",
            f"    const double* const leaf = values + (root + at) * {width};",
            *add,
            "  }",
            *end,
        ]
    )
    return f"""
#define XP_THREADS {THREADS}
{node.struct}
extern "C" __global__ void __launch_bounds__({THREADS}) {NAME}(const {t}* x, const XpNode* nodes, \
const double* values, const long long* trees, const double* start, double* y, \
const long long slices, const long long tree_count, const long long step, const long long next) {{
  const long long i = (long long)blockIdx.x * XP_THREADS + threadIdx.x;
  if (i >= slices) return;
{body}
}}
"""


class _Text(NamedTuple):
    struct: str
    feature: str
    after: str
    child: str


_SMALL = _Text(
    "struct alignas(8) XpNode { float t; unsigned word; };",
    f"node.word & {(1 << FEATURE_BITS) - 1}u",
    f"(node.word >> {FEATURE_BITS}) & 1u",
    f"(node.word >> {CHILD_SHIFT})",
)
_LARGE = _Text(
    "struct alignas(16) XpNode { double t; unsigned feature, child; };",
    f"node.feature & {(1 << WIDE_AFTER) - 1}u",
    f"node.feature >> {WIDE_AFTER}",
    "node.child",
)


def constants(consts: Sequence[np.ndarray], features: int) -> Packed:
    """Pack the constant operands of a node of ``trees``."""
    feature, threshold, child, after, values, roots, start = consts
    return pack(features, feature, threshold, child, after, values, roots, start)
