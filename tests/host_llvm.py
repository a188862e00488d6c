"""Generated LLVM text, compiled for any CPU, and run where this machine has its instructions."""

import ctypes
import math
import re

import guarded
import numpy as np
import pytest

from xpapply.backends.cpu import compiler
from xpapply.codegen.llvm import operations
from xpapply.codegen.llvm.registers import DTYPES, INDEX, POINTER, Type
from xpapply.codegen.llvm.target import TARGETS
from xpapply.codegen.llvm.writer import Writer


def assembly(text, target):
    """What LLVM makes of a module; it must not call anything."""
    pytest.importorskip("llvmlite")
    found = compiler.assembly(text, target)
    calls = re.findall(r"\t(?:call\w*|bl|jmp)\t(?!\.L)(\S+)", found)
    inner = {f"{name}{end}" for name in re.findall(r"define [^@]*@([\w.]+)", text) for end in ENDS}
    assert set(calls) <= inner, calls
    return found


ENDS = ("", "@PLT")


def inner_loops(assembly, deepest=3):
    """The instructions of the loops that have no other inside, and at most so many around them."""
    lines, labels, loops = assembly.splitlines(), {}, []
    for k, line in enumerate(lines):
        if label := re.match(r"(\.L\w+):", line):
            labels[label[1]] = k
        jump = re.match(r"\t(?:j\w+|b\.?\w*|cbn?z|tbn?z)\t.*?(\.L\w+)$", line)
        if jump and jump[1] in labels:
            loops.append((labels[jump[1]], k))
    inner = [
        (a, b) for a, b in loops if "Inner Loop Header" in " ".join(lines[a : a + 1 + deepest])
    ]
    return [[x for x in lines[a : b + 1] if re.match(r"\t\w", x)] for a, b in inner]


def of_this_machine(target, text):
    """The CPU here that runs a text for `target`, or None.

    The text says how wide vectors are: what is written for another CPU runs here as well, with
    more instructions or fewer, and computes the same. Unless it names instructions of that CPU.
    """
    pytest.importorskip("llvmlite")
    best = compiler.host()
    x86 = [] if best.name == "NEON" else list(X86[X86.index(best.name) :])
    if target.name in x86:
        return compiler.host(target.name)
    own = re.search(r"@llvm\.(x86|aarch64)\.", text)
    return best if best.fma and target.fma and (not own or best.name == target.name) else None


X86 = ("AVX-512", "AVX2", "SSE2")


HOST = [pytest.param(t, id=t.name) for t in TARGETS.values()]


def elementwise_text(body, dtypes, results, target, lanes):
    """A kernel ``f(count, *results, *arrays)`` over whole vectors of `lanes` elements."""
    writer = Writer(target)

    def kernel(count, *arrays):
        def inside(i):
            given = []
            for p, d in zip(arrays[len(results) :], dtypes, strict=True):
                x = writer.load(writer.offset(p, i, DTYPES[d]), Type(DTYPES[d], lanes))
                given.append(operations.from_memory(writer, x, d))
            for p, d, x in zip(arrays, results, body(writer, *given), strict=False):
                found = operations.to_memory(writer, x, d)
                writer.store(found, writer.offset(p, i, DTYPES[d]))

        writer.loop(count, inside, step=lanes)

    pointers = [(f"x{k}", POINTER) for k in range(len(results) + len(dtypes))]
    writer.function("f", [("count", INDEX), *pointers], kernel)
    return writer.text()


def compiled(text, target):
    """The kernel ``f`` of a module as a function of arrays."""
    function = compiler.compile(text, "f", target=of_this_machine(target, text))

    def call(*arguments):
        given = [x.ctypes.data if isinstance(x, np.ndarray) else x for x in arguments]
        kinds = [
            ctypes.c_void_p if isinstance(x, np.ndarray) else ctypes.c_int64 for x in arguments
        ]
        ctypes.CFUNCTYPE(None, *kinds)(function.address)(*given)

    return call


def elementwise(body, dtypes, results, target, lanes):
    """A function of arrays with several results: `body` writes it for registers.

    Where the machine cannot run it the kernel is compiled, and the test that asked for it skipped.
    """
    text = elementwise_text(body, dtypes, results, target, lanes)
    here = of_this_machine(target, text)
    if here is None or here.name != target.name:
        assembly(text, target)
    if here is None:
        pytest.skip("compiled, but not for this machine")
    kernel = compiled(text, target)

    def run(*arrays):
        shape = np.broadcast_shapes(*(np.shape(x) for x in arrays))
        size = math.prod(shape)
        n = -(-size // lanes) * lanes
        given = []
        for x, d in zip(arrays, dtypes, strict=True):
            padded = np.ones(n, numpy_dtype(d))
            padded[:size] = np.broadcast_to(x, shape).ravel()
            given.append(beside_guards(padded))
        outs = [beside_guards(np.empty(n, numpy_dtype(d))) for d in results]
        kernel(n, *outs, *given)
        return [out[:size].reshape(shape) for out in outs]

    return run


def beside_guards(array):
    """The array before a page that nobody may touch, where there can be one."""
    return guarded.guarded(array) if guarded.HERE else array


def numpy_dtype(dtype):
    """NumPy's dtype of what lies in memory; bfloat16 as its bits."""
    return np.dtype("uint16" if dtype == "bfloat16" else dtype)
