"""Loops that are written out for GPUs are compiled in no time, however their end is told."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import standin_cupy
from on_standin import made

from xpapply.backends.cpu import for_gpus, host
from xpapply.codegen.llvm.typed import device_kernel
from xpapply.codegen.llvm.typed.forms import Frame

pytestmark = pytest.mark.skipif(host.why_not() is not None, reason=str(host.why_not()))


def pairs(v):
    found = 0.0
    for a, _ in zip(v, v[::-1], strict=False):
        for b in v:
            found += a * b
    return found


def until_eight(v):
    found, n = 0.0, 0
    for a in v:
        if n >= 8:
            break
        n += 2
        for b in v:
            found += a * b
    return found


def chosen(v):
    found = 0.0
    for i, (a, b) in enumerate(zip(v, v, strict=False)):
        for c in v[i:]:
            found += (a - 2 if a > 2 else 2 * b) if c < 3 else 2.0
    return found


def four_deep(v):
    found = 0.0
    for a in v:
        for b in v:
            for c in v:
                for d in v:
                    found += a * b * c * d
    return found


def compile_all():
    for f in (pairs, until_eight, chosen, four_deep):
        for length in (4, 5, 8, 9, 16):
            with standin_cupy.installed():
                function = made(f, "float64", [np.zeros(())], length)
            frame = Frame(function)
            known = dict.fromkeys(range(frame.count), 0)
            ((dims, strides),) = frame.inputs
            known |= dict.fromkeys(dims, length) | dict.fromkeys(strides, 8)
            for_gpus.ptx(device_kernel.kernel(function, known, 1, 64, [0]), 90)


def test_pairs_of_a_zip_are_no_four_million_rounds():
    """In a process of its own: LLVM cannot be interrupted."""
    tests = str(Path(__file__).parents[1])
    code = f"import sys; sys.path[:0] = [{tests!r}, {str(Path(__file__).parent)!r}]\n"
    code += f"import {Path(__file__).stem} as these; these.compile_all()"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
