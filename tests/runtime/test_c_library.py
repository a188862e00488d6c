"""The library of C: whether it takes known steps, which its results say."""

import math
import os
import subprocess
import sys

import pytest

from xpapply.runtime import c_library

NAMES = ["exp", "log", "pow", "sin", "cos", "erf"]


@pytest.fixture(autouse=True)
def fresh():
    """What is remembered is of this library."""
    yield
    c_library.takes.cache_clear()


@pytest.mark.parametrize("name", NAMES)
def test_one_other_last_bit_is_seen(name, monkeypatch):
    """The steps are not those of a library with another result for one of the arguments."""
    f, calls = getattr(math, name), []

    def other(*x):
        calls.append(x)
        found = f(*x)
        return math.nextafter(found, math.inf) if len(calls) == 4321 else found

    before = c_library.takes(name)
    c_library.takes.cache_clear()
    monkeypatch.setattr(math, name, other)
    assert not c_library.takes(name)
    assert not before or len(calls) > 4321


def test_functions_without_known_steps():
    assert not c_library.takes("tan")
    assert not c_library.takes("tanh")


def test_another_library_takes_other_steps(monkeypatch):
    monkeypatch.setattr(c_library, "is_near", lambda: False)
    c_library.takes.cache_clear()
    assert not any(map(c_library.takes, NAMES))


@pytest.mark.parametrize(("name", "lengths"), [("log", [7, 11, 128]), ("pow", [9, 0, 128])])
def test_numbers_of_the_logarithm(name, lengths):
    found = c_library.of_logarithm(name)
    if found is None:
        pytest.skip("not this C library")
    assert [len(x) for x in found] == lengths
    assert found.far[2] == pytest.approx(-0.5)
    assert sum(found.far[:2]) == math.log(2)
    for inverse, *others in found.table:
        assert others[-1] + (others[1] if name == "pow" else 0.0) == pytest.approx(
            -math.log(inverse), abs=1e-15
        )


@pytest.mark.skipif(not c_library.takes("exp"), reason="not this C library")
def test_steps_that_are_not_fused_are_others():
    """As on a CPU without such instructions: glibc chooses its functions by the CPU."""
    code = f"from xpapply.runtime import c_library as c; print(*map(c.takes, {NAMES}))"
    env = os.environ | {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-FMA,-AVX2_Usable,-AVX2"}
    ran = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == ["False"] * len(NAMES)
