"""A plugin of pytest: each call of patched functions is looked at, however small.

At the end it writes what ran to the file that the environment variable LOOKED names.
"""

import json
import os

import pytest
from thresholds import always_plan

from xpapply import patching
from xpapply.limits import LIMITS
from xpapply.planning.python import python_functions


def pytest_configure():
    """Not when it is imported: pytest imports each file when it looks for doctests."""
    # what runs does not depend on how fast this machine is
    always_plan(pytest.MonkeyPatch())
    python_functions._sooner_in_loop = lambda *_: None
    LIMITS.few_patched, LIMITS.patched_worth, LIMITS.patched_again = 0, -1.0, 0
    LIMITS.first_loops, LIMITS.first_call = 0.0, 600.0  # nor on what was loaded before


def pytest_sessionfinish():
    rows = [vars(row) for row in patching._active[0].report.rows]
    with open(os.environ["LOOKED"], "w") as file:
        json.dump(rows, file)
