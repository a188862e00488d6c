"""What tests of `xpapply.patch` share."""

import pytest

import xpapply
from xpapply.patching import along_axis, elements, records
from xpapply.planning import python_functions


@pytest.fixture
def always(monkeypatch):
    """However few slices there are, and however quick the function: each call is looked at."""
    monkeypatch.setattr(python_functions, "_FEW", 0)
    monkeypatch.setattr(python_functions, "_PLANNING", 0.0)
    for place in (along_axis, elements):
        monkeypatch.setattr(place, "FEW", 0)
    for place in (records, elements):
        monkeypatch.setattr(place, "WORTH", -1.0)
    monkeypatch.setattr(records, "_AGAIN", 0)


@pytest.fixture
def patched():
    """Patched for a test."""
    with xpapply.patch() as found:
        yield found
