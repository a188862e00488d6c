"""Arrays of a library that runs a function on all slices by itself: JAX."""

import functools

import numpy as np
import pytest

import xpapply
from conftest import library
from xpapply.functions.repeatable import why_not_repeatable

X = np.random.default_rng(0).normal(size=(8, 5, 12)).astype("f4")
LOG = []


@pytest.fixture(scope="module")
def jax():
    return library("jax")


def appends(v):
    LOG.append(1)
    return v.sum()


def draws(v):
    return v.sum() + np.random.rand()


def masked(v):
    return v[v > 0].mean()


def branches(v):
    return v.sum() if v[0] > 0 else v.max()


def test_functions_that_may_not_run_twice_run_in_the_loop(jax):
    arr = jax.numpy.asarray(X[:2])
    with xpapply.options(fallback="silent"):
        LOG.clear()
        assert xpapply.explain(draws, -1, arr).engine == "loop"
        assert xpapply.explain(appends, -1, arr).engine == "loop"
        xpapply.apply_along_axis(appends, -1, arr)
        assert len(LOG) == 10


FIRST = 1.0

JAX = {
    "sort": lambda jnp: lambda v: jnp.sort(v),
    "bare": lambda jnp: jnp.sort,
    "median": lambda jnp: lambda v: jnp.median(v) * 2,
    "list": lambda jnp: lambda v: [jnp.sort(v)[0], v.sum()],
    "matrix": lambda jnp: lambda v: jnp.outer(jnp.sort(v)[:2], v),
    "interp": lambda jnp: lambda v: jnp.interp(0.5, jnp.arange(12.0), v),
    "partial": lambda jnp: functools.partial(jnp.quantile, q=0.25),
    "where": lambda jnp: lambda v: jnp.where(v > 0, v, 0).sum(),
    "positions": lambda jnp: lambda v: jnp.argsort(v),
}


@pytest.mark.parametrize("name", JAX)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_functions_of_jax_run_by_vmap(jax, name, axis):
    f = JAX[name](jax.numpy)
    arr = jax.numpy.asarray(np.moveaxis(X[:3, :2], -1, axis))
    plan = xpapply.explain(f, axis, arr)
    assert plan.engine == "jax.vmap"
    y = xpapply.apply_along_axis(f, axis, arr)
    with xpapply.options(engine="loop"):
        want = xpapply.apply_along_axis(f, axis, arr)
    assert (y.shape, y.dtype) == (want.shape, want.dtype)
    assert plan.out_shape == want.shape
    np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "f",
    [lambda p: p.sum(), lambda p: p.T @ p, lambda p, k: (p * k).max(0)],
    ids=["sum", "product", "argument"],
)
@pytest.mark.parametrize("axes", [(1, 2), (2, 0), (0, 1)])
def test_slices_with_several_axes_run_by_vmap(jax, f, axes):
    arr = jax.numpy.asarray(X)
    args = (2.0,) * (f.__code__.co_argcount - 1)
    plan = xpapply.explain(f, axes, arr, *args)
    assert (plan.engine, plan.reasons) == ("jax.vmap", ())
    y = xpapply.apply_along_axis(f, axes, arr, *args)
    with xpapply.options(engine="loop"):
        want = xpapply.apply_along_axis(f, axes, arr, *args)
    assert (y.shape, y.dtype) == (want.shape, want.dtype)
    assert plan.out_shape == want.shape
    np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(plan(arr, axes), y)


def test_slices_with_several_axes_in_the_loop(jax):
    arr = jax.numpy.asarray(X[:2])
    LOG.clear()
    with xpapply.options(fallback="silent"):
        plan = xpapply.explain(appends, (1, 2), arr)
        assert plan.engine == "loop"
        assert "append" in plan.reasons[0]
        xpapply.apply_along_axis(appends, (1, 2), arr)
    assert len(LOG) == 2


def test_networks_of_torch(jax):
    """They run at once by themselves, and a function around one says so."""
    torch = pytest.importorskip("torch")
    nn = torch.nn
    layers = [nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten()]
    net = nn.Sequential(*layers, nn.Linear(24, 3)).eval().requires_grad_(False)
    x = np.random.default_rng(1).standard_normal((9, 1, 4, 12)).astype("f")
    arr, want = jax.numpy.asarray(x), net(torch.from_numpy(x)).numpy()
    plan = xpapply.explain(net, (1, 2, 3), arr)
    assert plan.engine == "array_api"
    y = xpapply.apply_along_axis(net, (1, 2, 3), arr)
    assert isinstance(y, jax.Array)
    np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-5)

    def around(v):
        return jax.numpy.asarray(net(torch.from_dlpack(v)[None])[0].numpy())

    said = xpapply.explain(around, (1, 2, 3), arr)
    assert said.engine == "loop"
    assert "net is a network: apply_along_axis(net, ...) runs at once" in said.reasons[0]
    with xpapply.options(fallback="silent"):
        y = xpapply.apply_along_axis(around, (1, 2, 3), arr)
    np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-5)


def test_functions_of_any_library_with_an_array_among_the_arguments(jax):
    """Under `jax.jit` too: a loop over all slices would be a long program."""
    from array_api_compat import array_namespace

    def slope(v, t):
        xp = array_namespace(v)
        t = t - xp.mean(t)
        return xp.sum(t * (v - xp.mean(v))) / xp.sum(t * t)

    assert why_not_repeatable(slope) is None
    arr = jax.numpy.asarray(X)
    t = jax.numpy.linspace(0.0, 1.0, arr.shape[-1])
    assert xpapply.explain(slope, -1, arr, t).engine == "jax.vmap"
    made = jax.make_jaxpr(lambda x: xpapply.apply_along_axis(slope, -1, x, t))(arr)
    assert len(made.eqns) < 40


def test_jitted_functions(jax):
    f = jax.jit(lambda v: jax.numpy.sort(v)[::2])
    arr = jax.numpy.asarray(X[0])
    assert why_not_repeatable(f) is None
    np.testing.assert_allclose(xpapply.apply_along_axis(f, -1, arr), np.sort(X[0], -1)[:, ::2])


@pytest.mark.parametrize(
    "f",
    [masked, branches, lambda v: np.sort(v)[3], np.median, lambda v: np.float64(np.median(v) * 2)],
    ids=["masked", "branches", "sort", "median", "float64"],
)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_what_jax_cannot_trace_runs_on_numpys_view(jax, f, axis):
    arr = jax.numpy.asarray(X)
    plan = xpapply.explain(f, axis, arr)
    assert plan.engine in ("numpy", "cpu")
    assert plan.kernels[-1] == "on NumPy's view of the array"
    assert any(r.startswith("jax.vmap: ") for r in plan.reasons)
    y = xpapply.apply_along_axis(f, axis, arr)
    with xpapply.options(engine="loop"):
        want = xpapply.apply_along_axis(f, axis, arr)
    assert isinstance(y, jax.Array)
    assert (y.shape, y.dtype) == (want.shape, want.dtype)
    assert (plan.out_shape, plan.out_dtype) == (want.shape, str(want.dtype))
    np.testing.assert_allclose(y, want, rtol=1e-5)
    np.testing.assert_array_equal(plan(arr, axis), y)


def make_around_a_module():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    layers = torch.nn.Linear(12, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)
    net = torch.nn.Sequential(*layers).eval().requires_grad_(False)
    return {
        "dlpack": lambda v: net(torch.from_dlpack(v)).numpy(),
        "tensor": lambda v: np.asarray(net(torch.tensor(np.asarray(v)))),
        "more": lambda v: net(torch.tensor(np.sort(v))[None])[0].softmax(-1).numpy().max(),
        "a copy": lambda v: net(torch.from_numpy(np.array(v))).numpy(),
    }


@pytest.mark.parametrize("name", ["dlpack", "tensor", "more", "a copy"])
def test_functions_around_a_module_run_on_numpys_view(jax, name):
    f, arr = make_around_a_module()[name], jax.numpy.asarray(X)
    plan = xpapply.explain(f, 2, arr)
    assert (plan.engine, plan.kernels[-1]) == ("numpy", "on NumPy's view of the array")
    y = xpapply.apply_along_axis(f, 2, arr)
    assert isinstance(y, jax.Array)
    with xpapply.options(engine="loop"):
        want = xpapply.apply_along_axis(f, 2, arr)
    assert (y.shape, y.dtype) == (want.shape, want.dtype)
    np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-6)


def array_or_not(v):
    return v.sum() if isinstance(v, np.ndarray) else v.max() * np.sort(v)[0]


def writes(v):
    v[0] = np.sort(v)[1]
    return v.sum()


@pytest.mark.parametrize("f", [array_or_not, writes, lambda v: v.at[0].set(np.median(v))])
def test_what_numpys_view_does_otherwise_runs_in_the_loop(jax, f):
    arr = jax.numpy.asarray(X[:, :4].reshape(32, 12))
    plan = xpapply.explain(f, 1, arr)
    assert plan.engine == "loop"
    assert len(plan.reasons) > 1
    with xpapply.options(fallback="silent"):
        if f is writes:
            with pytest.raises(TypeError, match="immutable"):
                xpapply.apply_along_axis(f, 1, arr)
            return
        y = xpapply.apply_along_axis(f, 1, arr)
    np.testing.assert_allclose(y, jax.numpy.stack([f(v) for v in arr]), rtol=1e-6)


def test_exceptions_on_numpys_view_are_those_of_the_loop(jax):
    def f(v):
        if v[1] > 90:
            raise LookupError("too much")
        return np.sort(v)[0]

    arr = jax.numpy.asarray(X.reshape(40, 12)).at[3, 1].set(99)
    with pytest.raises(LookupError, match="too much") as caught:
        xpapply.apply_along_axis(f, 1, arr)
    assert any("arr[3, :]" in note for note in caught.value.__notes__)


def test_inside_a_transform_of_jax(jax):
    f = lambda v: jax.numpy.sort(v)[0]  # noqa: E731
    g = lambda x: xpapply.apply_along_axis(f, -1, x).sum()  # noqa: E731
    with xpapply.options(fallback="silent"):
        found = jax.grad(g)(jax.numpy.asarray(X[0]))
    np.testing.assert_array_equal(np.asarray(found).sum(-1), 1)


def make_harmful():
    rng, seen, box = np.random.default_rng(0), [], {"n": 0}

    class Counter:
        def __call__(self, v):
            return v

    counter = Counter()

    def counts(v):
        box["n"] += 1
        return v

    return {
        "appends": lambda v: seen.append(v),
        "writes to an item": counts,
        "prints": lambda v: print(v),
        "draws": lambda v: v + np.random.normal(),
        "draws from a generator": lambda v: v + rng.normal(),
        "an object": lambda v: counter(v),
        "a helper that appends": lambda v: appends(v),
        "inside": lambda v: [appends(x) for x in v],
        "as an argument": functools.partial(lambda v, g: g(v), g=appends),
        "opens": lambda v: open(v),
        "a vectorized one": np.vectorize(appends),
        "sets an attribute": lambda v: setattr(box, "n", 1),
    }


@pytest.mark.parametrize("name", make_harmful())
def test_what_may_do_anything_is_not_repeated(name):
    assert why_not_repeatable(make_harmful()[name])


@pytest.mark.parametrize(
    "f",
    [
        np.median,
        masked,
        lambda v: np.sort(v)[0],
        lambda v: max(v, key=abs),
        functools.partial(np.quantile, q=0.5),
        lambda v: branches(v) + FIRST,
        lambda v: [np.fft.rfft(v), [x * 2 for x in v]],
    ],
)
def test_what_only_computes_may_be_repeated(f):
    assert why_not_repeatable(f) is None


@pytest.mark.parametrize("name", ["sort", "where", "own", "several axes"])
def test_inside_transforms_of_jax(jax, name):
    """Without a number to look at: jitted, differentiated and mapped from outside."""
    jnp = jax.numpy
    f = JAX[name](jnp) if name in JAX else lambda v: v - v.mean()
    axes = (1, 2) if name == "several axes" else 2
    x = jnp.asarray(X[:3, :2])

    def ours(a):
        assert xpapply.explain(f, axes, a).engine == "jax.vmap"
        return xpapply.apply_along_axis(f, axes, a)

    def wanted(a):
        if name == "several axes":
            return jax.vmap(f)(a)
        return jnp.apply_along_axis(f, axes, a)

    for transformed in (
        jax.jit,
        lambda g: jax.grad(lambda a: (g(a) ** 2).sum()),
        lambda g: lambda a: jax.vmap(g)(jnp.stack([a, 2 * a])),
    ):
        got, want = transformed(ours)(x), transformed(wanted)(x)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_inside_a_transform_the_loop_decides_by_numbers_that_are_there(jax):
    x = jax.numpy.asarray(X[0])
    with xpapply.options(fallback="silent"):
        got = jax.grad(lambda a: xpapply.apply_along_axis(branches, 1, a).sum())(x)
        with pytest.raises(jax.errors.ConcretizationTypeError):
            jax.jit(lambda a: xpapply.apply_along_axis(branches, 1, a))(x)
    want = jax.numpy.stack([jax.grad(branches)(v) for v in x])
    np.testing.assert_allclose(got, want)
