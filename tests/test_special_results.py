"""Results of xpapply.special: empty and long slices, memory, accuracy, numbers as parameters."""

import functools
import math

import numpy as np
import pytest
from slice_cases import (
    close,
    eps,
    run,
)
from special_cases import IN_PLACE, NUMBERS, cube, scipy_special

import xpapply
from conftest import library
from xpapply import special

# --- what is asked of results -----------------------------------------------------------------


@pytest.mark.parametrize("name", IN_PLACE)
@pytest.mark.parametrize("shape", [(3, 0), (0, 3), (0, 0)])
def test_empty_slices_stay_empty(any_lib, name, shape):
    assert run(any_lib, getattr(special, name), np.zeros(shape), axis=1).shape == shape


def test_empty_slices_have_the_sum_of_nothing(any_lib):
    x = np.zeros((2, 0))
    assert run(any_lib, special.logsumexp, x, axis=1).tolist() == [-np.inf] * 2
    size, sign = run(any_lib, special.logsumexp, x, axis=1, return_sign=True)
    assert (size.tolist(), sign.tolist()) == ([-np.inf] * 2, [0, 0])
    assert run(any_lib, special.norm, x, axis=1).tolist() == [0, 0]
    mean, var = run(any_lib, special.mean_var, x, axis=1)
    assert np.isnan([mean, var]).all()


@pytest.mark.parametrize("name", [*NUMBERS, "argmax_and_max"])
def test_no_slices_have_no_results(lib, name):
    got = run(lib, getattr(special, name), np.zeros((0, 3)), axis=1)
    assert np.shape(got)[-1] == 0


@pytest.mark.parametrize("name", [*IN_PLACE, *NUMBERS, "argmax_and_max"])
def test_arguments_stay_as_they_are(lib, name):
    x = cube("float64").copy()
    with lib():
        own = lib.array(x)
        getattr(special, name)(own, axis=1)
        np.testing.assert_array_equal(lib.numpy(own), cube("float64"))


@pytest.mark.parametrize("name", [*IN_PLACE, *NUMBERS, "argmax_and_max"])
def test_results_are_of_the_arrays_library(any_lib, name):
    with any_lib():
        own = any_lib.array(cube("float32"))
        result = getattr(special, name)(own, axis=1)
        for y in result if isinstance(result, tuple) else (result,):
            assert type(y) is type(own)
            assert str(y.device) == str(own.device)


@pytest.mark.parametrize("name", IN_PLACE)
def test_results_lie_in_memory_as_the_array(name):
    x = np.asfortranarray(cube("float64"))
    assert getattr(special, name)(x, axis=1).strides == x.strides


def test_named_tuples():
    mean, var = result = special.mean_var([1.0, 3.0])
    assert (result.mean, result.var) == (mean, var) == (2, 1)
    result = special.argmax_and_max([1.0, 3.0])
    assert (result.argmax, result.max) == (1, 3)


def test_an_axis_of_zero_axes_is_every_element(lib):
    x = cube("float64")
    close(run(lib, special.logsumexp, x, axis=()), x, 1e-15)
    close(run(lib, special.softmax, x, axis=()), np.ones_like(x), 0)


def test_axis_as_a_list():
    x = cube("float64")
    np.testing.assert_array_equal(special.norm(x, axis=[0, 2]), special.norm(x, axis=(0, 2)))


def test_without_64_bits_jax_has_32():
    jax = library("jax")
    whole = jax.numpy.asarray([[1, 2], [3, 4]])
    assert special.logsumexp(whole, axis=1).dtype == np.float32
    assert special.argmax_and_max(whole, axis=1).argmax.tolist() == [1, 1]


def test_conjugate_views_of_tensors_after_plain_ones(torch):
    z = torch.complex(torch.arange(4.0), torch.arange(1.0, 5.0))
    with torch.no_grad():
        plain = special.logsumexp(z)
        conjugate = special.logsumexp(z.conj())
        np.testing.assert_allclose(conjugate.conj().resolve_conj(), plain)
        assert special.norm(z.imag) == special.norm(z.conj().imag)
        assert special.mean_var(z.conj().imag)[0] == -2.5


def test_bfloat16_tensors_are_returned_as_such(torch):
    x = torch.arange(6.0).reshape(2, 3).to(torch.bfloat16)
    with torch.no_grad():
        y = special.softmax(x, axis=1)
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(y, torch.softmax(x, 1))


# --- slices that no engine takes at once -----------------------------------------------------

LONG = {
    "logsumexp": (special.logsumexp, lambda s: scipy_special.logsumexp(s)),
    "weighted logsumexp": (
        lambda x, axis: special.logsumexp(x, axis, b=0.5),
        lambda s: scipy_special.logsumexp(s, b=0.5),
    ),
    "norm": (special.norm, np.linalg.norm),
    "norm 1": (functools.partial(special.norm, ord=1), lambda s: np.linalg.norm(s, 1)),
    "norm inf": (functools.partial(special.norm, ord=np.inf), lambda s: np.linalg.norm(s, np.inf)),
    "norm 3": (functools.partial(special.norm, ord=3), lambda s: np.linalg.norm(s, 3)),
    "mean": (lambda x, axis: special.mean_var(x, axis)[0], np.mean),
    "var": (lambda x, axis: special.mean_var(x, axis)[1], np.var),
    "argmax": (lambda x, axis: special.argmax_and_max(x, axis)[0], np.argmax),
    "max": (lambda x, axis: special.argmax_and_max(x, axis)[1], np.max),
    "top of softmax": (
        lambda x, axis: special.softmax(x, axis).max(axis),
        lambda s: scipy_special.softmax(s).max(),
    ),
}


@functools.cache
def long_slices():
    x = np.random.default_rng(0).standard_normal((2, 150_001))
    x[0] += np.linspace(-300, 300, x.shape[1])  # later pieces have other maxima and means
    x[1] += np.linspace(40, 0, x.shape[1])
    return x


@pytest.mark.no_such_case(  # max is spelled in another way
    lambda lib, name: name == "top of softmax" and lib.name not in ("numpy", "cupy")
)
@pytest.mark.parametrize("name", LONG)
def test_long_slices(lib, name):
    ours, right = LONG[name]
    x = long_slices()
    expected = np.array([right(s) for s in x])
    blocks = xpapply.options(block_bytes=1 << 16)
    with blocks:
        close(run(lib, functools.partial(ours, axis=1), x), expected, 1e-12, 1e-11)
        close(run(lib, functools.partial(ours, axis=0), x.T.copy()), expected, 1e-12, 1e-11)
        close(
            run(lib, functools.partial(ours, axis=(0, 2)), x.reshape(1, 2, -1)),
            expected,
            1e-12,
            1e-13,
        )


@pytest.mark.parametrize("at", [0, 1, 70_000, 150_000])
def test_one_nan_in_a_long_slice(lib, at):
    x = long_slices().copy()
    x[0, at] = np.nan
    position, largest = run(lib, special.argmax_and_max, x, axis=1)
    assert position.tolist() == [at, np.argmax(x[1])]
    np.testing.assert_array_equal(largest, x.max(1))
    for f in (special.logsumexp, special.norm, lambda x, axis: special.mean_var(x, axis).var):
        assert np.isnan(run(lib, f, x, axis=1)).tolist() == [True, False]


@pytest.mark.parametrize("ord", [1, math.inf])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_vectors_of_subnormal_numbers_have_a_direction(lib, ord, dtype):
    x = np.array([3, 4, 0]).astype(dtype) * np.finfo(dtype).smallest_subnormal
    expected = np.array([3, 4, 0]) / (7 if ord == 1 else 4)
    close(run(lib, special.normalize, x, ord=ord), expected, 2 * eps(dtype))


# --- accuracy ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_what_is_far_below_the_maximum_counts(lib, dtype):
    got = run(lib, special.logsumexp, np.array([0.0, -40.0], dtype))
    assert got.real == pytest.approx(4.248354255291589e-18, rel=1e-14, abs=0)
    got = run(lib, special.log_softmax, np.array([0.0, -40.0], dtype))
    assert got[0].real == pytest.approx(-4.248354255291589e-18, rel=1e-14, abs=0)


def test_variance_where_the_mean_is_large(lib):
    x = np.random.default_rng(0).standard_normal((3, 1000))
    shifted = 1e8 + x
    exact = np.array([np.var((s - 1e8).astype(np.longdouble)) for s in shifted], float)
    mean, var = run(lib, special.mean_var, shifted, axis=1)
    np.testing.assert_allclose(var, exact, rtol=1e-12)
    np.testing.assert_allclose(mean - 1e8, (shifted - 1e8).mean(1), atol=1e-7)


def test_logsumexp_of_a_million_float32(lib):
    x = np.random.default_rng(0).standard_normal(10**6).astype("f4")
    exact = scipy_special.logsumexp(x.astype(float))
    assert run(lib, special.logsumexp, x) == pytest.approx(exact, rel=2e-6)
    assert run(lib, special.logsumexp, x * 100) == pytest.approx(
        scipy_special.logsumexp((x * 100).astype(float)), rel=2e-6
    )


def test_float16_is_computed_in_more_bits(lib):
    x = np.full((2, 100), 1000, np.float16)  # squares and sums overflow
    assert run(lib, special.norm, x, axis=1).tolist() == [10000, 10000]
    mean, var = run(lib, special.mean_var, x, axis=1)
    assert (mean.tolist(), var.tolist()) == ([1000, 1000], [0, 0])
    close(run(lib, special.softmax, x, axis=1), np.full(x.shape, 0.01), 1e-3)
    large = np.array([6e4, 6e4], np.float16)
    assert run(lib, special.logsumexp, large) == np.float16(6e4 + math.log(2))


@pytest.mark.parametrize("scale", [1e30, 1e-30])
@pytest.mark.parametrize("ord", [1, math.inf, 0])
def test_magnitudes_of_complex_numbers_have_no_squares(lib, ord, scale):
    x = (np.array([[3 + 4j, 0], [1j, 2]]) * scale).astype("complex64")
    expected = np.linalg.norm(x.astype(complex), ord, axis=1)
    close(run(lib, special.norm, x, ord=ord, axis=1), expected, 1e-6)


def test_complex_weights_of_any_size(lib):
    x = np.zeros(2, "complex64")
    got = run(lib, lambda a, b: special.logsumexp(a, b=b), x, np.array([1e30, 1e30j], "c8"))
    assert got == pytest.approx(complex(math.log(math.sqrt(2) * 1e30), math.pi / 4), rel=1e-6)


def test_a_complex_sum_of_zero_has_no_sign(lib):
    x, b = np.zeros(2, complex), np.array([1.0, -1.0])
    size, sign = run(lib, lambda a, b: special.logsumexp(a, b=b, return_sign=True), x, b)
    assert (size, sign) == (-np.inf, 0)


# the standard makes no complex array of two real ones
@pytest.mark.no_such_case(lambda lib: lib.name == "array_api_strict")
def test_an_infinite_part_leaves_the_other_alone(lib):
    mean, _ = run(lib, special.mean_var, np.array([complex(1, np.inf), complex(3, 1)]))
    assert (mean.real, mean.imag) == (2, np.inf)


def test_imaginary_parts_of_log_softmax_are_principal(lib):
    got = run(lib, special.log_softmax, np.array([10j, 10j]))
    np.testing.assert_allclose(got, [-math.log(2)] * 2, atol=1e-14)


# --- numbers as parameters --------------------------------------------------------------------


@pytest.mark.parametrize("b", [-1, 300, True, 2.5, np.int64(-3), np.float32(2)])
def test_weights_need_not_fit_into_whole_numbers(lib, b):
    x = np.array([1, 2, 250], np.uint8)
    expected = scipy_special.logsumexp(x, b=b, return_sign=True)
    got = run(lib, lambda x: special.logsumexp(x, b=b, return_sign=True), x)
    close(got[0], expected[0], 1e-15)
    assert got[1] == expected[1]


def test_a_number_with_an_array_of_weights(lib):
    b = np.array([1, 2, 250], np.uint8)
    got = run(lib, lambda b: special.logsumexp(1000, b=b), b)
    close(got, scipy_special.logsumexp(1000, b=b), 1e-15)


@pytest.mark.parametrize("correction", [-1, 0, 1, True, np.int64(1), 0.5, np.float32(0.5)])
def test_any_number_is_a_correction(lib, correction):
    x = np.array([1, 2, 250], np.uint8)
    _, var = run(lib, special.mean_var, x, correction=correction)
    assert var == pytest.approx(np.var(x, ddof=correction), rel=1e-14)


def test_eps_is_not_rounded_to_float16(lib):
    x = np.ones(4, np.float16)
    assert run(lib, special.standardize, x, eps=1e-9).tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("ord", [np.int64(3), np.float32(0.5), np.float64(2), True, "inf"])
def test_any_number_is_an_order(lib, ord):
    x = cube("float64")
    expected = np.linalg.norm(x, math.inf if ord == "inf" else float(ord), axis=1)
    close(run(lib, special.norm, x, ord=ord, axis=1), expected, 1e-14)


def test_the_power_of_a_norm_is_not_rounded_to_float16(lib):
    x = np.array([3, 4, 5], np.float16)
    expected = np.linalg.norm(x.astype(float), 2.7)
    assert run(lib, special.norm, x, ord=2.7) == np.float16(expected)


@pytest.mark.parametrize("x", [1e6, -1e6])
def test_numbers_beyond_float16_are_infinite_in_silence(lib, x):
    got = run(lib, lambda a: special.squared_diff(a, x), np.ones(2, np.float16))
    assert got.tolist() == [np.inf, np.inf]
