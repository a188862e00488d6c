"""Checks of the constants of the op ``trees``: kernels follow them unchecked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def why_not(consts: Sequence[np.ndarray], features: int, depth: int) -> str | None:
    """Why constants are not trees for slices of so many numbers, or None.

    Parameters
    ----------
    consts : sequence of array
        The operands after the first, of the shapes and dtypes that the rule has.
    features : int
        Numbers of a slice.
    depth : int
        The attribute: steps to the deepest leaf.
    """
    feature, threshold, child, after, _, roots, _ = consts
    places = np.arange(len(child))
    if not len(roots) or roots[0] != 0 or (np.diff(roots) <= 0).any() or roots[-1] >= len(child):
        return "the roots are not the first nodes of their trees"
    leaf = child == places
    if (threshold[leaf] < np.inf).any() or after[leaf].any():
        return "something leads on from a leaf"
    if len(feature) and not 0 <= feature.min() <= feature.max() < features:
        return f"features outside {features}"
    ends = np.append(roots[1:], len(child))[np.searchsorted(roots, places, "right") - 1]
    inner = child[~leaf].astype(np.int64)
    # children come later, in their tree, and have one parent: every way ends
    if (inner <= places[~leaf]).any() or (inner + 1 >= ends[~leaf]).any():
        return "children outside their tree"
    parents = np.bincount(np.concatenate([inner, inner + 1]), minlength=len(child))
    if (parents > 1).any():
        return "a node with two parents"
    steps = _depth(child, roots)
    return None if steps == depth else f"depth={depth} of trees of {steps} levels"


def _depth(child: np.ndarray, roots: np.ndarray) -> int:
    found, level = 0, roots
    while len(level := level[child[level] != level]):
        level = np.concatenate([child[level], child[level] + 1])
        found += 1
    return found
