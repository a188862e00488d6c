"""What elementwise and reduction cannot do, and what they say."""

import math

import numpy as np
import pytest
from custom_cases import X, l2norm, squared_diff
from slice_cases import run

from xpapply import InputError, TraceError, elementwise, reduction


def branches(x):
    return x if x > 0 else 0


WRONG = {
    "if": (branches, r"truth of an element.*numpy\.where"),
    "and": (lambda x: (x > 0) and (x < 1), r"truth of an element"),
    "min": (lambda x: min(x, 1), r"truth of an element"),
    "chained": (lambda x: 0 < x < 1, r"truth of an element"),
    "math.exp": (lambda x: math.exp(x), r"not known yet.*NumPy's functions"),
    "float": (lambda x: float(x), r"not known yet"),
    "int": (lambda x: int(x), r"not known yet"),
    "round": (lambda x: round(x), r"not known yet"),
    "range": (lambda x: range(x), r"not known yet"),
    "iteration": (lambda x: list(x), r"one number.*iterated"),
    "index": (lambda x: x[0], r"one number.*indexed"),
    "cbrt": (np.cbrt, r"numpy\.cbrt is not an op of the table.*There are .*exp"),
    "//": (lambda x: x // 2, r"numpy\.floor_divide is not an op"),
    "1 // x": (lambda x: 1 // x, r"numpy\.floor_divide is not an op"),
    "%": (lambda x: x % 2, r"numpy\.remainder is not an op"),
    "@": (lambda x: x @ x, r"numpy\.matmul is not an op"),
    "xor": (lambda x: (x > 0) ^ (x > 1), r"numpy\.bitwise_xor is not an op"),
    "& of numbers": (lambda x: x & 1, r"bitwise_and of numbers: it takes truths"),
    "reduce": (lambda x: np.add.reduce(x), r"numpy\.add\.reduce"),
    "ufunc with where": (lambda x: np.add(x, 1, where=x > 0), r"with where"),
    "sum": (lambda x: np.sum(x), r"numpy\.sum of an element.*reduction"),
    "an array": (lambda x: x + np.ones(1), r"ndarray.*further arguments"),
    "a list": (lambda x: [x, x], r"returned list"),
    "nothing": (lambda x: None, r"returned NoneType"),
    "no values": (lambda x: (), r"returned no values"),
    "an array back": (lambda x: np.ones(3), r"returned ndarray"),
    "astype object": (lambda x: x.astype(object), r"astype\(object\).*numbers"),
    "astype str": (lambda x: x.astype(str), r"astype\(<U0\).*numbers"),
    "subtraction of truths": (lambda x: (x > 0) - (x > 1), r"numpy\.subtract"),
}


@pytest.mark.parametrize(("f", "message"), WRONG.values(), ids=WRONG)
def test_what_an_expression_cannot_do(f, message):
    with pytest.raises(TraceError, match=message):
        elementwise(f)(X)


def test_an_element_has_no_methods_of_arrays():
    with pytest.raises(AttributeError, match=r"no \.sum: it is one number.*reduction"):
        elementwise(lambda x: x.sum())(X)


@pytest.mark.parametrize("f", [np.maximum, np.minimum, np.less, np.floor, np.sign, np.arctan2])
def test_complex_numbers_have_no_order(f):
    with pytest.raises(TraceError, match=r"complex|not supported"):
        elementwise(lambda z: f(z, z) if f.nin == 2 else f(z))(X + 1j)


def test_complex_numbers_do_not_become_real():
    with pytest.raises(TraceError, match="imaginary part"):
        elementwise(lambda z: z.astype(float))(X + 1j)


def test_the_users_own_errors_pass():
    def f(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        elementwise(f)(X)


@pytest.mark.parametrize("f", [elementwise(np.exp), l2norm])
@pytest.mark.parametrize(
    "x",
    [np.array([None]), np.array(["a"]), np.array(["2020"], "M8[Y]"), None, "a", {}],
    ids=["object", "str", "datetime", "None", "text", "dict"],
)
def test_what_is_no_number(f, x):
    with pytest.raises(TypeError, match="takes numbers"):
        f(x)


def test_shapes_that_do_not_broadcast(any_lib):
    with pytest.raises(InputError) as caught:
        run(any_lib, squared_diff, np.ones((2, 3)), np.ones(4))
    assert "(2, 3)" in str(caught.value)
    assert "(4,)" in str(caught.value)


def test_arrays_of_two_libraries(torch):
    with pytest.raises(TypeError, match=r"different libraries.*numpy.*torch"):
        squared_diff(X, torch.ones(2, 3))


def test_arrays_on_two_devices(torch):
    with pytest.raises(InputError, match=r"different devices.*cpu.*meta"):
        squared_diff(torch.ones(3), torch.ones(3, device="meta"))


@pytest.mark.gpu
def test_arrays_on_the_host_and_on_a_gpu(torch):
    with pytest.raises(InputError, match=r"different devices"):
        squared_diff(torch.ones(3), torch.ones(3).cuda())


@pytest.mark.parametrize("axis", [2, -3, (0, 5)])
def test_an_axis_out_of_range(any_lib, axis):
    with pytest.raises(np.exceptions.AxisError, match="out of bounds"):
        run(any_lib, l2norm, X, axis=axis)


def test_an_axis_twice(any_lib):
    with pytest.raises(InputError, match="twice"):
        run(any_lib, l2norm, X, axis=(1, -1))


def test_empty_slices_without_an_identity(any_lib):
    with pytest.raises(InputError, match=r"\(2, 0\) along axis 1.*identity"):
        run(any_lib, reduction(None, np.maximum), np.zeros((2, 0)), axis=1)


@pytest.mark.parametrize("given", [(), (X,), (X, X, X)])
def test_another_number_of_arguments(given):
    with pytest.raises(TypeError, match=f"got {len(given)} arguments"):
        squared_diff(*given)


@pytest.mark.parametrize("f", [elementwise(lambda: 1), elementwise(lambda *x: 1), l2norm])
def test_no_arguments(f):
    with pytest.raises(TypeError, match=r"got (no|0) arguments"):
        f()


@pytest.mark.parametrize("f", [None, 3, "x + y"])
def test_what_is_no_function(f):
    with pytest.raises(TypeError, match="give a function"):
        elementwise(f)
    with pytest.raises(TypeError, match="give a function"):
        reduction(None, f)
    if f is not None:
        with pytest.raises(TypeError, match="give a function"):
            reduction(None, np.add, post=f)


def test_reduce_must_return_what_it_takes():
    with pytest.raises(TraceError, match="takes 2 numbers and returns 1"):
        reduction(lambda x: (x, x), lambda a, b: a[0])(X)
    with pytest.raises(TraceError, match="takes 1 numbers and returns 2"):
        reduction(None, lambda a, b: (a, b))(X)
    with pytest.raises(TraceError, match="returned NoneType"):
        reduction(None, lambda a, b: None)(X)
    with pytest.raises(TraceError, match="truth of an element"):
        reduction(None, lambda a, b: a if a > b else b)(X)


@pytest.mark.parametrize("identity", [-np.inf, np.nan, 0.5, 2**63])
def test_an_identity_that_the_dtype_has_not(identity):
    f = reduction(None, np.maximum, identity=identity)
    with pytest.raises(InputError, match=r"identity=.*int64 is combined"):
        f(np.ones((2, 3), np.int64))
    f(X)


@pytest.mark.parametrize("identity", ["0", [0], np.zeros(2), object()])
def test_an_identity_that_is_no_number(identity):
    with pytest.raises(InputError, match=r"identity=.*give a number"):
        reduction(None, np.add, identity=identity)(X)


def test_an_identity_for_each_number():
    with pytest.raises(InputError, match="2 numbers are combined"):
        reduction(lambda x: (x, x), lambda a, b: a, identity=0)(X)
