"""Each operator, with attributes that hypothesis draws, as onnx's own reference computes it."""

import warnings

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from onnx.reference import ReferenceEvaluator
from onnx_models import by_runtime, model, saved

import xpapply
from xpapply.errors import InputError, UnsupportedError
from xpapply.ir.graph import ShapeDtype
from xpapply.models.onnx import load

rng = np.random.default_rng(0)


def numbers(*shape, dtype="float32", scale=1.0):
    return (rng.normal(size=shape) * scale).astype(dtype)


def check(tmp, nodes, shape, constants=(), x=None, tol=2e-5, oracle="reference", **kwargs):
    """The graph gives for each slice what the oracle gives for a batch of it."""
    made = model(nodes, shape, constants, **kwargs)
    path = saved(made, tmp)
    x = numbers(3, *shape, dtype=kwargs.get("dtype", "float32"), scale=2.0) if x is None else x
    if oracle == "reference":
        reference = ReferenceEvaluator(made)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            want = np.concatenate([reference.run(None, {"x": v[None]})[0] for v in x])
    else:
        want = np.concatenate([by_runtime(path, v[None]) for v in x])
    f = load(path)
    f.lift(ShapeDtype(x.shape[1:], x.dtype.name))  # there is a graph
    axes = tuple(range(1, x.ndim))
    got = xpapply.compile(f, x.shape[1:], x.dtype)(x, axes if len(axes) > 1 else 1)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=tol, atol=tol)
    return f


def node(op, *constants, **attrs):
    """x and constants c0, c1 ... to y."""
    return [(op, ["x", *constants], ["y"], attrs)]


ODD = np.array([[0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 88.0, -104.0, 1e-3, 3.0, 25.0]])
ODD = ODD.astype(np.float32)

UNARY = (
    "Abs Neg Sqrt Exp Log Erf Tanh Sin Cos Tan Asin Acos Atan Sinh Cosh Floor Ceil Reciprocal Relu "
    "Sigmoid Softplus Softsign HardSwish LeakyRelu Elu Celu Selu ThresholdedRelu Shrink "
    "HardSigmoid Sign Identity Dropout"
).split()


@pytest.mark.parametrize("op", UNARY)
def test_functions_of_a_number(tmp_path, op):
    x = numbers(4, 7, scale=3.0)
    if op in ("Asin", "Acos"):
        x = np.tanh(x)
    with np.errstate(all="ignore"):
        check(tmp_path, node(op), (7,), x=x)


@pytest.mark.parametrize("op", [k for k in UNARY if k not in ("Tan", "Sin", "Cos")])
def test_nan_and_infinities(tmp_path, op):
    """As the reference; what it does with them itself is numpy's own."""
    x = np.concatenate([ODD, ODD[:, ::-1]])
    if op in ("Asin", "Acos"):
        x = np.clip(x, -1, 1)
    oracle = "runtime" if op in ("Softplus", "Shrink", "Celu", "HardSwish") else "reference"
    with np.errstate(all="ignore"):
        check(tmp_path, node(op), (12,), x=x, oracle=oracle)


ATTRIBUTES = {
    "LeakyRelu": ("alpha",),
    "Elu": ("alpha",),
    "Celu": ("alpha",),
    "Selu": ("alpha", "gamma"),
    "ThresholdedRelu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "Shrink": ("lambd", "bias"),
}
positive = st.floats(0.0625, 3.0, width=32)


@given(op=st.sampled_from(sorted(ATTRIBUTES)), values=st.tuples(positive, positive))
def test_attributes_of_activations(tmp_path_factory, op, values):
    attrs = dict(zip(ATTRIBUTES[op], values, strict=False))
    check(tmp_path_factory.getbasetemp(), node(op, **attrs), (5,))


@pytest.mark.parametrize(("op", "opset"), [("Gelu", 20), ("Mish", 18), ("Swish", 24)])
def test_later_activations(tmp_path, op, opset):
    check(tmp_path, node(op), (9,), opset=opset)
    if op == "Gelu":
        check(tmp_path, node(op, approximate="tanh"), (9,), opset=opset)
    if op == "Swish":
        check(tmp_path, node(op, alpha=1.5), (9,), opset=opset)


BINARY = ["Add", "Sub", "Mul", "Div", "Min", "Max", "Sum", "Mean", "PRelu"]


@given(
    op=st.sampled_from(BINARY),
    shape=st.sampled_from([(), (1,), (4,), (1, 4), (3, 1), (1, 1, 1), (1, 3, 4)]),
    first=st.booleans(),
)
def test_arithmetic_with_constants(tmp_path_factory, op, shape, first):
    order = ["c", "x"] if first and op != "PRelu" else ["x", "c"]
    c = np.asarray(numbers(*shape) + np.float32(3))
    oracle = "runtime" if op == "Mean" else "reference"  # which adds in place
    nodes = [(op, order, ["y"], {})]
    check(tmp_path_factory.getbasetemp(), nodes, (3, 4), {"c": c}, oracle=oracle)


@pytest.mark.parametrize("power", [1.0, 2.0, 3.0, -1.0, 0.5, 2.5])
def test_powers(tmp_path, power):
    x = np.abs(numbers(3, 5)) + np.float32(0.1)
    check(tmp_path, node("Pow", "c"), (5,), {"c": np.float32(power)}, x=x)
    check(tmp_path, node("Pow", "c"), (5,), {"c": np.full(5, power, np.float32)}, x=x)
    if power in (2, 3):
        check(tmp_path, node("Pow", "c"), (5,), {"c": np.int64(power)})


@pytest.mark.parametrize("opset", [7, 10, 11, 13])
@pytest.mark.parametrize("limits", [(-0.5, 0.5), (None, 0.5), (-0.5, None), (None, None)])
def test_clip(tmp_path, opset, limits):
    low, high = limits
    if opset < 11:
        attrs = {k: v for k, v in (("min", low), ("max", high)) if v is not None}
        nodes, constants = node("Clip", **attrs), {}
    else:
        names = ["" if v is None else k for k, v in (("lo", low), ("hi", high))]
        constants = {k: np.float32(v) for k, v in (("lo", low), ("hi", high)) if v is not None}
        nodes = node("Clip", *names)
    x = numbers(2, 6)
    check(tmp_path, nodes, (6,), constants, x=x, opset=opset, oracle="runtime")


@pytest.mark.parametrize(
    "op", ["Greater", "Less", "Equal", "GreaterOrEqual", "LessOrEqual", "And", "Or", "Xor", "Not"]
)
def test_comparisons_and_choice(tmp_path, op):
    c = {"c": np.float32(0.25), "z": np.float32(0), "a": np.float32(5)}
    if op in ("And", "Or", "Xor"):
        nodes = [
            ("Greater", ["x", "c"], ["p"], {}),
            ("Less", ["x", "a"], ["q"], {}),
            (op, ["p", "q"], ["r"], {}),
        ]
    elif op == "Not":
        nodes = [("Greater", ["x", "c"], ["p"], {}), ("Not", ["p"], ["r"], {})]
    else:
        nodes = [(op, ["x", "c"], ["r"], {})]
    x = numbers(4, 6)
    x[0, :2] = 0.25
    check(tmp_path, [*nodes, ("Where", ["r", "x", "a"], ["y"], {})], (6,), c, x=x)
    check(tmp_path, [*nodes[:-1], (*nodes[-1][:2], ["y"], {})], (6,), c, x=x, out="bool")


@pytest.mark.parametrize("to", ["float64", "int64", "int32", "bool"])
def test_casts(tmp_path, to):
    from onnx_models import TYPES

    x = np.round(numbers(3, 6, scale=4.0))
    check(tmp_path, node("Cast", to=TYPES[to]), (6,), x=x, out=to)


def test_is_nan_and_is_inf(tmp_path):
    nodes = [("IsNaN", ["x"], ["p"], {}), ("Where", ["p", "c", "x"], ["y"], {})]
    check(tmp_path, nodes, (12,), {"c": np.float32(7)}, x=ODD)
    for attrs in ({}, {"detect_negative": 0}, {"detect_positive": 0}):
        nodes = [("IsInf", ["x"], ["p"], attrs), ("Where", ["p", "c", "x"], ["y"], {})]
        check(tmp_path, nodes, (12,), {"c": np.float32(7)}, x=ODD)


# --- shapes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "attrs"),
    [((0, 6), {}), ((-1, 6), {}), ((1, 3, 2), {}), ((0, -1), {}), ((1, -1, 2), {"allowzero": 1})],
)
def test_reshape(tmp_path, target, attrs):
    check(tmp_path, node("Reshape", "s", **attrs), (2, 3), {"s": np.array(target)})


def test_reshape_by_the_shape_itself(tmp_path):
    """What exporters write for ``x.view(x.size(0), -1)``."""
    nodes = [
        ("Shape", ["x"], ["s"], {}),
        ("Gather", ["s", "i"], ["n"], {"axis": 0}),
        ("Unsqueeze", ["n", "ax"], ["u"], {}),
        ("Concat", ["u", "m"], ["to"], {"axis": 0}),
        ("Reshape", ["x", "to"], ["y"], {}),
    ]
    constants = {"i": np.int64(0), "ax": np.array([0]), "m": np.array([-1])}
    check(tmp_path, nodes, (2, 3, 2), constants)


def test_arithmetic_with_shapes(tmp_path):
    """Half of an axis, as integers are divided."""
    nodes = [
        ("Shape", ["x"], ["s"], {}),
        ("Gather", ["s", "i"], ["n"], {"axis": 0}),
        ("Div", ["n", "two"], ["h"], {}),
        ("Mul", ["h", "two"], ["e"], {}),
        ("Sub", ["n", "e"], ["rest"], {}),
        ("Add", ["h", "rest"], ["m"], {}),
        ("Unsqueeze", ["m", "zero"], ["end"], {}),
        ("Slice", ["x", "zero", "end", "one"], ["y"], {}),
    ]
    constants = {"i": np.int64(1), "two": np.int64(2), "zero": np.array([0]), "one": np.array([1])}
    check(tmp_path, nodes, (7, 2), constants)


@given(a=st.integers(-20, 20), b=st.integers(-7, 7).filter(bool))
def test_integers_are_divided_towards_zero(tmp_path_factory, a, b):
    nodes = [
        ("Div", ["a", "b"], ["q"], {}),
        ("Cast", ["q"], ["f"], {"to": 1}),
        ("Add", ["x", "f"], ["y"], {}),
    ]
    f = check(
        tmp_path_factory.getbasetemp(),
        nodes,
        (2,),
        {"a": np.int64(a), "b": np.int64(b)},
        x=np.zeros((2, 2), np.float32),
        oracle="runtime",
    )
    assert f(np.zeros(2, np.float32))[0] == int(a / b)


@pytest.mark.parametrize("opset", [11, 13])
def test_squeeze_and_unsqueeze(tmp_path, opset):
    if opset < 13:
        nodes = [
            ("Unsqueeze", ["x"], ["h"], {"axes": [1, 3]}),
            ("Squeeze", ["h"], ["y"], {"axes": [3]}),
        ]
        constants = {}
    else:
        nodes = [("Unsqueeze", ["x", "a"], ["h"], {}), ("Squeeze", ["h", "b"], ["y"], {})]
        constants = {"a": np.array([1, -2]), "b": np.array([3])}
    check(tmp_path, nodes, (3, 2), constants, opset=opset)


@given(perm=st.permutations([1, 2, 3]))
def test_transpose(tmp_path_factory, perm):
    nodes = node("Transpose", perm=[0, *perm])
    check(tmp_path_factory.getbasetemp(), nodes, (2, 3, 4))


@given(start=st.integers(-7, 7), stop=st.integers(-7, 7), step=st.sampled_from([-2, -1, 1, 2, 3]))
def test_slices(tmp_path_factory, start, stop, step):
    assume(len(range(*slice(start, stop, step).indices(5))))
    constants = {"s": [start], "e": [stop], "a": [1], "t": [step]}
    constants = {k: np.array(v, np.int64) for k, v in constants.items()}
    check(tmp_path_factory.getbasetemp(), node("Slice", "s", "e", "a", "t"), (5, 2), constants)


def test_slices_of_old_versions_and_to_the_end(tmp_path):
    nodes = node("Slice", starts=[1, 0], ends=[3, 2**31 - 1], axes=[1, 2])
    check(tmp_path, nodes, (5, 2), opset=9, oracle="runtime")
    ends = {"s": np.array([-1]), "e": np.array([-(2**62)]), "a": np.array([-1])}
    check(tmp_path, node("Slice", "s", "e", "a", "t"), (5,), ends | {"t": np.array([-1])})


@pytest.mark.parametrize("indices", [1, -1, [0, 2], [2, 0, 0], [[0, 1], [1, 2]], [1]])
@pytest.mark.parametrize("axis", [1, -1])
def test_gather(tmp_path, indices, axis):
    check(tmp_path, node("Gather", "i", axis=axis), (3, 3), {"i": np.array(indices, np.int64)})


def test_lookups_by_the_slice_have_no_graph(tmp_path):
    nodes = [("Gather", ["t", "x"], ["y"], {})]
    made = model(nodes, (3,), {"t": numbers(5, 2)}, dtype="int64", out="float32")
    f = load(saved(made, tmp_path))
    with pytest.raises(UnsupportedError, match=r"'Gather_0'.*depends on the numbers of the slice"):
        f.lift(ShapeDtype((3,), "int64"))
    x = np.array([[0, 1, 4], [2, 2, 3]])
    got = xpapply.apply_along_axis(f, 1, x)
    np.testing.assert_array_equal(got, by_runtime(tmp_path / "model.onnx", x))
    plan = xpapply.explain(f, 1, x)
    assert plan.engine == "onnx.batch"
    assert "'Gather_0' (Gather)" in plan.reasons[0]


@pytest.mark.parametrize(("opset", "parts"), [(11, [1, 4]), (13, [2, 3]), (13, None), (18, None)])
def test_split(tmp_path, opset, parts):
    constants, attrs, more = {}, {"axis": 1}, []
    if parts and opset < 13:
        attrs["split"] = parts
    elif parts:
        constants, more = {"p": np.array(parts)}, ["p"]
    elif opset >= 18:
        attrs["num_outputs"] = 2
    n = 5 if parts or opset >= 18 else 6
    nodes = [
        ("Split", ["x", *more], ["a", "b"], attrs),
        ("Concat", ["b", "a"], ["y"], {"axis": -1 if n == 0 else 1}),
    ]
    check(tmp_path, nodes, (n,), constants, opset=opset)


@given(
    widths=st.tuples(*[st.integers(0, 2)] * 4),
    mode=st.sampled_from(["constant", "edge", "reflect"]),
)
def test_pad(tmp_path_factory, widths, mode):
    a, b, c, d = widths
    pads = np.array([0, 0, a, b, 0, 0, c, d])
    constants = {"p": pads, "v": np.float32(1.5)}
    more = ["p", "v"] if mode == "constant" else ["p"]
    check(tmp_path_factory.getbasetemp(), node("Pad", *more, mode=mode), (2, 3, 4), constants)


def test_pad_of_some_axes_and_old_versions(tmp_path):
    constants = {"p": np.array([1, 2]), "a": np.array([-1])}
    check(tmp_path, [("Pad", ["x", "p", "", "a"], ["y"], {})], (2, 3), constants, opset=18)
    check(tmp_path, node("Pad", "p", mode="wrap"), (4,), {"p": np.array([0, 1, 0, 2])}, opset=19)
    attrs = {"pads": [0, 1, 0, 2], "value": 2.0}
    check(tmp_path, node("Pad", **attrs), (4,), opset=10, oracle="runtime")
    attrs = {"p": np.array([0, -1, 0, 2])}
    check(tmp_path, node("Pad", "p"), (4,), attrs, oracle="runtime")


def test_expand_tile_and_constants(tmp_path):
    check(tmp_path, node("Expand", "s"), (3, 1), {"s": np.array([1, 3, 4])})
    check(tmp_path, node("Tile", "r"), (3, 2), {"r": np.array([1, 2, 3])})
    nodes = [
        ("Constant", [], ["n"], {"value_ints": [3]}),
        ("ConstantOfShape", ["n"], ["c"], {}),
        ("Range", ["a", "b", "d"], ["r"], {}),
        ("Add", ["c", "r"], ["m"], {}),
        ("Mul", ["x", "m"], ["y"], {}),
    ]
    constants = {"a": np.float32(1), "b": np.float32(7), "d": np.float32(2)}
    check(tmp_path, nodes, (3,), constants)


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_depth_and_space(tmp_path, mode):
    check(tmp_path, node("DepthToSpace", blocksize=2, mode=mode), (8, 2, 3))
    check(tmp_path, node("SpaceToDepth", blocksize=2), (2, 4, 6))


def test_a_branch_that_is_known(tmp_path):
    from onnx import helper

    out = helper.make_tensor_value_info("o", 1, None)
    yes = helper.make_graph([helper.make_node("Neg", ["x"], ["o"])], "yes", [], [out])
    no = helper.make_graph([helper.make_node("Abs", ["x"], ["o"])], "no", [], [out])
    for flag in (True, False):
        nodes = [("If", ["c"], ["y"], {"then_branch": yes, "else_branch": no})]
        check(tmp_path, nodes, (3,), {"c": np.array(flag)})


# --- layers -------------------------------------------------------------------------------------


@given(
    ta=st.booleans(),
    tb=st.booleans(),
    alpha=st.sampled_from([1.0, 0.5]),
    beta=st.sampled_from([1.0, 2.0, 0.0]),
    bias=st.sampled_from([None, (), (3,), (1, 3), (1,)]),
)
def test_gemm(tmp_path_factory, ta, tb, alpha, beta, bias):
    x = "t" if ta else "x"
    constants = {"w": numbers(*((3, 4) if tb else (4, 3)))}
    inputs = [x, "w"]
    if bias is not None:
        constants["b"] = np.asarray(numbers(*bias), np.float32)
        inputs.append("b")
    attrs = {"alpha": alpha, "beta": beta, "transA": int(ta), "transB": int(tb)}
    nodes = [("Gemm", inputs, ["y"], attrs)]
    if ta:
        nodes = [("Transpose", ["x"], ["t"], {"perm": [1, 0]}), *nodes]
    check(tmp_path_factory.getbasetemp(), nodes, (4,), constants)


@pytest.mark.parametrize(
    ("shape", "constant", "first"),
    [
        ((4,), (4, 3), False),
        ((4,), (4,), False),
        ((2, 4), (4, 3), False),
        ((2, 4), (5, 2), True),
        ((2, 3, 4), (2, 4, 5), False),
        ((3, 2, 4), (1, 4, 5), False),
        ((1, 2, 4), (3, 4, 5), False),
        ((2, 4), (4,), False),
    ],
)
def test_matmul(tmp_path, shape, constant, first):
    if constant == (4,) and len(shape) == 1:
        nodes = [("MatMul", ["x", "c"], ["h"], {}), ("Unsqueeze", ["h", "a"], ["y"], {})]
        check(tmp_path, nodes, shape, {"c": numbers(*constant), "a": np.array([1])})
        return
    order = ["c", "x"] if first else ["x", "c"]
    check(tmp_path, [("MatMul", order, ["y"], {})], shape, {"c": numbers(*constant)})


def test_matmul_of_two_values(tmp_path):
    """Attention."""
    nodes = [
        ("Transpose", ["x"], ["t"], {"perm": [0, 1, 3, 2]}),
        ("MatMul", ["x", "t"], ["s"], {}),
        ("Softmax", ["s"], ["p"], {"axis": -1}),
        ("MatMul", ["p", "x"], ["y"], {}),
    ]
    check(tmp_path, nodes, (2, 3, 4))
    nodes = [("Einsum", ["x", "x"], ["y"], {"equation": "bhij,bhkj->bhik"})]
    check(tmp_path, nodes, (2, 3, 4))


@st.composite
def windows(draw, transposed=False):
    n = draw(st.integers(1, 3))
    groups = draw(st.sampled_from([1, 2]))
    taps = [draw(st.integers(1, 3)) for _ in range(n)]
    places = [draw(st.integers(5, 7)) for _ in range(n)]
    attrs = {
        "strides": [draw(st.integers(1, 2)) for _ in range(n)],
        "dilations": [draw(st.integers(1, 2)) for _ in range(n)],
        "group": groups,
    }
    attrs["pads"] = [draw(st.integers(0, 2)) for _ in range(2 * n)]
    if draw(st.booleans()):
        attrs["kernel_shape"] = taps
    auto = draw(st.sampled_from(["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]))
    if auto != "NOTSET":
        del attrs["pads"]
        attrs["auto_pad"] = auto
        # what onnxruntime has of them
        attrs["dilations"] = [1] * n
        attrs["strides"] = [min(s, k) for s, k in zip(attrs["strides"], taps, strict=True)]
    return groups, taps, places, attrs


@given(windows(), st.booleans())
def test_conv(tmp_path_factory, drawn, bias):
    groups, taps, places, attrs = drawn
    constants = {"w": numbers(4, 4 // groups, *taps)} | ({"b": numbers(4)} if bias else {})
    nodes = node("Conv", *constants, **attrs)
    check(
        tmp_path_factory.getbasetemp(), nodes, (4, *places), constants, tol=2e-4, oracle="runtime"
    )


@given(windows(), st.data())
def test_conv_transpose(tmp_path_factory, drawn, data):
    groups, taps, places, attrs = drawn
    attrs.pop("auto_pad", None)
    more = [data.draw(st.integers(0, s - 1)) for s in attrs["strides"]]
    attrs["output_padding"] = more
    reach = [d * (k - 1) + 1 for d, k in zip(attrs["dilations"], taps, strict=True)]
    pads = attrs.get("pads", [0] * 2 * len(taps))
    n = len(taps)
    for k in range(n):
        assume(pads[k] < reach[k] and pads[k + n] < reach[k])
    nodes = node("ConvTranspose", "w", "b", **attrs)
    constants = {"w": numbers(4, 4 // groups, *taps), "b": numbers(4)}
    check(
        tmp_path_factory.getbasetemp(), nodes, (4, *places), constants, tol=2e-4, oracle="runtime"
    )


@pytest.mark.parametrize("auto", ["NOTSET", "SAME_UPPER", "SAME_LOWER"])
def test_conv_transpose_to_a_shape(tmp_path, auto):
    attrs = {"strides": [2, 2], "output_shape": [9, 10], "auto_pad": auto}
    nodes, constants = node("ConvTranspose", "w", **attrs), {"w": numbers(2, 3, 3, 3)}
    check(tmp_path, nodes, (2, 5, 5), constants, tol=1e-4, oracle="runtime")
    if auto != "NOTSET":
        del attrs["output_shape"]
        nodes = node("ConvTranspose", "w", **attrs)
        check(tmp_path, nodes, (2, 5, 5), constants, tol=1e-4, oracle="runtime")


@given(drawn=windows(), op=st.sampled_from(["MaxPool", "AveragePool"]), data=st.data())
def test_pools(tmp_path_factory, drawn, op, data):
    _, taps, places, attrs = drawn
    del attrs["group"]
    attrs["kernel_shape"] = taps
    attrs["pads"] = [
        min(p, k - 1) for p, k in zip(attrs.get("pads", taps * 2), taps * 2, strict=True)
    ]
    if "auto_pad" in attrs:
        del attrs["pads"]
    attrs["ceil_mode"] = data.draw(st.integers(0, 1)) if "auto_pad" not in attrs else 0
    if op == "AveragePool":
        attrs["count_include_pad"] = data.draw(st.integers(0, 1))
        if attrs["count_include_pad"] and attrs["ceil_mode"]:
            attrs["ceil_mode"] = 0
    check(
        tmp_path_factory.getbasetemp(), node(op, **attrs), (2, *places), opset=19, oracle="runtime"
    )


def test_pools_ignore_what_is_beyond_the_ends_and_keep_nan(tmp_path):
    x = numbers(2, 1, 6)
    x[0, 0, 2] = np.nan
    x[1, 0, 0] = -np.inf
    attrs = {"kernel_shape": [3], "pads": [1, 1], "strides": [2]}
    f = load(saved(model(node("MaxPool", **attrs), (1, 6)), tmp_path))
    import torch

    want = torch.nn.functional.max_pool1d(torch.from_numpy(x), 3, 2, 1).numpy()
    got = xpapply.compile(f, (1, 6), np.float32)(x, (1, 2))
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("shape", [(3,), (3, 5), (3, 4, 5)])
def test_norms(tmp_path, shape):
    parts = {k: np.abs(numbers(3)) + np.float32(0.5) for k in ("g", "b", "m", "v")}
    check(tmp_path, node("BatchNormalization", *parts, epsilon=1e-3), shape, parts, opset=15)
    check(tmp_path, node("BatchNormalization", *parts), shape, parts, opset=9, oracle="runtime")
    two = {k: parts[k] for k in ("g", "b")}
    if len(shape) > 1:
        check(tmp_path, node("InstanceNormalization", *two), shape, two)
    last = {"g": numbers(*shape[-1:]), "b": numbers(*shape[-1:])}
    check(tmp_path, node("LayerNormalization", *last), shape, last)
    check(tmp_path, node("LayerNormalization", "g", epsilon=1e-2), shape, last)
    whole = {"g": numbers(*shape), "b": numbers(*shape)}
    check(tmp_path, node("LayerNormalization", *whole, axis=1), shape, whole)
    check(tmp_path, node("RMSNormalization", "g"), shape, {"g": last["g"]}, opset=23)


def test_group_norm(tmp_path):
    two = {"g": numbers(4), "b": numbers(4)}
    nodes = node("GroupNormalization", "g", "b", num_groups=2)
    check(tmp_path, nodes, (4, 3, 2), two, opset=21, tol=1e-4)


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize(("opset", "axis"), [(11, 1), (11, 2), (13, 1), (13, -1), (12, None)])
def test_softmax(tmp_path, op, opset, axis):
    attrs = {} if axis is None else {"axis": axis}
    check(tmp_path, node(op, **attrs), (3, 4), opset=opset, oracle="runtime")


REDUCTIONS = [
    f"Reduce{name}" for name in "Sum Mean Max Min Prod L1 L2 SumSquare LogSum LogSumExp".split()
]


@pytest.mark.parametrize("op", REDUCTIONS)
@pytest.mark.parametrize("opset", [11, 13, 18])
@pytest.mark.parametrize("keep", [0, 1])
def test_reductions(tmp_path, op, opset, keep):
    x = np.abs(numbers(3, 2, 4)) + np.float32(0.1)
    for axes in ([1], [-1], [1, 2]):
        attrs, constants = {"keepdims": keep}, {}
        if opset >= (13 if op == "ReduceSum" else 18):
            constants = {"a": np.array(axes)}
        else:
            attrs["axes"] = axes
        check(tmp_path, node(op, *constants, **attrs), (2, 4), constants, x=x, opset=opset)


def test_log_of_sums_of_exponentials_of_infinities(tmp_path):
    x = np.array([[-np.inf, -np.inf], [np.inf, 1.0], [1000.0, 1000.0]], np.float32)
    nodes = node("ReduceLogSumExp", axes=[1], keepdims=0)
    f = load(saved(model(nodes, (2,), opset=13), tmp_path))
    got = xpapply.apply_along_axis(f, 1, x)
    np.testing.assert_allclose(got, [-np.inf, np.inf, 1000 + np.log(2)], rtol=1e-6)


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("keep", [0, 1])
def test_positions(tmp_path, op, keep):
    check(tmp_path, node(op, axis=-1, keepdims=keep), (3, 5), out="int64")
    check(tmp_path, node(op, axis=1, keepdims=keep), (5,), out="int64")


@pytest.mark.parametrize("op", ["GlobalAveragePool", "GlobalMaxPool"])
def test_global_pools(tmp_path, op):
    check(tmp_path, node(op), (3, 4, 5))


# --- other sizes ----------------------------------------------------------------------------------


@given(
    mode=st.sampled_from(["nearest", "linear"]),
    where=st.sampled_from(
        ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric"]
    ),
    rounding=st.sampled_from(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]),
    sizes=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    by_scale=st.booleans(),
)
def test_resize(tmp_path_factory, mode, where, rounding, sizes, by_scale):
    attrs = {"mode": mode, "coordinate_transformation_mode": where, "nearest_mode": rounding}
    if by_scale:
        scales = [1.0, 1.0, *(n / 4 for n in sizes)]
        assume(all(n * 4 // 4 for n in sizes))
        nodes, constants = node("Resize", "", "s", **attrs), {"s": np.array(scales, np.float32)}
    else:
        sizes = np.array([1, 2, *sizes])
        nodes, constants = node("Resize", "", "", "n", **attrs), {"n": sizes}
    tmp = tmp_path_factory.getbasetemp()
    made = saved(model(nodes, (2, 4, 4), constants, opset=19), tmp)
    try:
        load(made).lift(ShapeDtype((2, 4, 4), "float32"))
    except UnsupportedError as error:
        assert "rounding decides" in str(error)  # noqa: PT017
        return
    check(tmp, nodes, (2, 4, 4), constants, opset=19, oracle="runtime", tol=1e-4)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_upsample(tmp_path, mode):
    attrs = {"mode": mode}
    s = {"s": np.array([1, 1, 2, 3], np.float32)}
    check(tmp_path, node("Upsample", "s", **attrs), (2, 3, 3), s, opset=9, oracle="runtime")
    check(tmp_path, node("Resize", "s", **attrs), (2, 3, 3), s, opset=10, oracle="runtime")
    attrs["scales"] = s["s"].tolist()
    check(tmp_path, node("Upsample", **attrs), (2, 3, 3), opset=7, oracle="runtime")


# --- classical models -----------------------------------------------------------------------------


def test_scaler_and_normalizer(tmp_path):
    attrs = {"offset": [1.0, 2.0, 3.0], "scale": [0.5, 0.25, 2.0]}
    check(tmp_path, node("Scaler", **attrs), (3,), oracle="runtime")
    check(tmp_path, node("Scaler", offset=[1.0], scale=[0.5]), (3,), oracle="runtime")
    for norm in ("MAX", "L1", "L2"):
        x = np.abs(numbers(4, 3))
        x[0] = 0
        check(tmp_path, node("Normalizer", norm=norm), (3,), x=x, oracle="runtime")
    check(tmp_path, node("Binarizer", threshold=0.5), (3,), oracle="runtime")
    x = numbers(4, 3)
    x[0, 1] = np.nan
    attrs = {"imputed_value_floats": [1.0, 2.0, 3.0], "replaced_value_float": np.nan}
    check(tmp_path, node("Imputer", **attrs), (3,), x=x, oracle="runtime")


@pytest.mark.parametrize("after", ["NONE", "LOGISTIC", "SOFTMAX"])
def test_linear_models(tmp_path, after):
    attrs = {"coefficients": numbers(12).tolist(), "intercepts": numbers(3).tolist()}
    attrs["post_transform"] = after
    nodes = node("LinearRegressor", targets=3, **attrs)
    check(tmp_path, nodes, (4,), oracle="runtime")
    attrs |= {"classlabels_ints": [5, 7, 2], "multi_class": 1}
    nodes = [("LinearClassifier", ["x"], ["l", "y"], attrs)]
    check(tmp_path, nodes, (4,), oracle="runtime")
    nodes = [("LinearClassifier", ["x"], ["y", "s"], attrs)]
    check(tmp_path, nodes, (4,), out="int64", oracle="runtime")


# --- all of them ----------------------------------------------------------------------------------


def test_versions_before_and_after_the_known_ones(tmp_path):
    f = load(saved(model(node("Relu"), (3,), opset=6), tmp_path))
    with pytest.raises(UnsupportedError, match="version 6 of the operators"):
        f.lift(ShapeDtype((3,), "float32"))
    made = model(node("Relu"), (3,))
    made.opset_import[0].version = 999
    with pytest.raises(InputError, match=r"version 999.*opset_version=18"):
        load(saved(made, tmp_path))


def test_float64_and_halves(tmp_path):
    w = numbers(3, 4, dtype="float64")
    nodes = [("MatMul", ["x", "w"], ["h"], {}), ("Tanh", ["h"], ["y"], {})]
    check(tmp_path, nodes, (3,), {"w": w}, dtype="float64", opset=20, tol=1e-12)
    half = {"w": w.astype(np.float16)}
    f = check(tmp_path, nodes, (3,), half, dtype="float16", opset=20, tol=5e-3)
    assert f(np.zeros(3, np.float32)).dtype == np.float16


@pytest.mark.parametrize("dtype", ["uint8", "int64", "float64", "float16", "bool"])
def test_slices_are_cast_to_the_dtype_of_the_input(tmp_path, dtype):
    f = load(saved(model(node("Gemm", "w"), (3,), {"w": numbers(3, 2)}), tmp_path))
    x = rng.integers(0, 2, (5, 3)).astype(dtype)
    want = by_runtime(tmp_path / "model.onnx", x.astype(np.float32))
    got = xpapply.apply_along_axis(f, 1, x)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, want, rtol=1e-5)
