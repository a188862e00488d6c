"""xarray's containers: as the array inside, with names, coordinates and attrs put back."""

import numpy as np
import pytest

import xpapply
from xpapply import InputError, special

xr = pytest.importorskip("xarray")

pytest.importorskip("xpapply.xarray")  # registers the accessor

RNG = np.random.default_rng(5)


def extremes(v):
    return np.stack([v.min(), v.max()])


def deviations(v):
    return v - v.mean()


@pytest.fixture
def field():
    return xr.DataArray(
        RNG.normal(size=(4, 5, 6)),
        dims=("time", "y", "x"),
        coords={
            "time": np.arange("2020-01", "2020-05", dtype="M8[M]").astype("M8[ns]"),
            "x": ("x", np.arange(6) * 10, {"units": "m"}),
            "latitude": (("y", "x"), RNG.normal(size=(5, 6))),
            "season": ("time", list("abcd")),
            "member": 3,
        },
        name="temperature",
        attrs={"units": "K"},
    )


def as_apply_ufunc(f, dim, x, new=()):
    """What `xarray.apply_ufunc` makes of a plain loop over slices."""
    return xr.apply_ufunc(
        lambda a: np.apply_along_axis(f, -1, a),
        x,
        input_core_dims=[[dim]],
        output_core_dims=[list(new)],
        exclude_dims=set() if dim in new else {dim},
    )


@pytest.mark.parametrize("dim", ["time", "y", "x"])
@pytest.mark.parametrize("keep_attrs", ["default", True, False])
@pytest.mark.parametrize(
    ("f", "new"), [(np.median, ()), (extremes, ("{}_out",)), (deviations, ("{}",)), (sorted, "{}")]
)
def test_results_are_those_of_apply_ufunc(field, f, new, dim, keep_attrs):
    new = tuple(name.format(dim) for name in new) if new != "{}" else (dim,)
    with xr.set_options(keep_attrs=keep_attrs), xpapply.options(fallback="silent"):
        found = xpapply.apply_along_axis(f, dim, field)
        wanted = as_apply_ufunc(f, dim, field, new)
    order = tuple(field.dims)
    at = order.index(dim)
    wanted = wanted.transpose(*order[:at], *new, *order[at + 1 :])
    xr.testing.assert_allclose(found, wanted)
    assert list(found.coords) == list(wanted.coords)
    assert found.dims == wanted.dims
    assert (found.name, found.attrs) == (wanted.name, wanted.attrs)
    assert found.x.attrs == wanted.x.attrs if "x" in found.coords else dim == "x"


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
def test_an_axis_is_an_index_as_well(field, axis):
    xr.testing.assert_identical(
        xpapply.apply_along_axis(extremes, axis, field),
        xpapply.apply_along_axis(extremes, field.dims[axis], field),
    )


@pytest.mark.parametrize("dims", [("y", "x"), ("x", "y"), ("time", "x"), ("x", "time")])
@pytest.mark.parametrize(
    ("f", "new"),
    [
        (lambda p: p.max() - p[0].mean(), ()),
        (lambda p: p.mean(0)[:2], ("{0}_{1}_out",)),
        (lambda p: p[:2, :2], ("{0}_{1}_out_0", "{0}_{1}_out_1")),
        (lambda p: p - p.mean(), ("{0}", "{1}")),
    ],
)
def test_slices_with_several_dims(field, dims, f, new):
    axes = tuple(field.dims.index(d) for d in dims)
    found = xpapply.apply_along_axis(f, dims, field)
    np.testing.assert_array_equal(found, xpapply.apply_along_axis(f, axes, field.data))
    new = [name.format(*dims) for name in new]
    (kept,) = {*field.dims} - {*dims}
    assert found.dims in ((kept, *new), (*new, kept))
    for d in (kept, *new):
        assert (d in found.coords) == (d in field.coords)


def test_names_of_new_dims(field):
    with xpapply.options(output_dims="extreme"):
        assert xpapply.apply_along_axis(extremes, "y", field).dims == ("time", "extreme", "x")
        with pytest.raises(InputError, match=r"are 1, the results of one slice have the shape"):
            xpapply.apply_along_axis(lambda v: np.outer(v, v), "y", field)
    assert field.xpapply.apply(extremes, "y", output_dims=("e",)).dims == ("time", "e", "x")
    with pytest.raises(InputError, match=r"two dims of the results would be called 'x'.*'time'"):
        field.xpapply.apply(extremes, "y", output_dims="x")
    same = field.xpapply.apply(deviations, "x", output_dims="wave")  # another name, no coordinates
    assert same.dims == ("time", "y", "wave")
    assert "x" not in same.coords


def test_a_network(field):
    net = xpapply.MLP([RNG.normal(size=(2, 4))], activation="tanh")
    for _ in range(2):
        found = xpapply.apply_along_axis(net, "time", field)
        assert found.dims == ("time_out", "y", "x")
        np.testing.assert_array_equal(found, xpapply.apply_along_axis(net, 0, field.data))


def test_a_dataset_is_taken_variable_by_variable(field):
    dataset = xr.Dataset(
        {"a": field, "b": 2 * field, "mask": ("y", [1, 0, 1, 1, 0])}, attrs={"z": 1}
    )
    found = xpapply.apply_along_axis(np.median, "x", dataset)
    wanted = dataset.reduce(np.median, "x")
    xr.testing.assert_allclose(found, wanted)
    assert found.attrs == wanted.attrs
    xr.testing.assert_identical(found.mask, dataset.mask)
    xr.testing.assert_identical(found, dataset.xpapply.apply(np.median, "x"))
    with pytest.raises(InputError, match=r"variable 'mask' has the dims \('y',\), but not 'x'"):
        dataset.xpapply.apply(np.median, ("y", "x"))
    with pytest.raises(InputError, match=r"no dim 0: the Dataset has 'time', 'x', 'y'"):
        xpapply.apply_along_axis(np.median, 0, dataset)
    with pytest.raises(InputError, match="a Dataset of 3 variables has no plan"):
        xpapply.explain(np.median, "x", dataset)


def test_a_variable(field):
    found = xpapply.apply_along_axis(extremes, "y", field.variable)
    assert type(found) is xr.Variable
    assert (found.dims, found.attrs) == (("time", "y_out", "x"), field.attrs)


def test_what_f_raises_in_a_dataset_says_where(field):
    def f(v):
        if v.shape == (2,):
            raise RuntimeError("two")
        return v.sum()

    dataset = xr.Dataset({"a": field, "b": ("q", [1.0, 2.0])})
    xpapply.apply_along_axis(f, "x", dataset)
    with pytest.raises(RuntimeError, match="two") as raised:
        xpapply.apply_along_axis(f, "q", dataset)
    assert any("variable 'b'" in note for note in raised.value.__notes__)


def test_f_gets_arrays_and_its_own_arguments(field):
    seen = []

    def f(v, shift, *, scale):
        seen.append(type(v))
        return v.sum() * scale + shift

    found = field.xpapply.apply(f, "x", args=(1.0,), kwargs={"scale": 2.0})
    np.testing.assert_allclose(found, field.sum("x").data * 2 + 1)
    assert set(seen) == {np.ndarray}


def test_the_plan(field):
    plan = xpapply.explain(deviations, "y", field)
    assert plan.out_shape == (4, 5, 6)
    assert str(plan) == str(field.xpapply.explain(deviations, "y"))
    assert "axis 1" in str(plan)


@pytest.mark.parametrize("axis", ["z", ("y", "z"), None, 1.0])
def test_dims_that_there_are_not(field, axis):
    with pytest.raises(InputError, match=r"no dim .*: DataArray has the dims 'time', 'y', 'x'"):
        xpapply.apply_along_axis(np.median, axis, field)


def test_axes_out_of_range_and_twice(field):
    with pytest.raises(np.exceptions.AxisError):
        xpapply.apply_along_axis(np.median, 3, field)
    with pytest.raises(ValueError, match="names an axis twice"):
        xpapply.apply_along_axis(np.median, ("x", 2), field)


def test_arrays_inside_keep_their_library():
    strict = pytest.importorskip("array_api_strict")
    field = xr.DataArray(strict.asarray(RNG.normal(size=(3, 4))), dims=("y", "x"))
    net = xpapply.MLP([RNG.normal(size=(2, 4))])
    found = xpapply.apply_along_axis(net, "x", field)
    assert type(found.data) is type(field.data)
    assert found.dims == ("y", "x_out")


# --- functions of slices -----------------------------------------------------------------------

REDUCTIONS = ["logsumexp", "norm", "mean_var", "argmax_and_max"]
IN_PLACE = ["softmax", "log_softmax", "standardize", "normalize"]


def as_tuple(found):
    return found if isinstance(found, tuple) else (found,)


@pytest.mark.every_case
@pytest.mark.parametrize("dtype", ["f8", "f2", "u1", "c8"])
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp"])
def test_of_integers_and_halves_too(field, name, dtype):
    """They ask a labelled array for its library and dtype."""
    f, field = getattr(special, name), field.astype(dtype)
    np.testing.assert_array_equal(f(field, axis="time").data, f(field.data, axis=0))


@pytest.mark.parametrize("dim", ["time", "x", ("x", "time"), -1, None, ["y"]])
@pytest.mark.parametrize("name", REDUCTIONS + IN_PLACE)
@pytest.mark.parametrize("dtype", ["f8", "f2", "u1", "c8"])
def test_functions_of_slices(field, name, dim, dtype):
    if dtype == "c8" and name == "argmax_and_max":
        return
    f, field = getattr(special, name), field.astype(dtype)
    dims = field.dims if dim is None else [dim] if not isinstance(dim, (tuple, list)) else dim
    dims = [field.dims[d] if isinstance(d, int) else d for d in dims]
    found, wanted = f(field, axis=dim), f(field.data, axis=field.get_axis_num(dims))
    assert type(found) is type(wanted) or not isinstance(wanted, tuple)
    like = field if name in IN_PLACE else field.sum(dims)
    for y, z in zip(as_tuple(found), as_tuple(wanted), strict=True):
        xr.testing.assert_identical(y, like.copy(data=z))
        assert y.dtype == z.dtype


def test_dims_that_are_kept_or_new(field):
    kept = special.logsumexp(field, axis="x", keepdims=True)
    assert dict(kept.sizes) == {"time": 4, "y": 5, "x": 1}
    assert "x" not in kept.coords
    counts = special.bincount((field**2).astype(int), axis="time")
    assert counts.dims == ("bin", "y", "x")
    assert int(counts.sum()) == field.size


def test_reductions_of_a_dataset(field):
    dataset = xr.Dataset(
        {"a": field, "b": field.drop_vars("latitude")[:, 0], "c": ("y", np.ones(5))}
    )
    found = special.mean_var(dataset, axis=("x", "y"))
    assert type(found) is special.MeanAndVar
    for part, f in zip(found, (np.mean, np.var), strict=True):
        wanted = dataset.reduce(f, ("x", "y"))
        xr.testing.assert_allclose(part, wanted)
    alone = special.softmax(dataset, axis="x")
    xr.testing.assert_identical(alone.c, dataset.c)
    xr.testing.assert_allclose(alone.a.sum("x").variable, xr.ones_like(field[..., 0]).variable)
    with pytest.raises(InputError, match="a Dataset with complex variables: take one after"):
        special.logsumexp(dataset.astype("c16"), axis="x")


def test_arguments_meet_by_the_names_of_their_dims(field):
    weights = xr.DataArray(np.arange(1.0, 7.0), {"x": field.x}, ("x",))
    found = special.logsumexp(field, axis="x", b=weights)
    np.testing.assert_array_equal(found, special.logsumexp(field.data, axis=2, b=weights.data))
    by_time = xr.DataArray(np.arange(1.0, 5.0), {"time": field.time}, ("time",))
    found = special.logsumexp(field, axis="x", b=by_time)
    wanted = special.logsumexp(field.data, axis=2, b=by_time.data[:, None, None])
    np.testing.assert_array_equal(found, wanted)
    xr.testing.assert_allclose(special.squared_diff(field, by_time), (field - by_time) ** 2)
    with pytest.raises(ValueError, match=r"cannot align objects"):
        special.logsumexp(field, axis="x", b=weights.assign_coords(x=range(6)))
    with pytest.raises(InputError, match="an array with more dims beside a DataArray"):
        special.squared_diff(field, np.ones((2, 4, 5, 6)))


def test_functions_of_elements_and_reductions_made_of_expressions(field):
    square = xpapply.elementwise(lambda x: x * x)
    xr.testing.assert_allclose(square(field), field * field)
    energy = xpapply.reduction(lambda x: x * x, lambda a, b: a + b, identity=0)
    xr.testing.assert_allclose(energy(field, axis="y"), (field * field).sum("y"))
    with pytest.raises(InputError, match="of labelled arrays into out="):
        square(field, out=np.zeros(field.shape))


def test_dims_of_reductions_that_there_are_not(field):
    with pytest.raises(InputError, match=r"no dim 'z': DataArray has the dims 'time', 'y', 'x'"):
        special.softmax(field, axis="z")
    with pytest.raises(InputError, match=r"no dim 'z': the Dataset has"):
        special.softmax(field.to_dataset(), axis="z")
