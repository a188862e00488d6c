"""Decision trees that are drawn at random, and the plain way down them."""

import numpy as np
from hypothesis import strategies as st

NUMBERS = (0.0, -0.0, 1.5, -1.5, 1e-45, -1e-40, 3e38, -3e38)


def drawn(rng, depth, width, features, dtype, trees=3, leaning=0.7, missing=True):
    """The constants of the op `trees`, of trees at most so deep, some of which are one leaf."""
    feature, threshold, child, after, values, roots = [], [], [], [], [], []

    def grow():
        roots.append(len(feature))
        level = [roots[-1]]
        for columns in (feature, threshold, child, after):
            columns.append(0)
        for d in range(depth + 1):
            following = []
            for node in level:
                child[node], threshold[node] = node, np.inf
                if d < depth and rng.random() < leaning:
                    feature[node] = int(rng.integers(features))
                    threshold[node] = rng.choice([rng.normal(), *NUMBERS])
                    after[node] = bool(missing and rng.random() < 0.5)
                    child[node] = len(feature)
                    following += [len(feature), len(feature) + 1]
                    for columns in (feature, threshold, child, after):
                        columns += [0, 0]
            level = following

    for _ in range(trees):
        grow()
    values = rng.normal(size=(len(feature), width))
    return (
        np.array(feature, np.int32),
        np.array(threshold).astype(dtype),
        np.array(child, np.int32),
        np.array(after, bool),
        values,
        np.array(roots, np.int32),
        rng.normal(size=width),
    )


def down(x, consts):
    """One slice after the other, one tree after the other."""
    feature, threshold, child, after, values, roots, start = consts
    found = np.empty((len(x), len(start)))
    for i, row in enumerate(x):
        total = start.copy()
        for place in roots:
            while child[place] != place:
                number = row[feature[place]]
                second = after[place] if np.isnan(number) else number > threshold[place]
                place = child[place] + second
            total = total + values[place]
        found[i] = total
    return found


def slices(rng, count, features, dtype, consts, missing=True):
    """Numbers of which many are thresholds, or the odd ones."""
    _, threshold, *_ = consts
    known = threshold[np.isfinite(threshold)]
    x = rng.normal(size=(count, features))
    x = np.where(rng.random(x.shape) < 0.3, rng.choice([*known, *NUMBERS], x.shape), x)
    if missing:
        x = np.where(rng.random(x.shape) < 0.1, np.nan, x)
    return x.astype(dtype)


@st.composite
def cases(draw, missing=True):
    """A dtype, features, constants, slices."""
    rng = np.random.default_rng(draw(st.integers(0, 1 << 20)))
    dtype = draw(st.sampled_from(["float32", "float64"]))
    features = draw(st.integers(1, 9))
    consts = drawn(
        rng,
        draw(st.integers(0, 9)),
        draw(st.sampled_from([1, 2, 3, 7, 8, 9, 17, 20])),
        features,
        dtype,
        draw(st.integers(1, 6)),
        draw(st.sampled_from([0.0, 0.5, 0.8, 1.0])),
        missing,
    )
    count = draw(st.integers(1, 40))
    return dtype, features, consts, slices(rng, count, features, dtype, consts, missing)


def depth_of(consts):
    """Of the deepest leaf of all."""
    _, _, child, _, _, roots, _ = consts
    found, level = 0, roots
    while len(level := level[child[level] != level]):
        level = np.concatenate([child[level], child[level] + 1])
        found += 1
    return found
