"""Operators of layers, with attributes that hypothesis draws, as others compute them."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from onnx_models import check, model, node, numbers, saved

import xpapply
from xpapply.errors import UnsupportedError
from xpapply.ir.graph import ShapeDtype
from xpapply.models.onnx import load

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
