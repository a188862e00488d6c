"""Long chains of sines: compiled in a time that grows with their length, and right."""

import numpy as np
import pytest

import xpapply
from xpapply.codegen.llvm import functions
from xpapply.codegen.llvm.registers import POINTER
from xpapply.codegen.llvm.target import TARGETS
from xpapply.codegen.llvm.writer import Writer


def branches(count: int) -> int:
    """How many there are in the text of a kernel with a chain of so many sines."""
    writer = Writer(next(iter(TARGETS.values())))

    def body(at):
        x = writer.load(at, writer.vector("float"))
        for _ in range(count):
            x = functions.sin(writer, x)
        writer.store(x, at)

    writer.kernel("chain", [("at", POINTER)], body)
    return writer.text().count("br i1")


def test_the_branches_do_not_grow_with_the_chain():
    assert branches(80) == branches(200) > branches(2)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_all_uses_give_the_same(torch, name, dtype):
    class Twice(torch.nn.Module):
        def forward(self, x):
            return getattr(torch, name)(getattr(torch, name)(x))

    rng = np.random.default_rng(0)
    values = 10.0 ** rng.uniform(-3, 9, 300) * rng.choice([-1, 1], 300)
    values[:5] = np.inf, np.nan, -0.0, 3e38, 0.0
    values = values.astype(dtype)
    x = np.repeat(values[:, None], 48, 1)  # the kernel has a use for each element
    with xpapply.options(engine="cpu"):
        got = xpapply.apply_along_axis(Twice(), -1, x)
    assert got.dtype == dtype
    bits = got.view(f"u{got.itemsize}")
    assert (bits == bits[:, :1]).all()
    of = getattr(np, name)
    with np.errstate(invalid="ignore"):
        first = of(values.astype("float64"))
        want = of(first.astype(dtype).astype("float64"))
        found = got[:, 0].astype("float64")
        # a tangent multiplies what the first one is off
        size = np.maximum(1, np.abs(want)) ** 2 * np.maximum(1, np.abs(first))
        off = np.abs(found - want) / size
    assert (np.isnan(found) == np.isnan(want)).all()
    assert np.nanmax(off) < 16 * np.finfo(dtype).eps
