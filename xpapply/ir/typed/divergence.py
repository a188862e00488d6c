"""Divergence: values that differ between slices side by side in a typed function.

Slices in lanes run the same instructions. What all of them share (counters, lengths) is one number;
what differs is one number for each. Where a branch asks for what differs, they part, until they
meet again: in between each block runs for some of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from ...errors import UnsupportedError
from .chosen import with_choices
from .components import components
from .function import Array, Block, Instruction, Register, Slot, TypedFunction, Value

_VIEWS = frozenset("row,view,new axis,reshape,part,diagonal,transpose".split(","))
_SHARED = frozenset("length,expected,constant,round,new,list length".split(","))
"""Instructions whose result is the same for all slices."""
MOST_BLOCKS = 300


@dataclass(slots=True)
class Loop:
    """Blocks that run again until no slice is left at the first one."""

    header: int
    items: list[int | Loop]


class Divergence:
    """The divergence analysis of a function: varying values and parting blocks.

    Parameters
    ----------
    made : TypedFunction
        The function.

    Attributes
    ----------
    blocks : list of Block
        Its blocks, those that follow each other as one, with choices for short branches.
    shared_arrays : set of Register
        Arrays that all slices share.
    gathered : set of Register
        Rows of such arrays of which each slice has its own.
    varying : set of Slot
        Those whose value differs between slices.
    parts : set of int
        Blocks that run for some slices.
    ends : list of int
        For each block the one where all slices meet that part there; the number of blocks: none.

    Raises
    ------
    UnsupportedError
        If they cannot go side by side.
    """

    def __init__(self, made: TypedFunction) -> None:
        self.blocks = _entered_once(with_choices(_simplified(_parted_at_catches(made.blocks))))
        self._next = [b.targets for b in self.blocks]
        self._live = self._live_in()
        self._loops: list[set[int]] = []
        self._back: set[tuple[int, int]] = set()
        self.ends = self._meet()
        self.gathered: set[Value] = set()
        self._stored = [{x.what for x in b.instructions if x.op == "store"} for b in self.blocks]
        while True:  # until all rows are known that slices have of their own
            self.shared_arrays = self._find_shared()
            self.varying: set[Slot] = set()
            self.parts: set[int] = set()
            while self._grows():
                pass
            found = self._rows() - self.gathered
            if not found:
                break
            self.gathered |= found
        for slot in self.varying:
            if isinstance(slot.type, Array) or slot.type == "list":
                raise UnsupportedError("a name of arrays that differ")

    def values(self, k: int) -> set[Register]:
        """The registers of a block that differ."""
        found: set[Register] = set()
        for x in self.blocks[k].instructions:
            if x.result is not None and self._differs(x, found):
                found.add(x.result)
        return found

    def _differs(self, x: Instruction, found: set[Register]) -> bool:
        assert x.result is not None
        if isinstance(x.result.type, Array) or x.result.type == "list" or x.op in _SHARED:
            return False
        if x.op == "load":
            return x.what in self.varying
        if x.op in ("input", "list item", "pop", "pop first"):
            return True
        if x.op in ("element", "reduce", "dot") and not self._are_shared(x):
            return True
        return any(a in found for a in x.args)

    def _are_shared(self, x: Instruction) -> bool:
        """Whether all slices share the arrays of an instruction."""
        return all(a in self.shared_arrays for a in x.args if isinstance(a.type, Array))

    def _rows(self) -> set[Value]:
        """Rows of shared arrays whose places differ."""
        return {
            x.result
            for k, b in enumerate(self.blocks)
            for x in b.instructions
            if x.op == "row" and x.result is not None and x.args[0] in self.shared_arrays
            if x.args[1] in self.values(k)
        }

    def _find_shared(self) -> set[Value]:
        """Constants, and parts of them; a slot of both kinds is refused."""
        slots: dict[Slot, set[bool]] = {}
        shared: set[Value] = set()
        for _ in range(len(self.blocks) + 1):
            before = len(shared), sum(map(len, slots.values()))
            for b in self.blocks:
                for x in b.instructions:
                    if x.op == "store" and isinstance(x.what.type, Array):
                        slots.setdefault(x.what, set()).add(x.args[0] in shared)
                    if x.result is None or not isinstance(x.result.type, Array):
                        continue
                    if x.op == "load":
                        of = slots.get(x.what, set()) == {True}
                    else:
                        of = x.op == "constant" or (
                            x.op in _VIEWS and x.args[0] in shared and x.result not in self.gathered
                        )
                    (shared.add if of else shared.discard)(x.result)
            if before == (len(shared), sum(map(len, slots.values()))):
                break
        if any(len(kinds) > 1 for kinds in slots.values()):
            raise UnsupportedError("a name of arrays that are shared and others")
        return shared

    def _grows(self) -> bool:
        """Iterate once; return whether more values vary."""
        before = len(self.varying), len(self.parts)
        self._loops, self._back = [], set()
        self._find_loops(self.parts, None)
        for k, b in enumerate(self.blocks):
            differs = self.values(k)
            for x in b.instructions:
                if x.op == "store" and x.args[0] in differs:
                    self.varying.add(x.what)
            last = b.instructions[-1]
            if last.op == "branch" and last.args[0] in differs:
                self._part(k)
        return before != (len(self.varying), len(self.parts))

    def _part(self, k: int) -> None:
        """Slices part at the end of a block.

        In a round of a loop a block runs once, for all that come to it. So what one way writes is
        one number for all, unless a slice reads it that has gone another way, or that has left a
        loop that the others are still in.
        """
        end = self.ends[k]
        between: set[int] = set()
        for t in self._next[k]:
            between |= self._until(t, end, ())
        self.parts |= between
        yes, no = (
            set() if (k, t) in self._back else self._until(t, end, self._back)
            for t in self._next[k]
        )
        last = self._live[end] if end < len(self.blocks) else set()
        for mine, others in ((yes, no), (no, yes)):
            self.varying |= self._written(mine) & last
            self.varying |= self._written(mine - others) & self._read(others)
        for loop in self._loops:
            # some may wait at the begin of a loop around it, while others go on in this one
            if k in loop and (end not in loop or not between <= loop):
                leaves = {t for b in loop for t in self._next[b] if t not in loop}
                self.varying |= self._written(loop) & self._read(leaves)

    def _written(self, blocks: set[int]) -> set[Slot]:
        return set().union(*(self._stored[b] for b in blocks))

    def _read(self, blocks: set[int]) -> set[Slot]:
        return set().union(*(self._live[b] for b in blocks))

    def _until(self, start: int, end: int, but: Collection[tuple[int, int]]) -> set[int]:
        """The blocks from one to before another, along all ways but some."""
        found: set[int] = set()
        left = [start]
        while left:
            k = left.pop()
            if k != end and k not in found:
                found.add(k)
                left += [t for t in self._next[k] if (k, t) not in but]
        return found

    def _live_in(self) -> list[set[Slot]]:
        """Live slots at the begin of each block."""
        reads, writes = [], []
        for b in self.blocks:
            read: set[Slot] = set()
            written: set[Slot] = set()
            for x in b.instructions:
                if x.op == "load" and x.what not in written:
                    read.add(x.what)
                elif x.op == "store":
                    written.add(x.what)
            reads.append(read)
            writes.append(written)
        live = [set(r) for r in reads]
        changed = True
        while changed:
            changed = False
            for k in reversed(range(len(self.blocks))):
                after = set().union(*(live[t] for t in self._next[k])) if self._next[k] else set()
                found = reads[k] | (after - writes[k])
                if found != live[k]:
                    live[k], changed = found, True
        return live

    def _meet(self) -> list[int]:
        """The immediate postdominator of each block."""
        n = len(self.blocks)
        everything = (1 << (n + 1)) - 1
        after = [everything] * n + [1 << n]
        changed = True
        while changed:
            changed = False
            for k in reversed(range(n)):
                found = everything
                for t in self._next[k] or (n,):
                    found &= after[t]
                found |= 1 << k
                if found != after[k]:
                    after[k], changed = found, True
        if any(not a >> n & 1 for a in after):
            raise UnsupportedError("it need not end")
        ends = []
        for k in range(n):
            others = after[k] & ~(1 << k)
            # the nearest is gone through by ways that go through as many others as are left
            ends.append(max(_bits(others), key=lambda t: after[t].bit_count()))
        return ends

    def _find_loops(self, group: set[int], header: int | None) -> None:
        """The loops whose rounds some slices go through, and where their rounds end."""
        for part in components(group, lambda k: self._inside(k, group, header)):
            members = set(part)
            if len(part) == 1 and part[0] not in self._inside(part[0], group, header):
                continue
            start = self._entry(members)
            self._loops.append(members)
            self._back |= {(k, start) for k in members if start in self._next[k]}
            self._find_loops(members, start)

    def _entry(self, loop: set[int]) -> int:
        """The one block by which a loop is entered."""
        entries = {0} & loop
        for k in range(len(self.blocks)):
            if k not in loop:
                entries |= loop.intersection(self._next[k])
        if len(entries) != 1:
            raise UnsupportedError("a loop that is entered at several places")
        return entries.pop()

    # --- the order of what runs for some ---------------------------------------------------

    def partings(self) -> Iterator[tuple[int, ...]]:
        """Groups of targets where uniform slices part, for each such block."""
        for k, b in enumerate(self.blocks):
            last = b.instructions[-1]
            if k not in self.parts and last.op == "branch" and last.args[0] in self.values(k):
                yield self._next[k]

    def groups(self) -> list[list[int]]:
        """Blocks that run for some slices, those together that follow each other."""
        found: list[list[int]] = []
        left = set(self.parts)
        before: dict[int, set[int]] = {k: set() for k in self.parts}
        for k in self.parts:
            for t in self._next[k]:
                if t in self.parts:
                    before[t].add(k)
        # all that one branch leads to belongs together as well
        for targets in self.partings():
            inside = [t for t in targets if t in self.parts]
            for a, c in itertools.pairwise(inside):
                before[a].add(c)
                before[c].add(a)
        while left:
            group, todo = set(), [left.pop()]
            while todo:
                k = todo.pop()
                if k in group:
                    continue
                group.add(k)
                todo += [t for t in self._next[k] if t in self.parts]
                todo += before[k]
            left -= group
            found.append(sorted(group))
        return found

    def order(self, group: Iterable[int]) -> list[int | Loop]:
        """The order in which blocks run, each after those that lead to it, but for loops."""
        return self._ordered(set(group), None)

    def _ordered(self, group: set[int], header: int | None) -> list[int | Loop]:
        found: list[int | Loop] = []
        for part in reversed(components(group, lambda k: self._inside(k, group, header))):
            (first, *others) = part
            if not others and first not in self._inside(first, group, header):
                found.append(first)
                continue
            members = set(part)
            start = self._entry(members)
            found.append(Loop(start, self._ordered(members, start)))
        return found

    def _inside(self, k: int, group: set[int], header: int | None) -> list[int]:
        return [t for t in self._next[k] if t in group and t != header]


def _bits(x: int) -> Iterable[int]:
    while x:
        low = x & -x
        yield low.bit_length() - 1
        x ^= low


def _parted_at_catches(blocks: list[Block]) -> list[Block]:
    """The blocks, which branch where an exception is caught: what follows is a block of its own.

    It finds what was computed before in slots.
    """
    found = list(blocks)
    for k, b in enumerate(found):  # those that are new too
        n = next((n for n, x in enumerate(b.instructions) if x.op == "catch"), None)
        if n is None:
            continue
        before, catch, rest = b.instructions[:n], b.instructions[n], b.instructions[n + 1 :]
        read = {a for x in rest for a in x.args}
        kept = [x.result for x in before if x.result in read]
        slots = [Slot(f".{x.number}.caught", x.type) for x in kept if x is not None]
        pairs = [*zip(kept, slots, strict=True)]
        stores = [Instruction("store", None, (x,), slot, catch.line) for x, slot in pairs if x]
        branch = Instruction("branch", None, catch.args, None, catch.line)
        found[k] = Block([*before, *stores, branch], (catch.what, len(found)))
        loads = [Instruction("load", x, (), slot, catch.line) for x, slot in pairs]
        found.append(Block([*loads, *rest], b.targets))
    return found


def _simplified(blocks: list[Block]) -> list[Block]:
    """The blocks without jumps to jumps, merged where they follow each other."""

    def goes_to(k: int) -> int:
        seen = set()
        while len(blocks[k].instructions) == 1 and blocks[k].instructions[0].op == "jump":
            if k in seen:
                break
            seen.add(k)
            k = blocks[k].targets[0]
        return k

    targets = {k: tuple(map(goes_to, b.targets)) for k, b in enumerate(blocks)}
    code: dict[int, list[Instruction]] = {}
    left, before = [0], dict.fromkeys(range(len(blocks)), 0)
    before[0] = 1
    seen = {0}
    while left:
        k = left.pop()
        code[k] = list(blocks[k].instructions)
        last = code[k][-1]
        if last.op == "branch":
            ends = [blocks[t].instructions[-1].op == "leave" for t in targets[k]]
            if any(ends) and _only_leaves(blocks[targets[k][ends.index(True)]]):
                code[k], targets[k] = _left(code[k], targets[k], ends[0], blocks)
        if len(set(targets[k])) == 1 and code[k][-1].op == "branch":
            code[k][-1], targets[k] = Instruction("jump", None, ()), targets[k][:1]
        for t in targets[k]:
            before[t] += 1
            if t not in seen:
                seen.add(t)
                left.append(t)
    for k in list(code):
        if k not in code:
            continue
        while code[k][-1].op == "jump":
            (t,) = targets[k]
            if before[t] != 1 or t == k or t not in code:
                break
            code[k] = code[k][:-1] + code.pop(t)
            targets[k] = targets[t]
    numbers = {k: n for n, k in enumerate([0, *sorted(set(code) - {0})])}
    return [
        Block(code[k], tuple(numbers[t] for t in targets[k]))
        for k in sorted(numbers, key=numbers.__getitem__)
    ]


def _entered_once(blocks: list[Block]) -> list[Block]:
    """The blocks with loops that begin at one block each: others that lead into one are copied."""
    blocks = list(blocks)
    copies: dict[tuple[int, int], int] = {}
    while len(blocks) <= MOST_BLOCKS:
        found = _second_entry(blocks, set(range(len(blocks))), None)
        if found is None:
            return blocks
        entry, start, members = found
        new = copies.setdefault((entry, start), len(blocks))
        if new == len(blocks):
            blocks.append(Block(blocks[entry].instructions, blocks[entry].targets))
        for k, b in enumerate(blocks):
            if k not in members and entry in b.targets:
                turned = tuple(new if t == entry else t for t in b.targets)
                blocks[k] = Block(b.instructions, turned)
    raise UnsupportedError(f"{len(blocks)} blocks")


def _second_entry(
    blocks: list[Block], group: set[int], header: int | None
) -> tuple[int, int, set[int]] | None:
    """A block by which a loop is entered besides its first, that, and the blocks of the loop."""

    def inside(k: int) -> list[int]:
        return [t for t in blocks[k].targets if t in group and t != header]

    for part in components(group, inside):
        if len(part) == 1 and part[0] not in inside(part[0]):
            continue
        members = set(part)
        entries: dict[int, int] = {0: 0} if 0 in members else {}
        for k, b in enumerate(blocks):
            for t in b.targets:
                if t in members and k not in members:
                    entries.setdefault(t, 0)
        for t in entries:
            entries[t] = sum(t in blocks[k].targets for k in members)
        start = max(entries, key=lambda t: (t == 0, entries[t], -t))
        others = sorted(set(entries) - {start})
        if others:
            return others[0], start, members
        if (found := _second_entry(blocks, members, start)) is not None:
            return found
    return None


def _only_leaves(block: Block) -> bool:
    """Whether a block's effects can be dropped, as its slice is left to the function."""
    return all(x.op not in ("mark", "round", "errors", "catch") for x in block.instructions)


def _left(
    code: list[Instruction], targets: tuple[int, ...], first: bool, blocks: list[Block]
) -> tuple[list[Instruction], tuple[int, ...]]:
    """A branch one of whose ways leaves, as a mark."""
    last = code[-1]
    (asked,) = last.args
    gone, stays = targets if first else targets[::-1]
    why = blocks[gone].instructions[-1].what
    found = code[:-1]
    if not first:
        number = max(
            (x.result.number for b in blocks for x in b.instructions if x.result), default=0
        )
        turned = Register(number + 1 + len(blocks) + gone, "bool")
        found.append(Instruction("not", turned, (asked,), None, last.line))
        asked = turned
    found += [Instruction("mark", None, (asked,), why, last.line), Instruction("jump", None, ())]
    return found, (stays,)
