"""What the tests of torch networks have in common."""

import numpy as np
import pytest
from torch import nn

import xpapply
from xpapply.testing import assert_parity

torch = pytest.importorskip("torch")

ARR = np.random.default_rng(0).standard_normal((3, 6, 4)).astype(np.float32)


def assert_fast(f, arr=ARR, axis=1, *args, **kwargs):
    """Vectorised, and right on every library's slices."""
    plan = xpapply.explain(f, axis, arr, *args, **kwargs)
    assert plan.vectorized, plan.reasons
    assert not [r for r in plan.reasons if r.startswith("no graph")], plan.reasons
    result = assert_parity(f, axis, arr, *args, **kwargs)
    assert_parity(f, axis, torch.from_numpy(arr.copy()), *args, **kwargs)  # autograd: torch's ops
    with torch.no_grad():
        assert_parity(f, axis, torch.from_numpy(arr.copy()), *args, **kwargs)
    return result


class Of(nn.Module):
    """A module whose forward is a given function; layers by name."""

    def __init__(self, forward, **layers):
        super().__init__()
        self._f = forward
        self.fc = nn.Linear(6, 5)
        for name, layer in layers.items():
            setattr(self, name, layer)
        self.eval()

    def forward(self, x, *args, **kwargs):
        return self._f(self, x, *args, **kwargs)
