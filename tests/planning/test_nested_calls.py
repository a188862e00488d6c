"""Functions that apply others to rows, take norms, join texts and turn lists into arrays."""

import numpy as np
import pytest
from outcomes import check_along_rows

import xpapply
from xpapply.backends.cpu import typed as backend

pytestmark = [
    pytest.mark.skipif(backend.why_not() is not None, reason=str(backend.why_not())),
    pytest.mark.usefixtures("by_source"),
]
RNG = np.random.default_rng(8)
SEEDS = RNG.normal(size=(5, 8))


def compiled(f, x):
    """Check the results beside NumPy's loop, and that a compiled loop gave them."""
    check_along_rows(f, x)
    with xpapply.options(engine="cpu"):
        np.testing.assert_array_equal(
            xpapply.apply_along_axis(f, 1, x), np.apply_along_axis(f, 1, x)
        )


# --- apply_along_axis inside ----------------------------------------------------------------------


def distance(a, b):
    return np.sqrt(np.sum((a - b) ** 2))


def nearest(x):
    return np.argmin(np.apply_along_axis(np.linalg.norm, 1, SEEDS - x))


def distances(x):
    return np.apply_along_axis(distance, 1, SEEDS, x)


def by_lambda(x):
    return np.apply_along_axis(lambda row: distance(row, x), -1, SEEDS).sum()


def of_columns(x):
    return np.apply_along_axis(np.max, 0, SEEDS * x)


def by_name(x):
    return np.apply_along_axis(func1d=np.median, axis=1, arr=SEEDS * x)


def counted(x):
    return np.apply_along_axis(lambda row: int(row[0] > 0), 1, SEEDS * x).sum()


@pytest.mark.parametrize("f", [nearest, distances, by_lambda, of_columns, by_name, counted])
def test_rows_of_a_matrix(f):
    compiled(f, RNG.normal(size=(200, 8)))


def of_both_kinds(x):
    return np.apply_along_axis(lambda row: row[0] if row[0] > 0 else 1, 1, SEEDS * x)


def with_a_name(x):
    return np.apply_along_axis(distance, 1, SEEDS, b=x)


def of_no_rows(x):
    return np.apply_along_axis(np.sum, 1, SEEDS[:0] * x).sum()


@pytest.mark.parametrize("f", [of_both_kinds, with_a_name, of_no_rows])
def test_what_is_left_to_the_loop(f):
    check_along_rows(f, RNG.normal(size=(60, 8)))


# --- norms ----------------------------------------------------------------------------------------

NORMS = {
    "plain": lambda v: np.linalg.norm(v),
    "of order 2": lambda v: np.linalg.norm(v, 2),
    "sum": lambda v: np.linalg.norm(v, ord=1),
    "largest": lambda v: np.linalg.norm(v, np.inf),
    "along": lambda v: np.linalg.norm(v, axis=0),
    "rows": lambda v: np.linalg.norm(SEEDS - v, axis=1)[2],
    "columns": lambda v: np.linalg.norm(SEEDS * v, axis=0).sum(),
    "strided": lambda v: np.linalg.norm(v[::2]),
    "list": lambda v: np.linalg.norm([v[0], v[1]]),
    "least": lambda v: min(np.linalg.norm(v - s) for s in SEEDS),
}


@pytest.mark.parametrize("dtype", [float, "f4", int])
@pytest.mark.parametrize("name", NORMS)
def test_norms_have_numpy_s_bits(name, dtype):
    norm = NORMS[name]

    def f(v):
        s = 0.0
        for i in range(3):
            if v[i] > 0.2:
                s += norm(v) * (i + 1)
        return s

    x = (RNG.normal(size=(300, 8)) * 5).astype(dtype)
    if dtype is not int:
        x[5, 2], x[6, 3], x[7] = np.nan, np.inf, -0.0
    compiled(f, x)
    compiled(f, np.asfortranarray(x))


# --- texts and lists ------------------------------------------------------------------------------


def bits(v):
    return int("".join(map(str, v)), 2)


def joined(v):
    return "-".join(map(str, v))


def shorter(v):
    steps = [int(x) for x in v if x > 0]
    return np.array(steps, dtype=np.float32).sum()


def converted(v):
    return np.array([int(x) for x in v], dtype=np.float32)


def narrow(v):
    steps = [int(x) * 40 for x in v]
    return np.array(steps, dtype=np.uint8)  # too large ones raise


@pytest.mark.parametrize("f", [bits, joined, shorter, converted, narrow])
def test_texts_and_arrays_of_what_was_gone_through(f):
    compiled(f, RNG.integers(0, 2, (300, 6)))


def test_a_number_that_has_no_place_raises():
    check_along_rows(narrow, RNG.integers(0, 9, (300, 6)))
    check_along_rows(bits, RNG.integers(0, 3, (300, 6)))


# --- pieces ---------------------------------------------------------------------------------------


def by_signs(v):
    return np.piecewise(v, [v < 0, v >= 0], [lambda x: -x, lambda x: x**2])


def the_rest_is_a_number(v):
    s = v.max()
    return np.piecewise(v, [v < -1, v > 1], [-1.0, lambda x: x + s, 0.5])


def pieces_overlap(v):
    return np.piecewise(v, (v > -1, v > 0, v > 1), (np.sin, lambda x: x * 3, lambda x: x.mean()))


def one_condition(v):
    return np.piecewise(v, v < 0, [lambda x: x[::-1], np.sqrt])


def no_place(v):
    return np.piecewise(v, [v < -50, v > 50], [lambda x: x / 0, lambda x: x[0], lambda x: x])


def kept_by_name(v):
    parts = [v < 0, v > 1]
    return np.piecewise(v, parts, [np.exp, lambda x: 1 / x])


def callables(v):
    pieces = (abs, 2.0, lambda x: x)
    return sum(f(v[0]) if callable(f) else f for f in pieces)


PIECES = [by_signs, the_rest_is_a_number, pieces_overlap, one_condition, no_place, kept_by_name]


@pytest.mark.parametrize("f", [*PIECES, callables])
def test_pieces(f):
    x = RNG.normal(size=(200, 9))
    compiled(f, x)
    x[::5, 2], x[1::5, 3], x[2::5, 4] = np.nan, np.inf, -0.0
    check_along_rows(f, x)


@pytest.mark.parametrize("f", [the_rest_is_a_number, pieces_overlap, kept_by_name])
@pytest.mark.parametrize("dtype", ["float32", "int64", "int16"])
def test_pieces_of_other_numbers(f, dtype):
    x = (RNG.normal(size=(150, 9)) * 3).astype(dtype)
    x[x == 0] = 1
    check_along_rows(f, x)


def too_many_functions(v):
    return np.piecewise(v, [v < 0], [np.sin, np.cos, np.tan])


def another_length(v):
    return np.piecewise(v, [v[1:] < 0], [np.sin])


def raises_in_a_piece(v):
    return np.piecewise(v, [v > 2.5], [lambda x: 1 / np.array([1, 2])[int(x[0])]])


@pytest.mark.parametrize("f", [too_many_functions, another_length, raises_in_a_piece])
def test_pieces_that_raise(f):
    check_along_rows(f, RNG.normal(size=(150, 9)))


def choice_by_loop(v):
    s = 0.5 * v[0]
    for x in v:
        s = x if x > s else 0.5 * s + x
    return np.select([v < 0, v > 1], [v * s, 2], s)


def choice_of_integers(v):
    n = 0
    for x in v:
        if x > 0:
            n += 1
    return np.select([v > n, v > 0.5], [1, 2])


def choice_of_one(v):
    best = v[0]
    for x in v:
        if x > best:
            best = x
    return np.select(v < 0, v / best, default=np.nan)


@pytest.mark.parametrize("f", [choice_by_loop, choice_of_integers, choice_of_one])
def test_choices(f):
    x = RNG.normal(size=(200, 9))
    x[::5, 2], x[2::5, 4] = np.nan, -0.0
    check_along_rows(f, x)
    check_along_rows(f, x.astype(np.float32))
