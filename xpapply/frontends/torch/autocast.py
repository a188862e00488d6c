"""`torch.autocast`: in what precision torch's operations choose to compute."""

from __future__ import annotations

from typing import Any

import torch

REFUSED = "torch.autocast is on, so torch's own operations choose their precision"


def autocast_dtypes() -> tuple[Any, ...]:
    """The dtypes that `torch.autocast` has operations compute in, where it is on."""
    on = torch.is_autocast_enabled
    if not (on("cpu") or on("cuda")):
        return ()
    return tuple((d, torch.get_autocast_dtype(d)) for d in ("cpu", "cuda") if on(d))
