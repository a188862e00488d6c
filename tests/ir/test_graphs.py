"""The table, the graph, batching and the passes: against NumPy, slice by slice."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import broadcastable_shapes, mutually_broadcastable_shapes

import xpapply
from xpapply import testing
from xpapply.backends import array_api
from xpapply.ir.batch import batch
from xpapply.ir.builder import Builder, infer, verify
from xpapply.ir.graph import BATCH, Graph, Node, ShapeDtype
from xpapply.ir.ops import OPS, Kind
from xpapply.ir.rewrite import compact, expand, fold, prune, regions, without_batch_of_one
from xpapply.ir.slices.accumulators import simple
from xpapply.ir.slices.slice_graph import written
from xpapply.slice_functions import formulas

ARITY = {
    **dict.fromkeys(("add", "subtract", "multiply", "divide", "maximum", "minimum"), 2),
    **dict.fromkeys(("greater", "greater_equal", "less", "less_equal", "equal", "not_equal"), 2),
    **dict.fromkeys(("logical_and", "logical_or", "prelu", "atan2", "pow"), 2),
    "where": 3,
}
SPECIAL = {"erf", "erfc", "cast"}
ELEMENTWISE = [n for n, row in OPS.items() if row.kind is Kind.ELEMENTWISE and n not in SPECIAL]
REDUCTIONS = [n for n, row in OPS.items() if row.kind is Kind.REDUCTION]
POSITIONS = {"argmax", "argmin"}
IN_ORDER = [n for n, row in OPS.items() if row.kind is Kind.ALONG and n != "take_along_axis"]
ALONG = {"mean": ("axis",), "var": ("axis",), "standardize": ("axis",)}
ALONG |= {"softmax": (), "log_softmax": ()}
ACTIVATIONS = [
    n for n, row in OPS.items() if row.kind is Kind.COMPOSITE and n not in ALONG and n != "prelu"
]


def run(graph, x):
    """The definition: one NumPy call per node."""
    with np.errstate(all="ignore"):
        (y,) = array_api.evaluate(np, graph, [x], graph.consts)
    return y


def assert_batches(graph, rows, largest_term=0.0):
    """The batched graph on columns is the graph on each of them.

    `largest_term`: of sums that may cancel, which libraries add up in any order.
    """
    atol = 1e-300 + 64 * np.finfo(float).eps * largest_term
    graph = expand(graph)
    together = run(batch(graph), rows)
    for b in range(rows.shape[-1]):
        alone = run(graph, rows[..., b])
        np.testing.assert_allclose(together[..., b], alone, rtol=1e-12, atol=atol)
    assert together.shape == (*alone.shape, rows.shape[-1])


def draw_values(data, shape, domain=(-50.0, 50.0)):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    low, high = domain
    return rng.uniform(max(low, -1e3) + 1e-3, min(high, 1e3), shape)


# --- shapes ---------------------------------------------------------------------------


def numpy_result(op, arrays):
    function = {"where": lambda c, x, y: np.where(c, x, y)}.get(op)
    function = function or getattr(np, OPS[op].api or op)
    with np.errstate(all="ignore"):
        return function(*arrays)


@pytest.mark.parametrize("op", ELEMENTWISE)
@given(data=st.data())
def test_elementwise_shapes(op, data):
    n = ARITY.get(op, 1)
    shapes = data.draw(mutually_broadcastable_shapes(num_shapes=n, max_dims=3, max_side=3))
    truth = op.startswith("logical")
    arrays = [np.ones(s, bool if truth else float) for s in shapes.input_shapes]
    if op == "where":
        arrays[0] = arrays[0] > 0
    avals = [ShapeDtype(a.shape, a.dtype.name) for a in arrays]
    expected = numpy_result(op, arrays)
    found = infer(op, avals, {})
    assert found == (expected.shape, expected.dtype.name)


@pytest.mark.parametrize("op", REDUCTIONS)
@given(data=st.data())
def test_reduction_shapes(op, data):
    shape = tuple(data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=3)))
    most = 1 if op in POSITIONS else None
    axes = tuple(data.draw(st.sets(st.integers(0, len(shape) - 1), min_size=1, max_size=most)))
    keepdims = data.draw(st.booleans())
    axis = axes[0] if op in POSITIONS else axes
    expected = getattr(np, op)(np.ones(shape), axis=axis, keepdims=keepdims)
    found = infer(op, [ShapeDtype(shape, "float64")], {"axis": axes, "keepdims": keepdims})
    assert found == (expected.shape, expected.dtype.name)


NUMPYS = {
    "cumulative_sum": np.cumsum,
    "cumulative_prod": np.cumprod,
    "cumulative_max": np.maximum.accumulate,
    "cumulative_min": np.minimum.accumulate,
}


@pytest.mark.parametrize("op", IN_ORDER)
@pytest.mark.parametrize("dtype", ["float64", "float16", "int32", "uint8", "bool"])
@given(data=st.data())
def test_along_an_axis(op, dtype, data):
    """Shape, dtype and numbers as NumPy has them: NaN, infinities, equal ones in order."""
    if dtype == "bool" and "cumulative" in op:
        return
    shape = tuple(data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    axis = data.draw(st.integers(0, len(shape) - 1))
    numbers = [0, 1, 2, 3] if dtype[0] != "f" else [0.0, 1.0, -2.5, np.nan, np.inf, -np.inf]
    x = np.array(data.draw(st.lists(st.sampled_from(numbers), min_size=125, max_size=125)))
    x = x[: math.prod(shape)].reshape(shape).astype(dtype)
    builder = Builder()
    more = {"stable": True} if op == "argsort" else {}
    y = builder.input(ShapeDtype(shape, dtype))
    graph = builder.graph(builder.op(op, y, axis=axis, **more))
    with np.errstate(all="ignore"):
        if "sort" in op:
            want = getattr(np, op)(x, axis=axis, kind="stable")
        else:
            own = {"dtype": dtype} if op in ("cumulative_sum", "cumulative_prod") else {}
            want = NUMPYS[op](x, axis=axis, **own)
        (got,) = array_api.evaluate(np, graph, [x], graph.consts)
    assert graph.result == (want.shape, want.dtype.name)
    np.testing.assert_array_equal(got, want)


@given(data=st.data())
def test_einsum_shapes(data):
    names = st.lists(st.sampled_from("abcd"), unique=True, max_size=3)
    left, right = data.draw(names), data.draw(names)
    out = data.draw(st.permutations(sorted({*left, *right})))
    out = out[: data.draw(st.integers(0, len(out)))]
    subscripts = f"{''.join(left)},{''.join(right)}->{''.join(out)}"
    sizes = {"a": 2, "b": 3, "c": 1, "d": 4}
    arrays = [draw_values(data, [sizes[k] for k in names]) for names in (left, right)]
    expected = np.einsum(subscripts, *arrays)
    avals = [ShapeDtype(a.shape, "float64") for a in arrays]
    assert infer("einsum", avals, {"subscripts": subscripts}).shape == expected.shape
    found = array_api.einsum(np, subscripts, *arrays)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


@st.composite
def layouts(draw):
    """(op, attributes, the same in NumPy) for an array of a drawn shape."""
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    op = draw(st.sampled_from(["reshape", "permute_dims", "broadcast_to", "index"]))
    if op == "reshape":
        n = math.prod(shape)
        first = draw(st.sampled_from([k for k in range(1, n + 1) if n % k == 0]))
        new = draw(st.sampled_from([(n,), (first, n // first), (1, n), (*shape, 1)]))
        return shape, op, {"shape": new}, lambda x: x.reshape(new)
    if op == "permute_dims":
        axes = tuple(draw(st.permutations(range(len(shape)))))
        return shape, op, {"axes": axes}, lambda x: x.transpose(axes)
    if op == "broadcast_to":
        new = tuple(3 if n == 1 and draw(st.booleans()) else n for n in shape)
        return shape, op, {"shape": new}, lambda x: np.broadcast_to(x, new)
    key = []
    for n in shape[: draw(st.integers(0, len(shape)))]:
        if draw(st.booleans()):
            key.append(None)
        end = st.none() | st.integers(-n - 1, n + 1)
        step = st.sampled_from([None, 1, 2, -1, -2])
        part = st.tuples(end, end, step) | st.integers(-n, n - 1)
        key.append(draw(part))
    python = tuple(slice(*k) if isinstance(k, tuple) else k for k in key)
    return shape, op, {"key": tuple(key)}, lambda x: x[python]


@given(data=st.data())
def test_layouts(data):
    shape, op, attrs, same = data.draw(layouts())
    rows = draw_values(data, (*shape, 3))
    expected = np.stack([same(rows[..., b]) for b in range(3)], -1)
    aval = infer(op, [ShapeDtype(shape, "float64")], attrs)
    assert (*aval.shape, 3) == expected.shape
    assume(expected.size)
    builder = Builder()
    x = builder.input(ShapeDtype(shape, "float64"))
    graph = builder.graph(builder.op(op, x, **attrs))
    np.testing.assert_array_equal(run(batch(graph), rows), expected)


@given(shape=st.lists(st.integers(1, 3), max_size=3), data=st.data())
def test_broadcast_with_a_batch_axis(shape, data):
    other = data.draw(broadcastable_shapes(tuple(shape), max_dims=3, max_side=3))
    both = np.broadcast_shapes(tuple(shape), other)
    avals = [ShapeDtype((*s, BATCH), "float32") for s in (shape, other)]
    assert infer("add", avals, {}).shape == (*both, BATCH)


# --- batching -------------------------------------------------------------------------


@pytest.mark.parametrize("op", ELEMENTWISE + ACTIVATIONS + ["prelu", "erf", "erfc"])
@given(data=st.data())
def test_elementwise_batches(op, data):
    """With the slice, constants of all ranks, and numbers, at every place."""
    n, row = ARITY.get(op, 1), OPS[op]
    if op in ("erf", "erfc", "gelu"):
        pytest.importorskip("scipy")
    builder = Builder()
    m = data.draw(st.integers(1, 4))
    x = builder.input(ShapeDtype((m,), "float64"))
    square = builder.op("reshape", x, shape=(m, 1))
    kinds = {
        "slice": lambda: x,
        "column": lambda: square,
        "constant": lambda: builder.const(draw_values(data, (m,), row.domain)),
        "matrix": lambda: builder.const(draw_values(data, (m, m), row.domain)),
        "scalar": lambda: builder.scalar(1.5, "float64"),
    }
    names = [data.draw(st.sampled_from(sorted(kinds))) for _ in range(n)]
    operands = [kinds[name]() for name in names]
    if op.startswith("logical") or op == "where":
        operands = [v > 0.25 if op != "where" or i == 0 else v for i, v in enumerate(operands)]
    graph = builder.graph(builder.op(op, *operands))
    assert_batches(graph, draw_values(data, (m, 3), row.domain))


@pytest.mark.parametrize("op", REDUCTIONS + list(ALONG))
@given(data=st.data())
def test_reductions_batch(op, data):
    builder = Builder()
    x = builder.input(ShapeDtype((6,), "float64"))
    y = builder.op("reshape", x, shape=(2, 3))
    constant = data.draw(st.booleans())
    if constant:
        y = builder.const(draw_values(data, (2, 3), OPS[op].domain))
    if op in ("softmax", "log_softmax"):
        attrs = {"axis": data.draw(st.integers(0, 1))}
    else:
        axes = [(0,), (1,)] if op in POSITIONS else [(0,), (1,), (0, 1)]
        attrs = {"axis": data.draw(st.sampled_from(axes))}
        if op == "standardize":
            attrs["eps"] = 1e-5
        else:
            attrs["keepdims"] = data.draw(st.booleans())
    result = builder.op(op, y, **attrs)
    if constant:
        result = builder.op("cast", result, dtype="float64") * builder.op("sum", x, axis=(0,))
    assert_batches(builder.graph(result), draw_values(data, (6, 3), OPS[op].domain))


@pytest.mark.parametrize("op", IN_ORDER)
@given(data=st.data())
def test_ops_along_an_axis_batch(op, data):
    builder = Builder()
    x = builder.input(ShapeDtype((6,), "float64"))
    y = builder.op("reshape", x, shape=(2, 3))
    if data.draw(st.booleans()):
        y = builder.const(draw_values(data, (2, 3), OPS[op].domain))
    more = {"stable": data.draw(st.booleans())} if op == "argsort" else {}
    found = builder.op(op, y, axis=data.draw(st.integers(0, 1)), **more)
    result = builder.op("cast", found, dtype="float64") * builder.op("sum", x, axis=(0,))
    assert_batches(builder.graph(result), draw_values(data, (6, 3), OPS[op].domain))


@pytest.mark.parametrize("table", [False, True])
@pytest.mark.parametrize("constant", [False, True])
@given(data=st.data())
def test_numbers_at_places_batch(table, constant, data):
    builder = Builder()
    x = builder.input(ShapeDtype((5,), "float64"))
    places = builder.op("argsort", x, axis=0, stable=True)
    if constant:
        places = builder.const(np.array([4, 0, 0]))
    of = builder.const(draw_values(data, (5,))) if table else x
    found = builder.op("take_along_axis", of, places, axis=0)
    result = found * builder.op("sum", x, axis=(0,))
    assert_batches(builder.graph(result), draw_values(data, (5, 4)))


def test_axes_that_are_not_there():
    with pytest.raises(xpapply.TraceError, match=r"sort of float64\[3\] along axis 1"):
        infer("sort", [ShapeDtype((3,), "float64")], {"axis": 1})
    places = ShapeDtype((3, 1), "int64")
    with pytest.raises(xpapply.TraceError, match="take_along_axis of"):
        infer("take_along_axis", [ShapeDtype((3,), "float64"), places], {"axis": 0})


@pytest.mark.parametrize("subscripts", ["nm,m->n", "m,m->", "m,n->mn", "mn,m->n", "m,mn->nm"])
@pytest.mark.parametrize("constant", [0, 1, None])
@given(data=st.data())
def test_einsum_batches(subscripts, constant, data):
    builder = Builder()
    x = builder.input(ShapeDtype((3,), "float64"))
    operands, largest_term = [], 1.0
    for i, names in enumerate(subscripts.partition("->")[0].split(",")):
        shape = (3,) * len(names)
        largest_term *= 50.0 ** (1 if constant == i else len(names))
        if constant == i:
            operands.append(builder.const(draw_values(data, shape)))
        elif len(names) == 2:  # a matrix that depends on the slice
            operands.append(builder.op("einsum", x, x, subscripts="i,j->ij"))
        else:
            operands.append(x)
    graph = builder.graph(builder.op("einsum", *operands, subscripts=subscripts))
    assert_batches(graph, draw_values(data, (3, 4)), largest_term)


@given(data=st.data())
def test_concat_batches(data):
    builder = Builder()
    x = builder.input(ShapeDtype((2,), "float64"))
    c = builder.const(draw_values(data, (3,)))
    parts = data.draw(st.lists(st.sampled_from([x, c, x + 1.0]), min_size=1, max_size=4))
    graph = builder.graph(builder.op("concat", *parts, axis=0))
    assert_batches(graph, draw_values(data, (2, 4)))


def test_constant_results_batch():
    builder = Builder()
    builder.input(ShapeDtype((2,), "float64"))
    graph = builder.graph(builder.const(np.arange(3.0)))
    assert run(batch(graph), np.zeros((2, 5))).shape == (3, 5)


def test_every_row_is_tested_above():
    layout = {n for n, row in OPS.items() if row.kind in (Kind.LAYOUT, Kind.LEAF, Kind.CONTRACTION)}
    others = {*IN_ORDER, "take_along_axis", "prelu", "trees"}  # of test_trees.py
    assert set(OPS) == {*ELEMENTWISE, *ACTIVATIONS, *REDUCTIONS, *ALONG, *layout, *SPECIAL, *others}


# --- definitions ----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("op", ACTIVATIONS)
def test_activations_are_torchs(torch, op, dtype):
    """Every composite row that torch has too, with torch's defaults."""
    functional = torch.nn.functional
    names = (op, *OPS[op].torch)
    function = next(getattr(p, n) for p in (functional, torch) for n in names if hasattr(p, n))
    builder = Builder()
    x = builder.input(ShapeDtype((2002,), dtype))
    graph = builder.graph(builder.op(op, x))
    values = np.linspace(*np.clip(OPS[op].domain, -30, 30), 2002).astype(dtype)
    expected = function(torch.from_numpy(values.astype(np.float64))).numpy()
    error, _ = testing.rounding_errors(graph, values[:, None].astype(np.float64), dtype)
    off = np.abs(run(expand(graph), values) - expected)
    assert (off <= testing.SAFETY * error[:, 0]).all()


def test_erf_gelu_does_not_cancel():
    """For negative arguments 1 + erf(x) has no digits left; SciPy's ndtr has all of them."""
    special = pytest.importorskip("scipy.special")
    builder = Builder()
    x = builder.input(ShapeDtype((200,), "float32"))
    graph = expand(builder.graph(builder.op("gelu", x)))
    values = np.linspace(-12, -1, 200, dtype=np.float32)
    expected = values * special.ndtr(values.astype(np.float64))
    np.testing.assert_allclose(run(graph, values), expected, rtol=2e-5)


# --- graphs ---------------------------------------------------------------------------


def broken():
    aval, other = ShapeDtype((2,), "float32"), ShapeDtype((3,), "float32")
    x = Node("input", (), (("k", 0),), aval)
    const = np.zeros(3, np.float32)
    total = Node("accumulate", (0,), (("by", simple("sum", "float32")), ("field", 0)), other)
    yield "later node", Graph((x, Node("negative", (1,), (), aval)), (1,))
    yield "later node", Graph((x, Node("negative", (2,), (), aval), x), (1,))
    yield "the rule", Graph((x, Node("negative", (0,), (), other)), (1,))
    yield "the rule", Graph((x, Node("negative", (0,), (), ShapeDtype((2,), "float64"))), (1,))
    yield "the rule", Graph((x, Node("greater", (0, 0), (), aval)), (1,))
    yield "its value", Graph((x, Node("const", (), (("k", 0),), aval)), (1,), (const,))
    yield "its value", Graph((x, Node("const", (), (("k", 0),), aval)), (1,), (np.zeros(2),))
    yield "its accumulator", Graph((x, total), (1,))
    yield r"numbers \[0, 0\]", Graph((x, x), (1,))
    yield r"numbers \[0, 2\]", Graph((x, Node("input", (), (("k", 2),), aval)), (1,))
    yield r"numbers \[\]", Graph((Node("const", (), (("k", 0),), other),), (0,), (const,))


@pytest.mark.parametrize(("message", "graph"), list(broken()))
def test_verify_catches(message, graph):
    with pytest.raises(AssertionError, match=message):
        verify(graph)


@pytest.mark.parametrize(
    ("op", "shapes", "attrs"),
    [
        ("add", [(2,), (3,)], {}),
        ("einsum", [(2, 3), (2,)], {"subscripts": "nm,m->n"}),
        ("einsum", [(2,), (2,)], {"subscripts": "nm,m->n"}),
        ("reshape", [(6,)], {"shape": (4,)}),
        ("concat", [(2, 3), (2, 4)], {"axis": 0}),
        ("argmax", [(2, 3)], {"axis": (0, 1)}),
        ("argmin", [(2, 0)], {"axis": (1,)}),
    ],
)
def test_wrong_shapes_are_refused(op, shapes, attrs):
    with pytest.raises(xpapply.TraceError):
        infer(op, [ShapeDtype(s, "float32") for s in shapes], attrs)


def test_dtypes_do_not_mix_silently():
    with pytest.raises(xpapply.TraceError, match="cast"):
        infer("add", [ShapeDtype((2,), "float32"), ShapeDtype((2,), "float64")], {})


def network(seed, n=5):
    rng = np.random.default_rng(seed)
    weights = rng.standard_normal((n, 3)), rng.standard_normal((2, n))
    return xpapply.MLP(weights, [np.ones(n), None], "silu", "softmax")


def test_equality_is_that_of_the_structure():
    a, b, c = (xpapply.lift(network(*k), (3,), "float64") for k in ((0,), (1,), (0, 6)))
    assert a == b
    assert hash(a) == hash(b)
    assert a != c
    assert not np.array_equal(a.consts[0], b.consts[0])


def test_numbers_belong_to_the_structure():
    def graph(number):
        builder = Builder()
        x = builder.input(ShapeDtype((2,), "float64"))
        return builder.graph(x + number)

    assert graph(0.0) != graph(-0.0)
    assert graph(np.nan) == graph(np.nan)
    assert graph(1.0) != graph(2.0)


def test_flops():
    net = xpapply.MLP([np.ones((5, 3)), np.ones((2, 5))])
    assert xpapply.lift(net, (3,), "float64").flops() == 2 * (15 + 10) + 5


# --- passes ---------------------------------------------------------------------------


def random_graph(data):
    """Elementwise and affine nodes in random order, over one slice and constants."""
    builder = Builder()
    m = 3
    values = [builder.input(ShapeDtype((m,), "float64"))]
    for _ in range(data.draw(st.integers(1, 9))):
        x, y = (data.draw(st.sampled_from(values)) for _ in range(2))
        kind = data.draw(st.integers(0, 6))
        if kind == 0:
            w = builder.const(draw_values(data, (m, m), (-1, 1)))
            values.append(builder.op("einsum", w, x, subscripts="nm,m->n"))
        elif kind == 1:
            values.append(x * builder.const(draw_values(data, (m,), (-2, 2))))
        elif kind == 2:
            values.append(builder.const(draw_values(data, (m,), (-2, 2))) + x)
        elif kind == 3:
            values.append(x * 0.5)
        elif kind == 4:
            values.append(x + y)
        elif kind == 5:
            values.append(builder.op("tanh", x))
        else:
            values.append(builder.op("where", x > y, x, y))
    return builder.graph(values[-1])


@given(data=st.data())
def test_passes_keep_values(data):
    graph = random_graph(data)
    x = draw_values(data, (3,), (-2, 2))
    expected = run(graph, x)
    for rewrite in (prune, compact, expand, fold, lambda g: fold(fold(compact(g)))):
        np.testing.assert_allclose(run(rewrite(graph), x), expected, rtol=1e-9, atol=1e-9)


def test_fold_takes_batch_norm_into_the_layer(torch):
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4)).eval()
    graph = fold(xpapply.lift(net, (3,)))
    assert [n.op for n in graph.nodes if OPS[n.op].kind is not Kind.LEAF] == ["einsum", "add"]


def test_fold_leaves_shared_products_alone():
    builder = Builder()
    x = builder.input(ShapeDtype((2,), "float64"))
    y = builder.op("einsum", builder.const(np.eye(2) * 3), x, subscripts="nm,m->n")
    graph = builder.graph(y * 2.0 + y)
    np.testing.assert_allclose(run(fold(graph), np.array([1.0, 2.0])), [9.0, 18.0])


@given(data=st.data())
def test_without_batch_of_one(data):
    """Written for a batch of one, a graph becomes that of a slice."""
    builder = Builder()
    x = builder.input(ShapeDtype((4,), "float64"))
    y = builder.op("reshape", x, shape=(1, 4))
    for _ in range(data.draw(st.integers(0, 6))):
        kind = data.draw(st.integers(0, 9))
        n = y.shape[-1]
        if kind == 0:
            w = builder.const(draw_values(data, (3, n), (-1, 1)))
            y = builder.op("einsum", w, y, subscripts="nm,am->an")
        elif kind == 1:
            y = y + builder.const(draw_values(data, (n,)))
        elif kind == 2:
            y = y * builder.const(draw_values(data, (1, n)))
        elif kind == 3:
            y = builder.op("concat", y, builder.op("tanh", y), axis=1)
        elif kind == 4:
            y = builder.op("softmax", y, axis=1)
        elif kind == 5:
            y = builder.op("reshape", y, shape=(n,))
            y = builder.op("reshape", y * 2.0, shape=(1, n))
        elif kind == 6:
            y = y - builder.op("sum", y, axis=(1,), keepdims=True)
        elif kind == 7:
            y = builder.op("reshape", builder.op("sum", y, axis=(0,)), shape=(1, n))
        elif kind == 8:
            y = builder.op("permute_dims", y, axes=(1, 0))
            y = builder.op("permute_dims", y, axes=(1, 0))
        else:
            y = builder.op("index", y, key=((None, None, None), (0, max(1, n - 1), None)))
    y = builder.op("reshape", y, shape=y.shape[1:])
    y = builder.op("cast", y, dtype="float32")
    graph = builder.graph(y)
    short = without_batch_of_one(graph)
    assert short.result == graph.result
    values = draw_values(data, (4,))
    expected = run(expand(graph), values)
    np.testing.assert_allclose(run(expand(short), values), expected, rtol=1e-6, atol=1e-6)


def test_without_batch_of_one_is_the_same_graph(torch):
    """BatchNorm wants a batch; behind the pass nothing is left of it."""
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.ReLU())
    graph = xpapply.lift(net.eval(), (3,))
    assert all(len(n.aval.shape) <= 1 or n.op == "const" for n in graph.nodes)


@given(data=st.data())
def test_regions_cover(data):
    """Every elementwise node is in one region, and a region's inside is seen by nobody else."""
    graph = prune(random_graph(data))
    found = regions(graph)
    inside = [i for region in found.values() for i in region.nodes]
    elementwise = [i for i, n in enumerate(graph.nodes) if OPS[n.op].kind is Kind.ELEMENTWISE]
    assert sorted(inside) == elementwise
    for region in found.values():
        assert region.out == max(region.nodes)
        for i in region.nodes:
            users = [u for u, n in enumerate(graph.nodes) if i in n.args]
            assert i == region.out or set(users) <= set(region.nodes)
            assert i == region.out or i != graph.out
            scalars = {a for a in graph.nodes[i].args if graph.nodes[a].op == "scalar"}
            assert set(graph.nodes[i].args) <= {*region.nodes, *region.inputs, *scalars}


def test_several_inputs_and_results():
    """Passes and batching keep all of them; what no result needs goes, but no input."""
    builder = Builder()
    x, y, unused = (builder.input(ShapeDtype((3,), "float64")) for _ in range(3))
    builder.op("exp", unused)
    graph = builder.graph(x * y, builder.op("softmax", x, axis=0), builder.const(np.arange(2.0)))
    values = [np.array(v, float) for v in ([1, 2, 3], [4, 5, 6], [7, 8, 9])]
    want = [values[0] * values[1], np.exp(values[0]) / np.exp(values[0]).sum(), np.arange(2.0)]
    for rewrite in (prune, compact, expand, fold):
        short = rewrite(graph)
        assert [len(short.inputs), len(short.outs)] == [3, 3]
        for got, expected in zip(
            array_api.evaluate(np, expand(short), values, short.consts), want, strict=True
        ):
            np.testing.assert_allclose(got, expected, rtol=1e-12)
    assert "exp" not in [n.op for n in prune(graph).nodes]
    stacked = [np.stack([v, v], -1) for v in values]
    found = array_api.evaluate(np, batch(expand(graph)), stacked, graph.consts)
    for got, expected in zip(found, want, strict=True):
        np.testing.assert_allclose(got, np.stack([expected, expected], -1), rtol=1e-12)
    assert str(graph).splitlines()[1] == "%1: float64[3] = input k=1"
    assert str(graph).splitlines()[-1].count("%") == 3
    with pytest.raises(ValueError, match="too many values"):
        _ = graph.out


def test_graphs_of_slices_of_any_length_are_checked_too():
    """Functions of `xpapply.special`, their accumulators, and complex elements."""
    one = {
        ("float32", True): ["logsumexp", "softmax", "log_softmax"],
        ("int8", True): ["softmax_as_exp", "log_softmax_as_exp"],
    }
    graphs = [
        written(formulas.calls[name]._write, [kind])[0]
        for kind, names in one.items()
        for name in names
    ]
    graphs.append(written(lambda x: np.abs(x * 1j) + x.astype("float32"), [("float32", True)])[0])
    graphs.append(written(formulas.calls["complex_softmax"]._write, [("float64", True)] * 2)[0])
    for graph in graphs:
        verify(graph)
        for by, _ in graph.accumulations():
            for part in (by.chunk, by.combine, by.merge):
                assert part is None or verify(part) is part


def test_values_do_not_have_a_truth():
    x = Builder().input(ShapeDtype((2,), "float64"))
    with pytest.raises(xpapply.TraceError, match="truth"):
        assert x == x + 1.0


@pytest.mark.parametrize("dtype", ["int8", "float32"])
@pytest.mark.parametrize(
    "f",
    [
        lambda v: np.where(v > 300, v * 0.5, 1.0),
        lambda v: np.where(np.logical_and(v, v[::-1]), v * 0.5, 2.0),
        lambda v: np.where(np.logical_not(v), 0.5, v * 0.1),
        lambda v: np.hypot(v * 0.5, 2.0),
        lambda v: np.sign(v * 0.5) * np.power(v * 0.5, 3),
    ],
)
def test_ufuncs_have_the_dtypes_of_numpy(f, dtype):
    """What a function is lifted to has NumPy's results, and their dtypes."""
    x = np.array([-3, 0, 2, 5], dtype)
    graph = xpapply.lift(f, x.shape, dtype)
    got, want = run(graph, x), f(x)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["U3", "S5", "U0", "f4", "c16"])
def test_bytes_of_any_dtype(dtype):
    dtype = np.dtype(dtype)
    assert ShapeDtype((2, 3), dtype.name).nbytes == 6 * dtype.itemsize
