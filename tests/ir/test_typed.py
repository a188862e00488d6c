"""Typed functions: their evaluator, which is their definition, and what is well formed."""

import copy
import os
import subprocess
import sys
from pathlib import Path

import loop_functions
import numpy as np
import pytest
from loop_functions import for_others, machine_code, typed_function

from xpapply.backends.cpu import typed as backend
from xpapply.codegen.llvm.target import TARGETS
from xpapply.codegen.llvm.typed import NAME, kernel
from xpapply.errors import InputError
from xpapply.ir.typed import Array, Instruction, Literal, Register, Slot
from xpapply.ir.typed.evaluate import evaluate
from xpapply.ir.typed.verify import verify

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("f", loop_functions.FUNCTIONS, ids=lambda f: f.__name__)
def test_the_evaluator_gives_what_the_function_gives(f):
    arr = np.abs(RNG.standard_normal((6, 12))) if f is loop_functions.logs else None
    arr = RNG.standard_normal((6, 12)) if arr is None else arr
    made, like = typed_function(f, arr[0])
    verify(made)
    compiled = None
    if backend.why_not() is None:
        compiled = backend.Compiled(made)
        outs = [np.zeros((len(arr), *p.shape), p.dtype) for p in like]
        marks = compiled.run([arr], outs, 1)
    for k, v in enumerate(arr):
        mine = [np.zeros(p.shape, p.dtype) for p in like]
        mark = evaluate(made, [v], mine)
        if compiled is not None:
            assert mark == marks[k]
        if mark:
            continue
        want = f(v)
        want = want if len(like) > 1 else (want,)
        for j, (a, b) in enumerate(zip(mine, want, strict=True)):
            np.testing.assert_array_equal(a, b)
            if compiled is not None:
                np.testing.assert_array_equal(outs[j][k], b)


@for_others
@pytest.mark.parametrize("f", loop_functions.FUNCTIONS[::5], ids=lambda f: f.__name__)
def test_texts_compile_for_other_cpus(f, name):
    made, _ = typed_function(f, np.abs(RNG.standard_normal(12)))
    assert NAME.encode() in machine_code(kernel(made, TARGETS[name]), name)


def test_it_is_shown():
    made, _ = typed_function(loop_functions.longest_run, np.ones(3))
    assert str(made).startswith("longest_run(float64[:]) -> int64[]\nblock 0:")
    assert "to block" in str(made)


def test_what_is_wrong_is_said():
    made, _ = typed_function(loop_functions.longest_run, np.ones(3))
    one = Literal(1.0, "float64")
    wrong = [
        (Instruction("leap", None, ()), "no such instruction"),
        (Instruction("add", Register(999, "int64"), (one, Literal(1, "int64"))), "differ in type"),
        (Instruction("neg", Register(999, "float64"), (Register(998, "float64"),)), "not written"),
        (Instruction("mark", None, (Literal(True, "bool"),), 77), "no such mark"),
        (Instruction("neg", Register(999, "float64"), (one, one)), "1 operands"),
        (Instruction("call", Register(999, "float64"), (one,), 5), "no such function"),
        (Instruction("length", Register(999, "int64"), (one,), 0), "wants an array"),
        (Instruction("put", None, (Literal(0, "int64"), one), 0), "another type"),
        (Instruction("return", None, ()), "with no other"),
        (Instruction("add", Register(999, "int64"), (one, one)), "result has another type"),
        (Instruction("neg", Register(999, "float32"), (one,)), "result has another type"),
        (Instruction("neg", Register(999, "float64"), (1.0,)), "no operand"),
        (Instruction("complex", Register(999, "complex64"), (one, one)), "no complex number"),
        (Instruction("catch", None, (Literal(True, "bool"),), 99), "no such block"),
        (Instruction("not", Register(999, "bool"), (one,)), "truth value"),
        (Instruction("store", None, (one,), Slot("n", "int64")), "slot has another type"),
        (Instruction("load", Register(999, "float64"), (), Slot("n", "int64")), "slot has another"),
        (Instruction("load", None, (), Slot("n", "int64")), "slot has another type"),
    ]
    array = next(r for x in made.blocks[0].instructions if isinstance((r := x.result).type, Array))
    index, two = Literal(0, "int64"), (Literal(0, "int64"),) * 2
    wrong += [
        (Instruction("element", Register(999, "float64"), (array, *two)), "of 1 axes"),
        (Instruction("element", Register(999, "float64"), (array, one)), "64 bits"),
        (Instruction("set element", None, (array, *two, one)), "of 1 axes"),
        (Instruction("set element", None, (array, one, one)), "64 bits"),
        (Instruction("set element", None, (array, index, index)), "array has another type"),
    ]
    for x, why in wrong:
        broken = copy.deepcopy(made)
        broken.blocks[0].instructions.insert(-1, x)
        with pytest.raises(InputError, match=why):
            verify(broken)
    broken = copy.deepcopy(made)
    broken.blocks[0].targets = (99,)
    with pytest.raises(InputError, match="goes on at"):
        verify(broken)


def test_texts_are_the_same_in_each_process():
    """Machine code is kept on disk by them."""
    code = (
        "import hashlib, numpy as np, loop_functions as lf\n"
        "from xpapply.codegen.llvm.target import TARGETS\n"
        "from xpapply.codegen.llvm.typed import kernel, kernel_of_lanes\n"
        "found = hashlib.sha256()\n"
        "for f in (lf.longest_run, lf.kalman, lf.edits, lf.path, lf.spikes):\n"
        "    made, _ = lf.typed_function(f, np.arange(12.0) - 5)\n"
        "    found.update(kernel(made, TARGETS['AVX2']).encode())\n"
        "    if f in (lf.longest_run, lf.kalman, lf.spikes):\n"
        "        found.update(kernel_of_lanes(made, TARGETS['AVX2'], 8, True).encode())\n"
        "print(found.hexdigest())\n"
    )
    tests = str(Path(__file__).parents[1])
    found = set()
    for seed in ("1", "2", "3"):
        paths = os.pathsep.join(filter(None, [tests, *sys.path]))
        env = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": paths}
        done = subprocess.run(
            [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
        )
        found.add(done.stdout)
    assert len(found) == 1


def test_loops_within_loops():
    nested = {"mann_kendall", "warping", "insertion_sort"}
    for name in ("longest_run", "drawdown", "mann_kendall", "warping", "insertion_sort", "cusum"):
        made, _ = typed_function(getattr(loop_functions, name), np.abs(RNG.standard_normal(12)))
        assert made.nests is (name in nested), name
