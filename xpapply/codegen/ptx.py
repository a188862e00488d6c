"""CUDA device functions for products on tensor cores, as text.

Two kinds of tensor-core instruction, which hold their values alike. Lane
``4 g + t`` of a warp has, of a tile of 16 slices and 8 features, the features
``2 t, 2 t + 1`` of the slices ``g`` and ``g + 8``: four numbers ``v[j][e]`` for
tile `j`, feature ``8 j + 2 t + (e & 1)``, slice ``g + 8 (e >> 1)``. Two such tiles
of a product's result, rounded to 16 bits, are the left factor of the next
product, so that layers follow each other without moving data between lanes.

A float32 number is split into two float16 numbers, ``a = hi + lo``, and a
product is ``lo W_hi + hi W_lo + hi W_hi`` (Ootomo and Yokota 2022, arXiv
2203.03341), the small terms first. float16 has a small range: factors are
scaled by powers of two, and slices that leave the range are scaled again, each
by its own power of two, so that every finite input keeps its accuracy.
"""

from __future__ import annotations

from .cxx import BFLOAT16, FLOAT16

LEAST = 4.0
"""A slice whose largest scaled number is smaller would lose bits of `lo`."""

LIBRARY = (
    """
typedef unsigned int u32;
typedef unsigned long long u64;
#define XP_FN __device__ __forceinline__
#define XP_ALL _Pragma("unroll")
#define XP_WARP 0xffffffffu
"""
    + FLOAT16 % ("XP_FN", "XP_FN")
    + BFLOAT16 % ("XP_FN", "XP_FN")
    + """template <typename E, int N> struct alignas(sizeof(E) * N) xp_vector { E a[N]; };

XP_FN void xp_fetch(const void* const p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }

// --- elementwise functions that are fast and as accurate as needed ---------------------

XP_FN float xp_exp2(const float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
XP_FN float xp_reciprocal(const float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
XP_FN float xp_divide(const float a, const float b) {  // like __fdividef, and for b beyond 2^126
  float y;
  asm("div.full.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
XP_FN float xp_exp(const float x) { return xp_exp2(x * 1.4426950408889634f); }
// exp(-x^2) t P(t) with t = 1 / (1 + |x| / 2), the form of Abramowitz and Stegun 7.1.26; P of
// degree 8 was fitted to scipy.special.erfcx, its largest relative error is 4.4e-8.
XP_FN float xp_erfc(const float x) {
  const float t = xp_reciprocal(fmaf(fabsf(x), 0.5f, 1.0f));
  float p = -0.059193565f;
  p = fmaf(p, t, 0.285183928f);
  p = fmaf(p, t, -0.488463062f);
  p = fmaf(p, t, 0.279514968f);
  p = fmaf(p, t, -0.027624973f);
  p = fmaf(p, t, 0.203110529f);
  p = fmaf(p, t, 0.242996473f);
  p = fmaf(p, t, 0.282390085f);
  p = fmaf(p, t, 0.282085574f);
  p *= t * xp_exp2(x * x * -1.4426950408889634f);
  return x < 0 ? 2 - p : p;
}

// --- rounding and splitting ------------------------------------------------------------

XP_FN u32 xp_pair(const float a, const float b) {
  u32 p;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(p) : "f"(b), "f"(a));
  return p;
}
XP_FN u32 xp_pair_bf16(const float a, const float b) {
  u32 p;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(p) : "f"(b), "f"(a));
  return p;
}
XP_FN void xp_unpair(const u32 p, float& a, float& b) {
  asm("{.reg .f16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h;}"
      : "=f"(a), "=f"(b) : "r"(p));
}
// The largest of what has been rounded: infinity shows in it.
template <int K> XP_FN void xp_see(u32& seen, const u32 (&hi)[K][4]) {
  XP_ALL for (int s = 0; s < K; ++s) {
    XP_ALL for (int c = 0; c < 4; ++c) {
#if __CUDA_ARCH__ >= 860
      asm("max.xorsign.abs.f16x2 %0, %0, %1;" : "+r"(seen) : "r"(hi[s][c]));
#else
      asm("max.f16x2 %0, %0, %1;" : "+r"(seen) : "r"(hi[s][c] & 0x7fff7fffu));
#endif
    }
  }
}
XP_FN bool xp_infinite(const u32 seen) {
  return (seen & 0x7fffu) == 0x7c00u || (seen >> 16 & 0x7fffu) == 0x7c00u;
}

// Left factors from values.
template <int T>
XP_FN void xp_split(const float (&v)[T][4], u32 (&hi)[(T + 1) / 2][4], u32 (&lo)[(T + 1) / 2][4]) {
  XP_ALL for (int j = 0; j < T; ++j) {
    XP_ALL for (int h = 0; h < 2; ++h) {
      const float a = v[j][2 * h], b = v[j][2 * h + 1];
      const u32 p = xp_pair(a, b);
      float c, d;
      xp_unpair(p, c, d);
      hi[j / 2][j % 2 * 2 + h] = p;
      lo[j / 2][j % 2 * 2 + h] = xp_pair(a - c, b - d);
    }
  }
  if (T % 2) hi[T / 2][2] = hi[T / 2][3] = lo[T / 2][2] = lo[T / 2][3] = 0;
}
template <int T, bool BF16>
XP_FN void xp_round(const float (&v)[T][4], u32 (&hi)[(T + 1) / 2][4]) {
  XP_ALL for (int j = 0; j < T; ++j) {
    XP_ALL for (int h = 0; h < 2; ++h) {
      const float a = v[j][2 * h], b = v[j][2 * h + 1];
      hi[j / 2][j % 2 * 2 + h] = BF16 ? xp_pair_bf16(a, b) : xp_pair(a, b);
    }
  }
  if (T % 2) hi[T / 2][2] = hi[T / 2][3] = 0;
}
// The largest magnitude of each slice, as far as this lane has it.
template <int T>
XP_FN void xp_top(const float (&v)[T][4], float (&top)[2]) {
  XP_ALL for (int j = 0; j < T; ++j)
    XP_ALL for (int e = 0; e < 4; ++e) top[e >> 1] = fmaxf(top[e >> 1], fabsf(v[j][e]));
}
XP_FN void xp_over_lanes(float (&top)[2]) {
  XP_ALL for (int h = 0; h < 2; ++h) {
    top[h] = fmaxf(top[h], __shfl_xor_sync(XP_WARP, top[h], 1));
    top[h] = fmaxf(top[h], __shfl_xor_sync(XP_WARP, top[h], 2));
  }
}
// A power of two for each slice that brings its largest number into range; results have to be
// multiplied by `back`.
XP_FN void xp_factor(const float (&top)[2], float (&factor)[2], float (&back)[2],
                     bool (&infinite)[2]) {
  XP_ALL for (int h = 0; h < 2; ++h) {
    const int exponent = __float_as_uint(top[h]) >> 23;
    infinite[h] = exponent == 255;
    int by = exponent - (127 + 12);
    by = by < -126 ? -126 : by;
    if (infinite[h] || top[h] == 0) by = 0;
    factor[h] = __uint_as_float((127 - by) << 23);
    back[h] = __uint_as_float((127 + by) << 23);
  }
}
// Infinity decides its sums alone: it goes where it meets only W_hi, and all else is left out.
template <int T, bool LO>
XP_FN void xp_split_by(const float (&v)[T][4], u32 (&hi)[(T + 1) / 2][4],
                       u32 (&lo)[(T + 1) / 2][4], const float (&factor)[2],
                       const bool (&infinite)[2]) {
  XP_ALL for (int j = 0; j < T; ++j) {
    XP_ALL for (int h = 0; h < 2; ++h) {
      float a = v[j][2 * h] * factor[h], b = v[j][2 * h + 1] * factor[h], c, d;
      if (infinite[h]) {
        a = fabsf(a) < __uint_as_float(0x7f800000) ? 0 : a;
        b = fabsf(b) < __uint_as_float(0x7f800000) ? 0 : b;
      }
      const u32 p = xp_pair(a, b);
      xp_unpair(p, c, d);
      hi[j / 2][j % 2 * 2 + h] = LO && infinite[h] ? 0 : p;
      if (LO) lo[j / 2][j % 2 * 2 + h] = infinite[h] ? p : xp_pair(a - c, b - d);
    }
  }
  if (T % 2) hi[T / 2][2] = hi[T / 2][3] = 0;
  if (T % 2 && LO) lo[T / 2][2] = lo[T / 2][3] = 0;
}
// Left factors of values whose range is looked at: split again where the largest number of a
// slice lies beyond what float16 holds, or so low that it loses bits. 1 is what `back` is else.
template <int T, bool LO>
XP_FN void xp_into_range(const float (&v)[T][4], u32 (&hi)[(T + 1) / 2][4],
                         u32 (&lo)[(T + 1) / 2][4], float (&back)[2]) {
  float top[2] = {}, factor[2];
  bool infinite[2], fine = true;
  xp_top<T>(v, top);
  xp_over_lanes(top);
  XP_ALL for (int h = 0; h < 2; ++h) {
    fine &= top[h] == 0 || (top[h] >= XP_LEAST && top[h] <= 65504);
    back[h] = 1;
  }
  if (__all_sync(XP_WARP, fine)) return;
  xp_factor(top, factor, back, infinite);
  xp_split_by<T, LO>(v, hi, lo, factor, infinite);
}

// --- sums over the four lanes of a slice -----------------------------------------------

XP_FN float xp_sum4(float s) {
  s += __shfl_xor_sync(XP_WARP, s, 1);
  return s + __shfl_xor_sync(XP_WARP, s, 2);
}

// Sums over the four lanes of N values: lane t gets those of the values t, 4 + t ...
template <int N> XP_FN void xp_deal(float (&s)[N], const int t) {
  const bool odd = t & 1, high = t & 2;
  XP_ALL for (int q = 0; q < N / 2; ++q) {
    const float mine = odd ? s[2 * q + 1] : s[2 * q], other = odd ? s[2 * q] : s[2 * q + 1];
    s[q] = mine + __shfl_xor_sync(XP_WARP, other, 1);
  }
  XP_ALL for (int q = 0; q < N / 4; ++q) {
    const float mine = high ? s[2 * q + 1] : s[2 * q], other = high ? s[2 * q] : s[2 * q + 1];
    s[q] = mine + __shfl_xor_sync(XP_WARP, other, 2);
  }
}

// --- tanh of whole tiles ---------------------------------------------------------------

// 1 - 2 / (exp(2 x) + 1), one reciprocal for two numbers. Its error is absolute, so slices that
// have only small numbers take the slow way, which has x + x^3 P(x^2) for small numbers; P, of
// degree 4, was fitted to (tanh(x) - x) / x^3, its largest error relative to tanh is 3e-9.
template <int T>
XP_FN void xp_tanh(float (&v)[T][4]) {
  float squares[2] = {};
  XP_ALL for (int j = 0; j < T; ++j)
    XP_ALL for (int e = 0; e < 4; ++e) squares[e >> 1] = fmaf(v[j][e], v[j][e], squares[e >> 1]);
  XP_ALL for (int h = 0; h < 2; ++h) squares[h] = xp_sum4(squares[h]);
  if (__all_sync(XP_WARP, squares[0] >= 0.0625f && squares[1] >= 0.0625f)) {
    XP_ALL for (int j = 0; j < T; ++j) {
      XP_ALL for (int h = 0; h < 2; ++h) {
        float a, b;
        asm("min.NaN.f32 %0, %1, 0f41F00000;" : "=f"(a) : "f"(v[j][2 * h] * 2.8853900817779268f));
        asm("min.NaN.f32 %0, %1, 0f41F00000;" : "=f"(b)
            : "f"(v[j][2 * h + 1] * 2.8853900817779268f));
        a = xp_exp2(a) + 1;
        b = xp_exp2(b) + 1;
        const float r = -2 * xp_reciprocal(a * b);
        v[j][2 * h] = fmaf(r, b, 1);
        v[j][2 * h + 1] = fmaf(r, a, 1);
      }
    }
  } else {
    XP_ALL for (int j = 0; j < T; ++j) {
      XP_ALL for (int e = 0; e < 4; ++e) {
        const float x = v[j][e], s = x * x;
        const float large = fmaf(-2, xp_reciprocal(xp_exp2(x * 2.8853900817779268f) + 1), 1);
        float p = -0.005895073f;
        p = fmaf(p, s, 0.020795907f);
        p = fmaf(p, s, -0.053783814f);
        p = fmaf(p, s, 0.133319240f);
        p = fmaf(p, s, -0.333332980f);
        v[j][e] = s < 0.36f ? fmaf(x * s, p, x) : large;
      }
    }
  }
}
"""
)

WGMMA = """
// Right factors are read from shared memory: blocks of 8 features by 8 terms of 128 bytes each.
XP_FN u64 xp_descriptor(const void* const p) {
  const u64 at = (u64)__cvta_generic_to_shared(p);
  return at >> 4 | (u64)(128 >> 4) << 16 | (u64)(256 >> 4) << 32;
}
XP_FN void xp_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
XP_FN void xp_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> XP_FN void xp_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}
template <int T> XP_FN void xp_hold(float (&d)[T][4]) {  // nothing moves across
  XP_ALL for (int j = 0; j < T; ++j)
    XP_ALL for (int e = 0; e < 4; ++e) asm volatile("" : "+f"(d[j][e])::"memory");
}
XP_FN void xp_meet() {  // the four warps
  asm volatile("barrier.cta.sync %0, 128;" ::"r"(1 + (int)(threadIdx.x >> 7)) : "memory");
}
"""

STREAM = """
// Weights that do not fit in shared memory come in chunks, through stages: one warp copies, the
// others wait for a stage to be full and say when it may be filled again.
__shared__ u64 xp_full[XP_STAGES], xp_empty[XP_STAGES];
XP_FN u32 xp_shared(const void* const p) { return (u32)__cvta_generic_to_shared(p); }
XP_FN void xp_barrier(u64* const b, const int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(xp_shared(b)), "r"(count));
}
XP_FN void xp_await(const u64* const b, const u32 phase) {
  asm volatile("{.reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; "
    "@p bra done; bra again; done: }" ::"r"(xp_shared(b)), "r"(phase) : "memory");
}
XP_FN void xp_release(const u64* const b) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(xp_shared(b)) : "memory");
}
template <int STAGES> XP_FN void xp_next(u32& stage, u32& phase) {
  if (++stage == STAGES) {
    stage = 0;
    phase ^= 1;
  }
}
XP_FN void xp_bulk(const void* const to, const void* const from, const int bytes,
                   u64* const full) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
    ::"r"(xp_shared(full)), "r"(bytes) : "memory");
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
    "[%0], [%1], %2, [%3];"
    ::"r"(xp_shared(to)), "l"(from), "r"(bytes), "r"(xp_shared(full)) : "memory");
}
XP_FN void xp_copy(const unsigned char* const ring, const unsigned char* const from,
                   const int (&chunk)[2], u32& stage, u32& phase) {
  xp_await(xp_empty + stage, phase);
  xp_bulk(ring + stage * XP_STAGE_BYTES, from + chunk[0], chunk[1], xp_full + stage);
  xp_next<XP_STAGES>(stage, phase);
}
"""

MMA = """
XP_FN void xp_meet() { __syncwarp(); }
"""


def wgmma(tiles: int, dtype: str) -> str:
    """``d[tiles][4] (+)= a * b``: 64 slices, 16 terms, 8 features per tile."""
    n = 4 * tiles
    d = ", ".join(f"%{i}" for i in range(n))
    outputs = ", ".join(f'"+f"(d[{i // 4}][{i % 4}])' for i in range(n))
    return f"""
XP_FN void xp_wgmma_{dtype}(
    float (&d)[{tiles}][4], const u32 (&a)[4], const u64 b, const int more) {{
  asm volatile("{{.reg .pred p; setp.ne.b32 p, %{n + 5}, 0; "
    "wgmma.mma_async.sync.aligned.m64n{8 * tiles}k16.f32.{dtype}.{dtype} {{{d}}}, "
    "{{%{n}, %{n + 1}, %{n + 2}, %{n + 3}}}, %{n + 4}, p, 1, 1, 0;}}"
    : {outputs} : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(more));
}}
"""


def mma(dtype: str) -> str:
    """``d += a * b``: 16 slices, 16 terms, 8 features."""
    return f"""
XP_FN void xp_mma_{dtype}(float (&d)[4], const u32 (&a)[4], const u32 b0, const u32 b1) {{
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.{dtype}.{dtype}.f32 "
    "{{%0, %1, %2, %3}}, {{%4, %5, %6, %7}}, {{%8, %9}}, {{%0, %1, %2, %3}};"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}}
"""
