"""vectorize with bad input: the error says what was asked, what was found and what to do.

Each case runs by the plain loop, and on all slices at once where that is possible.
"""

import re
import warnings

import numpy as np
import pytest

import xpapply
from xpapply.loop.signature import Signature

pytestmark = pytest.mark.filterwarnings("ignore::xpapply.FallbackWarning")
N = 500
X = np.random.default_rng(0).normal(size=(N, 4))
X[:, 0] = np.arange(N)


@pytest.fixture(params=["loop", "", "cpu"])
def way(request):
    """The loop; whatever runs at once; kernels for CPUs."""
    if request.param == "cpu":
        pytest.importorskip("llvmlite")
    return request.param


def made(f, signature=None, **how):
    return xpapply.vectorize(f, signature=signature, **how)


def raised(way, call):
    """The error of the first call, which is that of a second call, too."""
    with xpapply.options(engine=way):
        found = []
        for _ in range(2):
            try:
                call()
            except Exception as error:
                found.append(error)
            else:
                raise AssertionError("no error")
    if way and any(isinstance(error, xpapply.UnsupportedError) for error in found):
        pytest.skip(str(found[0]))
    first, second = (
        (type(e), re.sub("0x[0-9a-f]+", "", str(e)), getattr(e, "__notes__", [])) for e in found
    )
    assert first == second
    return found[0]


def says(error, *parts):
    text = " ".join([str(error), *getattr(error, "__notes__", [])])
    for part in parts:
        assert part in text, text


dot = made(lambda a, b: (a * b).sum(), "(n),(n)->()")
mean = made(lambda a: a.mean(), "(n)->()")
both = made(lambda a: (a.min(), a * 2), "(n)->(),(n)")
plus = made(lambda a, b: a + b)

# --- signatures ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        *("", "n->()", "(n)", "(n)->", "(n)->()->()", "(n),->()", "(n(->()", "(1n)->()"),
        *("(n)(m)->()", "(n)→()", "(n),(n)->()x", "(-1)->()", "(n.m)->()", "(n)->(),", "(n,)->()"),
    ],
)
def test_signatures_that_do_not_parse(text):
    with pytest.raises(ValueError, match="not a valid gufunc signature") as info:
        made(abs, text)
    says(info.value, repr(text), "as in '(m,n),(n)->(m)'")


@pytest.mark.parametrize("text", ["(n?,n)->()", "(n?),(n)->()", "(n)->(n?)", "(m?,n),(n,m)->()"])
def test_a_dim_may_be_missing_everywhere_or_nowhere(text):
    """As in NumPy's C parser of generalized ufuncs."""
    with pytest.raises(ValueError, match="with and without a question mark"):
        made(abs, text)


@pytest.mark.parametrize("given", [3, b"(n)->()", ["(n)->()"], ("(n)", "()")])
def test_signatures_that_are_no_strings(given):
    with pytest.raises(TypeError, match=r"signature must be a string such as '\(n\),\(n\)->\(\)'"):
        made(abs, given)


def test_signatures_that_parse_as_numpys():
    for text in [
        "()->()",
        "(n),(n)->()",
        " ( m , n ) , (n) -> (m) ",
        "(n)->(),(n)",
        "(3),(3)->(3)",
    ]:
        theirs = np.lib._function_base_impl._parse_gufunc_signature(text)
        found = Signature.parse(text)
        names = [
            [tuple(d.name for d in dims) for dims in side] for side in (found.inputs, found.outputs)
        ]
        assert names == [list(side) for side in theirs]


# --- dims of arguments ---------------------------------------------------------------------------

OTHERS = {
    "core": (
        lambda: dot(X, np.ones((N, 5))),
        "core dimension 'n': 4 by argument 0, 5 by argument 1",
    ),
    "core of length 1": (lambda: dot(X, np.ones((N, 1))), "4 by argument 0, 1 by argument 1"),
    "in one": (
        lambda: made(lambda a: a.trace(), "(n,n)->()")(np.ones((N, 3, 4))),
        "'n': 3 by argument 0, 4 by argument 0 of shape (500, 3, 4)",
    ),
    "fixed": (
        lambda: made(lambda a: a.sum(), "(3)->()")(X),
        "'3': 3 by the signature, 4 by argument 0",
    ),
    "optional": (
        lambda: made(np.matmul, "(m?,n),(n,p?)->(m?,p?)")(np.ones((2, 3)), np.ones((4, 5))),
        "'n': 3 by argument 0, 4 by argument 1 of shape (4, 5)",
    ),
    "too few": (
        lambda: made(np.matmul, "(m,n),(n)->(m)")(np.ones(4), np.ones(4)),
        "argument 0 of shape (4,) does not have enough dimensions for all core dimensions (m,n)",
    ),
    "loop": (lambda: dot(X, np.ones((7, 4))), "argument 0: (500,), argument 1: (7,)"),
    "loop of numbers": (
        lambda: plus(X[:, 0], X[:3, 0]),
        "the arguments do not broadcast together: argument 0: (500,), argument 1: (3,)",
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_dims_that_do_not_agree(name, way):
    call, text = OTHERS[name]
    error = raised(way, call)
    assert isinstance(error, ValueError)
    says(error, text)


def test_the_number_of_arguments(way):
    for call, text in [
        (lambda: dot(X), "expected 2, got 1 (signature (n),(n)->())"),
        (lambda: dot(X, X, X), "expected 2, got 3"),
        (lambda: mean(), "expected 1, got 0"),
    ]:
        error = raised(way, call)
        assert isinstance(error, TypeError)
        says(error, text)


# --- results -------------------------------------------------------------------------------------


def late(one, other):
    """`one` of a slice, and `other` from the slice 106 on."""
    return lambda a: one(a) if a[0] < 106 else other(a)


RESULTS = {
    "longer": (lambda a: a[:2], lambda a: a[:3], "(n)->(k)", "(3,)", "(2,)"),
    "vector for a number": (lambda a: a[0], lambda a: a, "(n)->()", "(4,)", "()"),
    "matrix": (lambda a: a, lambda a: a[:, None] * a, "(n)->(n)", "(4, 4)", "(4,)"),
    "second": (
        lambda a: (a[0], a),
        lambda a: (a[0], a[1:]),
        "(n)->(),(n)",
        "result 1 of f has the shape (3,)",
        "(4,)",
    ),
}


@pytest.mark.every_case
@pytest.mark.parametrize("name", RESULTS)
@pytest.mark.parametrize("where", ["", "where"])
def test_results_of_other_shapes(name, where, way):
    one, other, signature, found, promised = RESULTS[name]
    how = {"where": X[:, 0] % 53 == 0, "fill": 0} if where else {}
    error = raised(way, lambda: made(late(one, other), signature)(X, **how))
    assert isinstance(error, ValueError)
    says(error, "(106,)", found, promised, signature)


@pytest.mark.every_case
@pytest.mark.parametrize("name", RESULTS)
def test_first_results_of_other_shapes(name, way):
    _, other, signature, found, _ = RESULTS[name]
    if name == "longer":
        pytest.skip("it tells the size")
    error = raised(way, lambda: made(other, signature)(X))
    assert isinstance(error, ValueError)
    says(error, "(0,)", found.removeprefix("result 1 of f has the shape ")[:2])


def test_results_of_other_shapes_of_tensors(way):
    torch = pytest.importorskip("torch")
    t = torch.from_numpy(X)
    error = raised(way, lambda: made(late(lambda a: a, lambda a: a[:3]), "(n)->(n)")(t))
    assert isinstance(error, ValueError)
    says(error, "(106,)", "(3,)", "(4,)")


COUNTS = {
    "one of two": (lambda a: (a[0], a[1]), lambda a: a[0], "(n)->(),()", "expected 2, got 1"),
    "three of two": (
        lambda a: (a[0], a[1]),
        lambda a: (a[0], a[1], a[2]),
        "(n)->(),()",
        "expected 2, got 3",
    ),
    "a tuple of one": (lambda a: a[:2], lambda a: (a[0], a[1]), "(n)->(k)", "expected 1, got 2"),
}


@pytest.mark.every_case
@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("first", [False, True])
def test_the_number_of_results(name, first, way):
    one, other, signature, text = COUNTS[name]
    f = other if first else late(one, other)
    with pytest.raises(ValueError, match=text):
        np.vectorize(f, signature=signature)(X)
    error = raised(way, lambda: made(f, signature)(X))
    assert isinstance(error, ValueError)
    says(error, text, signature, "(0,)" if first else "(106,)")


def test_arrays_where_numbers_are_wanted(way):
    def f(a):
        return a if a < 300 else np.array([a, a])

    error = raised(way, lambda: made(f)(np.arange(float(N))))
    assert isinstance(error, ValueError)
    says(error, "for the results of all elements", "signature='()->(n)'")
    assert "index" not in str(error.__notes__)


@pytest.mark.parametrize("f", [mean, lambda x: plus(x, x)])
def test_engines_that_do_not_exist(f):
    with xpapply.options(engine="gpu"), pytest.raises(xpapply.UnsupportedError) as info:
        f(X)
    says(info.value, "no engine 'gpu': there are loop, ")


# --- out and where -------------------------------------------------------------------------------


def constant(shape=(N,)):
    y = np.zeros(shape)
    y.flags.writeable = False
    return y


OUT = {
    "shape": (mean, {"out": np.zeros(3)}, ValueError, "out has shape (3,), the result (500,)"),
    "broadcast": (mean, {"out": np.zeros((2, N))}, ValueError, "out has shape (2, 500)"),
    "second": (
        both,
        {"out": (np.zeros(N), np.zeros(N))},
        ValueError,
        "out[1] has shape (500,), the result (500, 4)",
    ),
    "one of two": (both, {"out": np.zeros(N)}, ValueError, "out has 1 arrays, f 2 results"),
    "read-only": (mean, {"out": constant()}, ValueError, "is read-only"),
    "list": (mean, {"out": [0.0] * N}, TypeError, "out must be an array: found list"),
    "dtype": (mean, {"out": np.zeros(N, int)}, TypeError, "out of dtype int64 cannot hold"),
    "axis": (
        mean,
        {"axis": 0, "out": np.zeros((4, 1))},
        ValueError,
        "out has shape (4, 1), the result (4,)",
    ),
    "nothing": (mean, {"where": np.zeros(N, bool)}, ValueError, "where chooses no slice, so that"),
    "where": (mean, {"where": np.ones(7, bool)}, ValueError, "where has shape (7,)"),
    "no booleans": (mean, {"where": np.ones(N)}, TypeError, "where must be booleans"),
}


@pytest.mark.parametrize("name", OUT)
def test_out_and_where(name, way):
    f, how, kind, text = OUT[name]
    error = raised(way, lambda: f(X, **how))
    assert isinstance(error, kind)
    says(error, text)
    outs = how.get("out", ())
    assert not any(np.any(x) for x in (outs if isinstance(outs, tuple) else (outs,)))


@pytest.mark.parametrize("name", ["shape", "read-only", "list"])
def test_nothing_is_called_for_a_wrong_out(name):
    """Of numbers, too."""
    calls = []
    for signature in (None, "()->()"):
        with pytest.raises(OUT[name][2], match=re.escape(OUT[name][3])):
            made(lambda a: calls.append(a) or 1.0, signature)(X[:, 0], **OUT[name][1])
    assert not calls


@pytest.mark.parametrize("shift", ["itself", "reversed", "columns", "next row", "transposed"])
@pytest.mark.parametrize("kind", ["slices", "numbers"])
def test_out_that_overlaps_an_argument(shift, kind, way):
    """The result is that without the overlap, as of NumPy's ufuncs."""
    memory = np.random.default_rng(1).normal(size=(61, 60))
    x = memory[1:]
    out = {
        "itself": x,
        "reversed": x[::-1],
        "columns": x[:, ::-1],
        "next row": memory[:-1],
        "transposed": x.T,
    }[shift]
    if kind == "slices":
        f = made(lambda a, b: a[::-1] * 2 + b, "(n),(n)->(n)")
    else:
        f = made(lambda a, b: a * 2 + b)
    want = f(x.copy(), x[:1].copy())
    with xpapply.options(engine=way):
        try:
            assert f(x, x[:1], out=out) is out
        except xpapply.UnsupportedError as error:
            pytest.skip(str(error))
    np.testing.assert_allclose(out, want, rtol=1e-15)


# --- places --------------------------------------------------------------------------------------

PLACES = {
    "tuple": ({"axis": (0, 1)}, TypeError, "axis must be an integer: found (0, 1)"),
    "float": ({"axis": 0.5}, TypeError, "axis must be an integer: found 0.5"),
    "truth": ({"axis": True}, TypeError, "axis must be an integer: found True"),
    "range": ({"axis": 5}, np.exceptions.AxisError, "(5,) of argument 0, which has 2 dims"),
    "no list": ({"axes": (0, 0)}, TypeError, "axes must be a list"),
    "short": ({"axes": [0]}, ValueError, "axes has 1 entries"),
    "name": ({"axes": [0, "a"]}, TypeError, "axes entry 1 must be an integer: found 'a'"),
    "two": ({"axes": [0, (0, 1)]}, np.exceptions.AxisError, "should name 1 axes"),
    "axes range": ({"axes": [0, 7]}, np.exceptions.AxisError, "(7,) of argument 1"),
    "both": ({"axis": 0, "axes": [0, 0]}, TypeError, "both 'axis' and 'axes'"),
    "keepdims": ({"keepdims": "no"}, TypeError, "keepdims must be True or False: found 'no'"),
}


@pytest.mark.parametrize("name", PLACES)
def test_places_as_numpys(name):
    """The same kind of error as of a generalized ufunc of NumPy."""
    how, kind, text = PLACES[name]
    with pytest.raises(kind):
        np.vecdot(X, X, **how)
    with pytest.raises(kind) as info:
        dot(X, X, **how)
    says(info.value, text)


# --- libraries and devices -----------------------------------------------------------------------


def test_libraries_that_differ(way):
    torch = pytest.importorskip("torch")
    for f in (dot, plus):
        error = raised(way, lambda f=f: f(X, torch.zeros(4)))
        assert isinstance(error, TypeError)
        says(error, "numpy (ndarray (500, 4) float64)", "torch (Tensor (4,)", "Bring them to one")
    error = raised(way, lambda: dot(torch.ones(N, 4), torch.ones(4), out=np.zeros(N)))
    assert isinstance(error, TypeError)
    says(error, "out is ndarray", "the arguments are torch arrays")


def differ(way, here, there):
    for call, parts in [
        (lambda: dot(here(N, 4), there(4)), ("argument 0 is", "argument 1 is", "one device")),
        (lambda: plus(here(N, 4), there(4)), ("argument 0 is", "argument 1 is", "one device")),
        (lambda: dot(here(N, 4), here(4), out=there(N)), ("out is", "the arguments are on")),
        (lambda: dot(here(N, 4), here(4), where=there(N) > 0), ("where is", "the arguments are")),
    ]:
        error = raised(way, call)
        assert isinstance(error, ValueError), error
        says(error, *parts)


def test_devices_that_differ(way):
    torch = pytest.importorskip("torch")
    differ(way, torch.ones, lambda *shape: torch.ones(shape, device="meta"))


@pytest.mark.gpu
@pytest.mark.parametrize("order", [1, -1])
def test_devices_that_differ_on_a_gpu(torch, order):
    places = [torch.ones, lambda *shape: torch.ones(shape, device="cuda")]
    differ("", *places[::order])
    x = torch.arange(8.0, device="cuda").reshape(2, 4)
    np.testing.assert_array_equal(plus(x, torch.tensor(2.0)).cpu(), x.cpu() + 2)


def test_what_is_no_function():
    for f in (3, "mean", X):
        with pytest.raises(TypeError, match="pyfunc must be a function: found"):
            made(f, "(n)->()")


def test_no_warning_beside_an_error():
    """The error says it; a fall back to the loop does not matter then."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="out has shape"):
            mean(X, out=np.zeros(3))


@pytest.mark.parametrize("dtype", ["f8", "c8", "i4"])
def test_fill_that_is_no_number(dtype):
    made = xpapply.vectorize(lambda a: a, otypes=[dtype])
    with pytest.raises(xpapply.InputError, match="fill='x' is nothing that results"):
        made(np.arange(4), where=[True, False, True, True], fill="x")
