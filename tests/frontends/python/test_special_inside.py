"""special, elementwise and reduction as functions of apply_along_axis, and inside of others."""

import numpy as np
import pytest

import xpapply
from xpapply import special
from xpapply.slice_functions.call import BoundKernel

EXTREMES = xpapply.reduction(
    lambda x: (x, x),
    lambda a, b: (np.minimum(a[0], b[0]), np.maximum(a[1], b[1])),
    lambda s: (s[1], s[0]),
)
FUNCTIONS = {
    "logsumexp": special.logsumexp,
    "softmax": special.softmax,
    "standardize": special.standardize,
    "norm": special.norm,
    "inside": lambda v: special.softmax(v) * 2 + special.norm(v, 1),
    "field": lambda v: special.mean_var(v, correction=1).var,
    "weights": lambda v: special.logsumexp(v, b=v * v),
    "constant weights": lambda v: special.logsumexp(v, b=np.arange(6.0)),
    "squared_diff": lambda v: special.squared_diff(v, v[0]),
    "argmax_and_max": lambda v: special.argmax_and_max(v).max,
}
OBJECTS = {
    "elementwise": xpapply.elementwise(lambda x: x * x),
    "two elementwise": xpapply.elementwise(lambda x: (x, -x)),
    "reduction": xpapply.reduction(None, lambda a, b: a + b, np.sqrt, 0),
    "two reductions": EXTREMES,
}


@pytest.fixture(params=[(300, 6), (6, 300), (10, 6, 30)], ids=str)
def case(request):
    x = np.random.default_rng(5).uniform(0.1, 2, request.param)
    return x, request.param.index(6)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_special_are_known(name, case):
    x, axis = case
    f = FUNCTIONS[name]
    with xpapply.options(fallback="raise"):
        plan = xpapply.explain(f, axis, x)
        got = xpapply.apply_along_axis(f, axis, x)
    assert plan.vectorized
    expected = np.apply_along_axis(f, axis, x)
    assert got.dtype == expected.dtype
    # sums in another order: what cancels is off by rounding of the largest
    np.testing.assert_allclose(got, expected, rtol=1e-13, atol=1e-15 * np.abs(expected).max())


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "int64"])
@pytest.mark.parametrize("name", [*(n for n in FUNCTIONS if n != "constant weights"), "both"])
def test_functions_of_special_are_known_on_tensors(torch, name, dtype, case):
    x, axis = torch.from_numpy(5 * case[0]).to(getattr(torch, dtype)), case[1]
    f = FUNCTIONS.get(name, lambda v: torch.stack(special.mean_var(torch.sin(v))))
    with xpapply.options(fallback="raise"):
        assert xpapply.explain(f, axis, x).vectorized
        got = xpapply.apply_along_axis(f, axis, x)
    with xpapply.options(engine="loop"):
        torch.testing.assert_close(got, xpapply.apply_along_axis(f, axis, x))


def test_gradients_of_special_reach_tensors(torch):
    x = torch.rand(20, 6, requires_grad=True)
    with xpapply.options(fallback="silent"):
        xpapply.apply_along_axis(special.logsumexp, 1, x).sum().backward()
    torch.testing.assert_close(x.grad, torch.softmax(x.detach(), 1))


@pytest.mark.parametrize("name", OBJECTS)
def test_objects_run_on_all_slices_at_once(name, case):
    x, axis = case
    f = OBJECTS[name]
    assert xpapply.explain(f, axis, x).engine == "slicewise"
    np.testing.assert_allclose(
        xpapply.apply_along_axis(f, axis, x), np.apply_along_axis(f, axis, x), 1e-13, 1e-15
    )


@pytest.mark.parametrize("name", OBJECTS)
def test_explain_tells_of_the_call_that_runs(name, case, monkeypatch):
    x, axis = case
    f, ran = OBJECTS[name], []
    run = BoundKernel.__call__
    noted = lambda self, *args: ran.append(self) or run(self, *args)  # noqa: E731
    monkeypatch.setattr(BoundKernel, "__call__", noted)
    plan = xpapply.explain(f, axis, x)
    assert not ran
    got = xpapply.apply_along_axis(f, axis, x)
    assert ran == [f.bound(axis, x)]
    assert plan.kernels == tuple(f"{ran[0].engine}: {what}" for what in ran[0].kernels)
    if plan.out_shape is not None:
        assert (plan.out_shape, plan.out_dtype) == (got.shape, got.dtype)
    with xpapply.options(engine="array_api"):
        assert xpapply.explain(f, axis, x).kernels == ("array_api: one array operation per node",)


def test_explain_says_why_a_call_is_not_fused(torch):
    x = torch.ones(30, 6, requires_grad=True)
    plan = xpapply.explain(OBJECTS["reduction"], 1, x)
    assert plan.kernels == ("array_api: one array operation per node",)
    assert "under torch.no_grad() it runs fused" in plan.reasons[-1]


def test_objects_take_numbers():
    scaled = xpapply.elementwise(lambda x, s: x * s)
    x = np.ones((3, 4))
    np.testing.assert_array_equal(xpapply.apply_along_axis(scaled, 1, x, 3), 3 * x)


def test_objects_with_arrays_run_in_the_loop():
    """What a further array belongs to is known slice by slice only."""
    difference = xpapply.elementwise(lambda x, y: x - y)
    x = np.arange(12.0).reshape(4, 3)
    with xpapply.options(fallback="silent"):
        got = xpapply.apply_along_axis(difference, 0, x, np.arange(4.0))
    np.testing.assert_array_equal(got, x - np.arange(4.0)[:, None])


def test_lengths_that_depend_on_the_slice_run_in_the_loop():
    x = np.array([[0, 1, 1], [2, 2, 2]])
    with xpapply.options(fallback="silent"), pytest.raises(ValueError, match="broadcast"):
        xpapply.apply_along_axis(special.bincount, 1, x)


def test_inside_jit_and_grad():
    jax = pytest.importorskip("jax")
    x = np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4)
    got = jax.jit(lambda y: special.logsumexp(y, axis=1))(x)
    np.testing.assert_allclose(got, special.logsumexp(x, axis=1), rtol=1e-6)
    slope = jax.grad(lambda y: special.logsumexp(y, axis=1).sum())(x)
    np.testing.assert_allclose(slope, special.softmax(x, axis=1), rtol=1e-5)
