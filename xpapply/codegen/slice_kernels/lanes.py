"""Exchange between neighbouring threads: the lanes of a slice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ...ir.graph import Node
from ...ir.ops import OPS
from ..cxx import TYPES
from .elements import form, indented
from .sharing import Sharing

SHUFFLE = """
template <class T> XP_DEVICE T xp_shuffle(const T x, const int mask) {
  constexpr int N = (sizeof(T) + 3) / 4;
  union { T whole; unsigned words[N]; } from, to;
  from.words[N - 1] = 0;
  from.whole = x;
  XP_UNROLL
  for (int i = 0; i < N; ++i) to.words[i] = __shfl_xor_sync(0xffffffffu, from.words[i], mask);
  return to.whole;
}
"""
"""Any value of another lane, in words of 32 bits."""
NOWHERE = "9223372036854775807ll"
"""A position that no element has."""


def halves(n: int) -> Iterable[int]:
    """Distances of lanes that are joined, one after the other."""
    while n > 1:
        n //= 2
        yield n


def in_warps(s: Sharing, ctype: str, name: str, body: Sequence[str]) -> list[str]:
    """Lanes of a slice that are far apart: bring what they have together in a warp, and back.

    `body` makes `name` of all lanes ``l`` the same.
    """
    row = s.slices + 1  # one more than there are: no two lanes of a slice in one bank
    return [
        "{",
        f"  {ctype}* const all = reinterpret_cast<{ctype}*>(xp_shared);",
        "  __syncthreads();",
        f"  all[lane * {row} + (int)local] = {name};",
        "  __syncthreads();",
        f"  const int l = threadIdx.x % {s.lanes}, of = threadIdx.x / {s.lanes};",
        f"  {name} = all[l * {row} + of];",
        *indented(body),
        f"  if (l == 0) all[of] = {name};",  # before any other reads
        "  __syncthreads();",
        f"  {name} = all[(int)local];",
        "}",
    ]


def share(n: Node, name: str, dtype: str, width: int, emit: Callable[[str], Any]) -> None:
    """A reduction of the table over neighbouring threads: afterwards all of them have it."""
    for offset in halves(width):
        other = f"const {TYPES[dtype]} other = xp_shuffle({name}, {offset});"
        if not OPS[n.op].finds_position:
            emit(f"{{ {other} {name} = {form(n.op, dtype).format(name, 'other')}; }}")
            continue
        same = f"(other == {name} || (other != other && {name} != {name}))"
        emit(f"{{ {other}")
        emit(f"  const long long other_at = xp_shuffle({name}_at, {offset});")
        emit(
            f"  if (other_at != {NOWHERE} && ({name}_at == {NOWHERE} || "
            f"({OPS[n.op].c.format(name, 'other')}) || ({same} && other_at < {name}_at)))"
            f" {{ {name} = other; {name}_at = other_at; }} }}"
        )
