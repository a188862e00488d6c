"""Networks on masked arrays: where a masked value takes part, the result is masked."""

import copy
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import xpapply

RNG = np.random.default_rng(0)
VOLUME = RNG.normal(size=(5, 4, 6)).astype("f4")
MLP = xpapply.MLP([RNG.normal(size=(3, 6))], [np.ones(3)], output_activation="tanh")
ENGINES = ("", "numpy", "torch", "array_api", "loop")


@pytest.fixture(scope="module")
def nets(torch):
    torch.manual_seed(0)
    nn = torch.nn

    class Branch(nn.Module):  # no graph: torch runs it, or the loop
        def forward(self, x):
            return torch.cumsum(x, -1)[..., :2] * 2

    class Data(nn.Module):  # only the loop
        def forward(self, x):
            return x[:1] if x.sum() > 0 else x[1:2]

    return {
        "mlp": MLP,
        "linear": nn.Linear(6, 2).eval(),
        "matrix": nn.Sequential(nn.Linear(6, 6), nn.Unflatten(-1, (2, 3))).eval(),
        "number": nn.Sequential(nn.Linear(6, 1), nn.Flatten(0)).eval(),
        "argmax": ArgMax(torch),
        "no graph": Branch().eval(),
        "loop": Data().eval(),
    }


def ArgMax(torch):
    class Module(torch.nn.Module):
        def forward(self, x):
            return x.argmax(-1)

    return Module().eval()


def with_some_masked(x, axis=-1):
    mask = np.zeros(x.shape, bool)
    np.moveaxis(mask, axis, -1)[1, 2, 3] = True
    np.moveaxis(mask, axis, -1)[0, 0] = True
    return np.ma.masked_array(x, mask)


def check(f, axis, m, **options):
    with xpapply.options(fallback="silent", **options):
        found = xpapply.apply_along_axis(f, axis, m)
        again = xpapply.apply_along_axis(f, axis, m)
        plain = xpapply.apply_along_axis(f, axis, m.data)
    assert type(found) is type(again) is type(m)
    np.testing.assert_array_equal(found.data, plain)
    touched = np.ma.getmaskarray(m).any(axis)
    inside = plain.ndim - touched.ndim
    for _ in range(inside):
        touched = np.expand_dims(touched, axis % m.ndim)
    expected = np.broadcast_to(touched, plain.shape)
    np.testing.assert_array_equal(np.ma.getmaskarray(found), expected)
    np.testing.assert_array_equal(np.ma.getmaskarray(again), expected)
    return found


@pytest.mark.parametrize(
    "name", ["mlp", "linear", "matrix", "number", "argmax", "no graph", "loop"]
)
@pytest.mark.parametrize("axis", [-1, 0])
def test_results_of_slices_with_a_masked_value_are_masked(nets, name, axis):
    x = VOLUME if axis == -1 else np.moveaxis(VOLUME, -1, 0).copy()
    check(nets[name], axis, with_some_masked(x, axis))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["mlp", "linear"])
def test_every_engine_keeps_the_mask(nets, name, engine):
    check(nets[name], -1, with_some_masked(VOLUME), engine=engine)


@pytest.mark.parametrize("dtype", ["int16", "uint8", "bool", "float16", "float64", ">f4", ">i2"])
def test_dtypes(nets, dtype):
    check(nets["linear"], -1, with_some_masked((VOLUME * 3).astype(dtype)))


@pytest.mark.parametrize("layout", ["fortran", "reversed", "broadcast", "strided"])
def test_memory_orders(nets, layout):
    m = with_some_masked(VOLUME)
    m = {
        "fortran": m.copy(order="F"),
        "reversed": m[::-1, :, ::-1],
        "broadcast": np.ma.masked_array(
            np.broadcast_to(VOLUME[0], (3, 4, 6)), np.broadcast_to(VOLUME[0] > 1, (3, 4, 6))
        ),
        "strided": np.ma.concatenate([m, m])[::2],
    }[layout]
    check(nets["linear"], -1, m)


def test_no_mask_and_nothing_but_masked(nets):
    x = np.ma.masked_array(VOLUME)
    assert check(nets["linear"], -1, x).mask is np.ma.nomask
    assert check(nets["linear"], -1, np.ma.masked_array(VOLUME, False)).mask.shape == (5, 4, 2)
    everything = check(nets["linear"], -1, np.ma.masked_array(VOLUME, True))
    assert everything.mask.all()
    assert check(nets["linear"], -1, with_some_masked(VOLUME)[1, 2]).mask.all()  # one slice


def test_what_lies_under_the_mask_warns_of_nothing(nets):
    x = VOLUME.astype("f8")
    x[1, 2] = np.inf, -np.inf, np.nan, 1e300, -1e300, 0
    m = np.ma.masked_array(x, ~np.isfinite(x))
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        for name in ("linear", "mlp", "loop"):
            for engine in ("", "numpy") if name != "loop" else ("",):
                check(nets[name], -1, m, engine=engine)


def test_the_result_is_as_hard_as_the_input_and_has_a_mask_of_its_own(nets):
    for hard in (False, True):
        m = with_some_masked(VOLUME)
        m = m.harden_mask() if hard else m
        before = m.mask.copy()
        y = xpapply.apply_along_axis(nets["linear"], -1, m)
        assert y.hardmask is hard
        y[1, 2] = 0.0
        assert y.mask[1, 2].all() == hard
        y[3, 3] = np.ma.masked
        np.testing.assert_array_equal(m.mask, before)
        assert m.data is not y.data


@pytest.mark.parametrize("dtype", ["int16", "float64"])
def test_what_fills_the_gaps(nets, dtype):
    x = (VOLUME * 5).astype(dtype)
    x[2, 2, 2] = -9999
    m = np.ma.masked_equal(x, -9999)
    y = xpapply.apply_along_axis(nets["linear"], -1, m)
    assert (y.filled()[2, 2] == -9999).all()
    assert y.filled().dtype == np.float32
    k = xpapply.apply_along_axis(nets["argmax"], -1, np.ma.masked_equal(x, -9999))
    assert k.filled().dtype == np.int64  # a number of its own dtype, not 1e20


def test_subclasses_of_masked_arrays(nets):
    class Named(np.ma.MaskedArray):
        pass

    check(nets["linear"], -1, with_some_masked(VOLUME).view(Named))


def test_compiled_plans_keep_the_mask(nets):
    m = with_some_masked(VOLUME)
    plan = xpapply.compile(nets["linear"], (6,), "float32")
    y = plan(m)
    np.testing.assert_array_equal(y.mask, xpapply.apply_along_axis(nets["linear"], -1, m).mask)
    np.testing.assert_array_equal(xpapply.explain(nets["linear"], -1, m)(m).mask, y.mask)


def test_an_mlp_called_on_a_masked_slice():
    m = with_some_masked(VOLUME)
    assert MLP(m[1, 2]).mask.all()
    assert not np.ma.getmaskarray(MLP(m[2, 2])).any()
    for apply in (np.apply_along_axis, xpapply.apply_along_axis):
        y = apply(lambda v: MLP(v), -1, m)
        np.testing.assert_array_equal(np.ma.getmaskarray(y)[..., 0], m.mask.any(-1))


def test_explain_says_what_runs(nets):
    m = with_some_masked(VOLUME)
    plan = xpapply.explain(nets["linear"], -1, m)
    assert plan.vectorized
    assert plan.out_shape == (5, 4, 2)


@given(data=st.data(), shape=hnp.array_shapes(min_dims=2, max_dims=4, max_side=4))
def test_any_shape_axis_and_mask(data, shape):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    mask = data.draw(hnp.arrays(bool, shape))
    net = xpapply.MLP([np.arange(2.0 * shape[axis]).reshape(2, -1)])
    x = np.random.default_rng(0).normal(size=shape)
    check(net, axis, np.ma.masked_array(x, mask))


PYTHON = {
    "scaled": lambda v: v * 2,
    "mean": lambda v: v.mean(),
    "sum": np.ma.sum,
    "median": np.ma.median,
    "filled": lambda v: v.filled(0).sum(),
    "list": lambda v: [v.min(), v.max()],
    "outer": lambda v: np.ma.outer(v, v),
}


@pytest.mark.parametrize("name", PYTHON)
def test_python_functions_on_masked_arrays_are_numpys(name):
    m = with_some_masked(np.concatenate([VOLUME] * 8))
    m[0, 0, 0] = 1.0  # numpy.apply_along_axis makes the array for results like the first one
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours = xpapply.apply_along_axis(PYTHON[name], -1, copy.deepcopy(m))
        numpys = np.apply_along_axis(PYTHON[name], -1, copy.deepcopy(m))
    assert type(ours) is type(numpys)
    assert np.ma.getmaskarray(ours).tolist() == np.ma.getmaskarray(numpys).tolist()
    np.testing.assert_array_equal(np.ma.filled(ours, 0), np.ma.filled(numpys, 0))
