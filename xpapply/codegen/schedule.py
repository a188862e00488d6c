"""The schedule of a network's kernel: steps in order, and the places of values.

A value of n numbers per slice is n rows of the scratch memory, with one number for each slice of
a tile. Rows are used again once what is in them is not needed. What only moves numbers, such as
the windows of a convolution, has no rows: it says where they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..ir.graph import Graph
from ..ir.ops import OPS, Kind
from ..ir.rewrite import Region
from .geometry import Product, affine, letters_of, moved, pooled, product
from .graph_queries import GraphQueries

COSTLY = 4.0
"""Instructions of a region for each number: costlier ones are a loop of their own, because a
block of a product would repeat their text for each of its sums."""
_JOINED = ("max", "min", "sum")
_WINDOW = 9
"""Numbers that are joined at most while they are in registers."""


@dataclass(frozen=True)
class Step:
    """A step: one node, or several fused.

    Attributes
    ----------
    out : int
        The node whose value is written.
    product : int or None
        The product with weights that it begins with.
    region : Region or None
        The elementwise nodes that it computes; those of a product follow it.
    pool : Product or None
        The product with what its results are joined to: `out` is that.
    """

    out: int
    product: int | None = None
    region: Region | None = None
    pool: Product | None = None


class Schedule:
    """The steps of a graph whose composites are those that have forms of their own.

    Attributes
    ----------
    steps : list of Step
        In the order in which they run.
    rows : int
        The rows of scratch memory that they need.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.queries = q = GraphQueries(graph)
        every = ((i, letters_of(graph, q.dependent, i)) for i in range(len(graph.nodes)))
        self._letters = {i: found for i, found in every if found is not None}
        self._faces = {self._face(i): i for i in self._letters}
        """The last view of each product (same numbers, same order), and the product."""
        fused = {p: r for r in q.regions.values() if (p := self._fuses(r)) is not None}
        first_of = {r.out: p for p, r in fused.items()}
        self.steps: list[Step] = []
        self._lies: dict[int, tuple[int, np.ndarray]] = {}
        """For each value the value whose rows hold it, and the rows."""
        self.copies: dict[int, tuple[int, np.ndarray]] = {}
        """Values that are brought together in rows of their own: where their numbers lie before."""
        self._products: dict[int, Product] = {}
        self.windows: dict[int, tuple[int, np.ndarray]] = {}
        """Operand and joined numbers of each reduction."""
        done: set[int] = set()
        """Nodes computed within other steps."""
        for i, n in enumerate(graph.nodes):
            if not q.dependent[i] or i in done:
                continue
            region = q.regions.get(i)
            if i in self._letters:
                self._products[i] = self._product(i)
            if i in fused:
                continue
            if self._moves(i):
                self._move(i)
            elif region is not None:
                done |= self._compute(Step(i, first_of.get(i), region))
            elif i in self._letters:
                done |= self._compute(Step(i, i))
            elif OPS[n.op].kind is Kind.REDUCTION:
                done |= self._reduce(i)
            elif i not in q.region_of:
                self.steps.append(Step(i))
        self._rows, self.rows = self._places()

    # --- where values lie -----------------------------------------------------------------

    def lies(self, i: int) -> tuple[int, np.ndarray]:
        """The value whose rows hold a value, and the row of each number."""
        if i not in self._lies:
            shape = self.graph.nodes[i].aval.shape
            self._lies[i] = i, np.arange(self.queries.size(i)).reshape(shape)
        return self._lies[i]

    def row(self, i: int) -> int:
        """The first row of a value whose numbers lie one after the other."""
        root, places = self.lies(i)
        return self._rows[root] + int(places.flat[0])

    def base(self, i: int) -> int:
        """The first row of the value that a value lies in."""
        return self._rows[self.lies(i)[0]]

    def _moves(self, i: int) -> bool:
        """Whether a value is a view, without rows of its own."""
        n = self.graph.nodes[i]
        if n.op == "cast":
            source = self.graph.nodes[n.args[0]]
            while source.op == "reshape":
                source = self.graph.nodes[source.args[0]]
            return source.op == "input"
        return OPS[n.op].kind is Kind.LAYOUT and n.op not in ("concat", "pad")

    def _move(self, i: int) -> None:
        """Say where the numbers of a value lie; bring them together where they have to be."""
        n = self.graph.nodes[i]
        root, places = self.lies(n.args[0])
        self._lies[i] = root, places if n.op == "cast" else moved(n.op, dict(n.attrs), places)
        _, places = self._lies[i]
        apart = i == self.graph.out and not _side_by_side(places)
        uneven = any(u in self._letters for u in self.queries.uses.get(i, []))
        if apart or (uneven and affine(places) is None):
            self.copies[i] = self._lies.pop(i)
            self.steps.append(Step(i))

    # --- products -------------------------------------------------------------------------

    def _operand(self, i: int) -> int:
        """The constant operand of a product."""
        return int(self.queries.dependent[self.graph.nodes[i].args[0]])

    def _face(self, i: int) -> int:
        """The last node after a product that only reshapes it."""
        while i != self.graph.out:
            users = self.queries.uses.get(i, [])
            if len(users) != 1 or self.graph.nodes[users[0]].op != "reshape":
                break
            (i,) = users
        return i

    def _product(self, i: int) -> Product:
        k = self._operand(i)
        x = self.graph.nodes[i].args[1 - k]
        found = product(self.graph, i, k, self._letters[i], self.lies(x)[1])
        assert found is not None
        return found

    def product(self, step: Step) -> Product:
        """The index maps of a step's product."""
        assert step.product is not None
        return step.pool or self._products[step.product]

    def face(self, product: int) -> int:
        """The view of a product in the region after it."""
        return self._face(product)

    def bias(self, step: Step) -> int | None:
        """The constant that the sums of a product begin with: the same at all places."""
        if step.product is None or step.region is None:
            return None
        face = self.face(step.product)
        found = self.queries.bias(face)
        if found is None or found[0] not in step.region.nodes:
            return None
        values = np.arange(self.queries.size(found[1])).reshape(
            self.graph.nodes[found[1]].aval.shape
        )
        everywhere = self._shown(step.product, values)
        same = (everywhere == everywhere[self._first_place(step.product)]).all()
        return found[1] if same else None

    def _shown(self, product: int, values: np.ndarray) -> np.ndarray:
        """Numbers that are combined with a product's results, in the shape of these."""
        face = self.graph.nodes[self.face(product)].aval.shape
        return np.broadcast_to(values, face).reshape(self.graph.nodes[product].aval.shape)

    def _first_place(self, product: int) -> tuple[slice, ...]:
        letters = self._letters[product]
        return tuple(slice(1 if c in letters.places else None) for c in letters.result)

    def of_outputs(self, product: int, values: np.ndarray) -> np.ndarray:
        """Numbers as `bias` has them, for each group and output."""
        letters = self._letters[product]
        found = self._shown(product, values)[self._first_place(product)]
        order = letters.groups + letters.outputs + letters.places
        return found.transpose([letters.result.index(c) for c in order])

    def _fuses(self, region: Region) -> int | None:
        """The product that a region follows without being stored, if there is one."""
        q = self.queries
        size = q.size(region.out)
        for a in sorted(region.inputs, reverse=True):
            if a in self._faces and q.size(a) == size and a != self.graph.out:
                if all(u in region.nodes for u in q.uses[a]):
                    return self._faces[a]
        return None

    def rest(self, step: Step) -> list[int]:
        """The nodes of a step's region that are not computed with its sums."""
        if step.region is None:
            return []
        bias = self.bias(step)
        known = () if bias is None else (self.queries.bias(self.face(step.product))[0],)  # type: ignore[index,arg-type]
        return [i for i in step.region.nodes if i not in known]

    def cheap(self, nodes: list[int]) -> bool:
        """Whether elementwise nodes are cheap enough to be computed in registers."""
        return sum(OPS[self.graph.nodes[i].op].instructions for i in nodes) <= COSTLY

    def rises(self, step: Step) -> bool:
        """Whether the function after a product is increasing: a maximum may be taken first."""
        for i in self.rest(step):
            n = self.graph.nodes[i]
            others = [a for a in n.args if not self.queries.dependent[a]]
            if not OPS[n.op].rising or len(n.args) - len(others) != 1:
                return False
            if any(self.graph.nodes[a].op != "scalar" for a in others):
                return False
        return True

    def _compute(self, step: Step) -> set[int]:
        """Write a product, a region, or both, with the joining reduction; return the nodes."""
        found = None if step.product is None else self._joined(step)
        step, behind = found or (step, set())
        self.steps.append(step)
        return behind

    def _joined(self, step: Step) -> tuple[Step, set[int]] | None:
        """A product's step with the reduction that alone reads it, and the nodes up to there."""
        assert step.product is not None
        value = step.out if step.region is not None else self.face(step.product)
        start = np.arange(self.queries.size(value)).reshape(self.graph.nodes[value].aval.shape)
        found = self._chain(value, start[..., None], "")
        if found is None:
            return None
        last, op, table, chain = found
        if table.shape[-1] > _WINDOW:
            return None
        rises = self.rises(step)
        if not (op != "sum" and rises) and not self.cheap(self.rest(step)):
            return None
        pool = pooled(self._products[step.product], op, table)
        if pool is None:
            return None
        return Step(last, step.product, step.region, pool), chain

    def _chain(
        self, i: int, table: np.ndarray, op: str
    ) -> tuple[int, str, np.ndarray, set[int]] | None:
        """Merge consecutive reductions of one kind, with only moves between them.

        The last one, the op, what of the first value is joined for each result, and the nodes.
        """
        found, passed = None, set()
        while i != self.graph.out:
            users = self.queries.uses.get(i, [])
            if len(users) != 1:
                break
            (i,) = users
            n = self.graph.nodes[i]
            passed.add(i)
            taps = table.shape[-1]
            if self._moves(i) and n.op != "cast":
                before = self.graph.nodes[n.args[0]].aval.shape
                order = moved(n.op, dict(n.attrs), np.arange(int(np.prod(before))).reshape(before))
                table = table.reshape(-1, taps)[order.reshape(-1)].reshape(*order.shape, taps)
            elif n.op in _JOINED and op in ("", n.op):
                op, table = n.op, self._table(i, table)
                found = i, op, table, set(passed)
            else:
                break
        return found

    def _table(self, i: int, before: np.ndarray) -> np.ndarray:
        """The table of numbers that a reduction joins, composed with its operand's."""
        n = self.graph.nodes[i]
        axes = n.attr("axis")
        kept = [d for d in range(before.ndim - 1) if d not in axes]
        moved_ = before.transpose(*kept, *axes, before.ndim - 1)
        return moved_.reshape(*n.aval.shape, -1)

    def _reduce(self, i: int) -> set[int]:
        """Write a reduction, merged with those of its kind after it; return the nodes."""
        n = self.graph.nodes[i]
        (a,) = n.args
        start = np.arange(self.queries.size(a)).reshape(self.graph.nodes[a].aval.shape)
        table = self._table(i, start[..., None])
        found = self._chain(i, table, n.op) if n.op in _JOINED else None
        last, _, table, behind = found or (i, n.op, table, set())
        self.windows[last] = a, table
        self.steps.append(Step(last))
        return behind

    # --- memory ---------------------------------------------------------------------------

    def _reads(self, step: Step) -> set[int]:
        """The values whose rows a step reads."""
        if step.out in self.copies:
            return {self.copies[step.out][0]}
        found: set[int] = set()
        if step.region is not None:
            found |= {a for i in step.region.nodes for a in self.graph.nodes[i].args}
            found -= set(step.region.nodes)
        elif step.out in self.windows and step.product is None:
            found.add(self.windows[step.out][0])
        elif step.product is None:
            found |= set(self.graph.nodes[step.out].args)
        if step.product is not None:
            found -= {step.product, self.face(step.product)}
            found |= set(self.graph.nodes[step.product].args)
        return {self.lies(a)[0] for a in found if self.queries.dependent[a]}

    def _places(self) -> tuple[dict[int, int], int]:
        """The first row of each value that has rows of its own, and the number of rows."""
        last: dict[int, int] = {}
        for k, step in enumerate(self.steps):
            last |= dict.fromkeys(self._reads(step), k)
        last[self.lies(self.graph.out)[0]] = len(self.steps)
        taken: dict[int, tuple[int, int]] = {}
        rows: dict[int, int] = {}
        most = 0
        for k, step in enumerate(self.steps):
            taken = {i: t for i, t in taken.items() if last.get(i, -1) >= k}
            size, at = self.queries.size(step.out), 0
            for start, end in sorted(taken.values()):
                if start - at >= size:
                    break
                at = max(at, end)
            rows[step.out] = at
            taken[step.out] = at, at + size
            most = max(most, at + size)
        return rows, most


def _side_by_side(places: np.ndarray) -> bool:
    flat = places.reshape(-1)
    return np.array_equal(flat, flat[:1] + np.arange(flat.size))
