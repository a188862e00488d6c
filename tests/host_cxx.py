"""Compile a kernel's text as host C++ and run it: the same text that a GPU would run."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import math
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from xpapply.codegen.access import geometry, placement
from xpapply.codegen.cxx import TYPES
from xpapply.codegen.scalar_network import network_kernel

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


_OPTIONS = ["-std=c++14", "-O0", "-fPIC", "-w"]
"""Most of the time goes into compiling, not into what runs: headers of C++14 are shorter, and -O0
takes half as long."""


def _kept(name: str, text: str, *command: str) -> Path:
    """What a command makes of a text, in the folder for temporary files: an earlier run's too."""
    folder = Path(tempfile.gettempdir()) / "xpapply-host-kernels"
    folder.mkdir(exist_ok=True)
    target = folder / name
    if not target.exists():
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            given, built = Path(scratch, "given"), Path(scratch, "built")
            given.write_text(text)
            if command:
                subprocess.run([*command, str(given), "-o", str(built)], check=True)
            (built if command else given).replace(target)
    return target


def _hash(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:24]


@functools.cache
def header(text: str) -> str:
    """The line of a source that includes a text, which g++ reads once for all sources.

    That is most of what it does about a kernel: 0.14 of 0.24 s.
    """
    path = _kept(f"{_hash(*_OPTIONS, text)}.hpp", text)
    if compiler() == ["g++"]:  # others read the text
        _kept(f"{path.name}.gch", text, "g++", *_OPTIONS, "-x", "c++-header")
    return f'#include "{path}"\n'


@functools.cache
def library(source: str) -> ctypes.CDLL:
    """What stands in a source, compiled."""
    command = [*compiler(), *_OPTIONS, "-shared", "-x", "c++"]
    return ctypes.CDLL(str(_kept(f"{_hash(*command, source)}.so", source, *command)))


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
    run = library(source).run
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


# --- kernels of slices: all threads of a block, each with a stack of its own ------------------

_BLOCKS = """
#include <cmath>
#include <cstdlib>
#include <ucontext.h>
typedef _Float16 float16;
#define __global__
#define __launch_bounds__(...)
#define __shared__ static
#define __syncthreads() xp_wait(__LINE__)
struct Index { unsigned x, y; };
static Index threadIdx, blockIdx;
static ucontext_t xp_scheduler, xp_threads[1024];
static int xp_barrier;
static unsigned xp_words[1024];
static void** xp_args;
static void xp_wait(const int barrier) {
  xp_barrier = barrier;
  swapcontext(&xp_threads[threadIdx.x], &xp_scheduler);
}
static unsigned __shfl_xor_sync(const unsigned, const unsigned word, const int mask) {
  xp_words[threadIdx.x] = word;
  xp_wait(-mask);
  const unsigned found = xp_words[threadIdx.x ^ mask];
  xp_wait(-1000 - mask);
  return found;
}
// what a GPU stops at: no access where an address is no multiple of the size
static bool xp_misaligned;
template <class T> struct xp_pointer;
template <class T> struct xp_pointer<T*> {
  template <class P> static T* to(P* p) {
    alignas(64) static char nowhere[64];
    if ((size_t)p % alignof(T) == 0) return (T*)p;
    xp_misaligned = true;
    return (T*)nowhere;
  }
};
// all threads go to their next barrier, and on from there: 1 if those are not the same
static int xp_block(void (*body)(), const unsigned threads, const bool waits) {
  constexpr size_t size = 1 << 16;
  static char* const stacks = waits ? (char*)malloc(1024 * size) : nullptr;
  for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x) {
    if (!waits) { body(); continue; }
    ucontext_t& thread = xp_threads[threadIdx.x];
    getcontext(&thread);
    thread.uc_stack.ss_sp = stacks + threadIdx.x * size;
    thread.uc_stack.ss_size = size;
    thread.uc_link = &xp_scheduler;
    makecontext(&thread, body, 0);
  }
  for (int first = waits; first;) {
    for (unsigned t = 0; t < threads; ++t) {
      threadIdx.x = t;
      xp_barrier = 0;
      swapcontext(&xp_scheduler, &xp_threads[t]);
      if (t == 0) first = xp_barrier;
      else if (first != xp_barrier) return 1;
    }
  }
  return 0;
}
"""
_KERNEL = re.compile(r'extern "C" __global__ void __launch_bounds__\([^)]*\) (\w+)\((.*)\) {')
_DTYPES = {ctype: dtype for dtype, ctype in TYPES.items()}


def slice_function(source, name):
    """A kernel of slices as what `cupy` makes of it: ``function(grid, block, args)``."""
    entries = []
    declared = dict(_KERNEL.findall(source))
    waits = "true" if re.search(r"__syncthreads\(\);|xp_shuffle\(\w+,", source) else "false"
    for kernel, parameters in declared.items():
        types = [p.rpartition(" ")[0] for p in parameters.split(", ")]
        given = ", ".join(f"*({t}*)xp_args[{k}]" for k, t in enumerate(types))
        entries.append(f"""
static void xp_body_{kernel}() {{ {kernel}({given}); }}
extern "C" int run_{kernel}(unsigned columns, unsigned rows, unsigned threads, void** args) {{
  xp_args = args;
  xp_misaligned = false;
  for (blockIdx.y = 0; blockIdx.y < rows; ++blockIdx.y)
    for (blockIdx.x = 0; blockIdx.x < columns; ++blockIdx.x)
      if (xp_block(xp_body_{kernel}, threads, {waits})) return 1;
  return xp_misaligned ? 2 : 0;
}}""")
    checked = re.sub(r"reinterpret_cast<(.*?\*)>\(", r"xp_pointer<\1>::to(", source)
    run = getattr(library(header(_BLOCKS) + "\n".join([checked, *entries])), f"run_{name}")
    parameters = [p.rpartition(" ")[0] for p in declared[name].split(", ")]

    def call(grid, block, args):
        assert len(args) == len(parameters)
        held = []
        for value, kind in zip(args, parameters, strict=True):
            ctype = kind.removeprefix("const ").removesuffix(" const")
            dtype = "uint64" if "*" in kind else _DTYPES[ctype]
            held.append(np.array([value], dtype))
        pointers = (ctypes.c_void_p * len(held))(*(h.ctypes.data for h in held))
        (columns, rows), (threads,) = (*grid, 1)[:2], block
        assert threads <= 1024
        assert waits == "false" or threads % 32 == 0
        wrong = run(columns, rows, threads, pointers)
        assert not wrong, ("threads wait at different barriers", "misaligned addresses")[wrong - 1]

    return call
