"""A few cases of each generator; many more by its command (see `fuzz`)."""

import importlib
import os
import subprocess
import sys

import pytest

import fuzz

CASES = 2000 if os.environ.get("XPAPPLY_PROFILE") == "deep" else 12
MORE = {"loops": 15, "tables": 4}
"""Times as many, of generators whose cases are quick."""


NAMES = [
    pytest.param(name, marks=[pytest.mark.gpu] * (name == "on_a_gpu")) for name in fuzz.names()
]


@pytest.mark.parametrize("name", NAMES)
def test_generators_find_nothing(name):
    if getattr(importlib.import_module(f"fuzz.{name}"), "FORKS", False):
        # a process that has loaded JAX warns of forks
        command = [sys.executable, fuzz.__path__[0], name, "--cases", str(CASES)]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return
    assert not list(fuzz.finds(name, 0, range(CASES * MORE.get(name, 1))))
