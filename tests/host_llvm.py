"""Generated LLVM text, compiled for any CPU, and run where this machine has its instructions."""

import ctypes
import functools
import math
import platform
import re

import numpy as np
import pytest

from xpapply.codegen.llvm import operations
from xpapply.codegen.llvm.target import TARGETS
from xpapply.codegen.llvm.writer import DTYPES, INDEX, POINTER, Type, Writer

FEATURES = {"AVX-512": "avx512dq", "AVX2": "avx2", "SSE2": "sse2"}


@functools.cache
def binding():
    llvm = pytest.importorskip("llvmlite.binding")
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm


def machine(target):
    """LLVM's machine for a target."""
    found = binding().Target.from_triple(target.triple)
    return found.create_target_machine(cpu=target.cpu, features=target.features, opt=3)


def assembly(text, target):
    """What LLVM makes of a module; it must not call anything."""
    module = binding().parse_assembly(text)
    module.verify()
    module.triple = target.triple
    found = machine(target).emit_assembly(module)
    calls = re.findall(r"\t(?:call\w*|bl|jmp)\t(?!\.L)\S+", found)
    assert not calls, calls
    return found


def runs(target):
    """Whether this machine has the instructions."""
    if platform.machine() != "x86_64" or target.name not in FEATURES:
        return False
    return bool(binding().get_host_cpu_features().get(FEATURES[target.name]))


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
    llvm = binding()
    assembly(text, target)
    module = llvm.parse_assembly(text)
    module.triple = target.triple
    engine = llvm.create_mcjit_compiler(module, machine(target))
    engine.finalize_object()
    address = engine.get_function_address("f")

    def call(*arguments, engine=engine):
        given = [x.ctypes.data if isinstance(x, np.ndarray) else x for x in arguments]
        kinds = [
            ctypes.c_void_p if isinstance(x, np.ndarray) else ctypes.c_int64 for x in arguments
        ]
        ctypes.CFUNCTYPE(None, *kinds)(address)(*given)

    return call


def elementwise(body, dtypes, results, target, lanes):
    """A function of arrays with several results: `body` writes it for registers.

    On another machine the kernel is compiled, and the test that asked for it skipped.
    """
    text = elementwise_text(body, dtypes, results, target, lanes)
    if not runs(target):
        assembly(text, target)
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
            given.append(padded)
        outs = [np.empty(n, numpy_dtype(d)) for d in results]
        kernel(n, *outs, *given)
        return [out[:size].reshape(shape) for out in outs]

    return run


def numpy_dtype(dtype):
    """NumPy's dtype of what lies in memory; bfloat16 as its bits."""
    return np.dtype("uint16" if dtype == "bfloat16" else dtype)
