"""The kernel that takes slices down decision trees: tree by tree, some slices at a time.

The nodes of a tree stay in the cache while all slices of a block go down it. A step is two loads
and a comparison, the second of which waits for the first; so several slices go down side by side,
and nothing branches on where they go.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..trees import CHILD_SHIFT, FEATURE_BITS, WIDE_AFTER
from .registers import INDEX, POINTER, Register, Type
from .target import Target
from .writer import Writer

NAME = "xpapply_trees"
ARGUMENTS = ("x", "nodes", "values", "trees", "y", "slices", "tree_count")
"""Arguments of the kernel, 64 bits each: addresses, then counts.

x, y
    Slices and sums, the numbers of each side by side: ``(slices, features)`` and
    ``(slices, width)``. What the leaves have is added to `y`, tree by tree.
nodes, values, trees
    As `codegen.trees.Packed` has them.
"""

_TOGETHER = 16
"""Slices that go down side by side."""
_STEPS = 4
"""Steps between two questions whether all are at a leaf."""
_UNROLLED = 8
"""Numbers of a leaf up to which no loop is written."""


def trees_kernel(
    dtype: str, features: int, width: int, small: bool, ways: bool, target: Target
) -> str:
    """The text of a kernel.

    Parameters
    ----------
    dtype : str
        Of the slices: float32 or float64.
    features, width : int
        Numbers of a slice, and of a result.
    small : bool
        Whether nodes have 8 bytes.
    ways : bool
        Whether there may be NaN among the slices.
    target : Target
        The CPU.
    """
    writer = Writer(target)
    step = _Step(writer, dtype, features, small, ways)

    def body(*given: Register) -> None:
        a = dict(zip(ARGUMENTS, given, strict=True))

        def of_tree(t: Register) -> None:
            at = writer.offset(a["trees"], t * 2, "i64")
            root = writer.load(at, INDEX)
            depth = writer.load(writer.offset(at, 1, "i64"), INDEX)
            nodes = writer.offset(a["nodes"], root * step.node_bytes, "i8")
            values = writer.offset(a["values"], root * width, "double")
            rounds = writer.binary("", "lshr", depth + (_STEPS - 1), _STEPS.bit_length() - 1)
            whole = a["slices"] & -_TOGETHER

            def several(i: Register, count: int = _TOGETHER) -> None:
                x = writer.offset(a["x"], i * features, step.element)
                places = step.leaves(x, nodes, rounds, count)
                y = writer.offset(a["y"], i * width, "double")
                _added(writer, places, values, y, width)

            writer.loop(whole, several, step=_TOGETHER)
            writer.loop(a["slices"], lambda i: several(i, 1), start=whole)

        writer.loop(a["tree_count"], of_tree)

    pointers = ("x", "nodes", "values", "trees", "y")
    parameters = [(n, POINTER if n in pointers else INDEX) for n in ARGUMENTS]
    writer.kernel(NAME, parameters, body, noalias=pointers)
    return writer.text()


class _Step:
    """Writes the way of slices from the root of a tree to their leaves."""

    def __init__(self, writer: Writer, dtype: str, features: int, small: bool, ways: bool) -> None:
        self._writer, self._small, self._ways = writer, small, ways
        self.element = "float" if dtype == "float32" else "double"
        self.node_bytes = 8 if small else 16
        self._features = features

    def leaves(self, x: Register, nodes: Register, rounds: Register, count: int) -> list[Register]:
        """The places of the leaves, counted from the root, of `count` slices from `x` on."""
        w = self._writer
        rows = [w.offset(x, k * self._features, self.element) for k in range(count)]

        def round_(_: Register, going: Register, *places: Register) -> Sequence[Register]:
            def go() -> list[Register]:
                now = list(places)
                for _ in range(_STEPS):
                    before = now
                    now = [self._next(r, nodes, p) for r, p in zip(rows, before, strict=True)]
                moved = now[0] ^ before[0]
                for a, b in zip(now[1:], before[1:], strict=True):
                    moved = moved | (a ^ b)
                return [moved.ne(0), *now]

            return w.either(going, go, lambda: [going, *places])

        start = [w.constant(0, Type("i32")) for _ in range(count)]
        going = w.constant(True, Type("i1"))
        return w.loop(rounds, round_, [going, *start])[1:]

    def _next(self, row: Register, nodes: Register, place: Register) -> Register:
        """The node after `place` for a slice."""
        w = self._writer
        node = w.offset(nodes, w.cast(place, "i64", signed=False) * self.node_bytes, "i8")
        word_at = w.offset(node, self.node_bytes // 2, "i8")
        word = w.load(word_at, Type("i32"))
        if self._small:
            feature = word & ((1 << FEATURE_BITS) - 1)
            child = w.binary("", "lshr", word, CHILD_SHIFT)
            shift = FEATURE_BITS
        else:
            feature = word & ((1 << WIDE_AFTER) - 1)
            child = w.load(w.offset(node, 12, "i8"), Type("i32"))
            shift = WIDE_AFTER
        threshold = w.load(node, Type("float" if self._small else "double"))
        number = w.load(
            w.offset(row, w.cast(feature, "i64", signed=False), self.element), Type(self.element)
        )
        number = w.cast(number, threshold.type.element)
        second = w.cast(number > threshold, "i32", signed=False)
        if self._ways:
            after = w.binary("", "lshr", word, shift) & 1
            missing = w.cast(w.is_nan(number), "i32", signed=False)
            second = second | (missing & after)
        return child + second


def _added(
    w: Writer, places: Sequence[Register], values: Register, y: Register, width: int
) -> None:
    """Add what leaves have to the sums of slices that lie side by side."""
    one = Type("double")
    lanes = w.lanes("double")
    for k, place in enumerate(places):
        leaf = w.offset(values, w.cast(place, "i64", signed=False) * width, "double")
        total = w.offset(y, k * width, "double")

        def add(
            j: Register | int, kind: Type, leaf: Register = leaf, total: Register = total
        ) -> None:
            here = w.offset(total, j, "double")
            found = w.load(here, kind, align=8) + w.load(w.offset(leaf, j, "double"), kind, align=8)
            w.store(found, here, align=8)

        whole = width - width % lanes if width > _UNROLLED else 0
        if whole:
            w.loop(whole, lambda j, add=add: add(j, Type("double", lanes)), step=lanes)
        for j in range(whole, width):
            add(j, one)
