"""Run the kernel of feature maps as host C++: all threads of a block, warps in lock step.

The text is that which a GPU would run; the functions that are instructions of a GPU, such as the
products of the tensor cores, are written again here, from their definition.
"""

from __future__ import annotations

import ctypes
import math
import re

import numpy as np
from host_cxx import header, library

from xpapply.codegen import ptx
from xpapply.codegen.access import geometry, placement
from xpapply.codegen.feature_maps import map_kernel
from xpapply.codegen.tensor_network import Target

_HOST = r"""
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <ucontext.h>
typedef unsigned int u32;
typedef unsigned long long u64;
#define XP_FN static inline
#define XP_ALL
#define XP_WARP 0xffffffffu
#define __device__
#define __forceinline__ inline
#define __global__
#define __constant__ static
#define __launch_bounds__(...)
#define __restrict__
#define __align__(n) alignas(n)
#define __shared__
typedef _Float16 float16;
struct uint2 { u32 x, y; };
struct alignas(16) uint4 { u32 x, y, z, w; };
struct Index { int x; };
static Index threadIdx, blockIdx, gridDim;
alignas(128) unsigned char shared[1 << 18];

// --- threads: each has a stack; a warp, or the block, goes on when all its threads wait --------
static ucontext_t xp_scheduler, xp_threads[1024];
static bool xp_backwards;
static int xp_state[1024];  // 0 runs, 1 waits for its warp, 2 for the block, 3 is done
static void xp_wait(const int state) {
  const int own = threadIdx.x;
  xp_state[own] = state;
  swapcontext(&xp_threads[own], &xp_scheduler);
}
static void (*xp_main)();
static void xp_entry() {
  xp_main();
  xp_state[threadIdx.x] = 3;
}
static int xp_block(const int threads) {
  constexpr size_t size = 1 << 17;
  static char* const stacks = (char*)malloc(1024 * size);
  for (int k = 0; k < threads; ++k) {
    getcontext(&xp_threads[k]);
    xp_threads[k].uc_stack.ss_sp = stacks + k * size;
    xp_threads[k].uc_stack.ss_size = size;
    xp_threads[k].uc_link = &xp_scheduler;
    makecontext(&xp_threads[k], xp_entry, 0);
    xp_state[k] = 0;
  }
  for (;;) {
    bool ran = false;
    for (int i = 0; i < threads; ++i) {
      const int k = xp_backwards ? threads - 1 - i : i;
      if (xp_state[k] != 0) continue;
      threadIdx.x = k;
      ran = true;
      swapcontext(&xp_scheduler, &xp_threads[k]);
    }
    for (int w = 0; w < threads; w += 32) {
      if (std::all_of(xp_state + w, xp_state + w + 32, [](int s) { return s == 1; })) {
        std::fill(xp_state + w, xp_state + w + 32, 0);
        ran = true;
      }
    }
    if (std::all_of(xp_state, xp_state + threads, [](int s) { return s == 2; })) {
      std::fill(xp_state, xp_state + threads, 0);
      ran = true;
    }
    if (std::all_of(xp_state, xp_state + threads, [](int s) { return s == 3; })) return 0;
    if (!ran) return 1;  // threads wait at different barriers
  }
}
static void __syncthreads() { xp_wait(2); }
static int xp_any;
static int __syncthreads_or(const int x) {
  xp_wait(2);
  xp_any = 0;
  xp_wait(2);
  xp_any |= x;
  xp_wait(2);
  return xp_any;
}
static float xp_floats[1024];
static float __shfl_xor_sync(const u32, const float x, const int mask) {
  xp_floats[threadIdx.x] = x;
  xp_wait(1);
  const float found = xp_floats[threadIdx.x ^ mask];
  xp_wait(1);
  return found;
}

// --- instructions ---------------------------------------------------------------------------
XP_FN float __uint_as_float(const u32 x) { float y; memcpy(&y, &x, 4); return y; }
XP_FN u32 __float_as_uint(const float x) { u32 y; memcpy(&y, &x, 4); return y; }
XP_FN float __int_as_float(const int x) { return __uint_as_float(x); }
XP_FN int __float_as_int(const float x) { return __float_as_uint(x); }
XP_FN void xp_fetch(const void*) {}
XP_FN u32 __umulhi(const u32 a, const u32 b) { return (u64)a * b >> 32; }
XP_FN int min(const int a, const int b) { return a < b ? a : b; }
XP_FN u32 __byte_perm(const u32 a, const u32 b, const u32 how) {
  const u64 both = (u64)b << 32 | a;
  u32 found = 0;
  for (int k = 0; k < 4; ++k) found |= (u32)(both >> 8 * (how >> 4 * k & 7) & 255) << 8 * k;
  return found;
}
XP_FN float xp_of_half(const u32 p) {
  const unsigned short s = p;
  float16 h; memcpy(&h, &s, 2); return (float)h;
}
XP_FN u32 xp_half(const float a) {
  const float16 h = (float16)a;
  unsigned short s; memcpy(&s, &h, 2); return s;
}
XP_FN u32 xp_bf16(const float a) {
  const u32 p = __float_as_uint(a);
  return std::isnan(a) ? 0x7fff : (p + 0x7fff + (p >> 16 & 1)) >> 16;
}
struct bfloat16 {
  unsigned short bits;
  bfloat16() = default;
  bfloat16(const float x) : bits(xp_bf16(x)) {}
  operator float() const { return __uint_as_float((u32)bits << 16); }
};
XP_FN u32 xp_pair(const float a, const float b) { return xp_half(b) << 16 | xp_half(a); }
XP_FN u32 xp_pair_bf16(const float a, const float b) { return xp_bf16(b) << 16 | xp_bf16(a); }
XP_FN void xp_unpair(const u32 p, float& a, float& b) {
  a = xp_of_half(p & 0xffff);
  b = xp_of_half(p >> 16);
}
XP_FN float xp_most(const float a, const float b) {
  return std::isnan(a) || std::isnan(b) ? NAN : std::max(a, fabsf(b));
}
XP_FN float xp_exp2(const float x) { return exp2f(x); }
XP_FN float xp_reciprocal(const float x) { return 1 / x; }
XP_FN float xp_divide(const float a, const float b) { return a / b; }
XP_FN float xp_exp(const float x) { return expf(x); }
XP_FN float xp_erfc(const float x) { return erfcf(x); }
// row g and column g; two terms of 16 bits in each word
static u32 xp_a[1024][4], xp_b[1024][2];
template <bool BF16> static float xp_term(const u32 p, const int c) {
  const u32 h = p >> 16 * c & 0xffff;
  return BF16 ? __uint_as_float(h << 16) : xp_of_half(h);
}
template <bool BF16>
static void xp_mma(float (&d)[4], const u32 (&a)[4], const u32 b0, const u32 b1) {
  const int own = threadIdx.x, first = own & ~31, g = (own & 31) >> 2, t = own & 3;
  memcpy(xp_a[own], a, 16);
  xp_b[own][0] = b0;
  xp_b[own][1] = b1;
  xp_wait(1);
  for (int e = 0; e < 4; ++e) {
    double sum = d[e];
    for (int k = 0; k < 16; ++k) {
      const int half = k >> 3, lane = (k & 7) >> 1, c = k & 1;
      const u32 left = xp_a[first + 4 * g + lane][2 * half + (e >> 1)];
      const u32 right = xp_b[first + 4 * (2 * t + (e & 1)) + lane][half];
      sum += (double)xp_term<BF16>(left, c) * xp_term<BF16>(right, c);
    }
    d[e] = (float)sum;
  }
  xp_wait(1);
}
XP_FN void xp_mma_f16(float (&d)[4], const u32 (&a)[4], const u32 b0, const u32 b1) {
  xp_mma<false>(d, a, b0, b1);
}
XP_FN void xp_mma_bf16(float (&d)[4], const u32 (&a)[4], const u32 b0, const u32 b1) {
  xp_mma<true>(d, a, b0, b1);
}
"""
_MARGIN = 64


def run_maps(
    graph,
    x,
    axis,
    precision="highest",
    plan=None,
    careful=False,
    few=False,
    backwards=False,
    tiles=None,
    out=None,
):
    """What the kernel computes of the slices along an axis of a NumPy array.

    `careful` runs the version of float32 alone, or never (None); `few` that for few slices;
    `backwards` lets the last thread run first wherever several could. With `tiles` the array has
    whole slices, and `graph` is that of a tile. Slices of bfloat16 are given as uint16. Results go
    to `out`, in memory order, if that is given.
    """
    slices = x.size // x.shape[axis]
    result = graph.result.shape if tiles is None else tiles.result_shape
    numbers = math.prod(result) if tiles is None else tiles.row
    before, behind = x.shape[:axis], x.shape[axis + 1 :]
    memory = np.full(slices * numbers + 2 * _MARGIN, 77, graph.result.dtype)
    if out is None:
        out = memory[_MARGIN:-_MARGIN].reshape(*before, *result, *behind)
        out[...] = np.nan
    access, given = geometry(x.shape, x.strides, x.itemsize, x.ctypes.data, axis, out.size)
    slices *= 1 if tiles is None else tiles.count
    given = (slices, *given[1:], *placement(access, given[1], numbers))
    text = map_kernel(graph, access, Target("mma", precision, few=few), plan, tiles)
    source = text.source
    for device in (ptx.LIBRARY, ptx.mma("f16"), ptx.mma("bf16")):
        source = source.replace(device, "")
    source = re.sub(r"(?m)^XP_FN [^{]*\{[^}]*\basm\([^}]*\}\n", "", source)  # written again above
    source = re.sub(r"#pragma .*", "", source)
    source = source.replace("extern __align__(128) unsigned char shared[];", "")
    source = source.replace("extern __shared__ __align__(128) unsigned char shared[];", "")
    half = "xp_bf16" if precision == "medium" else "xp_half"
    source = source.replace("xp_half_of(", f"{half}(")
    if careful:
        source = source.replace("int seen = 0;", "int seen = XP_NEVER;")
    if careful is None:
        source = re.sub(r"if \(never [^{]*\{", r"\g<0> abort();", source)
    names = re.findall(r"const long long (\w+)", source)
    types = "const IN*", "const uint4*", "OUT*"
    pointers = ", ".join(f"({t})xp_given[{k}]" for k, t in enumerate(types))
    rest = "".join(f", (long long)xp_given[{k + 3}]" for k in range(len(names)))
    source = f"""{header(_HOST)}{source}
static unsigned long long* xp_given;
static void xp_call() {{ {text.name}({pointers}{rest}); }}
extern "C" int run(int blocks, int threads, int backwards, unsigned long long* given) {{
  xp_backwards = backwards;
  xp_given = given;
  xp_main = xp_call;
  gridDim.x = blocks;
  for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x) {{
    memset(shared, 0xff, sizeof shared);  // NaN
    if (xp_block(threads)) return 1;
    for (size_t k = {text.shared}; k < sizeof shared; ++k)
      if (shared[k] != 0xff) return 2;  // written beyond what the block asked for
  }}
  return 0;
}}
"""
    packed = text.pack(graph.consts)
    aligned = np.zeros(packed.size + 16, np.uint8)
    shift = -aligned.ctypes.data % 16
    aligned[shift : shift + packed.size] = packed
    numbers_given = [given[k] for k in text.arguments]
    values = [x.ctypes.data, aligned[shift:].ctypes.data, out.ctypes.data, *numbers_given]
    words = (ctypes.c_ulonglong * len(values))(*(v % 2**64 for v in values))
    blocks = min(2, -(-slices // text.slices))
    assert text.shared <= 1 << 18
    assert library(source).run(blocks, text.threads, backwards, words) == 0
    assert (memory[:_MARGIN] == 77).all()
    assert (memory[-_MARGIN:] == 77).all()
    return out
