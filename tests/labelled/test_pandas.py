"""pandas' tables: as ``df.apply(f, axis, raw=True)``, index and columns kept."""

import numpy as np
import pytest

import xpapply
from xpapply import InputError, special

pd = pytest.importorskip("pandas")

RNG = np.random.default_rng(6)


@pytest.fixture
def table():
    df = pd.DataFrame(
        RNG.normal(size=(5, 4)).round(2),
        index=pd.Index(list("abcde"), name="station"),
        columns=pd.MultiIndex.from_product([["u", "v"], [1, 2]]),
    )
    df.attrs["units"] = "K"
    return df


FUNCTIONS = {
    "median": np.median,
    "span": lambda v: v.max() - v.min(),
    "deviations": lambda v: v - v.mean(),
    "sorted": sorted,
    "written": lambda v: float(f"{v[0]:.1f}"),  # runs in the loop
    "whole": lambda v: int(v.argmax()),
}


@pytest.mark.parametrize("axis", [0, 1, "index", "columns", "rows", -1])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_those_of_apply(table, name, axis):
    f = FUNCTIONS[name]
    found = xpapply.apply_along_axis(f, axis, table)
    wanted = table.apply(f, axis=1 if axis == -1 else axis, raw=True)
    (pd.testing.assert_series_equal if wanted.ndim == 1 else pd.testing.assert_frame_equal)(
        found, wanted
    )
    assert found.attrs == wanted.attrs == {"units": "K"}


def test_columns_of_several_dtypes():
    df = pd.DataFrame({"a": [1, 2], "b": [0.5, 1.5], "c": np.array([1, 2], "f4")})
    pd.testing.assert_series_equal(
        xpapply.apply_along_axis(np.sum, 1, df), df.apply(np.sum, axis=1, raw=True)
    )
    df["d"] = ["x", "y"]
    pd.testing.assert_series_equal(
        xpapply.apply_along_axis(len, 1, df), df.apply(len, axis=1, raw=True)
    )


def test_results_of_another_length(table):
    found = xpapply.apply_along_axis(lambda v: v[:2], 1, table)
    assert found.columns.equals(pd.RangeIndex(2))
    assert found.index is table.index or found.index.equals(table.index)
    with xpapply.options(output_dims="extreme"):
        found = xpapply.apply_along_axis(lambda v: v[:2], "index", table)
    assert (found.index.name, found.shape) == ("extreme", (2, 4))
    assert found.columns.equals(table.columns)
    with pytest.raises(InputError, match=r"results of shape \(5, 4, 4\), and pandas has tables"):
        xpapply.apply_along_axis(lambda v: np.outer(v, v), 1, table)


def test_a_network(table):
    net = xpapply.MLP([RNG.normal(size=(2, 4))])
    found = xpapply.apply_along_axis(net, 1, table)
    np.testing.assert_array_equal(found, xpapply.apply_along_axis(net, 1, table.to_numpy()))
    assert found.index.equals(table.index)


def test_a_series(table):
    series = table["u", 1]
    assert xpapply.apply_along_axis(np.median, 0, series) == np.median(series)
    found = xpapply.apply_along_axis(lambda v: v - v.mean(), "index", series)
    pd.testing.assert_series_equal(found, series - series.to_numpy().mean())
    assert list(xpapply.apply_along_axis(lambda v: v[:2], 0, series).index) == [0, 1]
    with pytest.raises(InputError, match="no dim 'columns': Series has the dims 'index'"):
        xpapply.apply_along_axis(np.median, "columns", series)


def test_the_whole_table_is_one_slice(table):
    f = lambda m: m - m.mean()  # noqa: E731
    pd.testing.assert_frame_equal(
        xpapply.apply_along_axis(f, ("index", "columns"), table), table - table.to_numpy().mean()
    )


def test_the_plan(table):
    assert xpapply.explain(np.median, "columns", table).out_shape == (5,)
    with pytest.raises(InputError, match="no dim 'u': DataFrame has the dims 'index', 'columns'"):
        xpapply.explain(np.median, "u", table)


# --- functions of slices -----------------------------------------------------------------------


@pytest.mark.parametrize("axis", [0, 1, "index", "columns", None, (0, 1)])
@pytest.mark.parametrize("name", ["logsumexp", "norm", "argmax_and_max", "softmax", "standardize"])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i2", "c16"])
def test_functions_of_slices(table, name, axis, dtype):
    if dtype == "c16" and name == "argmax_and_max":
        return
    f, data = getattr(special, name), table.to_numpy().astype(dtype)
    df = pd.DataFrame(data, table.index, table.columns)
    number = {"index": 0, "columns": 1}.get(axis, axis) if type(axis) is str else axis
    found, wanted = f(df, axis=axis), f(data, axis=number)
    assert type(found) is type(wanted) or not isinstance(wanted, tuple)
    found, wanted = (x if isinstance(x, tuple) else (x,) for x in (found, wanted))
    for y, z in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(np.asarray(y), z)
        assert np.asarray(y).dtype == z.dtype
        if z.ndim:
            kept = table.axes if z.ndim == 2 else [table.axes[1 - number]]
            assert all(a.equals(b) for a, b in zip(y.axes, kept, strict=True))


def test_keepdims_and_counts(table):
    kept = special.norm(table, axis=1, keepdims=True)
    assert kept.shape == (5, 1)
    assert kept.index.equals(table.index)
    counts = special.bincount((table**2).astype(int), axis="columns")
    assert counts.columns.name == "bin"
    assert (counts.sum(axis=1) == 4).all()


def test_labels_that_do_not_agree(table):
    weights = pd.Series(np.ones(4), table.columns)
    found = special.logsumexp(table, axis=1, b=weights)
    np.testing.assert_allclose(found, special.logsumexp(table.to_numpy(), axis=1))
    with pytest.raises(InputError, match=r"a Series whose labels are not those of what it meets"):
        special.logsumexp(table, axis=1, b=weights.iloc[::-1])
    with pytest.raises(InputError, match="has no labels for all its dims"):
        special.squared_diff(table, np.ones((2, 5, 4)))


def test_functions_of_elements(table):
    square = xpapply.elementwise(lambda x: x * x)
    pd.testing.assert_frame_equal(square(table), table * table)
    with pytest.raises(InputError, match="of labelled arrays into out="):
        square(table, out=np.zeros((5, 4)))
