"""CUDA device functions of kernels that hold feature maps in shared memory, as text.

A number of a map is one word: float32, or, where products read it, its two float16 halves, the
upper one in the low bits. Left factors of the tensor cores' products are put together
from such words wherever they lie: that is what makes a convolution a product. Where one half is
enough, the other one of a word is that of a number some words further: pairs of terms are read
as they are.
"""

LIBRARY = """
// Two words of halves as pairs: those of the upper halves, and of the lower ones.
XP_FN u32 xp_uppers(const u32 a, const u32 b) { return __byte_perm(a, b, 0x5410); }
XP_FN u32 xp_lowers(const u32 a, const u32 b) { return __byte_perm(a, b, 0x7632); }

XP_FN u32 xp_halves(const float v) {
  float upper, zero;
  xp_unpair(xp_pair(v, 0), upper, zero);
  return xp_pair(v, v - upper);
}

// The largest magnitude, or NaN.
XP_FN float xp_most(const float a, const float b) {
  float y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(fabsf(b)));
  return y;
}

// What was seen of a slice's map: a number that is not small, or none but small ones and zeros.
XP_FN void xp_look(int* const large, int* const small, const float top) {
  if (top >= XP_LEAST) *large = 1;
  else if (top != 0) *small = 1;
}

// tanh: 1 - 2 / (exp(2 x) + 1), and x + x^3 P(x^2) for small numbers, as `xp_tanh` of whole tiles.
XP_FN float xp_tanh_of(const float x) {
  const float s = x * x;
  const float large = fmaf(-2, xp_reciprocal(xp_exp2(x * 2.8853900817779268f) + 1), 1);
  float p = -0.005895073f;
  p = fmaf(p, s, 0.020795907f);
  p = fmaf(p, s, -0.053783814f);
  p = fmaf(p, s, 0.133319240f);
  p = fmaf(p, s, -0.333332980f);
  return s < 0.36f ? fmaf(x * s, p, x) : large;
}

XP_FN float xp_whole(const u32 p) {
  float hi, lo;
  xp_unpair(p, hi, lo);
  return hi + lo;
}

// Four terms of a place: at p, and D1, D2 and D1 + D2 words further. They are a[H] and a[2 + H] of
// a left factor, for row H of the two that a lane has. FORM: 0 for halves, 1 for float32 as halves,
// 2 for float32 as bfloat16, 3 for words that are pairs of terms already.
template <int D1, int D2, int FORM, int H>
XP_FN void xp_terms(const u32* const p, const float scale, u32 (&hi)[4], u32 (&lo)[4],
                    float& odd) {
  if constexpr (FORM == 3) {
    hi[H] = p[0];
    hi[2 + H] = p[D2];
    return;
  }
  const u32 w0 = p[0], w1 = p[D1], w2 = p[D2], w3 = p[D1 + D2];
  if constexpr (FORM == 0) {
    hi[H] = xp_uppers(w0, w1);
    hi[2 + H] = xp_uppers(w2, w3);
    lo[H] = xp_lowers(w0, w1);
    lo[2 + H] = xp_lowers(w2, w3);
    return;
  }
  const float a = __uint_as_float(w0) * scale, b = __uint_as_float(w1) * scale,
              c = __uint_as_float(w2) * scale, d = __uint_as_float(w3) * scale;
  if constexpr (FORM == 2) {
    hi[H] = xp_pair_bf16(a, b);
    hi[2 + H] = xp_pair_bf16(c, d);
    return;
  }
  float r, s;
  hi[H] = xp_pair(a, b);
  xp_unpair(hi[H], r, s);
  odd = fmaf(r, 0, fmaf(s, 0, odd));
  lo[H] = xp_pair(a - r, b - s);
  hi[2 + H] = xp_pair(c, d);
  xp_unpair(hi[2 + H], r, s);
  odd = fmaf(r, 0, fmaf(s, 0, odd));
  lo[2 + H] = xp_pair(c - r, d - s);
}

// Sums for 16 M places and 8 N outputs, of STEPS steps: `start` says by how many bytes the words of
// a step lie behind those of `at`, `weights` which weights it has. float32 adds up what PIECE steps
// gave: tensor cores cut off bits below the largest term.
template <int M, int N, int STEPS, int PIECE, int D1, int D2, int FORM, typename Start,
          typename Weights>
XP_FN void xp_products(float (&d)[M][N][4], const u32* const (&at)[M][2], const Start& start,
                       const Weights& weights, const float scale, float& odd) {
  const auto add = [&](float (&sums)[M][N][4], const int s) {
    const int by = start(s);
    u32 hi[M][4], lo[M][4];
    XP_ALL for (int m = 0; m < M; ++m) {
      const auto word = [&](const int h) { return (const u32*)((const char*)at[m][h] + by); };
      xp_terms<D1, D2, FORM, 0>(word(0), scale, hi[m], lo[m], odd);
      xp_terms<D1, D2, FORM, 1>(word(1), scale, hi[m], lo[m], odd);
    }
    XP_ALL for (int n = 0; n < N; ++n) {
      const W b = weights(n, s);
      XP_ALL for (int m = 0; m < M; ++m) xp_part(sums[m][n], hi[m], lo[m], b);
    }
  };
  XP_ALL for (int m = 0; m < M; ++m)
    XP_ALL for (int n = 0; n < N; ++n) XP_ALL for (int e = 0; e < 4; ++e) d[m][n][e] = 0;
  if constexpr (STEPS <= XP_FEW) {
    XP_ALL for (int s = 0; s < PIECE; ++s) add(d, s);
  } else {
#pragma unroll 4
    for (int s = 0; s < PIECE; ++s) add(d, s);
  }
  const auto further = [&](const int first) {
    float part[M][N][4] = {};
    XP_ALL for (int k = 0; k < PIECE; ++k)
      if (STEPS % PIECE == 0 || first + k < STEPS) add(part, first + k);
    XP_ALL for (int m = 0; m < M; ++m)
      XP_ALL for (int n = 0; n < N; ++n)
        XP_ALL for (int e = 0; e < 4; ++e) d[m][n][e] += part[m][n][e];
  };
  if constexpr (STEPS <= XP_FEW) {
    XP_ALL for (int first = PIECE; first < STEPS; first += PIECE) further(first);
  } else {
#pragma unroll 2
    for (int first = PIECE; first < STEPS; first += PIECE) further(first);
  }
}
"""


def part(precision: str) -> str:
    """Device functions that add one step to a tile of sums, and convert halves."""
    kind = "bf16" if precision == "medium" else "f16"
    lines = [f"xp_mma_{kind}(d, hi, b.x, b.y);"]
    if precision == "highest":
        lines = [f"xp_mma_{kind}(d, lo, b.x, b.y);", f"xp_mma_{kind}(d, hi, b.z, b.w);", *lines]
    dtype = "bf16" if precision == "medium" else "f16"
    word = "uint4" if precision == "highest" else "uint2"
    return f"""
typedef {word} W;
XP_FN void xp_part(float (&d)[4], const u32 (&hi)[4], const u32 (&lo)[4], const W b) {{
  {" ".join(lines)}
}}
XP_FN unsigned short xp_half_of(const float v) {{
  unsigned short h;
  asm("cvt.rn.{dtype}.f32 %0, %1;" : "=h"(h) : "f"(v));
  return h;
}}
"""
