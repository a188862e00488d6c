"""Which slices are marked: those for which the function would raise or warn, and few others."""

import itertools
import math

import numpy as np
import pytest
from fuzz import loops
from typed_parity import marked

from xpapply.backends.cpu import typed as backend

pytestmark = pytest.mark.skipif(backend.why_not() is not None, reason="no compiler")

SPECIAL = (math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e308, 5e-324, 800.0)
PAIRS = np.array([(1.0, 1.0), *itertools.product(SPECIAL, repeat=2)])
ONES = np.array([(1.0, 1.0), *((x, 1.0) for x in SPECIAL if x)])  # it is another number for -0.0

OF_ONE = "sin cos tan exp expm1 log log1p log2 log10 sqrt sinh cosh tanh asin acos atan asinh erf"
OF_TWO = "fmod atan2 pow copysign"
UFUNCS = "sin exp log sqrt log1p arcsin square reciprocal"
EXACT = [
    *(f"math.{name}(float(v[0]))" for name in OF_ONE.split()),
    *(f"math.{name}(float(v[0]), float(v[1]))" for name in OF_TWO.split()),
    *(f"np.{name}(v[0])" for name in UFUNCS.split()),
    *(f"v[0] {op} v[1]" for op in ("+", "-", "*", "/", "**", "<", "==")),
]
WITHOUT_NEED = [
    *(f"float(v[0]) {op} float(v[1])" for op in ("+", "-", "*", "/", "//", "%", "**")),
    *(f"v[0] {op} v[1]" for op in ("//", "%")),
]
"""Those in which an operation notes something of which Python's numbers do not warn."""


def needless(expression, arr):
    f = loops.made(f"import math\nimport numpy as np\n\ndef f(v):\n    return {expression}\n")
    return marked(f, arr)


@pytest.mark.parametrize("expression", EXACT)
def test_slices_are_marked_where_that_is_needed_and_nowhere_else(expression):
    assert needless(expression, PAIRS if "v[1]" in expression else ONES) == 0


@pytest.mark.parametrize("expression", WITHOUT_NEED)
def test_slices_are_marked_at_least_where_that_is_needed(expression):
    assert needless(expression, PAIRS) < len(PAIRS) // 2


def test_arrays_of_other_lengths_are_marked():
    """By the evaluator as well, which is the definition."""
    f = loops.made("def f(v):\n    return v[v > 2] == v\n")
    arr = np.array([[3.0, 4.0, 5.0], [3.0, 0.0, 4.0], [0.0, 0.0, 0.0], [9.0, 9.0, 9.0]])
    assert marked(f, arr) == 0
