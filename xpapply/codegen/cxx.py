"""Names of types, numbers and elementwise expressions in C++.

What is written here compiles as CUDA (NVRTC) and, unchanged, as host C++: so
that tests without a GPU run the very text that a GPU would.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable

import numpy as np

from ..functions.cache import remembered
from ..ir.graph import Graph, number
from ..ir.ops import OPS, Op

TYPES = {
    "bool": "bool",
    "int8": "signed char",
    "uint8": "unsigned char",
    "int16": "short",
    "uint16": "unsigned short",
    "int32": "int",
    "uint32": "unsigned int",
    "int64": "long long",
    "uint64": "unsigned long long",
    "float16": "float16",
    "float32": "float",
    "float64": "double",
}
"""C++ types by dtype; ``float16`` is CuPy's class."""

FLOAT16 = """
struct float16 {
  unsigned short bits;
  float16() = default;
  %s float16(const float x) { asm("cvt.rn.f16.f32 %%0, %%1;" : "=h"(bits) : "f"(x)); }
  %s operator float() const {
    float x;
    asm("cvt.f32.f16 %%0, %%1;" : "=f"(x) : "h"(bits));
    return x;
  }
};
"""
"""The class of float16 where CuPy's is not at hand; ``%`` it by what functions are declared as."""

BFLOAT16 = """
struct bfloat16 {
  unsigned short bits;
  bfloat16() = default;
  %s bfloat16(const float x) { asm("cvt.rn.bf16.f32 %%0, %%1;" : "=h"(bits) : "f"(x)); }
  %s operator float() const { return __uint_as_float((unsigned int)bits << 16); }
};
"""
"""The class of bfloat16, likewise. CuPy has none: only kernels that get addresses can use it."""

HELPERS = """
template <typename T> __device__ __forceinline__ T xpapply_relu(const T x) {
  return x < T(0) ? T(0) : x;
}
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
// one instruction instead of two; fmaxf would lose NaN
template <> __device__ __forceinline__ float xpapply_relu<float>(const float x) {
  float y;
  asm("max.NaN.f32 %0, %1, 0f00000000;" : "=f"(y) : "f"(x));
  return y;
}
#endif
"""
"""Functions that expressions call."""


def helpers(graph: Graph) -> str:
    """What stands before a kernel of CuPy's classes of kernels.

    They include float16 for what they are given and give, and not for numbers in between.
    """
    halves = any(n.aval.dtype == "float16" for n in graph.nodes)
    include = "#if __has_include(<cupy/float16.cuh>)\n#include <cupy/float16.cuh>\n#endif\n"
    return include * halves + HELPERS


_FUNCTION = re.compile(r"\b(?!xp)([a-z]\w*)\(")
_T = re.compile(r"\bT\b")
_MADE = re.compile(r"\bT(?=\()")


def literal(value: float, dtype: str) -> str:
    """A number of a dtype."""
    if dtype == "bool":
        return "true" if value else "false"
    suffix = "f" if dtype == "float32" else ""
    if math.isnan(value):
        return f"(0.0{suffix} / 0.0{suffix})"
    if math.isinf(value):
        return f"({'-' if value < 0 else ''}1.0{suffix} / 0.0{suffix})"
    text = f"{np.float32(value):.9g}" if dtype == "float32" else repr(float(value))
    if not any(c in text for c in ".e"):
        text += ".0"
    return f"({text}{suffix})" if text.startswith("-") else text + suffix


@remembered(512)
def of_float32(c: str) -> str:
    """An expression of the table with C's names of its functions for float32.

    So there is no doubt about the overload. Functions of this package, ``xp...``, are templates.
    """
    return _FUNCTION.sub(r"\1f(", c)


def expression(c: str, args: Iterable[str], ctype: str) -> str:
    """An expression of the table on these operands, of which ``T`` is the type."""
    if " " in ctype:  # C++ has no long long(x)
        c = _MADE.sub(f"({ctype})", c)
    return _T.sub(ctype, c.format(*args))


def statements(
    graph: Graph,
    nodes: Iterable[int],
    operand: Callable[[int], str],
    suffix: str = "",
    form: Callable[[Op], str] = lambda row: row.c,
) -> list[str]:
    """Declare one ``const`` variable ``t<i>`` per elementwise node.

    `operand` names the values that come from outside `nodes`; numbers are
    written in place. `form` chooses the expression of a row.
    """
    inside = set(nodes)

    def name(a: int) -> str:
        node = graph.nodes[a]
        if a in inside:
            return f"t{a}{suffix}"
        if node.op == "scalar":
            return literal(number(node), node.aval.dtype)
        return operand(a)

    lines = []
    for i in sorted(inside):
        node = graph.nodes[i]
        ctype = TYPES[node.aval.dtype]
        c = form(OPS[node.op])
        if graph.nodes[node.args[-1]].aval.dtype == "float32":
            c = of_float32(c)
        lines.append(f"const {ctype} t{i}{suffix} = {expression(c, map(name, node.args), ctype)};")
    return lines
