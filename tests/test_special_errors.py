"""What xpapply.special cannot do, and what it says."""

import functools
import math

import numpy as np
import pytest
from slice_cases import (
    run,
)
from special_cases import IN_PLACE, NUMBERS, cube

import xpapply
from xpapply import InputError, special

ALL = {
    **{name: getattr(special, name) for name in (*IN_PLACE, *NUMBERS, "argmax_and_max")},
    "norm inf": functools.partial(special.norm, ord=np.inf),
}


@pytest.mark.parametrize("f", ALL.values(), ids=ALL)
@pytest.mark.parametrize("axis", [2, -3, (0, 2)])
def test_an_axis_out_of_range(any_lib, f, axis):
    with pytest.raises(np.exceptions.AxisError, match="out of bounds"):
        run(any_lib, f, np.ones((2, 3)), axis=axis)


@pytest.mark.parametrize("f", ALL.values(), ids=ALL)
def test_an_axis_twice(any_lib, f):
    with pytest.raises(InputError, match="twice"):
        run(any_lib, f, np.ones((2, 3)), axis=(0, -2))


@pytest.mark.parametrize("axis", [1.0, "0", (0, 1.0)])
def test_an_axis_that_is_no_whole_number(axis):
    special.norm(np.ones((2, 3)), axis=1)
    special.norm(np.ones((2, 3)), axis=(0, 1))
    with pytest.raises(TypeError, match="integer"):
        special.norm(np.ones((2, 3)), axis=axis)


@pytest.mark.parametrize("f", ALL.values(), ids=ALL)
@pytest.mark.parametrize(
    "x",
    [
        np.array([1, None], object),
        np.array(["a"]),
        np.array([b"a"]),
        np.array(["2020"], "M8[Y]"),
        np.array([1], "m8[s]"),
        np.zeros(2, "i4,f4"),
        "text",
        None,
    ],
    ids=["object", "str", "bytes", "datetime", "timedelta", "record", "text", "None"],
)
def test_what_is_no_number(f, x):
    with pytest.raises(TypeError, match="it takes numbers"):
        f(x)


@pytest.mark.parametrize("f", ALL.values(), ids=ALL)
def test_masked_arrays(f):
    with pytest.raises(TypeError, match=r"MaskedArray.*fill"):
        f(np.ma.array([1.0, 2.0], mask=[True, False]))


def test_shapes_that_do_not_broadcast(any_lib):
    for f in (special.squared_diff, lambda a, b: special.logsumexp(a, b=b)):
        with pytest.raises(InputError) as caught:
            run(any_lib, f, np.ones((2, 3)), np.ones(4))
        assert "(2, 3)" in str(caught.value)
        assert "(4,)" in str(caught.value)


def test_arrays_of_two_libraries(torch):
    with pytest.raises(TypeError, match=r"different libraries.*numpy.*torch.*Bring them"):
        special.squared_diff(np.ones(3), torch.ones(3))


def test_arrays_on_two_devices(torch):
    with pytest.raises(InputError, match=r"different devices.*cpu.*meta.*Bring them"):
        special.squared_diff(torch.ones(3), torch.ones(3, device="meta"))


@pytest.mark.gpu
def test_arrays_on_the_host_and_on_a_gpu(torch):
    with pytest.raises(InputError, match="different devices"):
        special.logsumexp(torch.ones(3).cuda(), b=torch.ones(3))


@pytest.mark.parametrize("f", [special.argmax_and_max, functools.partial(special.norm, ord=np.inf)])
def test_slices_of_nothing_have_no_maximum(any_lib, f):
    with pytest.raises(InputError, match=r"\(2, 0\) along axis 1: slices of no elements"):
        run(any_lib, f, np.zeros((2, 0)), axis=1)


def test_complex_numbers_have_no_maximum(any_lib):
    with pytest.raises(TypeError, match="no order"):
        run(any_lib, special.argmax_and_max, cube("complex64"))


@pytest.mark.parametrize("ord", ["fro", "nuc", math.nan, None, [1], 1j, "L2"])
def test_an_order_that_is_none(any_lib, ord):
    for f in (special.norm, special.normalize):
        with pytest.raises(InputError, match=r"ord=.*use a number"):
            run(any_lib, f, np.ones(3), ord=ord)


def test_an_engine_that_cannot_run_it():
    with xpapply.options(engine="cupy"), pytest.raises(xpapply.UnsupportedError, match="cupy"):
        special.norm(np.ones(3))
