"""Plan however little it saves, and look for paths however long that takes."""

from __future__ import annotations

import pytest

from xpapply.limits import LIMITS


def always_plan(patch: pytest.MonkeyPatch) -> None:
    """No call is so small or so quick that the loop runs instead."""
    for name in (
        "few_slices", "few_elements", "plan_worth", "blocks_call", "call_in_block",
        "unknown_elements", "unknown_rows",
    ):  # fmt: skip
        patch.setattr(LIMITS, name, 0)
    patch.setattr(LIMITS, "given_up_from", 1e9)
    patch.setattr(LIMITS, "paths_at_least", 60.0)
