"""What calls of functions of slices share: memory of results, options, what other transforms do."""

import tracemalloc

import numpy as np
import pytest

import xpapply
from xpapply import special

X = np.array([-1.0, 2.0, -3.0, 4.0])
LAST = {
    "where": lambda x: np.where(x > 0, x, 0.0),
    "where, the other way": lambda x: np.where(x > 0, 0.0, x),
    "where of the condition": lambda x: np.where(x != 0, 7.0, x),
    "maximum": lambda x: np.maximum(x, 0.0),
    "clip": lambda x: np.clip(x, -1, 1),
    "sum": lambda x: x + x * x,
    "sign": np.sign,
}


@pytest.mark.parametrize("name", LAST)
@pytest.mark.parametrize("size", [4, 100_000])
def test_in_place_whatever_is_last(name, size):
    x = np.resize(X, size)
    expected = LAST[name](x)
    xpapply.elementwise(LAST[name])(x, out=x)
    np.testing.assert_array_equal(x, expected)


@pytest.mark.parametrize("at", [0, 1, 2])
def test_in_place_of_any_operand(at):
    given = [np.array([1.0, 0.0, 1.0]), np.arange(3.0), -np.arange(3.0)]
    expected = np.where(given[0] != 0, given[1], given[2])
    xpapply.elementwise(lambda c, x, y: np.where(c != 0, x, y))(*given, out=given[at])
    np.testing.assert_array_equal(given[at], expected)


def test_autograd_notices_what_is_written(torch):
    w, saved = torch.ones(3, requires_grad=True), torch.ones(3)
    y = (w * saved).sum()
    xpapply.elementwise(lambda x: x * 10)(torch.ones(3), out=saved)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_out_that_requires_grad_is_refused(torch):
    with pytest.raises(xpapply.InputError, match="requires grad"):
        xpapply.elementwise(lambda x: x)(torch.ones(3), out=torch.zeros(3, requires_grad=True))


def test_one_array_for_two_results_is_refused():
    out = np.empty(4)
    with pytest.raises(xpapply.InputError, match="one array for two results"):
        xpapply.elementwise(lambda x: (x, -x))(X, out=(out, out))


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # torch's own
def test_forward_derivatives_and_torch_func(torch):
    forward_ad = torch.autograd.forward_ad
    x = torch.rand(3, 4, dtype=torch.float64)
    expected = torch.logsumexp(x, 1)
    torch.testing.assert_close(special.logsumexp(x, axis=1), expected)  # is remembered
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, torch.ones_like(x))
        tangent = forward_ad.unpack_dual(special.logsumexp(dual, axis=1)).tangent
    torch.testing.assert_close(tangent, torch.ones(3, dtype=torch.float64))
    torch.testing.assert_close(torch.vmap(special.logsumexp)(x), expected)
    _, pushed = torch.func.jvp(lambda v: special.logsumexp(v, axis=1), (x,), (torch.ones_like(x),))
    torch.testing.assert_close(pushed, torch.ones(3, dtype=torch.float64))


def test_a_callable_keeps_its_own_attributes():
    class Twice:
        def __init__(self, fn):
            self.fn = fn

        def __call__(self, x):
            return 2 * self.fn(x)

    np.testing.assert_array_equal(xpapply.elementwise(Twice(np.sin))(X), 2 * np.sin(X))


@pytest.mark.parametrize("engine", ["loop", "slicewise", "torch", "torch.vmap", "array_api"])
def test_engines_of_other_calls_do_not_matter(engine):
    x = np.random.default_rng(0).random((20, 5))
    with xpapply.options(engine=engine):
        np.testing.assert_allclose(special.softmax(x, axis=1).sum(axis=1), np.ones(20))


def test_the_loop_runs_functions_of_special():
    x = np.random.default_rng(0).random((20, 5))
    with xpapply.options(engine="loop"):
        got = xpapply.apply_along_axis(lambda v: special.softmax(v) + 1, 1, x)
    np.testing.assert_allclose(got, special.softmax(x, axis=1) + 1)


def test_another_librarys_engine_is_refused():
    with (
        xpapply.options(engine="cupy"),
        pytest.raises(xpapply.UnsupportedError, match="does not run on"),
    ):
        special.softmax(X)


def test_long_doubles():
    x = np.random.default_rng(0).random((3, 5))
    got = special.logsumexp(x.astype(np.longdouble), axis=1)
    assert got.dtype == np.longdouble
    np.testing.assert_allclose(got.astype(float), special.logsumexp(x, axis=1), rtol=1e-15)


def test_out_of_another_byte_order():
    out = np.zeros(3, ">f8")
    xpapply.reduction(None, lambda a, b: a + b)(np.ones((3, 4)), axis=1, out=out)
    assert out.tolist() == [4, 4, 4]


@pytest.mark.parametrize("shape", [(5, 4), (3, 500), (2, 300_000)])
def test_an_identity_that_is_not_neutral_is_for_empty_slices_only(shape):
    x = -np.random.default_rng(0).random(shape) - 1
    largest = xpapply.reduction(None, np.maximum, None, 0)
    np.testing.assert_array_equal(largest(x, axis=1), x.max(axis=1))
    assert largest(np.zeros((2, 0)), axis=1).tolist() == [0, 0]


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(5, 4), (3, 500), (500, 40), (2, 300_000)])
@pytest.mark.parametrize("axis", [0, 1])
def test_an_identity_that_is_not_neutral_on_a_gpu(cupy, shape, axis):
    x = -np.random.default_rng(0).random(shape) - 1
    largest = xpapply.reduction(None, lambda a, b: np.maximum(a, b) + 0, None, 0)
    got = largest(cupy.asarray(x), axis=axis)
    np.testing.assert_array_equal(cupy.asnumpy(got), x.max(axis=axis))
    assert largest(cupy.zeros((2, 0)), axis=1).tolist() == [0, 0]


@pytest.mark.gpu
@pytest.mark.parametrize("axis", [0, 1])
def test_wide_states_on_a_gpu(cupy, axis):
    x = np.random.default_rng(0).random((3000, 70))
    sums = xpapply.reduction(
        lambda x: (x, x * x, x * x * x, x + 1, x - 1, abs(x)),
        lambda a, b: tuple(p + q for p, q in zip(a, b, strict=True)),
    )
    got = sums(cupy.asarray(x), axis=axis)
    for y, powers in zip(got, (x, x**2, x**3, x + 1, x - 1, x), strict=True):
        np.testing.assert_allclose(cupy.asnumpy(y), powers.sum(axis=axis), rtol=1e-12)


def test_bins_beyond_the_dtype():
    pytest.importorskip("jax")
    import jax.numpy as jnp

    x = jnp.asarray([[1, 44], [44, 2]], jnp.uint8)
    got = np.asarray(special.bincount(x, axis=1, minlength=301))
    assert np.argwhere(got).tolist() == [[0, 1], [0, 44], [1, 2], [1, 44]]
    assert special.bincount(np.array([1, 2], np.uint64)).tolist() == [0, 1, 1]


@pytest.mark.parametrize("name", ["numpy", "torch", "jax", "array_api_strict"])
@pytest.mark.parametrize("axis", [0, 1, -1, (0, 2), None])
def test_bincount_as_the_loop(name, axis):
    xp = pytest.importorskip("jax.numpy" if name == "jax" else name)
    rng = np.random.default_rng(1)
    x, w = rng.integers(0, 5, (3, 4, 200)), rng.random((3, 4, 200)).astype(np.float32)
    axes = range(3) if axis is None else axis if isinstance(axis, tuple) else (axis % 3,)
    batch = [a for a in range(3) if a not in axes]
    length = np.prod([x.shape[a] for a in axes])
    rows = [a.transpose(*batch, *axes).reshape(-1, length) for a in (x, w)]
    shape = [x.shape[a] for a in batch]
    at = min(axes)
    for weights in (None, w):
        pairs = zip(*rows, strict=True)
        each = [np.bincount(r, None if weights is None else v, 5) for r, v in pairs]
        expected = np.moveaxis(np.stack(each).reshape(*shape, 5), -1, at)
        given = None if weights is None else xp.asarray(weights)
        got = np.asarray(special.bincount(xp.asarray(x), axis=axis, weights=given))
        np.testing.assert_allclose(got, expected, rtol=1e-5)


@pytest.mark.gpu
@pytest.mark.parametrize("axis", [0, 1, (0, 2), None])
@pytest.mark.parametrize("kind", ["cupy", "cuda"])
def test_bincount_on_a_gpu(cupy, torch, axis, kind):
    rng = np.random.default_rng(1)
    x, w = rng.integers(0, 50, (3, 40, 20)), rng.random((3, 40, 20))
    device = cupy.asarray if kind == "cupy" else lambda a: torch.from_numpy(a).cuda()
    host = cupy.asnumpy if kind == "cupy" else lambda a: a.cpu().numpy()
    got = host(special.bincount(device(x), axis=axis, minlength=60))
    np.testing.assert_array_equal(got, special.bincount(x, axis=axis, minlength=60))
    got = host(special.bincount(device(x), axis=axis, weights=device(w)))
    np.testing.assert_allclose(got, special.bincount(x, axis=axis, weights=w), rtol=1e-12)


@pytest.mark.parametrize(
    ("x", "options", "error", "says"),
    [
        ([-1], {}, xpapply.InputError, "not negative"),
        ([1.5], {}, TypeError, "integers"),
        ([1], {"minlength": -1}, xpapply.InputError, "minlength"),
        ([1], {"weights": [1.0, 2.0]}, xpapply.InputError, "do not broadcast"),
        ([1], {"axis": 1}, np.exceptions.AxisError, "out of bounds"),
    ],
)
def test_what_bincount_refuses(x, options, error, says):
    with pytest.raises(error, match=says):
        special.bincount(np.array(x), **options)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "standardize", "normalize"])
def test_complex_results_take_no_further_memory(name):
    rng = np.random.default_rng(0)
    z = rng.random((20_000, 100)) + 1j * rng.random((20_000, 100))
    f = getattr(special, name)
    f(z, axis=1)
    tracemalloc.start()
    try:
        f(z, axis=1)
        assert tracemalloc.get_traced_memory()[1] < z.nbytes + 16e6
    finally:
        tracemalloc.stop()


def test_parts_of_complex_arrays_as_out():
    both = xpapply.elementwise(lambda x: (x, -x))
    z = np.zeros((3, 4), complex)
    x = np.arange(12.0).reshape(3, 4)
    both(x, out=(z.real, z.imag))
    np.testing.assert_array_equal(z, x - 1j * x)
    y = np.zeros(20)
    both(np.arange(10.0), out=(y[:10], y[5:15]))  # these do overlap
    np.testing.assert_array_equal(y[5:15], -np.arange(10.0))
