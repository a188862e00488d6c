"""Convolutions in kernels of networks: which steps there are, what stays in registers."""

import math
import re

import host_llvm
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xpapply
from xpapply.codegen import geometry
from xpapply.codegen.geometry import Dim
from xpapply.codegen.llvm import network
from xpapply.codegen.llvm.target import TARGETS
from xpapply.codegen.schedule import Schedule
from xpapply.ir.rewrite import compact, fold, with_input

torch = pytest.importorskip("torch")
nn = torch.nn


def graph_of(net, shape, dtype="float32"):
    lifted = xpapply.lift(net.eval().requires_grad_(False), shape, dtype)
    return with_input(compact(fold(lifted)), (math.prod(shape),))


def steps_of(net, shape):
    """The ops of the steps, with that of the product or of what they join before it."""
    schedule = Schedule(network.prepare(graph_of(net, shape)))
    nodes, found = schedule.graph.nodes, []
    for s in schedule.steps:
        joins = "" if s.pool is None else f"{s.pool.joins} of "
        found.append(joins + ("product" if s.product is not None else nodes[s.out].op))
    return schedule, found


def classic():
    first = [nn.Conv2d(1, 10, 3), nn.ReLU(), nn.MaxPool2d(2)]
    second = [nn.Conv2d(10, 20, 3), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*first, *second, nn.Flatten(0), nn.Linear(500, 10))


def test_pools_are_joined_in_registers():
    """No result of a convolution is written where one of four is wanted, and no windows are."""
    schedule, found = steps_of(classic(), (1, 28, 28))
    assert found == ["input", "max of product", "max of product", "product"]
    first, second = (s.pool for s in schedule.steps[1:3])
    assert [d.size for d in first.places] == [13, 13]
    assert math.prod(d.size for d in second.places) * second.outputs.size == 500
    assert len(first.taps) == 4
    assert schedule.rows < 784 + 10 * 13 * 13 + 600


@pytest.mark.parametrize(
    ("layers", "steps"),
    [
        ([nn.Tanh(), nn.MaxPool2d(2)], ["max of product"]),  # of the largest
        ([nn.Sigmoid(), nn.AvgPool2d(2)], ["product", "sum"]),  # a loop of its own
        ([nn.AvgPool2d(2)], ["sum of product"]),
        ([nn.MaxPool2d(3, 2)], ["product", "max"]),  # windows that overlap
        ([nn.MaxPool2d(2, padding=1)], ["product", "pad", "max"]),
    ],
)
def test_what_is_joined_where(layers, steps):
    _, found = steps_of(nn.Sequential(nn.Conv2d(1, 4, 3), *layers), (1, 12, 12))
    found = [f for f in found[1:] if f in ("pad", "sum", "max") or "product" in f]
    assert found == steps


@pytest.mark.parametrize("target", host_llvm.HOST)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_of_windows_stay_in_registers(target, dtype):
    net = nn.Sequential(nn.Conv2d(8, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3, stride=2))
    graph = graph_of(net.to(getattr(torch, dtype)), (8, 9, 9), dtype)
    kernel = network.network_kernel(graph, network.Access("rows", "rows"), target)
    fused = {
        "AVX-512": r"\tvfn?madd\w+p[sd]\t.*zmm",
        "AVX2": r"\tvfn?madd\w+p[sd]\t.*ymm",
        "SSE2": r"\tmulp[sd]\t.*xmm",
        "NEON": r"\tfmla\t\s*v\d+\.(4s|2d)",
    }[target.name]
    found = 0
    for lines in host_llvm.inner_loops(host_llvm.assembly(kernel.text, target), 6):
        sums = [x for x in lines if re.search(fused, x)]
        if len(sums) < 6:
            continue
        found += 1
        spilled = [x for x in lines if re.search(r"Spill|Reload", x)]
        assert len(spilled) <= len(sums) / 5
        assert len(lines) <= (2.2 if target.fma else 4.5) * len(sums) + 12
    assert found >= 2


@given(data=st.data())
def test_even_positions(data):
    """Where they grow evenly, their steps; else nothing."""
    shape = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    steps = [data.draw(st.integers(-5, 5)) for _ in shape]
    base = data.draw(st.integers(0, 9))
    table = base + sum(
        (s * k for s, k in zip(steps, np.indices(shape), strict=True)), start=np.zeros(shape, int)
    )
    found = geometry.affine(table)
    assert found is not None
    assert found[0] == base
    assert [s for s, n in zip(found[1], shape, strict=True) if n > 1] == [
        s for s, n in zip(steps, shape, strict=True) if n > 1
    ]
    if table.size > 2 and max(shape) > 2:
        k = shape.index(max(shape))
        other = table.copy()
        np.moveaxis(other, k, 0)[-1] += 1
        assert geometry.affine(other) is None


@given(sizes=st.lists(st.integers(1, 3), max_size=4), data=st.data())
def test_merged_axes_are_the_same_numbers(sizes, data):
    dims, after = [], 1
    for n in sizes[::-1]:
        step = after if data.draw(st.booleans()) else data.draw(st.integers(1, 50))
        dims.insert(0, Dim(n, step, 2 * step, step))
        after = n * step

    def numbers(dims):
        found = [(0, 0, 0)]
        for d in dims:
            found = [
                tuple(a + i * s for a, s in zip(at, d[1:], strict=True))
                for at in found
                for i in range(d.size)
            ]
        return found

    merged = geometry.merged(dims)
    assert numbers(merged) == numbers(dims)
    assert all(d.size > 1 for d in merged)


def test_windows_of_the_table_of_ops():
    """Positions of moved numbers are those that NumPy's own calls give."""
    source = np.arange(60).reshape(3, 20)
    found = geometry.moved("windows", {"axis": 1, "size": 3, "step": 4, "dilation": 2}, source)
    assert found.shape == (3, 4, 3)
    assert found[1, 2].tolist() == [28, 30, 32]
    padded = geometry.moved("pad", {"widths": ((1, 0), (0, 0)), "number": "0.0"}, source)
    assert padded[0].tolist() == [-1] * 20
    assert (padded[1:] == source).all()


def test_texts_have_no_tables_of_windows():
    """Windows, pads and pools are counted."""
    layers = [nn.Conv2d(2, 4, 3, padding=1), nn.GELU(), nn.MaxPool2d(3, 2, 1), nn.Conv2d(4, 4, 2)]
    graph = graph_of(nn.Sequential(*layers), (2, 12, 12))
    for target in TARGETS.values():
        text = network.network_kernel(graph, network.Access("rows", "rows"), target).text
        assert "x i64] [" not in text
