"""A few cases of each generator; many more by its command (see `fuzz`)."""

import os

import pytest

import fuzz

CASES = 2000 if os.environ.get("XPAPPLY_PROFILE") == "deep" else 12


@pytest.mark.parametrize("name", fuzz.names())
def test_generators_find_nothing(name):
    assert not list(fuzz.finds(name, 0, range(CASES)))
