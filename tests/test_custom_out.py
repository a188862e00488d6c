"""elementwise and reduction into arrays that are given: cast, overlapping, in place."""

import numpy as np
import pytest
from custom_cases import X, l2norm
from slice_cases import close

import xpapply
from conftest import OF_SLICES, library, parameters, present
from xpapply import InputError, elementwise


@pytest.fixture(params=parameters(OF_SLICES, without=["jax"]), scope="session")
def writable(request):
    return present(request.param)


def into(lib, f, given, out, **kwargs):
    """What a call writes into `out`, which may be among what is given."""
    with lib():
        result = f(*given, out=out, **kwargs)
        assert result is out
    return tuple(map(lib.numpy, out)) if isinstance(out, tuple) else lib.numpy(out)


def test_results_go_into_out(writable):
    for order in "CF":
        out = writable.array(np.empty(X.shape, order=order))
        close(into(writable, elementwise(lambda x: x + 1), [writable.array(X)], out), X + 1, 0)


def test_results_are_cast_into_out(writable):
    out = writable.array(np.empty(X.shape, np.float32))
    got = into(writable, elementwise(lambda x: x + 1), [writable.array(X)], out)
    close(got, (X + 1).astype("f4"), 0)
    whole = writable.array(np.arange(3))
    out = writable.array(np.empty(3))
    close(into(writable, elementwise(lambda x: x + 1), [whole], out), [1.0, 2.0, 3.0], 0)


def test_in_place(writable):
    x = writable.array(X.copy())
    close(into(writable, elementwise(lambda x, y: x * y + 1), [x, x], x), X * X + 1, 1e-15)


def test_in_place_with_its_own_transpose(writable):
    square = np.arange(9.0).reshape(3, 3)
    x = writable.array(square.copy())
    close(into(writable, elementwise(lambda x, y: x - y), [x, x.T], x), square - square.T, 0)


# in the standard's reference views are copies
OF_VIEWS = pytest.mark.no_such_case(lambda writable: writable.name == "array_api_strict")


@OF_VIEWS
@pytest.mark.parametrize(
    ("source", "target"),
    [
        (slice(1, None), slice(None, -1)),
        (slice(None, -1), slice(1, None)),
        (slice(None, None, 2), slice(1, None, 2)),
    ],
)
def test_views_that_overlap(writable, source, target):
    whole = np.arange(200_000.0)
    x = writable.array(whole.copy())
    with writable(), xpapply.options(block_bytes=1 << 12):  # many blocks, on the CPU
        elementwise(lambda x: x * 2 + 0.5)(x[source], out=x[target])
        got = writable.numpy(x)
    expected = whole.copy()
    expected[target] = whole[source] * 2 + 0.5
    close(got, expected, 0)


@OF_VIEWS
def test_a_row_that_is_part_of_out(writable):
    x = writable.array(X.copy())
    close(into(writable, elementwise(lambda x, row: x + row), [x, x[0]], x), X + X[0], 0)


def test_tuples_go_into_tuples(writable):
    f = elementwise(lambda x: (x + 1, x > 0))
    out = writable.array(np.empty(X.shape)), writable.array(np.empty(X.shape, bool))
    first, second = into(writable, f, [writable.array(X)], out)
    close(first, X + 1, 0)
    np.testing.assert_array_equal(second, X > 0)


def test_a_swap_in_place(writable):
    x, y = writable.array(X.copy()), writable.array(X[::-1].copy())
    first, second = into(writable, elementwise(lambda x, y: (y, x)), [x, y], (x, y))
    close(first, X[::-1], 0)
    close(second, X, 0)


def test_reductions_go_into_out(writable):
    for keepdims in (False, True):
        out = writable.array(np.empty(X.sum(1, keepdims=keepdims).shape))
        got = into(writable, l2norm, [writable.array(X)], out, axis=1, keepdims=keepdims)
        close(got, np.linalg.norm(X, axis=1, keepdims=keepdims), 1e-15)


@OF_VIEWS
def test_a_reduction_into_a_part_of_its_array(writable):
    x = writable.array(X.copy())
    close(into(writable, l2norm, [x], x[:, 1], axis=1), np.linalg.norm(X, axis=1), 1e-15)


def test_out_for_a_function_with_a_second_argument():
    f = elementwise(lambda x, y=1: x + y)
    other = np.zeros(X.shape)
    f(X, other)
    np.testing.assert_array_equal(f(X, out=other), X + 1)


def test_out_of_another_shape(writable):
    with writable():
        x, out = writable.array(X), writable.array(np.empty((3, 2)))
        with pytest.raises(InputError, match=r"out has shape \(3, 2\), the result \(2, 3\)"):
            elementwise(np.exp)(x, out=out)
        with pytest.raises(InputError, match=r"out has shape \(3, 2\), the result \(2,\)"):
            l2norm(x, axis=1, out=out)


def test_out_of_a_dtype_that_cannot_hold_it(writable):
    with writable(), pytest.raises(TypeError, match=r"float64 does not go into out of .*int64"):
        elementwise(np.exp)(writable.array(X), out=writable.array(np.empty((2, 3), np.int64)))


def test_out_of_another_library(torch):
    with pytest.raises(TypeError, match=r"out is Tensor.*the arrays are numpy's"):
        elementwise(np.exp)(X, out=torch.empty(2, 3))
    with pytest.raises(TypeError, match=r"out is builtins\.list"):
        elementwise(np.exp)(X, out=[0, 0])


def test_out_that_is_read_only():
    f = elementwise(np.exp)
    out = np.empty(X.shape)
    f(X, out=out)
    out.flags.writeable = False
    with pytest.raises(InputError, match="read-only"):
        f(X, out=out)


def test_out_that_cannot_be_written_to():
    jnp = library("jax").numpy
    with pytest.raises(TypeError, match="cannot be written to"):
        elementwise(np.exp)(jnp.ones(3), out=jnp.ones(3))


@pytest.mark.parametrize("out", [(np.empty(3),), (np.empty(3),) * 3, np.empty(3)])
def test_another_number_of_outs(out):
    with pytest.raises(InputError, match="2 results, out has"):
        elementwise(lambda x: (x, x))(np.ones(3), out=out)


def test_out_on_another_device(torch):
    with pytest.raises((InputError, TypeError), match="meta"):
        elementwise(np.exp)(torch.ones(3), out=torch.ones(3, device="meta"))
