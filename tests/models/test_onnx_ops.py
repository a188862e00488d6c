"""Operators of numbers and shapes, as onnx's own reference or onnxruntime computes them."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from onnx_models import by_runtime, check, model, node, numbers, rng, saved

import xpapply
from xpapply.errors import InputError, UnsupportedError
from xpapply.ir.graph import ShapeDtype
from xpapply.models.onnx import load

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
