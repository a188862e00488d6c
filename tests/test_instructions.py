"""Multiply-adds and spills are found in LLVM's assembly, where there are any."""

import instructions
import pytest

from conftest import library
from xpapply.codegen.llvm.registers import INDEX, POINTER
from xpapply.codegen.llvm.target import TARGETS
from xpapply.codegen.llvm.writer import Writer


def sums(target, count):
    """A loop in a loop, with so many sums in vectors."""
    w = Writer(target)
    vector = w.vector("float")

    def body(x, z, n):
        def outer(j):
            def inner(i, *states):
                factor = w.load(w.offset(x, i, "float"), vector)
                return [w.fma(factor, factor + float(k), s) for k, s in enumerate(states)]

            zeros = [w.constant(0.0, vector)] * count
            for k, s in enumerate(w.loop(n, inner, zeros, step=vector.lanes)):
                w.store(s, w.offset(z, k * vector.lanes, "float"))

        w.loop(n, outer)

    w.kernel("k", [("x", POINTER), ("z", POINTER), ("n", INDEX)], body)
    return w.text()


@pytest.mark.parametrize("name", list(TARGETS))
def test_what_fits_is_not_spilled(name):
    library("llvmlite")
    from xpapply.backends.cpu import compiler

    target = TARGETS[name]
    few, many = target.registers // 2, 2 * target.registers
    found = compiler.assembly(sums(target, few), target)
    assert instructions.fmas(found, target, depth=2) == few
    assert instructions.spills(found, target) == 0
    found = compiler.assembly(sums(target, many), target)
    assert instructions.fmas(found, target, depth=2) == many
    assert instructions.spills(found, target, depth=2) >= many - target.registers
    assert instructions.fmas(found, target, depth=3) == instructions.spills(found, target, 3) == 0
    assert len(list(instructions.instructions(found))) > len(
        list(instructions.instructions(found, 1))
    )
