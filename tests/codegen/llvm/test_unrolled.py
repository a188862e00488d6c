"""Kernels of short slices for all CPUs: they call nothing, and have no loop over elements."""

import host_llvm
import pytest
from unrolled_cases import FUNCTIONS

import xpapply
from xpapply.codegen.llvm.slice_kernel import Form
from xpapply.codegen.llvm.unrolled import instructions, prepare, unrolled_kernel, why_not

pytest.importorskip("llvmlite")


@pytest.mark.parametrize("target", host_llvm.HOST)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_they_compile_for_every_cpu(name, target):
    for dtype in ("float32", "float64"):
        graph = xpapply.lift(FUNCTIONS[name], (9,), dtype)
        assert why_not(graph, target) is None
        graph = prepare(graph)
        lanes = target.bits // 64
        others = ("same",) * _constants(graph)
        for move, tile in (("direct", 0), ("transposed", 64), ("gathered", 64)):
            form = Form(True, lanes, (move, *others), (move,), (2,) * 9, 1, lane=0, tile=tile)
            text = unrolled_kernel(graph, form, target)
            host_llvm.assembly(text, target)


def _constants(graph):
    from xpapply.codegen.llvm.unrolled import constants

    return len(constants(graph))


def test_the_estimate_is_near_what_is_written():
    for name, f in FUNCTIONS.items():
        target = host_llvm.TARGETS["AVX-512"]
        graph = prepare(xpapply.lift(f, (9,), "float64"))
        form = Form(
            True, 8, ("direct", *("same",) * _constants(graph)), ("direct",), (1,) * 9, 1, 0
        )
        written = unrolled_kernel(graph, form, target).count("\n")
        assert instructions(graph, target) < 2 * written + 50, name
        assert written < 2.5 * instructions(graph, target) + 200, name
