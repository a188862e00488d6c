"""ONNX files that are refused: several inputs, weights elsewhere, damage, bombs."""

import os
import pickle
import random
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_models import TYPES, by_runtime, model, saved

import xpapply
from xpapply.errors import FallbackWarning, InputError, UnsupportedError
from xpapply.models.onnx import load

rng = np.random.default_rng(0)
W = rng.normal(size=(3, 2)).astype(np.float32)


def field(number, content):
    """A message or text in a protobuf."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def varint(n):
    found = bytearray()
    while n > 127:
        found.append(n & 127 | 128)
        n >>= 7
    return bytes([*found, n])


def gemm(**kwargs):
    return model([("Gemm", ["x", "w"], ["y"], {})], (3,), {"w": W}, **kwargs)


def refused(found, tmp_path, match, **kwargs):
    path = found if isinstance(found, Path) else saved(found, tmp_path)
    with pytest.raises(InputError, match=match) as error:
        load(path, **kwargs)
    assert str(error.value).startswith(path.name)


# --- the input and the output ---------------------------------------------------------------------


def test_repr(tmp_path):
    assert repr(load(saved(gemm(), tmp_path))) == "OnnxModel('model.onnx', float32[3] -> 'y')"


def test_a_fixed_batch(tmp_path):
    refused(gemm(batch=4), tmp_path, "is a batch of 4: export it with an open first axis")


def test_a_batch_of_one_runs_in_batches(tmp_path):
    path = saved(gemm(batch=1), tmp_path)
    f, x = load(path), rng.normal(size=(5, 3)).astype(np.float32)
    np.testing.assert_allclose(xpapply.apply_along_axis(f, 1, x), x @ W, rtol=1e-5)
    with xpapply.options(engine="onnx.batch"):
        np.testing.assert_allclose(xpapply.apply_along_axis(f, 1, x), x @ W, rtol=1e-5)


def test_a_batch_of_one_that_is_in_its_shapes_too(tmp_path):
    """onnxruntime runs it slice by slice, in the loop."""
    nodes = [
        ("CumSum", ["x", "a"], ["h"], {}),
        ("Reshape", ["h", "s"], ["y"], {}),
    ]
    made = model(nodes, (4,), {"a": np.int64(1), "s": np.array([1, 2, 2])}, batch=1)
    f = load(saved(made, tmp_path))
    x = rng.normal(size=(5, 4)).astype(np.float32)
    with pytest.warns(FallbackWarning, match="a batch of 3 slices does not run"):
        got = xpapply.apply_along_axis(f, 1, np.tile(x, (200, 1)))
    want = np.cumsum(np.tile(x, (200, 1)), 1).reshape(-1, 2, 2)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_slices_that_depend_on_each_other(tmp_path):
    nodes = [("CumSum", ["x", "a"], ["y"], {})]
    f = load(saved(model(nodes, (4,), {"a": np.int64(0)}), tmp_path))
    x = rng.normal(size=(5, 4)).astype(np.float32)
    plan = xpapply.explain(f, 1, x)
    assert plan.engine == "loop"
    assert "the result for a slice depends on those beside it" in plan.reasons
    with pytest.warns(FallbackWarning, match="depends on those beside it"):
        got = xpapply.apply_along_axis(f, 1, x)
    np.testing.assert_array_equal(got, x)


def test_several_inputs(tmp_path):
    made = gemm()
    made.graph.input.append(helper.make_tensor_value_info("more", 1, ["b", 2]))
    refused(made, tmp_path, r"2 inputs \('x' \(float32\[\?,3\]\), 'more'.*a function of a slice")


def test_weights_that_are_named_as_inputs_too(tmp_path):
    made = gemm()
    made.graph.input.append(helper.make_tensor_value_info("w", 1, [3, 2]))
    f = load(saved(made, tmp_path))
    np.testing.assert_allclose(f(np.ones(3, np.float32)), W.sum(0), rtol=1e-5)


def test_no_slices(tmp_path):
    refused(model([("Relu", ["x"], ["y"], {})], ()), tmp_path, "has no slices")


def test_inputs_of_texts(tmp_path):
    made = model([("Identity", ["x"], ["y"], {})], (3,))
    made.graph.input[0].type.tensor_type.elem_type = TensorProto.STRING
    made.graph.output[0].type.tensor_type.elem_type = TensorProto.STRING
    refused(made, tmp_path, "'x' \\(string.*is not an array of numbers")


def test_several_outputs(tmp_path):
    made = gemm()
    made.graph.node.append(helper.make_node("Relu", ["y"], ["z"]))
    made.graph.output.append(helper.make_tensor_value_info("z", 1, ["b", 2]))
    refused(made, tmp_path, "2 outputs: 'y' .*, 'z' .*Say which one: output='z'")
    refused(made, tmp_path, "no output 'q': there are 'y'", output="q")
    x = rng.normal(size=(5, 3)).astype(np.float32)
    for name, want in (("y", x @ W), ("z", np.maximum(x @ W, 0))):
        f = load(tmp_path / "model.onnx", output=name)
        np.testing.assert_allclose(xpapply.apply_along_axis(f, 1, x), want, rtol=1e-5, atol=1e-6)


# --- what a file may leave out --------------------------------------------------------------------


def no_shape(value):
    value.type.tensor_type.ClearField("shape")


def no_type(value):
    value.ClearField("type")


def empty_type(value):
    no_type(value)
    value.type.SetInParent()


def no_dtype(value):
    value.type.tensor_type.ClearField("elem_type")


def undefined_dtype(value):
    value.type.tensor_type.elem_type = TensorProto.UNDEFINED


def nothing_but_a_tensor(value):
    no_type(value)
    value.type.tensor_type.SetInParent()


OPEN = [no_shape, no_type, empty_type, no_dtype, undefined_dtype, nothing_but_a_tensor]


def written(found, tmp_path):
    """As it is: `saved` completes shapes."""
    path = tmp_path / "model.onnx"
    path.write_bytes(found.SerializeToString())
    return path


@pytest.mark.parametrize("engine", ["", "onnx.batch"])
@pytest.mark.parametrize("leave_out", OPEN)
def test_outputs_without_shape_or_type(tmp_path, leave_out, engine):
    made = gemm()
    leave_out(made.graph.output[0])
    f = load(written(made, tmp_path))
    assert repr(f) == "OnnxModel('model.onnx', float32[3] -> 'y')"
    x = rng.normal(size=(50, 3)).astype(np.float32)
    with xpapply.options(engine=engine):
        plan = xpapply.explain(f, 1, x)
        got = plan(x, 1)
    assert plan.engine == engine or not engine
    assert (plan.out_shape, plan.out_dtype) == ((50, 2), "float32")
    np.testing.assert_allclose(got, x @ W, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(pickle.loads(pickle.dumps(f))(x[0]), x[0] @ W, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("leave_out", OPEN)
def test_several_outputs_without_shape_or_type(tmp_path, leave_out):
    nodes = [
        ("Gemm", ["x", "w"], ["y"], {}),
        ("Relu", ["y"], ["z"], {}),
        ("ReduceSum", ["z", "a"], ["scalar"], {"keepdims": 0}),
        ("ArgMax", ["z"], ["label"], {"axis": 1, "keepdims": 0}),
    ]
    made = model(nodes, (3,), {"w": W, "a": np.array([1])})
    for name in ("z", "scalar", "label"):
        made.graph.output.add().CopyFrom(made.graph.output[0])
        made.graph.output[-1].name = name
    made.graph.output[-1].type.tensor_type.elem_type = TensorProto.INT64
    for value in made.graph.output:
        leave_out(value)
    path = written(made, tmp_path)
    with pytest.raises(InputError, match=r"4 outputs: 'y' .*Say which one: output='label'"):
        load(path)
    x = rng.normal(size=(50, 3)).astype(np.float32)
    z = np.maximum(x @ W, 0)
    for name, want in (("y", x @ W), ("z", z), ("scalar", z.sum(1)), ("label", z.argmax(1))):
        f = load(path, output=name)
        for engine in ("", "onnx.batch", "loop"):
            with xpapply.options(engine=engine):
                got = xpapply.apply_along_axis(f, 1, x)
            assert got.dtype == (np.int64 if name == "label" else np.float32)
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("dims", [["b", None], ["b", "c"], ["b", -1], [-1, 3], [-1, -1], None])
@pytest.mark.parametrize("leave_out", [None, no_shape, no_type])
def test_inputs_of_open_shape(tmp_path, dims, leave_out):
    """Exporters write -1 too, which is open for onnxruntime as well."""
    made = gemm()
    made.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", 1, dims))
    if leave_out is not None:
        leave_out(made.graph.output[0])
    f = load(saved(made, tmp_path) if leave_out is None else written(made, tmp_path))
    x = rng.normal(size=(50, 3)).astype(np.float32)
    for engine in ("", "onnx.batch", "loop"):
        with xpapply.options(engine=engine):
            got = xpapply.apply_along_axis(f, 1, x)
        np.testing.assert_allclose(got, x @ W, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("leave_out", [no_shape, no_type, None])
def test_values_between_without_shape_or_type(tmp_path, leave_out):
    nodes = [("Gemm", ["x", "w"], ["h"], {}), ("Relu", ["h"], ["y"], {})]
    made = model(nodes, (3,), {"w": W})
    no_shape(made.graph.output[0])
    if leave_out is not None:
        made.graph.value_info.append(helper.make_tensor_value_info("h", 1, ["b", 2]))
        leave_out(made.graph.value_info[0])
    x = rng.normal(size=(50, 3)).astype(np.float32)
    got = xpapply.apply_along_axis(load(written(made, tmp_path)), 1, x)
    np.testing.assert_allclose(got, np.maximum(x @ W, 0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("leave_out", OPEN)
def test_probabilities_of_classes_without_type(tmp_path, leave_out):
    """A ZipMap, whose output is no tensor."""
    made = model(
        [
            ("Softmax", ["x"], ["p"], {"axis": 1}),
            ("ZipMap", ["p"], ["y"], {"classlabels_int64s": [0, 1, 2]}),
        ],
        (3,),
    )
    leave_out(made.graph.output[0])
    x = rng.normal(size=(50, 3)).astype(np.float32)
    got = xpapply.apply_along_axis(load(written(made, tmp_path)), 1, x)
    want = np.exp(x) / np.exp(x).sum(1, keepdims=True)
    np.testing.assert_allclose(got, want, rtol=1e-5)


def test_nodes_without_a_graph_and_an_output_without_type(tmp_path):
    """onnxruntime alone runs it."""
    made = model([("Det", ["q"], ["d"], {}), ("Add", ["d", "d"], ["y"], {})], (4,))
    made.graph.node.insert(0, helper.make_node("Reshape", ["x", "s"], ["q"]))
    made.graph.initializer.append(numpy_helper.from_array(np.array([-1, 2, 2]), "s"))
    no_type(made.graph.output[0])
    f = load(written(made, tmp_path))
    x = rng.normal(size=(50, 4)).astype(np.float32)
    want = 2 * np.linalg.det(x.reshape(-1, 2, 2))
    np.testing.assert_allclose(xpapply.apply_along_axis(f, 1, x), want, rtol=1e-4, atol=1e-5)


def test_what_may_not_be_left_out(tmp_path):
    """All else that onnx's checker finds is refused as it was."""
    for spoil, match in (
        (lambda g: no_type(g.input[0]), "'type' of 'value_info' is required"),
        (lambda g: no_dtype(g.input[0]), "'elem_type' of 'type' is required"),
        (lambda g: undefined_dtype(g.input[0]), r"input 'x' \(undefined.*not an array of numbers"),
        (lambda g: g.output[0].ClearField("name"), "not a valid model"),
        (lambda g: g.node[0].ClearField("op_type"), "not a valid model"),
        (lambda g: g.ClearField("name"), "not a valid model"),
    ):
        made = gemm()
        no_shape(made.graph.output[0])
        spoil(made.graph)
        refused(written(made, tmp_path), tmp_path, match)
    made = gemm()
    no_type(made.graph.output[0])
    made.graph.output[0].type.sequence_type.SetInParent()
    refused(written(made, tmp_path), tmp_path, "'elem_type' of 'type' is required")


def test_a_file_that_leaves_out_much_says_what_it_has(tmp_path):
    made = gemm()
    made.graph.node.append(helper.make_node("Relu", ["y"], ["z"]))
    made.graph.output.append(helper.make_tensor_value_info("z", 1, None))
    no_type(made.graph.output[0])
    outputs = r"'y' \(of unknown type\), 'z' \(float32\[\.\.\.\]\)"
    refused(written(made, tmp_path), tmp_path, outputs)


# --- slices, and who runs them ----------------------------------------------------------------


def test_slices_that_do_not_fit(tmp_path):
    f = load(saved(gemm(), tmp_path))
    with pytest.raises(InputError, match=r"takes slices of shape \(3\), these have \(4,\)"):
        xpapply.apply_along_axis(f, 1, np.zeros((2, 4)))
    with pytest.raises(InputError, match="takes real numbers, the slices are complex"):
        xpapply.apply_along_axis(f, 1, np.zeros((2, 3), complex))
    f = load(saved(model([("Neg", ["x"], ["y"], {})], (3,), dtype="int64"), tmp_path))
    with pytest.raises(InputError, match="takes int64, the slices are float64: cast them"):
        xpapply.apply_along_axis(f, 1, np.zeros((2, 3)))


# --- without onnxruntime --------------------------------------------------------------------------

WITHOUT = """
import sys
sys.modules[{name!r}] = None
import numpy as np, xpapply
from xpapply.models.onnx import load
try:
    f = load({path!r})
    print(xpapply.explain(f, 1, np.zeros((5, 3), np.float32)).engine)
except Exception as error:
    print(type(error).__name__, error)
print([m for m in ("onnxruntime", "torch", "sklearn") if sys.modules.get(m)])
"""


def said(path, name="onnxruntime"):
    code = WITHOUT.format(path=str(path), name=name)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.stderr == ""
    *text, loaded = ran.stdout.strip().splitlines()
    assert loaded == "[]"
    return "\n".join(text)


def test_without_onnxruntime(tmp_path):
    nodes = [("CumSum", ["x", "a"], ["y"], {})]
    path = saved(model(nodes, (3,), {"a": np.int64(1)}), tmp_path)
    text = said(path)
    assert text.startswith("InputError model.onnx: node 'CumSum_0' (CumSum): no graph is known")
    assert "pip install onnxruntime" in text
    open_ = saved(model(nodes, ("n",), {"a": np.int64(1)}), tmp_path, "open.onnx")
    assert said(open_) == text.replace("model.onnx", "open.onnx")
    assert said(saved(gemm(), tmp_path)) in ("cpu", "torch", "numpy")


def test_without_onnx(tmp_path):
    text = said(saved(gemm(), tmp_path), "onnx")
    assert text.startswith("UnsupportedError model.onnx")
    assert "pip install onnx" in text


def test_explain_names_the_node(tmp_path):
    nodes = [("CumSum", ["x", "a"], ["h"], {}), ("Relu", ["h"], ["y"], {})]
    f = load(saved(model(nodes, (3,), {"a": np.int64(1)}), tmp_path))
    x = rng.normal(size=(5, 3)).astype(np.float32)
    plan = xpapply.explain(f, 1, x)
    assert plan.engine == "onnx.batch"
    said = "no graph: model.onnx: node 'CumSum_0' (CumSum): no graph is known of this operator"
    assert plan.reasons == (said,)
    assert "onnxruntime on blocks" in str(plan)
    cannot = pytest.raises(UnsupportedError, match="engine 'numpy' cannot run OnnxModel")
    with cannot, xpapply.options(engine="numpy"):
        xpapply.apply_along_axis(f, 1, x)
    again = pickle.loads(pickle.dumps(f))
    want = xpapply.apply_along_axis(f, 1, x)
    np.testing.assert_array_equal(xpapply.apply_along_axis(again, 1, x), want)


# --- weights in other files -----------------------------------------------------------------------


def external(tmp_path, location="weights.bin", offset=0, length=None, content=None, dims=None):
    """A file whose weights are in another one."""
    made = gemm()
    (w,) = made.graph.initializer
    w.ClearField("raw_data")
    w.data_location = TensorProto.EXTERNAL
    if dims is not None:
        del w.dims[:]
        w.dims.extend(dims)
    entries = {"location": location, "offset": offset, "length": length}
    for key, value in entries.items():
        if value is not None:
            w.external_data.add(key=key, value=str(value))
    (tmp_path / "weights.bin").write_bytes(W.tobytes() if content is None else content)
    path = tmp_path / "model.onnx"
    path.write_bytes(made.SerializeToString())
    return path


def test_weights_beside_the_model(tmp_path, monkeypatch):
    x = rng.normal(size=(5, 3)).astype(np.float32)
    for kwargs in (
        {},
        {"length": 24},
        {"offset": 8, "content": b"\0" * 8 + W.tobytes() + b"more"},
        {"location": "./weights.bin"},
    ):
        path = external(tmp_path, **kwargs)
        f = load(path)
        np.testing.assert_allclose(xpapply.apply_along_axis(f, 1, x), x @ W, rtol=1e-5)
    monkeypatch.chdir(tmp_path)
    assert load("model.onnx") is not None
    again = pickle.loads(pickle.dumps(f))
    (tmp_path / "weights.bin").unlink()
    np.testing.assert_allclose(xpapply.apply_along_axis(again, 1, x), x @ W, rtol=1e-5)


def test_what_onnx_saves(tmp_path):
    made = gemm()
    path = tmp_path / "model.onnx"
    saved(made, tmp_path)
    onnx.save(
        onnx.load(path),
        path,
        save_as_external_data=True,
        location="w.data",
        size_threshold=0,
        convert_attribute=True,
    )
    assert (tmp_path / "w.data").exists()
    x = rng.normal(size=(5, 3)).astype(np.float32)
    np.testing.assert_allclose(xpapply.apply_along_axis(load(path), 1, x), x @ W, rtol=1e-5)


@pytest.mark.parametrize(
    ("kwargs", "match"),
    [
        ({"location": "../weights.bin"}, "weights are in the folder of the model"),
        ({"location": "a/../../weights.bin"}, "weights are in the folder of the model"),
        ({"location": "..\\weights.bin"}, "weights are in the folder of the model"),
        ({"location": "/etc/passwd"}, "weights are in the folder of the model"),
        ({"location": "C:\\weights.bin"}, "weights are in the folder of the model"),
        ({"location": "\\\\host\\weights.bin"}, "weights are in the folder of the model"),
        ({"location": ""}, "weights are in the folder of the model"),
        ({"location": "."}, "not beside the model"),
        ({"location": "other.bin"}, "not beside the model"),
        ({"offset": 4}, "bytes 4 ... 28 of 'weights.bin', which has 24"),
        ({"offset": -4}, "'-4' is not a number of bytes"),
        ({"offset": "9" * 5000}, "is not a number of bytes"),
        ({"length": 23}, "has 24 bytes, the file says 23"),
        ({"length": 10**17}, "has 24 bytes, the file says"),
        ({"dims": [1 << 40, 1 << 20]}, "bytes 0 ... .* of 'weights.bin', which has 24"),
        ({"dims": [-3, -2]}, "has the shape"),
        ({"content": b""}, "which has 0"),
    ],
)
def test_weights_elsewhere(tmp_path, kwargs, match):
    refused(external(tmp_path, **kwargs), tmp_path, match)


def test_links_out_of_the_folder(tmp_path):
    inner = tmp_path / "inner"
    inner.mkdir()
    path = external(inner)
    (inner / "weights.bin").rename(tmp_path / "weights.bin")
    (inner / "weights.bin").symlink_to(tmp_path / "weights.bin")
    refused(path, tmp_path, "a link out of the folder")
    (inner / "weights.bin").unlink()
    (tmp_path / "weights.bin").rename(inner / "there.bin")
    (inner / "weights.bin").symlink_to("there.bin")
    assert load(path) is not None


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
def test_pipes(tmp_path):
    path = external(tmp_path)
    (tmp_path / "weights.bin").unlink()
    os.mkfifo(tmp_path / "weights.bin")
    refused(path, tmp_path, "not beside the model")
    os.mkfifo(tmp_path / "pipe.onnx")
    refused(tmp_path / "pipe.onnx", tmp_path, "it is not a file")
    with pytest.raises(InputError, match=r"pipe.onnx: it is not a file"):
        xpapply.load_model(tmp_path / "pipe.onnx")


def test_the_same_bytes_many_times(tmp_path):
    path = external(tmp_path)
    made = onnx.load(path, load_external_data=False)
    for k in range(50):
        made.graph.initializer.add().CopyFrom(made.graph.initializer[0])
        made.graph.initializer[-1].name = f"w{k}"
    path.write_bytes(made.SerializeToString())
    refused(path, tmp_path, "more bytes of 'weights.bin' than there are")


# --- hostile files --------------------------------------------------------------------------------


def bombs():
    """Small files that ask for far too much."""
    x1, big = ["x"], np.array([1 << 30, 1 << 30])
    shape = [("ConstantOfShape", ["s"], ["c"], {}), ("Add", ["x", "c"], ["y"], {})]
    yield "constant of shape", model(shape, (3,), {"s": big}), "more than|far more"
    shape[0] = ("ConstantOfShape", ["s"], ["c"], {})
    yield "100 MB", model(shape, (3,), {"s": np.array([30_000_000])}), "far more memory"
    doubling = [("Concat", ["x", "x"], ["h0"], {"axis": 1})]
    doubling += [("Concat", [f"h{k}"] * 2, [f"h{k + 1}"], {"axis": 1}) for k in range(60)]
    doubling += [("Identity", ["h60"], ["y"], {})]
    yield "doubling", model(doubling, (3,)), "more than"
    constants = [("Concat", ["c", "c"], ["h0"], {"axis": 0})]
    constants += [("Concat", [f"h{k}"] * 2, [f"h{k + 1}"], {"axis": 0}) for k in range(60)]
    constants += [("ReduceSum", ["h60"], ["t"], {}), ("Add", ["x", "t"], ["y"], {})]
    yield "doubled constants", model(constants, (3,), {"c": W}), "far more|more than"
    for op, more in (
        ("Expand", {"s": np.array([1, 1 << 40])}),
        ("Tile", {"s": np.array([1, 1 << 40])}),
        ("Reshape", {"s": np.array([1 << 62, 1 << 62])}),
    ):
        n = 1 if op == "Expand" else 3
        yield op, model([(op, [*x1, "s"], ["y"], {})], (n,), more), "more than"
    pads = {"p": np.array([0, 0, 0, 1 << 40])}
    yield "pad", model([("Pad", ["x", "p"], ["y"], {})], (3,), pads), "more than"
    edge = model([("Pad", ["x", "p"], ["y"], {"mode": "edge"})], (3,), pads)
    yield "pad by edges", edge, "more than"
    scales = {"s": np.array([1, 1, 1e9], np.float32)}
    yield "resize", model([("Resize", ["x", "", "s"], ["y"], {})], (1, 3), scales), "more than"
    sizes = {"s": np.array([1, 1, 1 << 40])}
    yield "sizes", model([("Resize", ["x", "", "", "s"], ["y"], {})], (1, 3), sizes), "more than"
    limits = {"a": np.int64(0), "b": np.int64(1 << 60), "d": np.int64(1)}
    nodes = [("Range", ["a", "b", "d"], ["r"], {}), ("Reshape", ["x", "r"], ["y"], {})]
    yield "range", model(nodes, (3,), limits), "more than"
    one = np.ones((1, 1, 1), np.float32)
    conv = model([("Conv", ["x", "w"], ["y"], {"pads": [1 << 40] * 2})], (1, 3), {"w": one})
    yield "padded conv", conv, "more than"
    up = {"strides": [1 << 40]}
    yield (
        "transposed",
        model([("ConvTranspose", ["x", "w"], ["y"], up)], (1, 3), {"w": one}),
        ("more than"),
    )
    lookups = {"i": np.zeros(2_000_000, np.int8).astype(np.int64)}
    yield "wide slice", model([("Relu", ["x"], ["y"], {})], (1 << 50,), lookups), "more than"


@pytest.mark.parametrize(("made", "match"), [pytest.param(m, t, id=name) for name, m, t in bombs()])
def test_bombs(tmp_path, made, match):
    path = tmp_path / "model.onnx"
    path.write_bytes(_with_rank(made).SerializeToString())
    tracemalloc.start()
    begin = time.process_time()
    try:
        with pytest.raises(InputError, match=match):
            load(path)
        assert tracemalloc.get_traced_memory()[1] < 200e6
    finally:
        tracemalloc.stop()
    assert time.process_time() - begin < 20  # it takes 2


def _with_rank(made):
    for y in made.graph.output:
        y.type.tensor_type.shape.dim.add(dim_param="b")
    return made


def test_tensors_with_fewer_numbers_than_their_shape_says(tmp_path):
    for dims in ([1 << 40, 1 << 40], [3, 3], [0, 2], [-3, -2]):
        made = saved(gemm(), tmp_path)
        found = onnx.load(made)
        del found.graph.initializer[0].dims[:]
        found.graph.initializer[0].dims.extend(dims)
        made.write_bytes(found.SerializeToString())
        refused(made, tmp_path, "damaged|has the shape")
    found.graph.initializer[0].CopyFrom(numpy_helper.from_array(W, "w"))
    found.graph.initializer[0].ClearField("raw_data")
    found.graph.initializer[0].float_data.extend([1.0] * 5)
    made.write_bytes(found.SerializeToString())
    refused(made, tmp_path, "should have 6 bytes or numbers, the file has 5")


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "it is empty"),
        (b"\x80\x04K\x01.", "not an ONNX model"),
        (b"PK\x03\x04" + b"\0" * 100, "not an ONNX model"),
        (b"hello", "not an ONNX model"),
        (b"\x08\x08", "no graph"),
        (b"\x08\x08" + field(7, field(1, b"") * 3)[:-1], "protobuf cannot read it"),
    ],
)
def test_what_is_no_onnx_file(tmp_path, content, match):
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    refused(path, tmp_path, match)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "missing.onnx")
    refused(tmp_path, tmp_path, "it is not a file")


def test_unknown_sets_of_operators(tmp_path):
    made = gemm()
    made.graph.node[0].domain = "my.own"
    made.opset_import.add(domain="my.own", version=1)
    refused(made, tmp_path, "is a Gemm of 'my.own': the known sets of operators")
    made = gemm()
    made.opset_import[0].version = 0
    path = tmp_path / "model.onnx"
    path.write_bytes(_with_rank(made).SerializeToString())
    refused(path, tmp_path, "version 0 of ONNX's operators")


def test_functions(tmp_path):
    body = [helper.make_node("Mul", ["a", "a"], ["b"])]
    square = helper.make_function("my", "Square", ["a"], ["b"], body, [helper.make_opsetid("", 17)])
    made = model([("Gemm", ["x", "w"], ["h"], {}), ("Square", ["h"], ["y"], {})], (3,), {"w": W})
    made.graph.node[1].domain = "my"
    made.opset_import.add(domain="my", version=1)
    made.functions.append(square)
    path = tmp_path / "model.onnx"
    path.write_bytes(_with_rank(made).SerializeToString())
    x = rng.normal(size=(5, 3)).astype(np.float32)
    np.testing.assert_allclose(xpapply.apply_along_axis(load(path), 1, x), (x @ W) ** 2, rtol=1e-4)
    # functions of functions of functions
    for k in range(40):
        inner = "Square" if k == 0 else f"F{k - 1}"
        body = [helper.make_node(inner, [n], [m], domain="my") for n, m in ("ab", "bc")]
        ids = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]
        made.functions.append(helper.make_function("my", f"F{k}", ["a"], ["c"], body, ids))
    made.graph.node[1].op_type = "F39"
    path.write_bytes(made.SerializeToString())
    refused(path, tmp_path, "more than 100,000 nodes")
    made.functions[0].node[0].CopyFrom(helper.make_node("F3", ["a"], ["b"], domain="my"))
    path.write_bytes(made.SerializeToString())
    refused(path, tmp_path, "calls itself")


PARTS = {
    "nodes": lambda n: field(1, b"") * n,
    "constants": lambda n: field(1, field(4, b"Relu")) + field(5, b"") * n,
    "attributes": lambda n: field(1, field(4, b"Relu") + field(5, b"") * n),
    "names": lambda n: field(1, field(4, b"Relu") + field(1, b"") * n),
    "values": lambda n: field(1, field(4, b"Relu")) + field(13, b"") * n,
    "unknown fields": lambda n: field(1, field(4, b"Relu") + b"\xf8\x7f\x01" * n),
}


@pytest.mark.parametrize(
    ("name", "count"),
    [("nodes", 2_000_000), ("names", 2_000_000), *((name, 150_000) for name in PARTS)],
)
def test_millions_of_empty_parts(tmp_path, name, count):
    """Of which protobuf makes two hundred bytes of memory each."""
    path = tmp_path / "model.onnx"
    path.write_bytes(b"\x08\x08" + field(7, PARTS[name](count)) + field(8, b"\x10\x11"))
    code = (
        "import resource, sys\n"
        "import onnx.checker, onnx.inliner\n"
        "from xpapply.errors import InputError\n"
        "from xpapply.models.onnx import load, files\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try:\n"
        f"    load({str(path)!r})\n"
        "except InputError as error:\n"
        "    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, error)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    more, _, text = ran.stdout.partition(" ")
    assert text.startswith("model.onnx")
    if sys.platform == "linux":
        assert int(more) < 200_000


def test_nodes_without_order_and_names_that_are_not_there(tmp_path):
    made = model([("Add", ["x", "z"], ["y"], {}), ("Relu", ["y"], ["z"], {})], (3,))
    path = tmp_path / "model.onnx"
    path.write_bytes(_with_rank(made).SerializeToString())
    refused(path, tmp_path, "onnx finds it is not a valid model")


@pytest.mark.parametrize("seed", range(4))
def test_damaged_files(tmp_path, seed):
    """Bytes that are changed, cut out or put in: an error in words, or a function that works."""
    draw = random.Random(seed)
    count = 250 if os.environ.get("XPAPPLY_PROFILE") == "deep" else 25
    base = [
        saved(gemm(), tmp_path).read_bytes(),
        saved(
            model(
                [
                    ("Conv", ["x", "w"], ["h"], {"pads": [1, 1], "strides": [2]}),
                    ("Relu", ["h"], ["r"], {}),
                    ("Reshape", ["r", "s"], ["f"], {}),
                    ("Softmax", ["f"], ["y"], {"axis": 1}),
                ],
                (1, 7),
                {"w": W.reshape(2, 1, 3), "s": np.array([-1, 8])},
            ),
            tmp_path,
        ).read_bytes(),
    ]
    path = tmp_path / "model.onnx"
    for _ in range(count):
        data = bytearray(draw.choice(base))
        for _ in range(draw.randint(1, 4)):
            k = draw.randrange(len(data))
            kind = draw.randrange(4)
            if kind == 0:
                data[k] = draw.randrange(256)
            elif kind == 1:
                data[k] ^= 1 << draw.randrange(8)
            elif kind == 2:
                del data[k : k + draw.randint(1, 9)]
            else:
                data[k:k] = bytes(draw.randrange(256) for _ in range(draw.randint(1, 5)))
        path.write_bytes(bytes(data))
        begin = time.process_time()
        try:
            f = load(path)
            shape = f.slice_shape
            if shape is not None and None not in shape and np.prod(shape) < 1000:
                f(np.zeros(shape, np.float32))
        except (InputError, UnsupportedError) as error:
            assert str(error)  # noqa: PT017
        assert time.process_time() - begin < 20


def test_load_model(tmp_path):
    made = gemm()
    made.graph.node.append(helper.make_node("Relu", ["y"], ["z"]))
    made.graph.output.append(helper.make_tensor_value_info("z", 1, ["b", 2]))
    path = saved(made, tmp_path)
    with pytest.raises(InputError, match=r"^model.onnx: it has 2 outputs"):
        xpapply.load_model(path)
    f = xpapply.load_model(path, output="z")
    x = rng.normal(size=(5, 3)).astype(np.float32)
    want = np.maximum(x @ W, 0)
    np.testing.assert_allclose(xpapply.apply_along_axis(f, 1, x), want, rtol=1e-5, atol=1e-6)
    plan = xpapply.compile(f, (3,), "float32")
    plan.save(tmp_path / "net.xpapply")
    again = xpapply.load_model(tmp_path / "net.xpapply")
    np.testing.assert_allclose(xpapply.apply_along_axis(again, 1, x), want, rtol=1e-5, atol=1e-6)
    with pytest.raises(InputError, match="output= is for ONNX files"):
        xpapply.load_model(tmp_path / "net.xpapply", output="z")


def test_trust_makes_no_difference(tmp_path):
    path = saved(gemm(), tmp_path)
    x = rng.normal(size=(5, 3)).astype(np.float32)
    np.testing.assert_array_equal(
        xpapply.apply_along_axis(load(path, trust=True), 1, x),
        xpapply.apply_along_axis(load(str(path)), 1, x),
    )
    assert TYPES["float32"] == TensorProto.FLOAT
    assert by_runtime(path, x).shape == (5, 2)
