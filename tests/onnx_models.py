"""ONNX files for tests, and what others make of them."""

import warnings

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import xpapply
from xpapply.ir.graph import ShapeDtype
from xpapply.models.onnx import load

rng = np.random.default_rng(0)

TYPES = {"float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE, "int64": TensorProto.INT64}
TYPES |= {"float16": TensorProto.FLOAT16, "bool": TensorProto.BOOL, "int32": TensorProto.INT32}


def model(nodes, shape, constants=(), *, dtype="float32", out=None, opset=17, ml=None, batch="b"):
    """A model of nodes ``(op, inputs, outputs, attributes)``, from x to y, of slices of a shape.

    `out`: the dtype of y.
    """
    made = [
        helper.make_node(op, i, o, name=f"{op}_{k}", domain=DOMAINS.get(op, ""), **attrs)
        for k, (op, i, o, attrs) in enumerate(nodes)
    ]
    x = helper.make_tensor_value_info("x", TYPES[dtype], [batch, *shape])
    y = helper.make_tensor_value_info("y", TYPES[out or dtype], None)
    y.type.tensor_type.shape.SetInParent()
    weights = [numpy_helper.from_array(np.asarray(v), k) for k, v in dict(constants).items()]
    graph = helper.make_graph(made, "made", [x], [y], weights)
    opsets = [helper.make_opsetid("", opset)]
    if ml or any(n.domain for n in made):
        opsets.append(helper.make_opsetid("ai.onnx.ml", ml or 3))
    found = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    del y.type.tensor_type.shape.dim[:]
    return found


DOMAINS = dict.fromkeys(
    "Scaler Normalizer LinearClassifier LinearRegressor ArrayFeatureExtractor Binarizer Imputer"
    " ZipMap TreeEnsembleRegressor LabelEncoder TreeEnsembleClassifier".split(),
    "ai.onnx.ml",
)


def saved(found, folder, name="model.onnx"):
    """A file of a model, with an output of open shape where the model has none."""
    path = folder / name
    for y in found.graph.output:
        if y.type.HasField("tensor_type") and not y.type.tensor_type.shape.dim:
            y.type.tensor_type.shape.CopyFrom(_inferred(found, y))
    path.write_bytes(found.SerializeToString())
    return path


def _inferred(found, y):
    shape = onnx.TensorShapeProto()
    try:
        inferred = onnx.shape_inference.infer_shapes(found)
        (known,) = (o for o in inferred.graph.output if o.name == y.name)
        shape.CopyFrom(known.type.tensor_type.shape)
    except Exception:
        pass
    return shape


def by_runtime(path, batch, output=None):
    """What onnxruntime gives for a batch."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return session.run(output and [output], {session.get_inputs()[0].name: batch})[0]


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
