"""vectorize of labelled arguments: core dims by name, loop dims meet by name, labels put back."""

import operator

import numpy as np
import pytest

import xpapply
from xpapply import InputError

xr = pytest.importorskip("xarray")
pd = pytest.importorskip("pandas")

RNG = np.random.default_rng(8)

weighted = xpapply.vectorize(lambda a, w: (a * w).sum(), signature="(n),(n)->()")
deviations = xpapply.vectorize(lambda a: a - a.mean(), signature="(n)->(n)")
ends = xpapply.vectorize(lambda a: (a.max(), a[:2]), signature="(n)->(),(k)")
larger = xpapply.vectorize(lambda a, b: a - b if a > b else 0.0)


@pytest.fixture
def field():
    return xr.DataArray(
        RNG.normal(size=(4, 5, 6)),
        dims=("time", "y", "x"),
        coords={"time": np.arange(4) * 10, "x": np.arange(6.0), "member": 3},
        name="temperature",
        attrs={"units": "K"},
    )


@pytest.fixture
def weights(field):
    return xr.DataArray([1.0, 2.0, 3.0, 4.0], {"time": field.time}, ("time",), attrs={"w": 1})


@pytest.mark.parametrize("keep_attrs", ["default", True, False])
def test_functions_of_numbers(field, keep_attrs):
    other = field.isel(time=0, drop=True)
    with xr.set_options(keep_attrs=keep_attrs):
        for a, b in ((field, other), (other, field), (field, 0.5), (field, field.data[0])):
            wanted = xr.apply_ufunc(lambda a, b: np.where(a > b, a - b, 0.0), a, b)
            xr.testing.assert_identical(larger(a, b), wanted)
        xr.testing.assert_identical(larger(a=field, b=other), larger(field, other))


@pytest.mark.parametrize("how", [{"axis": "time"}, {"axes": ["time", ("time",), ()]}, {"axis": 0}])
@pytest.mark.parametrize("keep_attrs", ["default", False])
def test_core_dims_that_the_call_names(field, weights, how, keep_attrs):
    with xr.set_options(keep_attrs=keep_attrs):
        found = weighted(field, weights, **how)
        wanted = xr.apply_ufunc(
            np.dot, field, weights, input_core_dims=[["time"], ["time"]], vectorize=True
        )
    xr.testing.assert_allclose(found, wanted)
    assert found.attrs == wanted.attrs
    np.testing.assert_allclose(weighted(field, weights.data, **how), wanted)


def test_core_dims_that_the_signature_names(field, weights):
    by_name = xpapply.vectorize(lambda a, w: (a * w).sum(), signature="(time),(time)->()")
    xr.testing.assert_identical(by_name(field, weights), weighted(field, weights, axis="time"))
    last = xpapply.vectorize(np.ptp, signature="(n)->()")
    assert last(field).dims == ("time", "y")


@pytest.mark.parametrize("dim", ["time", "y", "x"])
def test_results_with_core_dims(field, dim):
    found = deviations(field, axis=dim)
    wanted = (field - field.mean(dim)).transpose(*field.dims)
    xr.testing.assert_allclose(found, wanted)
    assert list(found.coords) == list(field.coords)
    most, first = ends(field, axis=dim)
    xr.testing.assert_allclose(most, field.max(dim))
    assert first.dims == tuple("k" if d == dim else d for d in field.dims)
    np.testing.assert_array_equal(first, field.isel({dim: slice(2)}))
    kept = weighted(field, field, axis=dim, keepdims=True)
    assert kept.sizes == {**field.sizes, dim: 1}
    assert dim not in kept.coords


def test_names_of_new_dims(field):
    def named(names, signature="(n)->(k)"):
        return xpapply.vectorize(lambda a: a[:2], signature=signature, output_dims=names)

    for names in ("end", ("end",), [("end",)]):
        assert named(names)(field, axis="y").dims == ("time", "end", "x")
    with xpapply.options(output_dims="end"):
        assert named(None)(field, axis="y").dims == ("time", "end", "x")
    assert named(None, "(n)->(2)")(field, axis="x").dims == ("time", "y", "x_out")
    same = named("x")(field, axis="x")  # the same name for another length: without coordinates
    assert "x" not in same.coords
    with pytest.raises(InputError, match="two dims of the results would be called 'y'"):
        named("y")(field, axis="x")
    with pytest.raises(InputError, match=r"output_dims=.* are not as many as in the results"):
        named(("a", "b"))(field, axis="x")


def test_containers_of_results(field):
    both = xpapply.vectorize(lambda a: {"low": a.min(), "high": a.max()}, signature="(n)->(),()")
    found = both(field, axis="y")
    xr.testing.assert_allclose(found["low"], field.min("y"))
    xr.testing.assert_allclose(found["high"], field.max("y"))
    pair = xpapply.vectorize(divmod)(field, 2.0)
    for part, f in zip(pair, (operator.floordiv, operator.mod), strict=True):
        xr.testing.assert_allclose(part, f(field, 2.0))


def test_where(field, weights):
    some = field.isel(time=0, drop=True) > 0
    found = weighted(field, weights, axis="time", where=some, fill=-1.0)
    xr.testing.assert_allclose(found, (field * weights).sum("time").where(some, -1.0))


def test_datasets(field, weights):
    dataset = xr.Dataset({"a": field, "b": field.mean("time")}, attrs={"z": 1})
    found = weighted(dataset, weights, axis="time")
    xr.testing.assert_allclose(found.a, weighted(field, weights, axis="time"))
    xr.testing.assert_identical(found.b, dataset.b)
    assert found.attrs == {"z": 1}
    both = xpapply.vectorize(divmod)(dataset, dataset)
    xr.testing.assert_allclose(both[0], dataset // dataset)
    with pytest.raises(InputError, match="has no variable 'b'"):
        larger(dataset, dataset[["a"]])


def test_core_dims_of_other_lengths(field):
    longest = xpapply.vectorize(lambda a, b: a.max() + b.max(), signature="(n),(m)->()")
    half = field.isel(time=slice(2))
    wanted = field.max("time") + half.max("time")
    xr.testing.assert_allclose(longest(field, half, axes=["time", "time", ()]), wanted)


def test_what_does_not_fit(field, weights):
    with pytest.raises(ValueError, match="cannot align objects"):
        larger(field, field.assign_coords(x=range(1, 7)))
    with pytest.raises(InputError, match="no dim 'z': DataArray has the dims 'time', 'y', 'x'"):
        deviations(field, axis="z")
    with pytest.raises(InputError, match="no dim 'z': the Dataset has"):
        deviations(field.to_dataset(), axis="z")
    with pytest.raises(InputError, match="out= of labelled arrays"):
        deviations(field, out=np.zeros(field.shape))
    with pytest.raises(TypeError, match="axis, axes and keepdims are for core"):
        larger(field, 1.0, axis="x")
    with pytest.raises(ValueError, match=r"argument 1 with the dims \(\) does not have enough"):
        weighted(field, weights[0])


def test_the_plan(field):
    plan = deviations.explain(field, axis="time")
    assert plan.out_shape == (5, 6, 4)
    assert plan.vectorized


def test_arguments_that_are_excluded_stay_as_they_are(field):
    seen = []

    def f(v, table):
        seen.append(type(table))
        return v + 1

    g = xpapply.vectorize(f, excluded={1}, otypes="d")
    xr.testing.assert_allclose(g(field, field), field + 1)
    np.testing.assert_allclose(g(field.data, field), field.data + 1)
    assert set(seen) == {xr.DataArray}


# --- inside xarray's own functions -------------------------------------------------------------


def test_within_apply_ufunc_and_map_blocks(field, weights):
    pytest.importorskip("dask.array")
    chunked = field.chunk(x=2, y=3)
    found = xr.apply_ufunc(
        weighted,
        chunked,
        weights,
        input_core_dims=[["time"], ["time"]],
        dask="parallelized",
        output_dtypes=[float],
    )
    assert found.chunks == ((3, 2), (2, 2, 2))
    xr.testing.assert_allclose(found.compute(), weighted(field, weights, axis="time"))
    found = xr.map_blocks(deviations, chunked, kwargs={"axis": "time"}, template=chunked)
    xr.testing.assert_allclose(found.compute(), deviations(field, axis="time"))
    most, first = xr.apply_ufunc(
        ends,
        chunked,
        input_core_dims=[["time"]],
        output_core_dims=[[], ["k"]],
        dask="parallelized",
        output_dtypes=[float, float],
        dask_gufunc_kwargs={"output_sizes": {"k": 2}},
    )
    xr.testing.assert_allclose(most.compute(), field.max("time"))
    assert first.compute().shape == (5, 6, 2)


def test_groups(field):
    found = field.groupby("time").map(lambda part: deviations(part, axis="x"))
    xr.testing.assert_allclose(found, deviations(field, axis="x"))


# --- pandas ------------------------------------------------------------------------------------


@pytest.fixture
def table():
    return pd.DataFrame(RNG.normal(size=(5, 4)), list("abcde"), list("wxyz"))


def test_tables(table):
    pd.testing.assert_frame_equal(larger(table, 0.2), (table - 0.2).clip(lower=0))
    pd.testing.assert_series_equal(
        larger(table["w"], table["x"]), (table["w"] - table["x"]).clip(lower=0), check_names=False
    )
    pd.testing.assert_frame_equal(larger(table, table.loc["a"]), (table - table.loc["a"]).clip(0))
    for axis in (0, "index", 1, "columns", None):
        across = axis in (1, "columns", None)
        found = deviations(table, axis=axis)
        wanted = table.sub(table.mean(axis=1), axis=0) if across else table - table.mean()
        pd.testing.assert_frame_equal(found, wanted)
        by = table.loc["a"] if across else table["w"]
        wanted = (table * by).sum(axis=1) if across else table.mul(by, axis=0).sum()
        pd.testing.assert_series_equal(weighted(table, by, axis=axis), wanted)
        kept = weighted(table, table, axis=axis, keepdims=True)
        assert kept.shape == ((5, 1) if across else (1, 4))
    most, first = ends(table)
    pd.testing.assert_series_equal(most, table.max(axis=1))
    np.testing.assert_array_equal(first, table.iloc[:, :2])
    assert first.index.equals(table.index)
    assert ends(table, axis="index")[1].columns.equals(table.columns)
    outer = xpapply.vectorize(np.outer, signature="(n),(m)->(n,m)")
    with pytest.raises(TypeError, match="axis= needs core dimensions that are single ones"):
        outer(table, table, axis=0)


def test_tables_that_do_not_fit(table):
    with pytest.raises(InputError, match="labels are not those of what it meets: 'z', 'y', 'x'"):
        weighted(table, table.loc["a"].iloc[::-1])
    with pytest.raises(InputError, match="labels are not those"):
        larger(table, table.iloc[::-1])
    with pytest.raises(InputError, match="have loop dims that no DataFrame"):
        weighted(table, np.ones((2, 5, 4)))
    with pytest.raises(InputError, match="out= of labelled arrays"):
        larger(table, 1.0, out=np.zeros((5, 4)))
    with pytest.raises(InputError, match="no dim 'z': DataFrame has the dims"):
        deviations(table, axis="z")


def test_names_of_new_dims_of_tables(table):
    _, first = xpapply.vectorize(
        lambda a: (a.max(), a[:2]), signature="(n)->(),(k)", output_dims=[(), ("end",)]
    )(table)
    assert first.columns.name == "end"


def test_where_and_the_plan_of_tables(table):
    some = table["w"] > 0
    found = weighted(table, table, where=some, fill=0.0)
    pd.testing.assert_series_equal(
        found, (table**2).sum(axis=1).where(some, 0.0), check_names=False
    )
    assert deviations.explain(table).slices == 5
