"""Elements of results, and contexts of exceptions, as pandas' own loop leaves them."""

import numpy as np
import pandas as pd
import pytest

import xpapply

pytestmark = [
    pytest.mark.usefixtures("by_source", "always"),
    pytest.mark.skipif(pd.__version__ < "3", reason="engines of other packages came with pandas 3"),
]


def of_some(r):
    return r["a"] if r["a"] > 0 else "none"


def of_twice(r):
    return r["a"] * 2 if r["a"] > 0 else "none"


def of_both(r):
    if r["a"] > 2:
        return 7
    return r["a"] if r["a"] > 0 else "none"


def of_truths(r):
    return r["a"] > 1 if r["a"] > 0 else "none"


def of_all(r):
    return r["a"] + 1


FUNCTIONS = [of_some, of_twice, of_both, of_truths, of_all]


@pytest.mark.parametrize("dtype", ["float64", "int64", "float32", "Int64", "Float64"])
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("patched", [False, True])
def test_classes_of_elements(dtype, missing, patched):
    """Among texts and None a number is the object that the function has returned."""
    a = pd.Series(np.random.default_rng(0).integers(-4, 5, 200).astype(float)).astype(dtype)
    if missing and dtype[0].isupper():
        a[a == 3] = pd.NA
    frame = pd.DataFrame({"a": a, "b": a})
    for f in FUNCTIONS:
        if missing and dtype[0].isupper() and f is not of_all:
            continue  # the truth of NA is not known
        want = frame.apply(f, axis=1)
        if patched:
            with xpapply.patch():
                got = frame.apply(f, axis=1)
        else:
            got = frame.apply(f, axis=1, engine=xpapply)
        pd.testing.assert_series_equal(got, want)
        assert [*map(type, got)] == [*map(type, want)]


def test_classes_of_mapped_elements():
    s = pd.Series(np.random.default_rng(0).normal(size=200))
    for f in (lambda x: np.sqrt(x) if x > 0 else "none", lambda x: x if x > 0 else "none"):
        got, want = s.map(f, engine=xpapply), s.map(f)
        pd.testing.assert_series_equal(got, want)
        assert [*map(type, got)] == [*map(type, want)]


FAILING = {
    "texts": lambda r: r["s"] + 1,
    "another row": lambda r: (r > 0).any(),
    "a mean": lambda r: r.mean(),
    "no number": lambda r: int(r["a"]) + len(r["t"]),
    "missing": lambda r: int(r["I"]),
}


@pytest.mark.parametrize("name", FAILING)
def test_contexts_of_exceptions(name):
    """What a function raises has no reason of ours as its context."""
    frame = pd.DataFrame({"a": np.arange(60.0), "s": "x", "t": pd.Timestamp("2000-01-01")})
    frame["I"] = pd.array([*range(59), None], "Int64")
    if name == "missing":
        frame = frame[["I"]].assign(J=frame["I"])
    raised = []
    for engine in ({}, {"engine": xpapply}):
        with pytest.raises(TypeError) as found:
            frame.apply(FAILING[name], axis=1, **engine)
        raised.append(found.value)
    assert str(raised[0]) == str(raised[1])
    assert raised[0].__context__ is None
    assert raised[1].__context__ is None


def test_contexts_of_exceptions_of_elements_and_groups():
    s = pd.Series(["a", "b"] * 50)
    with pytest.raises(TypeError) as found:
        s.map(lambda x: x + 1, engine=xpapply)
    assert found.value.__context__ is None
    groups = pd.DataFrame({"k": [1, 2] * 50, "x": s}).groupby("k")["x"]
    with xpapply.patch(), pytest.raises(TypeError) as found:
        groups.transform(lambda x: x.iloc[0] + 1)
    assert found.value.__context__ is None


def of_what_is_there(r):
    if r["a"] + 2 > 1:
        raise KeyError(1)
    return 3


def of_texts(r):
    if r["s"] == "x":
        return 1 // r["b"]
    return {0: 1}[r["b"] - r["b"] + (r["b"] == 2)]


def test_what_is_raised_first():
    """Also where a plan is known, so that no call tells before it runs."""
    lost = pd.DataFrame({"a": pd.array([None, 3, 1, -4] * 50, "Int64")})
    texts = pd.DataFrame({"s": ["x", "y"] * 100, "b": np.arange(200)})
    texts = texts.assign(b=np.where(texts.index == 150, 0, np.where(texts.index == 11, 2, 5)))
    for frame, f in ((lost, of_what_is_there), (texts, of_texts)):
        with pytest.raises((TypeError, KeyError)) as want:
            frame.apply(f, axis=1)
        number = frame.columns[-1]
        quiet = frame.assign(**{number: pd.array([-4] * 200, frame[number].dtype)})
        for _turn in range(3):
            quiet.apply(f, axis=1, engine=xpapply)
        for _turn in range(3):
            with pytest.raises(type(want.value)) as got:
                frame.apply(f, axis=1, engine=xpapply)
            assert str(got.value) == str(want.value)
