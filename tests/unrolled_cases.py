"""Functions of short slices whose values have any shape."""

import itertools

import numpy as np

W = np.random.default_rng(0).normal(size=(3, 4))

FUNCTIONS = {
    "stacked": lambda v: np.stack([v[0] * v[1], v[-1] - v[0]]),
    "matrix": lambda v: W @ v[:4],
    "two matrices": lambda v: (W.T @ (W @ v[:4])).reshape(2, 2),
    "standardized": lambda v: (v - v.mean()) / (v.std() + 1),
    "outer": lambda v: v[:5, None] * v[None, :5],
    "differences": lambda v: v[1:] - v[:-1],
    "reversed": lambda v: np.concatenate([v[::-1], v[:2]]),
    "sums": lambda v: v.sum() + (v * v).sum(keepdims=True),
    "rows": lambda v: (v[:4].reshape(2, 2) * 2).sum(axis=0),
    "columns": lambda v: v[:4].reshape(2, 2).max(axis=1),
    "transposed": lambda v: v[:6].reshape(2, 3).T @ v[1:3],
    "powers": lambda v: np.stack([np.exp(-v * v).sum(), np.tanh(v).max(), (1 / (v + 9)).min()]),
    "place": lambda v: v[::-1].argmax(),
    "places": lambda v: v[:6].reshape(3, 2).argmin(axis=0),
    "chosen": lambda v: np.where(v[:4] > v[1:5], v[:4], W[0]),
    "conditions": lambda v: (v[1:] > v[:-1]) & np.isfinite(v[1:]),
    "constant": lambda v: np.concatenate([np.ones(2) * v[0], W[1] @ W[2] + v[:1]]),
    "pairs": lambda v: np.stack([a * b for a, b in itertools.combinations(v[:4], 2)]),
}
"""Each needs six numbers."""
