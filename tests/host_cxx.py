"""Compile a kernel's text as host C++ and run it: the same text that a GPU would run."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import math
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from xpapply.codegen.cxx import TYPES
from xpapply.codegen.kernels import geometry, network_kernel, placement

_HEADER = """
#include <cmath>
#include <cstddef>
#define XPAPPLY_INLINE inline
#define XPAPPLY_THREADS 1
#define __shared__ static
#define __syncthreads()
#define __device__
#define __forceinline__ inline
typedef _Float16 float16;
struct Index { long long x; };
static Index threadIdx, blockIdx, blockDim, gridDim;
"""


@functools.cache
def compiler() -> list[str]:
    """A C++ compiler: the system's, else the one from the ziglang wheel."""
    for name in ("g++", "clang++"):
        if shutil.which(name):
            return [name]
    return [sys.executable, "-m", "ziglang", "c++"]


@functools.cache
def _library(source: str) -> ctypes.CDLL:
    folder = Path(tempfile.gettempdir()) / "xpapply-host-kernels"
    folder.mkdir(exist_ok=True)
    target = folder / f"{hashlib.sha256(source.encode()).hexdigest()[:24]}.so"
    if not target.exists():
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            text, built = Path(scratch, "kernel.cpp"), Path(scratch, "kernel.so")
            text.write_text(source)
            command = [*compiler(), "-std=c++17", "-O1", "-shared", "-fPIC", "-w"]
            subprocess.run([*command, str(text), "-o", str(built)], check=True)
            built.replace(target)
    return ctypes.CDLL(str(target))


def run_network(graph, x: np.ndarray, at: int, out: np.ndarray, rows: int = 4) -> None:
    """Run the network kernel of `graph` on host memory, with one thread in each of three blocks."""
    access, numbers = geometry(x.shape, x.strides, x.itemsize, x.ctypes.data, at, out.size)
    text = network_kernel(graph, access, rows)
    numbers += placement(access, numbers[1], math.prod(graph.result.shape))
    names = [p.split()[1] for p in text.in_params.split(", ") if not p.startswith("raw")]
    parameters = ", ".join(f"long long {n}" for n in names)
    ctype = TYPES[out.dtype.name]
    load = """
inline xpapply_in4 xpapply_load(const IN* p) { return *reinterpret_cast<const xpapply_in4*>(p); }
"""
    types, _, rest = text.preamble.partition("#ifndef XPAPPLY_INLINE")
    source = f"""{_HEADER}{types}{load}#ifndef XPAPPLY_INLINE{rest}
extern "C" void run(const IN* x, const T* weights, {parameters}, {ctype}* y) {{
  blockDim.x = 1; gridDim.x = 3; threadIdx.x = 0;
  for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x) {{
    {text.loop_prep}
    {text.operation}
  }}
}}
"""
    run = _library(source).run
    weights = text.function.pack(graph.consts)
    aligned = np.zeros(weights.size + 8, weights.dtype)  # vectors of 16 bytes
    shift = (-aligned.ctypes.data % 16) // weights.itemsize
    aligned[shift : shift + weights.size] = weights
    pointer = ctypes.c_void_p
    run(
        pointer(x.ctypes.data),
        pointer(aligned[shift:].ctypes.data),
        *map(ctypes.c_longlong, numbers),
        pointer(out.ctypes.data),
    )
