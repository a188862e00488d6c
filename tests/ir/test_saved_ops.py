"""Every op of the table goes through a file, with the attributes that are left out, too."""

import itertools

import numpy as np
import pytest
import tree_cases

from xpapply.errors import UnsupportedError
from xpapply.ir import saved
from xpapply.ir.builder import Builder
from xpapply.ir.graph import Graph, Node, ShapeDtype
from xpapply.ir.ops import OPS, Kind

LAYOUT = {
    "reshape": {"shape": (24,)},
    "permute_dims": {"axes": (1, 0)},
    "broadcast_to": {"shape": (2, 4, 6)},
    "concat": {"axis": 1},
    "index": {"key": (1, None, (None, None, 2))},
    "pad": {"widths": ((1, 0), (0, 2)), "number": "0.0"},
    "windows": {"axis": 1, "size": 2, "step": 1, "dilation": 2},
    "take": {"axis": 0, "places": (3, 0, 0)},
}
NEEDED = {"standardize": {"axis": (1,), "eps": 1e-5}, "mean": {"axis": (0,)}, "var": {"axis": (0,)}}
CHOICES = {
    "keepdims": (True, False),
    "stable": (True, False),
    "approximate": ("tanh", "none"),
    "correction": (1,),
}


def nodes(b, row):
    """Values that are this op, as few and as many attributes given as it has."""
    x, more = b.input(ShapeDtype((4, 6), "float64")), {}
    if row.kind is Kind.TREES:
        consts = tree_cases.drawn(np.random.default_rng(0), 3, 2, 24, "float64")
        flat = b.op("reshape", x, shape=(24,))
        yield b.node("trees", flat, *map(b.const, consts), depth=tree_cases.depth_of(consts))
        return
    operands, needed = [x], {}
    if row.kind is Kind.ELEMENTWISE:
        operands *= saved._operands(row)
        needed = {"dtype": "float32"} if row.name == "cast" else {}
        if row.name == "where":
            operands[0] = x > 0.0
    elif row.kind is Kind.REDUCTION:
        needed, more = {"axis": (1,)}, {"keepdims"}
    elif row.kind is Kind.ALONG:
        needed = {"axis": 0}
        more = {"stable"} if row.name == "argsort" else set()
        if row.name == "take_along_axis":
            operands.append(b.op("argsort", x, axis=0))
    elif row.kind is Kind.CONTRACTION:
        operands, needed = [x, x], {"subscripts": "ab,cb->ac"}
    elif row.kind is Kind.LAYOUT:
        needed = LAYOUT[row.name]
        operands = [x, x] if row.name == "concat" else [x]
    else:
        defaults = {k for k, p in row.parameters.items() if p.default is not p.empty}
        needed, more = NEEDED.get(row.name, {}), defaults
        if "axis" in row.parameters and not needed:
            needed = {"axis": 0}
        if row.name == "prelu":
            operands.append(b.const(np.full(6, 0.1)))
    yield b.node(row.name, *operands, **needed)
    values = [CHOICES.get(k) or (0.7,) for k in more]
    for given in itertools.product(*values):
        yield b.node(row.name, *operands, **needed, **dict(zip(more, given, strict=True)))


def as_saved(node):
    """With what is added when it is read."""
    attrs = dict(node.attrs)
    if OPS[node.op].kind is Kind.REDUCTION:
        attrs.setdefault("keepdims", False)
    return Node(node.op, node.args, tuple(sorted(attrs.items())), node.aval)


@pytest.mark.parametrize("name", [n for n, row in OPS.items() if row.kind is not Kind.LEAF])
def test_every_op(name, tmp_path):
    b = Builder()
    graph = b.graph(*nodes(b, OPS[name]))
    saved.write(tmp_path / "op.xpapply", graph, {})
    again, _ = saved.read(tmp_path / "op.xpapply")
    # two that differ in nothing are one, once they are read
    found = [again.nodes[o] for o in again.outs]
    given = [as_saved(graph.nodes[o]) for o in graph.outs]
    assert [(n.op, n.attrs, n.aval) for n in found] == [(n.op, n.attrs, n.aval) for n in given]


def test_leaves(tmp_path):
    b = Builder()
    x, y = (b.input(ShapeDtype((3,), "float32")) for _ in range(2))
    graph = b.graph(x * 2.0 + b.const(np.ones(3, "f")), y + b.scalar(np.inf, "float32"))
    saved.write(tmp_path / "leaves.xpapply", graph, {"name": "f"})
    assert saved.read(tmp_path / "leaves.xpapply") == (graph, {"name": "f"})


def test_what_could_not_be_read_again_is_not_written(tmp_path):
    (tmp_path / "op.xpapply").write_bytes(b"as it was")
    x = ShapeDtype((3,), "float32")
    odd = Graph((Node("input", (), (("k", 0),), x), Node("sort", (0,), (), x)), (1,))
    with pytest.raises(UnsupportedError, match=r"could not be read again: sort has .*report it"):
        saved.write(tmp_path / "op.xpapply", odd, {})
    assert (tmp_path / "op.xpapply").read_bytes() == b"as it was"
    assert len(list(tmp_path.iterdir())) == 1
