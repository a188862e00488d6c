"""The table of numbers by which it is decided what runs."""

import ast
import re
from pathlib import Path

import numpy as np
import pytest

import xpapply
from xpapply.limits import LIMITS, Limits

ROOT = Path(__file__).parents[1]
ROOMS = ("planning", "patching", "storage", "frontends/torch", "backends/cpu/networks.py")
"""Where every number is in the table."""
FACTS = {
    "applied.py: _DEPTH",  # dims that NumPy's arrays may have
    "traced.py: _BY_HALVES",  # an order
    "traced.py: _SAMPLES",
    "results.py: _ROUNDED",  # what rounding explains
    "results.py: _TF32",
    "stores.py: _POPULATE_READ",  # of Linux
}
"""But for those that are no decisions."""


def test_rows_are_set_for_a_while():
    before = LIMITS.few_slices, LIMITS.plan_worth
    with LIMITS.set(few_slices=3, plan_worth=1.0):
        with LIMITS.set(few_slices=5):
            assert LIMITS.few_slices == 5
        assert (LIMITS.few_slices, LIMITS.plan_worth) == (3, 1.0)
    assert (LIMITS.few_slices, LIMITS.plan_worth) == before


def test_they_are_set_back_after_an_exception():
    before = LIMITS.few_slices
    with pytest.raises(ZeroDivisionError), LIMITS.set(few_slices=3):
        1 / 0  # noqa: B018
    assert LIMITS.few_slices == before


def test_a_row_that_is_none_is_an_error():
    with pytest.raises(AttributeError, match="few_slice"), LIMITS.set(few_slices=1, few_slice=2):
        pass
    assert LIMITS.few_slices == Limits.few_slices


def test_what_runs_follows_them():
    f, x = (lambda v: v.sum() + v[0]), np.ones((12, 3))
    assert xpapply.explain(f, 1, x).engine == "loop"
    xpapply.functions.cache.clear()
    with LIMITS.set(few_slices=4, plan_worth=0.0):
        assert xpapply.explain(f, 1, x).engine == "numpy"


def numbers(path):
    """Names of a module that are numbers, or tuples of them."""
    for node in ast.parse(path.read_text()).body:
        if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
            continue
        try:
            value = ast.literal_eval(node.value)
        except ValueError:
            value = (
                eval(compile(ast.Expression(node.value), "", "eval"), {}) if _sum(node) else None
            )
        if _is_number(value) or (
            isinstance(value, tuple) and value and all(map(_is_number, value))
        ):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            yield ast.unparse(target)


def _sum(node):
    inner = (ast.BinOp, ast.Constant, ast.operator, ast.UnaryOp, ast.unaryop, ast.Tuple, ast.Load)
    return all(isinstance(x, inner) for x in ast.walk(node.value))


def _is_number(x):
    return isinstance(x, (int, float)) and not isinstance(x, bool)


@pytest.mark.parametrize("room", ROOMS)
def test_no_number_is_beside_it(room):
    place = ROOT / "xpapply" / room
    files = sorted(place.rglob("*.py")) if place.is_dir() else [place]
    assert {f"{p.name}: {name}" for p in files for name in numbers(p)} <= FACTS


def test_numbers_are_seen(tmp_path):
    path = tmp_path / "some.py"
    path.write_text("A = 1\nB: float = 2.5\nC, D = 1 << 3, -1\nE = 'x'\nF = True\nG = f(2)\n")
    assert list(numbers(path)) == ["A", "B", "(C, D)"]


def test_tests_set_no_number_of_a_module():
    """A test that names a private number breaks when that moves: it sets the row."""
    pattern = re.compile(r"(?:setattr|patch\.object)\(\s*[\w.]+, \"(_?[A-Z][A-Z_]+)\", [\d.]")
    own = {"BATCH", "PROBE", "SCALE"}  # of benchmarks and of tests
    found = {
        f"{path.name}: {name}"
        for path in (ROOT / "tests").rglob("*.py")
        for name in pattern.findall(path.read_text())
        if name not in own
    }
    assert found == set()
