"""Random labelled arrays: the data of the plain call, the labels that xarray and pandas give."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xpapply

xr = pytest.importorskip("xarray")
pd = pytest.importorskip("pandas")

pytestmark = pytest.mark.filterwarnings("ignore::xpapply.FallbackWarning")

FUNCTIONS = {
    "sum": lambda v: v.sum(),
    "largest": lambda v: v.max() - v.min(),
    "position": lambda v: v.argmax(),
    "scaled": lambda v: v * 2,
    "deviations": lambda v: v - v.mean(),
    "two": lambda v: np.stack([v.min(), v.max()]),
    "matrix": lambda v: np.ones((2, 3), v.dtype) * v.ravel()[0],
    "flat": lambda v: v.ravel()[:3],
    "loop": lambda v: float(f"{v.ravel()[0]:.2f}"),
}
REDUCTIONS = [
    name for name in FUNCTIONS if FUNCTIONS[name](np.ones((2, 2))).__class__ is not np.ndarray
]
DTYPES = st.sampled_from(["f4", "f8", "i4", "u1", "c8"])


def numbers(shape, dtype, seed):
    x = np.random.default_rng(seed).integers(0, 50, shape).astype(dtype)
    return x / x.dtype.type(4) if x.dtype.kind in "fc" else x


@st.composite
def variables(draw, dims="abcd"):
    """An array with names, and nothing else."""
    dims = tuple(draw(st.permutations(dims))[: draw(st.integers(1, len(dims)))])
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=len(dims), max_size=len(dims))))
    return dims, numbers(shape, draw(DTYPES), draw(st.integers(0, 99)))


@st.composite
def dataarrays(draw):
    """A DataArray with some coordinates of each kind."""
    dims, data = draw(variables())
    x = xr.DataArray(data, dims=dims, name=draw(st.sampled_from([None, "t", 3])))
    x.attrs = draw(st.sampled_from([{}, {"units": "K"}]))
    for d in dims:
        n, what = x.sizes[d], draw(st.sampled_from(["none", "index", "dates", "several", "other"]))
        if what == "index":
            x = x.assign_coords({d: (d, np.arange(n) * 10, {"axis": d})})
        elif what == "dates":
            x = x.assign_coords({d: pd.date_range("2020", periods=n)})
        elif what == "several":
            levels = pd.MultiIndex.from_arrays(
                [range(n), list("wxyz")[:n]], names=[d + "1", d + "2"]
            )
            x = x.assign_coords(xr.Coordinates.from_pandas_multiindex(levels, d))
        elif what == "other":
            x = x.assign_coords({f"{d}_name": (d, list("wxyz")[:n])})
    if len(dims) > 1 and draw(st.booleans()):
        x = x.assign_coords(wide=(dims[:2], np.ones(x.shape[:2])))
    return x.assign_coords(member=3) if draw(st.booleans()) else x


@st.composite
def cases(draw, arrays=None):
    """A DataArray, the dims of a slice, and how a call says which they are."""
    x = draw(dataarrays() if arrays is None else arrays)
    count = draw(st.integers(1, min(2, x.ndim)))
    dims = tuple(draw(st.permutations(x.dims))[:count])
    ways = [
        dims,
        tuple(x.dims.index(d) for d in dims),
        tuple(x.dims.index(d) - x.ndim for d in dims),
    ]
    axis = draw(st.sampled_from(ways))
    return x, dims, axis if count > 1 or draw(st.booleans()) else axis[0]


def as_apply_ufunc(f, x, dims):
    """What `xarray.apply_ufunc` makes of the plain loop, with the dims where they belong."""
    one = x.isel({d: 0 for d in x.dims if d not in dims}).transpose(*dims)
    shape, lengths = np.shape(f(one.data)), one.shape
    stem = "_".join(dims) + "_out"
    new = [stem] if len(shape) == 1 else [f"{stem}_{k}" for k in range(len(shape))]
    new = list(dims) if shape == lengths else new

    def loop(a):
        rows = a.reshape(-1, *lengths)
        return np.stack([f(v) for v in rows]).reshape((*a.shape[: a.ndim - len(dims)], *shape))

    found = xr.apply_ufunc(
        loop,
        x,
        input_core_dims=[dims],
        output_core_dims=[new],
        exclude_dims=set() if shape == lengths else set(dims),
    )
    kept = [d for d in x.dims if d not in dims]
    at = sum(d not in dims for d in x.dims[: x.dims.index(dims[0])])
    return found.transpose(*kept[:at], *new, *kept[at:])


def assert_same(found, wanted):
    assert found.dims == wanted.dims
    assert found.dtype == wanted.dtype
    assert (found.name, found.attrs) == (wanted.name, wanted.attrs)
    xr.testing.assert_allclose(found, wanted, rtol=1e-5)
    assert list(found.coords) == list(wanted.coords)
    for name, coord in wanted.coords.items():
        xr.testing.assert_identical(found.coords[name].variable, coord.variable)
    assert [*found.xindexes] == [*wanted.xindexes]
    assert {k: type(i) for k, i in found.xindexes.items()} == {
        k: type(i) for k, i in wanted.xindexes.items()
    }


@given(cases(), st.sampled_from([*FUNCTIONS]), st.sampled_from(["default", True, False]))
def test_dataarrays(case, name, keep_attrs):
    (x, dims, axis), f = case, FUNCTIONS[name]
    if x.dtype.kind == "c" and name == "loop":
        f = FUNCTIONS["sum"]
    with xr.set_options(keep_attrs=keep_attrs):
        found = xpapply.apply_along_axis(f, axis, x)
        wanted = as_apply_ufunc(f, x, dims)
        assert_same(found, wanted)
        if name in REDUCTIONS and len(dims) == 1 and keep_attrs is not False:
            # it keeps the attrs of coordinates always, which apply_ufunc does not
            assert_same(found, x.reduce(lambda a, axis: wanted.data, dims))
    numbers = tuple(x.dims.index(d) for d in dims)
    plain = xpapply.apply_along_axis(f, numbers if len(numbers) > 1 else numbers[0], x.data)
    np.testing.assert_array_equal(found.data, plain)
    assert found.dtype == plain.dtype


@given(cases(), st.sampled_from([*FUNCTIONS]), st.integers(1, 4))
def test_lazy_arrays_are_those_of_numpy(case, name, chunk):
    pytest.importorskip("dask.array")
    (x, _, axis), f = case, FUNCTIONS[name]
    if x.dtype.kind == "c" and name == "loop":
        return
    lazy = xpapply.apply_along_axis(f, axis, x.chunk(chunk))
    assert lazy.chunks is not None
    found, wanted = lazy.compute(), xpapply.apply_along_axis(f, axis, x)
    assert (lazy.shape, lazy.dtype) == (wanted.shape, wanted.dtype)
    xr.testing.assert_identical(found, wanted)


@given(st.data())
def test_datasets(data):
    x, dims, _ = data.draw(cases())
    f = FUNCTIONS[data.draw(st.sampled_from(["sum", "deviations", "two"]))]
    others = [d for d in x.dims if d not in dims]
    parts = {"first": x.rename(None), "second": (x * 2).rename(None)}
    if others:
        parts["without"] = x.isel(dict.fromkeys(dims, 0), drop=True).rename(None)
    dataset = xr.Dataset(parts, attrs={"title": "all"})
    keep = data.draw(st.sampled_from(["default", True, False]))
    with xr.set_options(keep_attrs=keep):
        found = xpapply.apply_along_axis(f, dims if len(dims) > 1 else dims[0], dataset)
        wanted = dataset.map(lambda v: as_apply_ufunc(f, v, dims) if dims[0] in v.dims else v)
    assert found.attrs == wanted.attrs
    assert list(found.data_vars) == list(wanted.data_vars)
    for name, v in wanted.data_vars.items():
        assert_same(found[name], v)


@st.composite
def frames(draw):
    shape = draw(st.tuples(st.integers(1, 5), st.integers(1, 4)))
    index, columns = (
        draw(st.sampled_from([
            pd.RangeIndex(n),
            pd.Index(list("vwxyz")[:n], name="station"),
            pd.date_range("2020", periods=n),
            pd.MultiIndex.from_arrays([[1] * n, range(n)], names=["u", None]),
        ]))
        for n in shape
    )  # fmt: skip
    df = pd.DataFrame(numbers(shape, draw(st.sampled_from(["f4", "f8", "i4"])), 0), index, columns)
    if draw(st.booleans()):
        df = df.astype({df.columns[0]: "f8"})
    df.attrs = draw(st.sampled_from([{}, {"units": "K"}]))
    return df


@given(frames(), st.sampled_from([*FUNCTIONS]), st.sampled_from([0, 1, -1, "index", "columns"]))
def test_dataframes(df, name, axis):
    f = FUNCTIONS[name]
    if name in ("two", "matrix", "flat"):  # which df.apply makes objects of, or takes for others
        f = FUNCTIONS["sum"]
    found = xpapply.apply_along_axis(f, axis, df)
    wanted = df.apply(f, axis=1 if axis == -1 else axis, raw=True)
    same = pd.testing.assert_series_equal if wanted.ndim == 1 else pd.testing.assert_frame_equal
    same(found, wanted)
    assert found.attrs == wanted.attrs == df.attrs
    plain = xpapply.apply_along_axis(f, -1 if axis in (1, -1, "columns") else 0, df.to_numpy())
    np.testing.assert_array_equal(found.to_numpy(), plain)
