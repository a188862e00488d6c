"""What ONNX files are made of is counted before they are read."""

import contextlib

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from xpapply.errors import InputError
from xpapply.limits import LIMITS
from xpapply.models.onnx import messages


def made():
    x, y = (helper.make_tensor_value_info(k, 1, ["n", 4]) for k in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "relu", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def parts(message):
    """Messages and texts in a message, as protobuf tells."""
    found = np.zeros(2, int)
    for field, value in message.ListFields():
        values = (
            [value] if isinstance(value, (str, bytes)) or not hasattr(value, "__len__") else value
        )
        if field.message_type is not None:
            found[0] += len(values)
            found += sum((parts(v) for v in values), np.zeros(2, int))
        elif field.type in (field.TYPE_BYTES, field.TYPE_STRING):
            found[1] += len(values)
    return found


@pytest.fixture
def limits(monkeypatch):
    def limit(most_messages, most_texts):
        monkeypatch.setattr(LIMITS, "onnx_messages", most_messages)
        monkeypatch.setattr(LIMITS, "onnx_texts", most_texts)

    return limit


def check(message):
    messages.check(message.SerializeToString(), onnx.ModelProto.DESCRIPTOR)


def test_what_protobuf_writes_is_counted_as_it_is(limits):
    model = made()
    model.graph.node[0].attribute.add(name="many", type=7).ints.extend([1, -1, 300] * 500)
    model.graph.node[0].attribute.add(name="more", type=6).floats.extend([0.5] * 500)
    check(model)
    limits(10, 1000)
    with pytest.raises(InputError, match="more than 10 parts"):
        check(model)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.text(max_size=20), max_size=9), max_size=9), st.binary(max_size=300))
def test_runs_are_counted_as_what_they_have(names, raw):
    model = made()
    model.graph.node[0].input.extend(["more texts than series of numbers"] * 200)
    for inputs in names:
        node = model.graph.node.add(op_type="Sum", input=inputs, output=[""] * len(inputs))
        node.attribute.add()
        node.attribute.add(name="n" * len(inputs), strings=[n.encode() for n in inputs])
    model.graph.initializer.add(raw_data=raw, string_data=[raw, b"", raw[:3], raw[:3]])
    model.graph.value_info.extend([onnx.ValueInfoProto()] * len(raw))
    count, texts = parts(model)
    for most, refused in (
        ((count, texts), False),
        ((count - 1, texts), True),
        ((count, texts - 1), True),
    ):
        with (
            LIMITS.set(onnx_messages=most[0], onnx_texts=most[1]),
            pytest.raises(InputError, match="has more than")
            if refused
            else contextlib.nullcontext(),
        ):
            check(model)


def test_fields_that_nobody_knows_are_counted(limits):
    data = made().SerializeToString() + b"\xfa\x7f\x00" * 5000
    messages.check(data, onnx.ModelProto.DESCRIPTOR)
    limits(1000, 5000)
    with pytest.raises(InputError, match="5,000 texts"):
        messages.check(data, onnx.ModelProto.DESCRIPTOR)


@pytest.mark.parametrize("kind", sorted(messages.MOST_OF))
def test_kinds_that_are_looked_at_one_by_one(kind, monkeypatch):
    model = made()
    graph, node = model.graph, model.graph.node[0]
    add = {
        "FunctionProto": model.functions.add,
        "GraphProto": node.attribute.add(name="a").graphs.add,
        "NodeProto": graph.node.add,
        "AttributeProto": node.attribute.add,
        "TensorProto": graph.initializer.add,
        "SparseTensorProto": graph.sparse_initializer.add,
        "ValueInfoProto": graph.value_info.add,
    }[kind]
    for _ in range(9):
        add()
    check(model)
    monkeypatch.setitem(messages.MOST_OF, kind, 8)
    with pytest.raises(InputError, match=f"more than 8 parts of the kind {kind}"):
        check(model)


@pytest.mark.parametrize("cut", [1, 2, 3, 5])
def test_what_ends_too_early_is_damaged(cut):
    data = b"\x3a\x06\x0a\x04\x0a\x00\x0a\x00"
    messages.check(data, onnx.ModelProto.DESCRIPTOR)
    with pytest.raises(InputError, match="damaged"):
        messages.check(data[:-cut], onnx.ModelProto.DESCRIPTOR)
