"""Plan however little it saves, and look for paths however long that takes."""

from __future__ import annotations

import pytest

from xpapply import straight
from xpapply.frontends.python import executor, in_blocks, runner
from xpapply.planning import python_functions, running


def always_plan(patch: pytest.MonkeyPatch) -> None:
    """No call is so small or so quick that the loop runs instead."""
    for module, name, value in (
        (python_functions, "_FEW", 0),
        (straight, "FEW", 0),
        (running, "PLANNING", 0.0),
        (running, "SLOWER", 1e9),
        (in_blocks, "_AT_LEAST", 60.0),
        (runner, "SECONDS_PER_CALL", 0.0),
        (executor, "SECONDS_PER_CALL", 0.0),
    ):
        patch.setattr(module, name, value)
