"""vectorize with random signatures and keywords: as a plain loop, as NumPy's gufuncs, as JAX's."""

import doctest
import types

import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from numpy.linalg import _umath_linalg

import xpapply
from xpapply import testing
from xpapply.loop.signature import Signature, core_last, places, resolve

pytestmark = pytest.mark.filterwarnings("ignore::xpapply.FallbackWarning")


def function_of(signature, kind):
    """A function with such a signature, whose results depend on all elements of all slices."""
    parsed = Signature.parse(signature)
    inputs = tuple(tuple((d.name, d.optional) for d in core) for core in parsed.inputs)
    outputs = tuple(tuple(d.name for d in core) for core in parsed.outputs)

    def f(*slices):
        xp = xpapply.get_array_module(*slices)
        total, vectors = 1.0, {}
        for k, (x, core) in enumerate(zip(slices, inputs, strict=True)):
            missing = x.ndim < len(core)
            names = [name for name, optional in core if not (missing and optional)]
            for a, name in enumerate(names):
                rest = tuple(b for b in range(len(names)) if b != a)
                vector = xp.sum(x, axis=rest) if rest else x
                vectors[name] = vectors.get(name, 0.0) + (k + 1.5) * vector
            total = total + (xp.sum(x) if names else x) * (k + 0.5)
        if kind == "branch" and total > 1:
            total = -total
        results = []
        for core in outputs:
            y = total
            own = [name for name in core if name in vectors]
            for a, name in enumerate(own):
                shape = (None,) * a + (slice(None),) + (None,) * (len(own) - a - 1)
                y = y + (a + 2.0) * vectors[name][shape]
            if kind == "mask" and len(own) == 1:
                y = xp.where(y > total, y, total)
            results.append(y)
        return tuple(results) if len(results) > 1 else results[0]

    return f


KINDS = st.sampled_from(["plain", "branch", "mask"])
LOOPS = st.sampled_from([(30,), (4, 5), (2, 1, 7), (3, 2), (1,), ()])


@pytest.mark.parametrize(
    "name",
    ["numpy", "torch", "array_api_strict", pytest.param("cupy", marks=pytest.mark.gpu)],
)
@settings(max_examples=30)
@given(data=st.data())
def test_random_signatures(name, data, any_array):
    signature = data.draw(testing.signatures())
    f = function_of(signature, data.draw(KINDS))
    dtypes = ["float64", "float32"] if name != "numpy" else ["float64", "float32", "int64", "uint8"]
    special = data.draw(st.booleans())
    drawn = data.draw(
        testing.operands(
            signature, loop=data.draw(LOOPS), dtypes=dtypes, special=special, exponents=(0, 0)
        )
    )
    note([(x.dtype, x.shape, x.strides) for x in drawn])
    if name == "array_api_strict" and not all(x.ndim for x in drawn):
        drawn = [x.copy() for x in drawn]
    testing.assert_parity(f, *map(any_array(name), drawn), signature=signature)


@pytest.fixture(scope="module")
def any_array():
    """What makes an array of a library."""
    from conftest import Library, library

    def maker(name):
        library(name)
        return Library(name, "").array

    return maker


# --- keywords -------------------------------------------------------------------------------------


@st.composite
def core_places(draw, signature, shapes, keepdims):
    """`axes` for arrays with their core dims last, and each array's axes in memory."""
    dims = resolve(Signature.parse(signature), shapes)
    parsed, loop = dims.signature, len(dims.loop)
    inputs = [(len(s), len(c)) for s, c in zip(shapes, parsed.inputs, strict=True)]
    kept = len(parsed.inputs[0]) if keepdims else 0
    outputs = [(loop + (kept or len(c)), kept or len(c)) for c in parsed.outputs]
    axes = []
    for ndim, core in [*inputs, *outputs]:
        own = draw(st.permutations(range(ndim)))[:core]
        own = tuple(a - ndim * draw(st.booleans()) for a in own)
        axes.append(own[0] if core == 1 and draw(st.booleans()) else own)
    return axes


def moved(x, axes):
    """An array whose last axes are the core dims, with these at other places."""
    axes = axes if isinstance(axes, tuple) else (axes,)
    return np.moveaxis(x, range(x.ndim - len(axes), x.ndim), axes)


@pytest.mark.parametrize("name", ["numpy", "torch", pytest.param("cupy", marks=pytest.mark.gpu)])
@given(data=st.data())
def test_random_keywords(name, data, any_array):
    signature = data.draw(testing.signatures(fixed=False, optional=False))
    parsed = Signature.parse(signature)
    drawn = data.draw(
        testing.operands(signature, loop=data.draw(LOOPS), dtypes=["float64"], exponents=(0, 0))
    )
    f = xpapply.vectorize(function_of(signature, data.draw(KINDS)), signature=signature)
    how = {}
    counts = {len(c) for c in parsed.inputs}
    if not any(parsed.outputs) and len(counts) == 1 and data.draw(st.booleans()):
        how["keepdims"] = True
    if data.draw(st.booleans()):
        shapes = [x.shape for x in drawn]
        how["axes"] = axes = data.draw(core_places(signature, shapes, bool(how) and min(counts)))
        drawn = [moved(x, a) for x, a in zip(drawn, axes, strict=False)]
    loop = resolve(
        parsed,
        [
            core_last(x, a).shape
            for x, a in zip(
                drawn, places(parsed, [x.ndim for x in drawn], **how).inputs, strict=True
            )
        ],
    ).loop
    array = any_array(name)
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    if data.draw(st.booleans()):
        some = [data.draw(st.sampled_from([n, 1])) for n in loop]
        mask = rng.random(some[data.draw(st.integers(0, len(some))) :]) < 0.6
        if mask.any():
            how["where"] = np.asarray(mask) if data.draw(st.booleans()) else array(np.asarray(mask))
            how |= {"fill": -7.5} if data.draw(st.booleans()) else {}
    if name == "numpy" and data.draw(st.booleans()):
        how["dtype"] = data.draw(st.sampled_from(["float32", "float64", "complex128"]))
    given_arrays = [*map(array, drawn)]
    if data.draw(st.booleans()):
        results = testing.definition(f, *drawn, **{k: v for k, v in how.items() if k != "where"})
        several = isinstance(results, tuple)
        outs = [rng.normal(size=y.shape) for y in (results if several else (results,))]
        if how.get("dtype") == "complex128":
            outs = [y.astype(complex) for y in outs]
        outs = [*map(array, outs)]
        how["out"] = tuple(outs) if several else outs[0]
    note((signature, how, [x.shape for x in drawn]))
    testing.assert_parity(f, *given_arrays, **how)


@pytest.mark.parametrize("name", ["numpy", "torch"])
@given(data=st.data())
def test_random_keywords_of_functions_of_numbers(name, data, any_array):
    def f(a, b):
        return a - b if a > b else a * b + 1

    dtypes = ["float64", "int64"]
    drawn = data.draw(
        testing.operands("(),()->()", loop=data.draw(LOOPS), dtypes=dtypes, special=True)
    )
    array, how = any_array(name), {}
    loop = np.broadcast_shapes(*(x.shape for x in drawn))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    mask = rng.random(loop) < 0.6
    if data.draw(st.booleans()) and mask.any():
        how = {"where": np.asarray(mask), "fill": 3}
    if data.draw(st.booleans()):
        how["out"] = array(rng.normal(size=loop))
        how.pop("fill", None)
    if data.draw(st.booleans()):
        how["dtype"] = "float64"
    note((how, drawn))
    testing.assert_parity(xpapply.vectorize(f), *map(array, drawn), **how)


# --- NumPy's generalized ufuncs -------------------------------------------------------------------

GUFUNCS = {
    name: getattr(np, name)
    for name in ("matmul", "vecdot", "matvec", "vecmat")
    if hasattr(np, name)
} | {
    name: getattr(_umath_linalg, name)
    for name in ("det", "inv", "solve", "slogdet", "eigvalsh_lo", "cholesky_lo")
}


def outcome(call):
    with np.errstate(all="ignore"):
        try:
            return call()
        except Exception as error:
            return error


@pytest.mark.parametrize("name", GUFUNCS)
@settings(max_examples=25)
@given(data=st.data())
def test_as_gufuncs_of_numpy(name, data):
    """Their `axis`, `axes`, `keepdims` and `out`, wrong ones included."""
    gufunc = GUFUNCS[name]
    signature = gufunc.signature.replace(" ", "")
    parsed = Signature.parse(signature)
    drawn = data.draw(testing.operands(signature, dtypes=["float64"], exponents=(0, 0)))
    how = {}
    if name == "vecdot":
        how |= {"keepdims": True} if data.draw(st.booleans()) else {}
        if data.draw(st.booleans()):
            how["axis"] = data.draw(st.integers(-4, 3))
    if name in ("det",) and data.draw(st.booleans()):
        how["keepdims"] = True
    if "axis" not in how and data.draw(st.booleans()):
        shapes = [x.shape for x in drawn]
        axes = data.draw(core_places(signature, shapes, "keepdims" in how))
        # of two that are wrong either error may come first
        wrong = data.draw(st.integers(0, 8 * len(axes)))
        how["axes"] = [data.draw(WRONG) if k == wrong else a for k, a in enumerate(axes)]
        drawn = [moved(x, a) for x, a in zip(drawn, axes, strict=False)]
    note((how, [x.shape for x in drawn]))
    want = outcome(lambda: gufunc(*drawn, **how))
    mine = xpapply.vectorize(lambda *slices: gufunc(*slices), signature=str(parsed))
    got = outcome(lambda: mine(*drawn, **how))
    if isinstance(want, Exception):
        assert isinstance(got, Exception), f"{want!r} became {got!r}"
        assert isinstance(got, ValueError) == isinstance(want, ValueError), (got, want)
        return
    if isinstance(got, Exception):
        raise got
    pairs = zip(got, want, strict=True) if isinstance(want, tuple) else [(got, want)]
    for x, y in pairs:
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        np.testing.assert_allclose(x, y, 1e-9, 1e-12)


WRONG = st.sampled_from([7, (0, 0), (0, 1, 2), -9, (), 0.5, "0"])


# --- jax.numpy.vectorize --------------------------------------------------------------------------


def test_the_documented_examples_of_jax():
    jax = pytest.importorskip("jax")
    jnp = jax.numpy
    there = types.SimpleNamespace(**vars(jnp) | {"vectorize": xpapply.vectorize})
    text = jnp.vectorize.__doc__
    globs = {"jnp": there, "jax": jax}
    found = doctest.DocTestParser().get_doctest(text, globs, "jax.numpy.vectorize", None, 0)
    assert sum("vectorize" in e.source for e in found.examples) >= 2
    said = []
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS)
    # JAX may add notes to exceptions, which doctest takes for their text
    before = jax.config.jax_traceback_filtering
    jax.config.update("jax_traceback_filtering", "off")
    try:
        assert not runner.run(found, out=said.append, clear_globs=False).failed, "".join(said)
    finally:
        jax.config.update("jax_traceback_filtering", before)
    for make in (found.globs["cross_product"], found.globs["matrix_vector_product"]):
        f, signature = make.pyfunc, make.signature
        rng = np.random.default_rng(0)
        a, b = (jnp.asarray(rng.normal(size=shape)) for shape in ((2, 3, 3), (3,)))
        want, got = jnp.vectorize(f, signature=signature)(a, b), make(a, b)
        assert (type(got), got.shape, got.dtype) == (type(want), want.shape, want.dtype)
        np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-6)
        testing.assert_parity(make, a, b)


def test_excluded_arguments_of_jax():
    jnp = pytest.importorskip("jax").numpy

    def power_sum(a, n):
        return jnp.sum(a**n) + (1 if n == 2 else 0)

    x = jnp.asarray(np.random.default_rng(0).normal(size=(4, 3)))
    for n in (2, 3):
        want = jnp.vectorize(power_sum, excluded={1}, signature="(n)->()")(x, n)
        got = xpapply.vectorize(power_sum, excluded={1}, signature="(n)->()")(x, n)
        np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-6)
