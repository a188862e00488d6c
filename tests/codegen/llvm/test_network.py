"""Kernels of networks for all CPUs: machine code, where values lie, how weights are packed."""

import itertools
import re

import host_llvm
import numpy as np
import pytest

import xpapply
from xpapply.codegen.llvm import network
from xpapply.codegen.llvm.network.transfers import _pieces
from xpapply.codegen.llvm.network.weights import Weights
from xpapply.codegen.llvm.target import TARGETS
from xpapply.codegen.schedule import Schedule
from xpapply.ir.rewrite import compact, fold

FUSED = {
    "AVX-512": r"\tvfn?madd\w+p[sd]\t.*zmm",
    "AVX2": r"\tvfn?madd\w+p[sd]\t.*ymm",
    "SSE2": r"\tmulp[sd]\t.*xmm",
    "NEON": r"\tfmla\t\s*v\d+\.(4s|2d)",
}
"""A multiply-add of whole vectors; without FMA, a product."""
ACCESS = {
    "rows": network.Access("rows", "rows"),
    "columns": network.Access("columns", "columns"),
    "strided": network.Access("strided", "strided"),
    "anywhere": network.Access("slices", "slices"),
}


def graph_of(f, features, dtype="float32"):
    return compact(fold(xpapply.lift(f, (features,), dtype)))


def mlp(*widths, dtype="float32"):
    pairs = list(itertools.pairwise(widths))
    weights = [np.zeros((n, m), dtype) for m, n in pairs]
    return xpapply.MLP(weights, [np.zeros(n, dtype) for _, n in pairs], activation="relu")


@pytest.mark.parametrize("target", host_llvm.HOST)
@pytest.mark.parametrize("access", ACCESS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_of_products_stay_in_registers(target, access, dtype):
    graph = graph_of(mlp(16, 64, 120, 70, 1, dtype=dtype), 16, dtype)
    assembly = host_llvm.assembly(
        network.network_kernel(graph, ACCESS[access], target).text, target
    )
    found = 0
    for lines in host_llvm.inner_loops(assembly, 6):
        fused = [x for x in lines if re.search(FUSED[target.name], x)]
        if len(fused) < 6:
            continue
        found += 1
        assert not [x for x in lines if re.search(r"%rsp|\[sp|Spill|Reload", x)], lines
        assert not [x for x in lines if re.search(r"\t(v?mul|vfmadd\w*)s[sd]\b|fmadd\t", x)]
        # besides them: one number of the weights for each, the values, the end of the loop
        assert len(lines) <= 3.2 * len(fused) + 12 if target.fma else 6 * len(fused)
    assert found >= 2


def nets(torch):
    nn = torch.nn

    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(9, 9), nn.Linear(18, 4)

        def forward(self, x):
            y = torch.relu(self.a(x)) + x
            return torch.softmax(self.b(torch.cat([y, x[..., 2:], x[..., :2]], -1)), -1)

    layers = {
        "normalized": nn.Sequential(
            nn.Linear(9, 20), nn.LayerNorm(20), nn.GELU(), nn.Linear(20, 3)
        ),
        "residual": Residual(),
        "gated": nn.Sequential(nn.Linear(9, 8), nn.GLU(-1), nn.Linear(4, 2), nn.Tanh()),
    }
    return {name: net.eval() for name, net in layers.items()}


@pytest.mark.parametrize("name", ["normalized", "residual", "gated"])
def test_every_form_on_every_cpu(torch, name):
    """Nothing is called, whatever the graph has."""
    for input_dtype in ("float32", "uint8", "float64", "float16"):
        graph = graph_of(nets(torch)[name], 9, input_dtype)
        for target in TARGETS.values():
            assert network.why_not(graph, target) is None
            for access in ("rows", "anywhere"):
                host_llvm.assembly(
                    network.network_kernel(graph, ACCESS[access], target).text, target
                )


def test_rows_are_used_again():
    """Two layers of a deep network at a time, not all."""
    schedule = Schedule(network.prepare(graph_of(mlp(16, 30, 50, 40, 20, 4), 16)))
    assert 90 <= schedule.rows < 100
    assert len(schedule.steps) == 6
    assert all(s.product is not None for s in schedule.steps[1:])


def test_parts_of_a_value_lie_in_it(torch):
    """A slice of neighbouring features, or another shape, is no copy."""
    graph = network.prepare(graph_of(lambda v: v[2:6] * 2.0 + v.reshape((2, 5))[1, :4], 10))
    schedule = Schedule(graph)
    assert [schedule.graph.nodes[s.out].op for s in schedule.steps] == ["input", "add"]


def test_weights_lie_as_they_are_read():
    weights = Weights()
    w, b = np.arange(15.0).reshape(5, 3), -np.arange(5.0)
    assert weights.blocks(lambda v: v[0], lambda v: v[1], (1, 5, 3), [3, 2]) == 0
    assert weights.flat(2, (2, 2)) == 20
    assert weights.flat(2, (2, 2)) == 20
    packed = weights.packed({0: w, 1: b, 2: np.array([7.0, 8.0])}, "float32")
    first = [[0, -1, -2], [0, 3, 6], [1, 4, 7], [2, 5, 8]]
    second = [[-3, -4], [9, 12], [10, 13], [11, 14]]
    want = [*np.ravel(first), *np.ravel(second), 7, 8, 7, 8]
    np.testing.assert_array_equal(packed, np.array(want, "float32"))


def test_texts_do_not_depend_on_weights():
    one = graph_of(mlp(8, 4), 8)
    other = graph_of(xpapply.MLP([np.ones((4, 8), "f4")], [np.ones(4, "f4")]), 8)
    texts = [network.network_kernel(g, ACCESS["rows"], TARGETS["AVX2"]).text for g in (one, other)]
    assert texts[0] == texts[1]


@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
@pytest.mark.parametrize("count", range(1, 71))
def test_pieces_of_a_slice_end_with_it(count, lanes):
    """Powers of two, which together are all of it, and nothing beyond."""
    pieces = _pieces(count, lanes)
    assert {k + i for k, width in pieces for i in range(width)} == set(range(count))
    assert all(width & (width - 1) == 0 and width <= lanes for _, width in pieces)
    assert len(pieces) <= count // lanes + lanes.bit_length()
