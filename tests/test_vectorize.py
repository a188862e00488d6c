"""vectorize: numbers, core dims, gufunc keywords, several results, all libraries."""

import math
import operator
import warnings
from collections import namedtuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xpapply
from xpapply.arrays import is_mixed, on_host
from xpapply.loop.signature import Signature

pytestmark = pytest.mark.filterwarnings("ignore::xpapply.FallbackWarning")


def outcome(make, f, arrays, signature=None, **how):
    """The results or the exception, with the warnings."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", xpapply.FallbackWarning)
        try:
            found = make(f, signature=signature, **how)(*arrays)
        except Exception as error:
            return type(error), str(error).partition("\n")[0], set()
    return found, "", {str(w.message) for w in seen}


def as_numpys(f, arrays, signature=None, **how):
    """Compare three calls with numpy.vectorize, bit for bit but for rounding."""
    want, text, warned = outcome(np.vectorize, f, arrays, signature, **how)
    for _ in range(3):
        got, said, warns = outcome(xpapply.vectorize, f, arrays, signature, **how)
        if isinstance(want, type):
            assert got is want, (got, said, text)
            continue
        if signature is not None:  # of numbers NumPy tells what the processor's flags say
            assert warns == warned
        pairs = zip(want, got, strict=True) if isinstance(want, tuple) else [(want, got)]
        assert isinstance(want, tuple) == isinstance(got, tuple)
        for a, b in pairs:
            assert (a.shape, a.dtype, type(a)) == (b.shape, b.dtype, type(b))
            np.testing.assert_allclose(b, a, rtol=1e-12, atol=0)
            if a.dtype.kind == "f":
                assert (np.signbit(a) == np.signbit(b))[~np.isnan(a)].all()
    return got


# --- functions of numbers -------------------------------------------------------------------------


def add_or_subtract(a, b):
    return a - b if a > b else a + b


def logistic(t):
    return 1 / (1 + math.exp(-t))


def reciprocal(t):
    return 1 / t


def fizz(k):
    return 3 if k % 15 == 0 else 1 if k % 3 == 0 else 2 if k % 5 == 0 else 0


def collatz(k):
    steps = 0
    while k > 1 and steps < 20:
        k = k // 2 if k % 2 == 0 else 3 * k + 1
        steps += 1
    return steps


def both(a, b):
    return a + b, a * b


def square(k):
    return k * k


def power(a, b):
    return a**b


def is_small(a):
    return abs(a) < 1


def half(k):
    return k / 2


def truncated(a):
    return int(a)


def repeated(a):
    total = a
    for _ in range(4):
        total = total * a + 1
    return total


ONE = [logistic, reciprocal, square, is_small, half, truncated, repeated, math.floor]
TWO = [add_or_subtract, both, power, operator.mod, operator.floordiv, max, math.hypot]
DTYPES = ["float64", "float32", "int64", "int32", "uint8", "bool"]
rng = np.random.default_rng(0)


def numbers(dtype, shape, seed=0):
    made = np.random.default_rng(seed)
    if dtype == "bool":
        return made.random(shape) > 0.5
    if "float" in dtype:
        return made.normal(size=shape).astype(dtype)
    return made.integers(1, 9, shape).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("f", [*ONE, fizz, collatz], ids=lambda f: f.__name__)
def test_functions_of_a_number(f, dtype):
    as_numpys(f, [numbers(dtype, (50, 4))])


@pytest.mark.parametrize(
    "dtypes", [("float64", "float64"), ("float32", "int64"), ("uint8", "int32")]
)
@pytest.mark.parametrize("f", TWO, ids=lambda f: f.__name__)
def test_functions_of_two_numbers(f, dtypes):
    a, b = (numbers(d, s, k) for k, (d, s) in enumerate(zip(dtypes, [(60, 1), (5,)], strict=True)))
    as_numpys(f, [a, b])


@pytest.mark.parametrize("f", [reciprocal, truncated, math.sqrt, math.log])
def test_what_python_raises(f):
    x = numbers("float64", 200)
    x[70] = 0.0 if f is not truncated else math.nan
    x[f is not truncated and 90] -= 10
    want, text, _ = outcome(np.vectorize, f, [x])
    got, said, _ = outcome(xpapply.vectorize, f, [x])
    assert isinstance(want, type) == isinstance(got, type)
    if isinstance(want, type):
        assert (got, said) == (want, text)


def test_integers_do_not_overflow():
    as_numpys(square, [np.full(100, 2**40)])  # the loop raises OverflowError
    as_numpys(lambda k: k * k % 1000, [np.arange(100) + 2**40])
    as_numpys(lambda k: k + 1, [np.full(100, 2**62)])


def test_results_that_the_first_dtype_does_not_hold():
    as_numpys(lambda a: 1 if a < 0.5 else 2.5, [np.linspace(0, 1, 100)])
    as_numpys(lambda a: 1 if a < 0.5 else math.nan, [np.linspace(0, 1, 100)])
    as_numpys(lambda k: k * 3, [np.arange(200, dtype=np.uint8)])


def test_special_numbers():
    x = np.array([0.0, -0.0, math.inf, -math.inf, math.nan, 1e308, 5e-324] * 10)
    for f in (lambda a: a * 2, lambda a: -a, abs, lambda a: a if a > 0 else -1.0, math.atan):
        as_numpys(f, [x])


def test_the_function_is_called_as_often_as_by_numpy():
    calls = []

    def f(a):
        calls.append(a)
        return a

    xpapply.vectorize(f)(np.arange(30.0))
    assert len(calls) == 31
    assert calls[1:] == list(range(30))


def test_numbers_of_tensors():
    torch = pytest.importorskip("torch")
    x = torch.linspace(-1, 1, 40).reshape(8, 5)
    got = xpapply.vectorize(logistic)(x)
    assert isinstance(got, torch.Tensor)
    np.testing.assert_allclose(got.numpy(), np.vectorize(logistic)(x.numpy()), rtol=1e-6)


# --- core dims ------------------------------------------------------------------------------------


def correlation(a, b):
    return ((a - a.mean()) * (b - b.mean())).sum() / (a.std() * b.std() * len(a))


def scaled(a, w):
    return a * w / w.sum()


def clipped_mean(a, low):
    kept = a[a > low]
    return kept.mean() if len(kept) else low


CASES = {
    "correlation": (correlation, "(n),(n)->()", [(40, 6), (40, 6)]),
    "broadcast": (correlation, "(n),(n)->()", [(40, 1, 6), (3, 6)]),
    "scaled": (scaled, "(n),(n)->(n)", [(40, 6), (6,)]),
    "matvec": (lambda m, v: m @ v, "(m,n),(n)->(m)", [(30, 3, 4), (30, 4)]),
    "outer": (np.outer, "(m),(n)->(m,n)", [(30, 3), (30, 2)]),
    "two": (lambda a, b: (a.min(), a + b), "(n),(n)->(),(n)", [(40, 5), (40, 5)]),
    "mask": (clipped_mean, "(n),()->()", [(50, 7), (50,)]),
    "new": (lambda a: a[::2], "(n)->(m)", [(50, 7)]),
    "number": (lambda a, k: a[0] * k, "(n),()->()", [(50, 3), ()]),
    "fit": (lambda a, b: np.polyfit(a, b, 1)[0], "(n),(n)->()", [(40, 6), (40, 6)]),
    "interp": (np.interp, "(k),(n),(n)->(k)", [(30, 5), (30, 6), (30, 6)]),
    "det": (np.linalg.det, "(m,m)->()", [(30, 3, 3)]),
}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", CASES)
def test_functions_of_core_dims(name, dtype):
    f, signature, shapes = CASES[name]
    arrays = [numbers(dtype, s, k) for k, s in enumerate(shapes)]
    arrays = [np.sort(x) if x.ndim > 1 else x for x in arrays]
    want = np.vectorize(f, signature=signature)(*arrays)
    for _ in range(2):
        got = xpapply.vectorize(f, signature=signature)(*arrays)
        pairs = zip(want, got, strict=True) if isinstance(want, tuple) else [(want, got)]
        for a, b in pairs:
            assert (a.shape, a.dtype) == (b.shape, b.dtype)
            np.testing.assert_allclose(b, a, rtol=2e-4 if dtype == "float32" else 1e-9)


@pytest.mark.parametrize("library", ["torch", "array_api_strict"])
@pytest.mark.parametrize("name", ["correlation", "broadcast", "scaled", "matvec", "two"])
def test_other_libraries(name, library):
    xp = pytest.importorskip(library)
    f, signature, shapes = CASES[name]
    if name == "correlation" and library == "array_api_strict":
        f = scaled
        signature = "(n),(n)->(n)"
    if library == "array_api_strict":
        f = {
            "broadcast": lambda a, b: xp.sum(a * b),
            "scaled": lambda a, w: a * w / xp.sum(w),
            "two": lambda a, b: (xp.min(a), a + b),
        }.get(name, f)
        f = f if f is not scaled else (lambda a, w: a * w / xp.sum(w))
    elif name in ("correlation", "broadcast"):
        f = lambda a, b: (a * b).sum() / a.std()  # noqa: E731
    arrays = [xp.asarray(numbers("float64", s, k)) for k, s in enumerate(shapes)]
    got = xpapply.vectorize(f, signature=signature)(*arrays)
    got = got if isinstance(got, tuple) else (got,)
    loop = np.broadcast_shapes(
        *(
            tuple(x.shape)[: x.ndim - len(c)]
            for x, c in zip(arrays, Signature.parse(signature).inputs, strict=True)
        )
    )
    views = [
        xp.broadcast_to(x, (*loop, *tuple(x.shape)[x.ndim - len(c) :]))
        for x, c in zip(arrays, Signature.parse(signature).inputs, strict=True)
    ]
    for index in [(0,) * len(loop), tuple(n - 1 for n in loop)]:
        want = f(*(x[(*index, ...)] for x in views))
        want = want if isinstance(want, tuple) else (want,)
        for a, b in zip(want, got, strict=True):
            assert type(b) is type(arrays[0])
            np.testing.assert_allclose(np.asarray(b[(*index, ...)]), np.asarray(a), rtol=1e-9)


def gain(x, y):
    if x < 0:
        return -1.0
    return math.sqrt(x) / (1 + y)


@pytest.mark.parametrize(
    "library", ["torch", "array_api_strict", pytest.param("cupy", marks=pytest.mark.gpu)]
)
def test_numbers_of_other_libraries_are_computed_at_once(library, decided):
    xp = pytest.importorskip(library)
    f = xpapply.vectorize(gain)
    for seed in range(3):
        given = np.random.default_rng(seed).standard_normal((2, 500))
        want = np.vectorize(gain)(*given)
        x, y = (xp.asarray(v) for v in given)
        got = f(x, y)
        assert type(got) is type(x)
        np.testing.assert_allclose(on_host(got), want, rtol=1e-15)
        chosen = f(x, y, where=x > 0, fill=7.0)
        np.testing.assert_allclose(on_host(chosen), np.where(given[0] > 0, want, 7.0), rtol=1e-15)
    plan = f.explain(x, y)
    assert plan.vectorized
    where = "one compiled function on the GPU, one launch"
    if library != "cupy":
        where = "on a copy on the host"
        assert decided
        assert all(found.traced and found.why is None for found, _ in decided)
    assert (plan.library, plan.kernels[-1]) == (library, where)
    assert f.explain(x, y, where=x > 0).kernels[-1] == where
    with pytest.raises(ValueError, match="math domain error"):
        xpapply.vectorize(lambda v: math.sqrt(v))(x)


@given(
    st.lists(st.integers(1, 4), max_size=3),
    st.data(),
)
def test_random_signatures(loop, data):
    """Arguments with random core dims and loop dims that broadcast."""
    sizes = {"a": 1, "b": 2, "c": 3}
    count = data.draw(st.integers(1, 3))
    cores = [data.draw(st.lists(st.sampled_from("abc"), max_size=2)) for _ in range(count)]
    arrays = []
    for k, core in enumerate(cores):
        own = [data.draw(st.sampled_from([n, 1])) for n in loop]
        own = own[data.draw(st.integers(0, len(own))) :]
        arrays.append(numbers("float64", (*own, *(sizes[d] for d in core)), k))
    out = data.draw(st.sampled_from(["()", *(f"({','.join(c)})" for c in cores)]))
    signature = ",".join(f"({','.join(c)})" for c in cores) + f"->{out}"
    kept = next((k for k, c in enumerate(cores) if f"({','.join(c)})" == out), None)

    def f(*slices):
        total = sum(np.sum(x * (k + 1)) for k, x in enumerate(slices))
        return total if out == "()" or kept is None else slices[kept] * 2 + total

    as_numpys(f, arrays, signature)


# --- keywords of gufuncs --------------------------------------------------------------------------

LENGTH = xpapply.vectorize(lambda a: float((a * a).sum()) ** 0.5, signature="(n)->()")
CROSS = xpapply.vectorize(lambda a, b: np.cross(a, b), signature="(3),(3)->(3)")
X = numbers("float64", (4, 3, 5))


def test_axis():
    np.testing.assert_allclose(LENGTH(X, axis=1), np.linalg.norm(X, axis=1))
    got = LENGTH(X, axis=1, keepdims=True)
    np.testing.assert_allclose(got, np.linalg.norm(X, axis=1, keepdims=True))
    np.testing.assert_allclose(CROSS(X, X + 1, axis=1), np.cross(X, X + 1, axis=1))


def test_axes():
    matvec = xpapply.vectorize(lambda m, v: m @ v, signature="(m,n),(n)->(m)")
    m, v = numbers("float64", (3, 5, 4)), numbers("float64", (5, 4))
    want = (
        np.matvec(m.transpose(1, 0, 2), v)
        if hasattr(np, "matvec")
        else np.einsum("mbn,bn->bm", m, v)
    )
    np.testing.assert_allclose(matvec(m, v, axes=[(0, 2), 1, 0]), want.T)


def test_out_where_fill_dtype():
    out = np.full((4, 5), 9.0, np.float32)
    assert LENGTH(X, axis=1, out=out) is out
    np.testing.assert_allclose(out, np.linalg.norm(X, axis=1), rtol=1e-6)
    chosen = X[:, 0] > 0
    calls = []

    def norm(a):
        calls.append(a)
        return a.sum()

    got = xpapply.vectorize(norm, signature="(n)->()")(X, axis=1, where=chosen, fill=-1)
    np.testing.assert_allclose(got, np.where(chosen, X.sum(1), -1))
    assert len(calls) == chosen.sum()
    assert np.isnan(LENGTH(X, axis=1, where=chosen)[~chosen]).all()
    out[...] = 7
    LENGTH(X, axis=1, where=chosen, out=out)
    assert (out[~chosen] == 7).all()
    assert (out[chosen] != 7).all()
    assert LENGTH(X, axis=1, dtype="float32").dtype == "float32"
    with pytest.raises(xpapply.InputError, match="fill="):
        xpapply.vectorize(lambda a: 1, signature="(n)->()")(X, where=X[..., 0] > 0)


def test_a_keyword_that_f_has_is_its_own():
    def f(a, axis=0):
        return a + axis

    np.testing.assert_array_equal(xpapply.vectorize(f)(np.arange(3), axis=2), [2, 3, 4])
    f = xpapply.vectorize(lambda a, **more: a + more["axis"])
    np.testing.assert_array_equal(f(np.arange(3), axis=2), [2, 3, 4])


def test_optional_dims():
    matmul = xpapply.vectorize(np.matmul, signature="(m?,n),(n,p?)->(m?,p?)")
    a, b = numbers("float64", (7, 2, 3)), numbers("float64", (7, 3, 4))
    np.testing.assert_allclose(matmul(a, b), a @ b)
    np.testing.assert_allclose(matmul(a[0, 0], b[0]), a[0, 0] @ b[0])
    np.testing.assert_allclose(matmul(a[0, 0], b[0, :, 0]), a[0, 0] @ b[0, :, 0])


@pytest.mark.parametrize("how", ["fill", "warn", "raise"])
def test_on_error(how):
    def inverse(a):
        return 1 / a

    x = np.array([1.0, 0.0, 4.0, 0.0])
    f = xpapply.vectorize(inverse, on_error=how, fill=-1.0)
    if how == "raise":
        with pytest.raises(ZeroDivisionError) as info:
            f(x)
        assert "index (1,)" in info.value.__notes__[0]
        return
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        np.testing.assert_array_equal(f(x), [1, -1, 0.25, -1])
    assert len(seen) == (2 if how == "warn" else 0)
    assert all(w.filename == __file__ for w in seen)  # the line that called it


def test_the_note_names_the_slice():
    def f(a, b):
        if a[0] > 8:
            raise KeyError("gone")
        return a.sum() + b.sum()

    x = np.arange(40.0).reshape(20, 2)
    for _ in range(2):
        with pytest.raises(KeyError) as info:
            xpapply.vectorize(f, signature="(n),(n)->()")(x, x)
        assert "(5,)" in info.value.__notes__[0]


# --- errors ---------------------------------------------------------------------------------------

Wrong = namedtuple("Wrong", "error text call")

WRONG = {
    "signature": Wrong(
        ValueError, "not a valid gufunc signature", lambda: Signature.parse("n->()")
    ),
    "sizes": Wrong(
        ValueError,
        "3 by argument 0, 4 by argument 1",
        lambda: xpapply.vectorize(scaled, signature="(n),(n)->(n)")(np.ones(3), np.ones(4)),
    ),
    "fixed": Wrong(ValueError, "3 by the signature", lambda: CROSS(np.ones(4), np.ones(4))),
    "loop": Wrong(ValueError, "do not broadcast", lambda: CROSS(np.ones((2, 3)), np.ones((4, 3)))),
    "count": Wrong(TypeError, "expected 2, got 1", lambda: CROSS(np.ones(3))),
    "result": Wrong(
        ValueError,
        "inconsistent size",
        lambda: xpapply.vectorize(lambda a: a[:-1], signature="(n)->(n)")(np.ones((30, 3))),
    ),
    "results": Wrong(
        ValueError,
        "expected 2, got 1",
        lambda: xpapply.vectorize(lambda a: a, signature="(n)->(n),()")(np.ones((30, 3))),
    ),
    "out": Wrong(ValueError, "out has shape", lambda: LENGTH(X, out=np.empty(3))),
    "read-only": Wrong(
        ValueError, "read-only", lambda: LENGTH(X, out=np.broadcast_to(0.0, (4, 3)))
    ),
    "casting": Wrong(TypeError, "cannot hold", lambda: LENGTH(X, out=np.empty((4, 3), int))),
    "axis": Wrong(
        TypeError,
        "single core dimension",
        lambda: xpapply.vectorize(np.outer, signature="(m),(n)->(m,n)")(
            np.ones(3), np.ones(3), axis=0
        ),
    ),
    "both": Wrong(TypeError, "both 'axis' and 'axes'", lambda: LENGTH(X, axis=0, axes=[(0,)])),
    "numbers": Wrong(
        TypeError, "give vectorize a signature", lambda: xpapply.vectorize(lambda a: a)(X, axis=0)
    ),
    "where": Wrong(TypeError, "where must be booleans", lambda: LENGTH(X, where=np.ones((4, 3)))),
    "on_error": Wrong(ValueError, "on_error", lambda: xpapply.vectorize(abs, on_error="skip")),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors(name):
    with pytest.raises(WRONG[name].error, match=WRONG[name].text.replace("(", r"\(")):
        WRONG[name].call()


def test_overlapping_out():
    x = numbers("float64", (30, 4))
    want = np.cumsum(x, 1)
    xpapply.vectorize(lambda a: np.cumsum(a), signature="(n)->(n)")(x, out=x[:, ::1])
    np.testing.assert_allclose(x, want)


# --- what a reader of the code found --------------------------------------------------------------


def rare(dtype, value, n=4000):
    x = np.zeros(n, dtype)
    x[777] = value
    return x


@pytest.mark.parametrize("f", [operator.neg, abs, lambda a: 0 - a, lambda a: a * -1])
def test_a_rare_integer_that_overflows(f):
    as_numpys(f, [rare(np.int64, -(2**63))])


def nan_of_zero(a):
    try:
        return 1 // a
    except ZeroDivisionError:
        return math.nan


@pytest.mark.parametrize("f", [int, round, math.floor, nan_of_zero])
def test_a_rare_result_that_its_dtype_does_not_hold(f):
    as_numpys(f, [rare(np.uint64, 2**64 - 1) if f is not nan_of_zero else 1 - rare(int, 1)])


LATER = [1j, math.nan, math.inf, 1e300, 2**63, 2**70, -1, 300, [1], np.uint64(2**64 - 1)]


@pytest.mark.parametrize("later", LATER, ids=repr)
@pytest.mark.parametrize("signature", [None, "()->()", "(n)->()"])
@pytest.mark.parametrize("kind", ["int", "uint8", "first"])
def test_a_later_result_of_another_kind(later, signature, kind):
    x = rare(np.uint8 if kind == "uint8" else float, 3)
    x = x if signature != "(n)->()" else np.stack([x, x], 1)
    first = 1 if kind == "int" else None

    def f(a):
        number = a[0] if signature == "(n)->()" else a
        if number < 2:
            return number if first is None else first
        return later

    with np.errstate(all="ignore"):
        as_numpys(f, [x], signature)


def test_the_byte_order_is_that_of_the_slices():
    x = numbers("float64", (3000, 4))
    for order in ("<f8 >f8", ">f8 <f8"):
        made = xpapply.vectorize(lambda a: a[::2], signature="(n)->(k)")
        for dtype in order.split():
            given = x.astype(dtype)
            want = np.vectorize(lambda a: a[::2], signature="(n)->(k)")(given)
            assert made(given).dtype == want.dtype


def test_nothing_is_chosen():
    double = xpapply.vectorize(lambda a: a * 2)
    x = np.arange(5.0)
    np.testing.assert_array_equal(double(x, where=False, fill=5, dtype=float), [5] * 5)
    assert np.isnan(double(x, where=False, dtype=float)).all()
    out = np.full(5, 7.0)
    assert double(x, where=False, out=out) is out
    assert (out == 7).all()
    with pytest.raises(xpapply.InputError, match="fill="):
        double(x, where=False, dtype=int)


def test_fill_must_be_held():
    double = xpapply.vectorize(lambda a: a * 2)
    chosen = np.array([True, False, True])
    for fill in (math.nan, 2.5, 2**70):
        with pytest.raises((xpapply.InputError, OverflowError)):
            double(np.arange(3), where=chosen, fill=fill)
    np.testing.assert_array_equal(double(np.arange(3), where=chosen, fill=-1), [0, -1, 4])


def test_out_stays_where_nothing_is_computed():
    inverse = xpapply.vectorize(lambda a: 1 // a, on_error="fill", fill=5)
    got = inverse(np.arange(4), where=np.arange(4) < 2, out=np.full(4, 77))
    np.testing.assert_array_equal(got, [5, 1, 77, 77])
    x, mask = numbers("float64", (3, 5)), np.array([True, False, True])
    out = np.full((3, 1), 9.0)
    total = xpapply.vectorize(lambda a: a.sum(), signature="(n)->()")
    total(x, keepdims=True, where=mask, out=out)
    np.testing.assert_allclose(out[:, 0], np.where(mask, x.sum(1), 9))
    whole = np.full(3, 9, np.float32)
    total(x, where=mask, out=whole)
    np.testing.assert_allclose(whole, np.where(mask, x.sum(1), 9), rtol=1e-6)


def test_masks_stay_with_where():
    x = np.ma.array(np.arange(15.0).reshape(3, 5), mask=np.arange(15).reshape(3, 5) > 6)
    double = xpapply.vectorize(lambda a: a * 2, signature="(n)->(n)")
    got = double(x, where=np.array([True, True, False]))
    assert isinstance(got, np.ma.MaskedArray)
    assert (np.ma.getmaskarray(got)[:2] == x.mask[:2]).all()


@pytest.mark.parametrize("how", ["raise", "warn"])
def test_notes_with_where_name_the_loop_index(how):
    def f(a):
        if a == 4:
            raise KeyError("gone")
        return a

    made, x = xpapply.vectorize(f, on_error=how, fill=0), np.arange(6).reshape(2, 3)
    if how == "raise":
        with pytest.raises(KeyError) as info:
            made(x, where=x > 1)
        assert "(1, 1)" in str(info.value.__notes__)
    else:
        with pytest.warns(RuntimeWarning, match=r"\(1, 1\)"):
            made(x, where=x > 1)


def test_keywords_of_a_function_that_takes_any():
    """They are the call's where the signature has no argument left for them."""
    f = xpapply.vectorize(lambda v, **more: v.sum() * more.get("w", 1), signature="(n)->()")
    x = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(f(x, axis=0), x.sum(0))
    np.testing.assert_array_equal(f(x, where=[True, False], fill=0), [3, 0])
    g = xpapply.vectorize(lambda v, **more: v.sum() * more["where"], signature="(n),()->()")
    np.testing.assert_array_equal(g(x, where=[1.0, 2.0]), [3, 24])


@pytest.mark.parametrize(("signature", "what"), [(None, "element"), ("(n)->()", "slice")])
def test_where_every_call_failed_nothing_tells_the_dtype(signature, what):
    def f(x):
        raise KeyError("gone")

    made = xpapply.vectorize(f, signature=signature, on_error="fill")
    with pytest.raises(ValueError, match=f"f raised for every {what}: give otypes"):
        made(np.ones((3, 2)))
    told = xpapply.vectorize(f, "d", signature=signature, on_error="fill")(np.ones((3, 2)))
    assert told.shape == ((3, 2) if signature is None else (3,))
    assert np.isnan(told).all()
    if signature is not None:
        with pytest.raises(ValueError, match="every slice: no call of it tells the size of k"):
            xpapply.vectorize(f, "d", signature="(n)->(k)", on_error="fill")(np.ones((3, 2)))


def test_a_dtype_for_two_results():
    a, b = xpapply.vectorize(lambda a: (a, a * 2))(np.arange(50.0), dtype="f4")
    assert (a.dtype, b.dtype) == ("float32", "float32")


def test_the_function_is_not_called_for_a_wrong_out():
    calls = []

    def f(a):
        calls.append(a)
        return a.sum()

    with pytest.raises(xpapply.InputError, match="out has shape"):
        xpapply.vectorize(f, signature="(n)->()")(X, out=np.zeros(2))
    assert not calls


def test_a_ufunc_takes_the_keywords_of_the_call():
    matmul = xpapply.vectorize(np.matmul, signature="(m,n),(n,p)->(m,p)")
    a, b = numbers("float64", (2, 3, 7)), numbers("float64", (3, 4, 7))
    got = matmul(a, b, axes=[(0, 1), (0, 1), (1, 2)])
    np.testing.assert_allclose(got, np.matmul(a, b, axes=[(0, 1), (0, 1), (1, 2)]))


def test_axes_and_keepdims():
    dot = xpapply.vectorize(lambda a, b: a @ b, signature="(n),(n)->()")
    a, b = numbers("float64", (4, 5, 3)), numbers("float64", (3, 4, 5))
    got = dot(a, b, axes=[2, 0], keepdims=True)
    np.testing.assert_allclose(got, np.einsum("ijn,nij->ij", a, b)[..., None])
    with pytest.raises(TypeError, match="axis must be an integer"):
        LENGTH(X, axis=True)
    with pytest.raises(ValueError, match="enough dimensions"):
        LENGTH(3.0, axis=0)


def test_otypes_for_each_result():
    with pytest.raises(ValueError, match="otypes"):
        xpapply.vectorize(lambda a: (a, a), otypes="d", signature="(n)->(n),(n)")(X)


def test_cache_with_on_error():
    calls = []

    def f(a):
        calls.append(a)
        return a

    xpapply.vectorize(f, cache=True, on_error="fill")(np.arange(3.0))
    assert len(calls) == 3


@pytest.mark.parametrize("n", [5, 4000])
def test_lists_among_numbers(n):
    as_numpys(lambda a: [a] if a > 2 else a, [np.arange(n)])
    as_numpys(lambda a: np.array([a]) if a > 2 else a, [np.arange(n)])
    as_numpys(lambda a: (a,), [np.arange(n)])


def test_out_of_tensors():
    torch = pytest.importorskip("torch")
    t = torch.ones(300, 4)
    total = xpapply.vectorize(lambda a: a.sum(), signature="(n)->()")
    with pytest.raises(TypeError, match="cannot hold"):
        total(t, out=torch.zeros(300, dtype=torch.int64))
    with pytest.raises(TypeError, match="torch"):
        total(t, out=np.zeros(300))
    out = torch.zeros(300)
    assert total(t, out=out, where=torch.arange(300) > 5) is out
    assert out[:6].sum() == 0
    assert (out[6:] == 4).all()


@pytest.mark.parametrize(
    ("f", "given"),
    [
        (lambda t: t * 2, [1, "a"]),
        (lambda t: t % 10, [2**63 + 1, 1]),
        (lambda t: "yes" if t is True else "no", [True, 2]),
        (str, [1.5, 2]),
        (lambda t: t * 2, [[1, 2.5], [3, 4]]),
        (lambda t: t * 2, (1.5, 2) * 900),
        (lambda t: t + 1, [1, 2, 3]),
        (lambda t: 1 / t, [np.float64(0), np.float64(1)]),
        (len, [[1, 2], [3]]),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_elements_of_lists_are_what_they_are(f, given):
    otypes = [int] if f is len else None
    with xpapply.options(fallback="silent"):
        got = xpapply.vectorize(f, otypes)(given)
    want = np.vectorize(f, otypes)(given)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


def test_lists_of_several_types_are_looped_over_and_that_is_said():
    f = xpapply.vectorize(lambda t: t * 2)
    with pytest.warns(xpapply.FallbackWarning, match="of a list are of several types"):
        f([1.5, 2] * 900)
    for mixed in [1.5, 2] * 900, [1, "a"]:
        p = f.explain(mixed)
        assert p.engine == "loop"
        assert p.reasons == ("the elements of a list are of several types, or NumPy's scalars",)
        assert list(p(mixed)) == list(np.vectorize(f.pyfunc)(mixed))
    for engine in "loop", "numpy":
        with xpapply.options(engine=engine, fallback="silent"):
            assert f.explain([1, "a"]).engine == "loop"
            assert list(f([1, "a"])) == ["2", "aa"]


def test_explain_calls_nothing_for_lists_of_several_types():
    seen = []
    f = xpapply.vectorize(lambda t: seen.append(t) or t)
    f.explain([1, "a"])
    assert not seen


def test_what_is_not_looped_over_may_be_of_several_types():
    seen = []
    f = xpapply.vectorize(lambda t, k: seen.append(k) or t, excluded={"k", 1})
    given = [1, "a"]
    for call in f, f.explain:
        call([1.0, 2.5], given)
        assert seen
        call([1.0, 2.5], k=given)
        call([1, 2.5], given)
        assert all(k is given for k in seen)
        seen.clear()


ONE = np.ones(2)


@pytest.mark.parametrize(
    ("given", "mixed"),
    [
        ([1, 2], False),
        ([1.0, 2.0], False),
        (["a", "b"], False),
        ([1, 2.0], True),
        ([True, 1], True),
        ([2**63, 1], True),
        ([2**70, 1], False),  # objects, as they are
        ([None, 1], False),
        ([[1, 2], [3, 4]], False),
        ([[1, 2], [3, 4.0]], True),
        ([ONE, ONE], False),
        ([ONE, ONE.astype(int)], True),
        ([ONE, ONE.astype("f4")], False),  # Python's floats
        ([ONE.astype(int), ONE.astype("i4")], False),
        ([np.float32(1), np.float64(1)], True),
        ([np.float64(1), np.float64(2)], True),
        ([[1, 2], [3]], True),  # lists themselves
        ([], False),
        (ONE, False),
        (1, False),
    ],
)
def test_lists_of_several_types(given, mixed):
    assert is_mixed(given) is mixed


def test_objects_are_what_they_are():
    large = np.array([10**10 + k for k in range(3000)], dtype=object)
    square = lambda n: n * n  # noqa: E731
    lists = np.empty(50, object)
    lists[:] = [[1] * (k % 3) for k in range(50)]
    for f, x in ((square, large), (lambda v: v.count(1), lists)):
        want, got = np.vectorize(f)(x), xpapply.vectorize(f)(x)
        assert got.dtype == want.dtype
        assert got.tolist() == want.tolist()


def test_code_and_defaults_of_a_function_may_change():
    """It is known by its identity in repeated calls."""

    def f(x, y=2.0):
        return x * y if x > 0 else -x

    def g(x, y=2.0):
        return x + y if x > 0 else x

    x = np.linspace(-3, 3, 5000)
    made = xpapply.vectorize(f)
    for _ in range(4):
        assert np.array_equal(made(x), np.where(x > 0, x * 2.0, -x))
    f.__code__ = g.__code__
    for _ in range(4):
        assert np.array_equal(made(x), np.where(x > 0, x + 2.0, x))
    f.__defaults__ = (3.0,)
    for _ in range(4):
        assert np.array_equal(made(x), np.where(x > 0, x + 3.0, x))
