"""Files that are damaged, cut off or made to do harm, from valid ones of each format.

``python tests/hostile_files.py FOLDER MANIFEST`` reads them in a process of its own and says what
came of each, in how many seconds and with how many bytes.
"""

import gzip
import io
import json
import pickle
import random
import struct
import sys
import zipfile
import zlib

START = 24  # bytes before the header of a saved plan


def pickled(marker):
    """A pickle that makes a file when it is read."""

    class Evil:
        def __reduce__(self):
            return open, (str(marker), "w")

    return pickle.dumps(Evil(), 2)


# --- valid ones ---------------------------------------------------------------------------------


def originals(folder):
    """Valid files by format: their bytes."""
    import numpy as np
    import torch
    from safetensors.numpy import save_file
    from torch import nn

    import xpapply

    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 5), nn.ReLU(), nn.Linear(5, 2)
    ).eval()
    state = net.state_dict()
    torch.save(state, folder / "net.pt")
    torch.save({"epoch": 3, "state_dict": state, "optimizer": {"lr": 0.1}}, folder / "check.pt")
    arrays = {k: np.ascontiguousarray(v.numpy()) for k, v in state.items()}
    save_file(arrays, folder / "net.safetensors", {"activation": "relu"})
    xpapply.compile(net, (6,)).save(folder / "net.xpapply")
    image = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
    image.append(nn.Sequential(nn.Linear(18, 3), nn.Softmax(-1)))
    xpapply.compile(image.eval(), (1, 6, 6)).save(folder / "image.xpapply")
    _write_onnx(folder / "net.onnx")
    return {p.name: p.read_bytes() for p in sorted(folder.iterdir())}


def _write_onnx(path):
    import numpy as np
    from onnx import helper, numpy_helper, save

    rng = np.random.default_rng(0)
    shapes = {"a": (6, 8), "b": (8,), "c": (8, 2), "d": (2,)}
    weights = [numpy_helper.from_array(rng.random(s, np.float32), k) for k, s in shapes.items()]
    nodes = [
        helper.make_node("Gemm", ["x", "a", "b"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("Gemm", ["r", "c", "d"], ["s"]),
        helper.make_node("Softmax", ["s"], ["y"], axis=1),
    ]
    x = helper.make_tensor_value_info("x", 1, ["batch", 6])
    y = helper.make_tensor_value_info("y", 1, ["batch", 2])
    graph = helper.make_graph(nodes, "net", [x], [y], weights)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)


# --- damaged ------------------------------------------------------------------------------------


def damaged(rng, data):
    """A name for what was done, and the bytes."""
    n = len(data)
    what = rng.choice(["cut", "bits", "block", "insert", "delete", "start", "append", "swap"])
    x = bytearray(data)
    if what == "cut":
        return what, bytes(x[: rng.randrange(n)])
    if what == "bits":
        for _ in range(rng.choice([1, 1, 2, 8, 40])):
            x[rng.randrange(n)] ^= 1 << rng.randrange(8)
    elif what == "block":
        at, k = rng.randrange(n), rng.randrange(1, 60)
        x[at : at + k] = rng.choice([bytes(k), b"\xff" * k, rng.randbytes(k)])
        x = x[:n]
    elif what == "insert":
        at = rng.randrange(n)
        x[at:at] = rng.randbytes(rng.randrange(1, 30))
    elif what == "delete":
        at = rng.randrange(n)
        del x[at : at + rng.randrange(1, 30)]
    elif what == "start":  # where headers are
        for _ in range(rng.randrange(1, 6)):
            x[rng.randrange(min(n, 64))] = rng.randrange(256)
    elif what == "append":
        x += rng.randbytes(rng.randrange(1, 200))
    else:
        a, b = sorted(rng.randrange(n) for _ in range(2))
        k = min(32, n - b)
        x[a : a + k], x[b : b + k] = x[b : b + k], x[a : a + k]
        x = x[:n]
    return what, bytes(x)


ODD = (
    *(-1, 0, 1, 2**31, 2**40, 2**63, -(2**63), 10**30, 0.5, True, None, "", "x", "../../x"),
    *(float("nan"), float("inf"), [], {}, [[]], [-1], [2**40, 2**40], ["8"], {"float": "1e999"}),
    *("add", "take", "windows", "const", "input", "einsum", "float64", "complex128", "object"),
)


def changed_json(rng, x):
    """JSON with one value that is something else, and what was done."""
    places = []
    stack = [x]
    while stack:
        at = stack.pop()
        keys = list(at) if isinstance(at, dict) else range(len(at))
        for k in keys:
            places.append((at, k))
            if isinstance(at[k], (dict, list)):
                stack.append(at[k])
    at, k = rng.choice(places)
    what = rng.choice(["value", "value", "value", "drop", "twice", "near"])
    if what == "drop":
        del at[k]
    elif what == "twice" and isinstance(at, list):
        at.insert(k, at[k])
    elif what == "near" and type(at[k]) is int:
        at[k] += rng.choice([-1, 1])
    else:
        at[k] = rng.choice(ODD)
    return x


def signed(header, rest):
    """A saved plan with this header, checksum and all."""
    numbers = struct.pack("<IIQ", 1, zlib.crc32(header), len(header))
    start = b"\x93XPAPPLY" + numbers + header
    return start + bytes(-len(start) % 64) + rest


def parts(data):
    """Header and arrays of a saved plan."""
    n = int.from_bytes(data[16:START], "little")
    end = START + n
    return data[START:end], data[end + -end % 64 :]


def lying_plan(rng, data):
    header, rest = parts(data)
    x = json.loads(header)
    for _ in range(rng.choice([1, 1, 1, 3])):
        x = changed_json(rng, x)
    return "lies", signed(json.dumps(x).encode(), rest)


def lying_safetensors(rng, data):
    n = int.from_bytes(data[:8], "little")
    x = changed_json(rng, json.loads(data[8 : 8 + n]))
    header = json.dumps(x).encode()
    return "lies", len(header).to_bytes(8, "little") + header + data[8 + n :]


# --- files of torch, made by hand ---------------------------------------------------------------


def text(x):
    return b"X" + struct.pack("<I", len(x.encode())) + x.encode()


def integer(x):
    raw = pickle.encode_long(x)
    return b"\x8a" + bytes([len(raw)]) + raw


def tup(numbers):
    return b"(" + b"".join(map(integer, numbers)) + b"t"


def name(module, attribute):
    return f"c{module}\n{attribute}\n".encode()


def tensor(numel=64, size=(8, 8), stride=(8, 1), offset=0, key="0", storage="FloatStorage"):
    made = b"(" + text("storage") + name("torch", storage) + text(key) + text("cpu")
    made += integer(numel) + b"tQ" + integer(offset) + tup(size) + tup(stride) + b"\x89"
    return (
        name("torch._utils", "_rebuild_tensor_v2")
        + b"("
        + made
        + name("collections", "OrderedDict")
        + b")RtR"
    )


def torch_zip(body, records=None, compress=zipfile.ZIP_STORED, folder="net"):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compress) as archive:
        archive.writestr(f"{folder}/data.pkl", body)
        archive.writestr(f"{folder}/byteorder", "little")
        for key, x in (records or {"data/0": bytes(256)}).items():
            archive.writestr(f"{folder}/{key}", x)
        archive.writestr(f"{folder}/version", "3\n")
    return out.getvalue()


def of_weights(*pairs):
    body = b"".join(text(k) + x for k, x in pairs)
    return b"\x80\x02}(" + body + b"u."


def made_by_hand(marker):
    """Files that are made to do harm: (suffix, what, bytes). None of them may load."""
    big = 1 << 40
    layer = of_weights(("0.weight", tensor()))
    yield (
        "pt",
        "numel beyond the record",
        torch_zip(of_weights(("0.weight", tensor(1 << 20, (1024, 1024), (1024, 1))))),
    )
    yield "pt", "numel without end", torch_zip(of_weights(("0.weight", tensor(big, (8, 8)))))
    yield (
        "pt",
        "one number as many",
        torch_zip(of_weights(("0.weight", tensor(64, (1 << 20, 1 << 20), (0, 0))))),
    )
    yield "pt", "size below zero", torch_zip(of_weights(("0.weight", tensor(64, (-8, 8)))))
    yield "pt", "offset", torch_zip(of_weights(("0.weight", tensor(offset=1 << 30))))
    yield "pt", "offset below zero", torch_zip(of_weights(("0.weight", tensor(offset=-8))))
    yield "pt", "stride below zero", torch_zip(of_weights(("0.weight", tensor(stride=(-8, 1)))))
    yield "pt", "no such record", torch_zip(of_weights(("0.weight", tensor(key="7"))))
    yield "pt", "key with a path", torch_zip(of_weights(("0.weight", tensor(key="../../x"))))
    yield (
        "pt",
        "bytearray",
        torch_zip(
            b"\x80\x02}(" + text("a") + name("builtins", "bytearray") + integer(big) + b"\x85Ru."
        ),
    )
    yield (
        "pt",
        "FloatTensor",
        torch_zip(
            of_weights(("0.weight", name("torch", "FloatTensor") + integer(1 << 34) + b"\x85R"))
        ),
    )
    for module, attribute in (("os", "system"), ("builtins", "eval"), ("posix", "system")):
        call = name(module, attribute) + text(f"touch {marker}") + b"\x85R"
        yield "pt", f"{module}.{attribute}", torch_zip(of_weights(("0.weight", call)))
    yield "pt", "evil", torch_zip(pickled(marker))
    yield "pt", "deep tuples", torch_zip(b"\x80\x02}(N" + b"\x85" * 300_000 + b"Nu.")
    yield "pt", "deep tuples as a key", torch_zip(b"\x80\x02}(N" + b"\x85" * 41_000 + b"Nu.")
    yield "pt", "deep lists", torch_zip(b"\x80\x02" + b"]" * 300_000 + b"a" * 299_999 + b".")
    yield "pt", "many opcodes", torch_zip(b"\x80\x02(" + b"N" * 3_000_000 + b"t.")
    yield "pt", "memo far away", torch_zip(b"\x80\x02Nr\xff\xff\xff\x7f.")
    yield "pt", "long text", torch_zip(b"\x80\x02X\xff\xff\xff\xff.")
    yield "pt", "nothing", torch_zip(b"")
    yield (
        "pt",
        "bomb in a record",
        torch_zip(layer, {"data/0": bytes(300 << 20)}, zipfile.ZIP_DEFLATED),
    )
    yield "pt", "bomb in the pickle", torch_zip(bytes(300 << 20), None, zipfile.ZIP_DEFLATED)
    yield "pt", "bomb by LZMA", torch_zip(layer, {"data/0": bytes(50 << 20)}, zipfile.ZIP_LZMA)
    for path in ("../../../tmp/x", "/etc/x", "..\\x", "C:\\x"):
        yield (
            "pt",
            f"record {path}",
            torch_zip(layer, {path: b"x", "data/0": bytes(256)}, folder=".."),
        )
    yield "pt", "one record many times", overlapping(torch_zip(layer, {"data/0": bytes(1 << 20)}))
    yield "pt", "a long directory", long_directory(torch_zip(layer), 300_000)
    yield "pt", "two of one name", torch_zip(layer) + torch_zip(layer)
    yield "pkl", "evil", pickled(marker)
    yield "joblib", "evil", zlib.compress(pickled(marker))
    yield "gz", "evil", gzip.compress(pickled(marker))
    yield "pt", "evil, no zip", pickled(marker)
    yield "safetensors", "evil", pickled(marker)
    yield "onnx", "evil", pickled(marker)
    yield from (("onnx", what, data) for what, data in many_of_onnx())
    for length in (2**63, 2**64 - 1, 2**40, 100 << 20, 1 << 23, 0, 1):
        yield "safetensors", f"header of {length}", length.to_bytes(8, "little") + b'{"a":1}'
    for header in hostile_headers():
        data = header.encode()
        whole = len(data).to_bytes(8, "little") + data + bytes(256)
        yield "safetensors", header[:60], whole
        yield "xpapply", header[:60], signed(data, bytes(256))
    for n in (1 << 20, 3 << 20):
        for opening in (b"[", b'{"a":', b"[[],"):
            data = opening * (n // len(opening))
            yield "safetensors", "deep", len(data).to_bytes(8, "little") + data
            yield "xpapply", "deep", signed(data, b"")
    lists = b"[" + b"[]," * (1 << 20) + b"[]]"
    yield "xpapply", "a million lists", signed(lists, b"")
    yield "xpapply", "header of 2**60", b"\x93XPAPPLY" + struct.pack("<IIQ", 1, 0, 1 << 60)
    yield "xpapply", "version 7", b"\x93XPAPPLY" + struct.pack("<IIQ", 7, 0, 0)
    for plan in hostile_plans():
        yield "xpapply", "graph", signed(json.dumps(plan).encode(), bytes(256))
    for places in ((0, 8), (-1, 0), (1 << 62, 0), (-(1 << 63), 0)):
        yield "xpapply", f"places {places}", plan_of_places(struct.pack("<qq", *places))


def many_of_onnx():
    """ONNX files of a megabyte or two with as many parts as fit into that."""

    def field(number, data, times=1):
        size, length = len(data), b""
        while size > 127:
            size, length = size >> 7, length + bytes([size & 127 | 128])
        return (bytes([number << 3 | 2]) + length + bytes([size]) + data) * times

    def of_node(data):
        return field(7, field(1, field(1, b"x") + data + field(4, b"Relu")))

    def of_attribute(data):
        return of_node(field(5, field(1, b"a") + data))

    named = field(1, b"a")
    for what, data in (
        ("inputs of a node", of_node(field(1, b"", 950_000))),
        ("outputs of a node", of_node(field(2, b"abc", 400_000))),
        ("nodes", field(7, field(1, b"", 390_000))),
        ("attributes of a node", of_node(field(5, b"", 390_000))),
        ("attributes", field(7, field(1, field(5, named, 900) + field(4, b"Relu"), 110))),
        ("constants", field(7, field(5, field(8, b"ab"), 99_000))),
        ("inputs", field(7, field(11, named, 390_000))),
        ("strings", of_attribute(field(9, b"", 950_000))),
        ("tensors", of_attribute(field(10, b"", 390_000))),
        ("graphs", of_attribute(field(11, b"", 390_000))),
        ("functions", field(7, b"") + b"\xca\x01\x00" * 390_000),
        ("versions", field(8, b"", 390_000)),
        ("unknown", b"\xfa\x7f\x00" * 950_000),
        ("numbers in turns", field(7, field(5, field(8, b"t") + b"\x08\x01\x10\x01" * 400_000))),
    ):
        yield f"many {what}", b"\x08\x08" + data


def overlapping(data):
    """The directory of a zip file with a record that is named 300 times."""
    end = data.rindex(b"PK\x05\x06")
    at = int.from_bytes(data[end + 16 : end + 20], "little")
    entries, rest = [], data[at:end]
    while rest:
        n = 46 + sum(int.from_bytes(rest[k : k + 2], "little") for k in (28, 30, 32))
        entries.append(rest[:n])
        rest = rest[n:]
    record = next(e for e in entries if e[46:].startswith(b"net/data/0"))
    many = [record.replace(b"net/data/0", f"net/{k:06}".encode()) for k in range(300)]
    directory = b"".join([*entries, *many])
    count = struct.pack("<HH", *(2 * [len(entries) + 300]))
    return (
        data[:at]
        + directory
        + data[end : end + 8]
        + count
        + struct.pack("<IIH", len(directory), at, 0)
    )


def long_directory(data, count):
    """A zip file whose directory has one record many times."""
    end = data.rindex(b"PK\x05\x06")
    at = int.from_bytes(data[end + 16 : end + 20], "little")
    first = data[at : at + 46 + int.from_bytes(data[at + 28 : at + 30], "little")]
    directory = data[at:end] + first * count
    return data[:at] + directory + data[end : end + 12] + struct.pack("<IIH", len(directory), at, 0)


def hostile_headers():
    f32 = '"dtype":"F32"'
    yield "null"
    yield "[]"
    yield "{}"
    yield '{"a":null}'
    for shape in (
        "[NaN,8]",
        "[-8,8]",
        "[1e3]",
        "[true,64]",
        "8",
        '"8"',
        "[18446744073709551615,2]",
    ):
        yield f'{{"0.weight":{{{f32},"shape":{shape},"data_offsets":[0,256]}}}}'
    for offsets in ("[0,512]", "[-4,252]", "[256,0]", "[0]", "[0,9223372036854775807]", "[4,260]"):
        yield f'{{"0.weight":{{{f32},"shape":[8,8],"data_offsets":{offsets}}}}}'
    same = f'{{{f32},"shape":[8,8],"data_offsets":[0,256]}}'
    yield f'{{"0.weight":{same},"2.weight":{same}}}'  # overlapping
    yield f'{{"0.weight":{same},"__metadata__":{{"activation":7}}}}'
    yield f'{{"0.weight":{same},"__metadata__":{{"layers":"{"[" * 20000}"}}}}'
    yield '{"0.weight":{"dtype":"F33","shape":[8,8],"data_offsets":[0,256]}}'
    yield '{"0.weight":{"dtype":"I32","shape":[8,8],"data_offsets":[0,256]}}'
    yield '{"attn.in_proj_weight":{"dtype":"F32","shape":[8,8],"data_offsets":[0,256]}}'


def hostile_plans():
    """Graphs that say what is not so. Constants are one array (8, 8) of zeros."""
    crc = zlib.crc32(bytes(256))
    const = {"dtype": "float32", "shape": [8, 8], "offset": 0, "crc32": crc}
    slice_ = ["input", [], {"k": 0}, "float32", [8]]
    weights = ["const", [], {"k": 0}, "float32", [8, 8]]

    def plan(*nodes, consts=(const,), outs=None, about=None):
        outs = [len(nodes) - 1] if outs is None else outs
        return {
            "about": about or {"name": "x"},
            "nodes": list(nodes),
            "outs": outs,
            "consts": list(consts),
        }

    for op, args, attrs, shape in (
        ("sum", [0], {"axis": [1], "keepdims": False}, [8]),
        ("sum", [0], {"axis": [-1], "keepdims": False}, []),
        ("sum", [0], {"axis": [0, 0], "keepdims": False}, []),
        ("sum", [0], {"axis": 0, "keepdims": False}, []),
        ("sum", [0], {"axis": [0]}, []),
        ("tanh", [0], {}, [9]),
        ("tanh", [0, 0], {}, [8]),
        ("tanh", [5], {}, [8]),
        ("tanh", [-1], {}, [8]),
        ("tanh", [2], {}, [8]),
        ("tanh", [], {}, [8]),
        ("tanh", [0], {"axis": 0}, [8]),
        ("no_such_op", [0], {}, [8]),
        ("length", [0], {}, []),
        ("accumulate", [0], {"by": "sum", "field": 0}, []),
        ("cast", [0], {"dtype": "object"}, [8]),
        ("reshape", [0], {"shape": [-8]}, [-8]),
        ("reshape", [0], {"shape": [9]}, [9]),
        ("broadcast_to", [0], {"shape": [7]}, [7]),
        ("broadcast_to", [0], {"shape": [1]}, [1]),
        ("broadcast_to", [0], {"shape": [1 << 40, 1 << 40, 8]}, [1 << 40, 1 << 40, 8]),
        ("broadcast_to", [0], {"shape": [100_000_000_000, 8]}, [100_000_000_000, 8]),
        ("broadcast_to", [0], {"shape": [1 << 25, 8]}, [1 << 25, 8]),
        ("pad", [0], {"widths": [[1 << 30, 0]], "number": "0.0"}, [(1 << 30) + 8]),
        ("einsum", [0] * 12, {"subscripts": "a,b,c,d,e,f,g,h,i,j,k,l->"}, []),
        ("einsum", [0] * 10, {"subscripts": "a,b,c,d,e,f,g,h,i,j->abcdefghij"}, [8] * 10),
        ("take_along_axis", [0, 0], {"axis": 0}, [8]),
        ("permute_dims", [1], {"axes": [0, 0]}, [8, 8]),
        ("permute_dims", [1], {"axes": [0]}, [8]),
        ("index", [0], {"key": [8]}, []),
        ("index", [0], {"key": [0, 0]}, []),
        ("index", [0], {"key": [[0, 8, 0]]}, [8]),
        ("index", [0], {"key": ["x"]}, []),
        ("take", [0], {"axis": 0, "places": [8]}, [1]),
        ("take", [0], {"axis": 0, "places": [-1]}, [1]),
        ("take", [0], {"axis": -1, "places": [0]}, [1]),
        ("take", [0], {"axis": 3, "places": [0]}, [1]),
        ("windows", [0], {"axis": 0, "size": 9, "step": 1, "dilation": 1}, [0, 9]),
        ("windows", [0], {"axis": 0, "size": 2, "step": 0, "dilation": 1}, [7, 2]),
        ("windows", [0], {"axis": 0, "size": -2, "step": 1, "dilation": 1}, [11, -2]),
        ("pad", [0], {"widths": [[-9, 0]], "number": "0.0"}, [-1]),
        ("pad", [0], {"widths": [[0, 0], [1, 1]], "number": "0.0"}, [8]),
        ("pad", [0], {"widths": [[1, 1]], "number": "__import__('os')"}, [10]),
        ("einsum", [1, 0], {"subscripts": "nm,m->z"}, [8]),
        ("einsum", [1, 0], {"subscripts": "nm,m->nn"}, [8, 8]),
        ("einsum", [1, 0], {"subscripts": "nm,m,k->n"}, [8]),
        ("einsum", [1, 0], {"subscripts": "nm,M->n"}, [8]),
        ("softmax", [0], {"axis": [0]}, [8]),
        ("softmax", [0], {"axis": 1}, [8]),
        ("softmax", [0], {}, [8]),
        ("leaky_relu", [0, 0], {}, [8]),
        ("where", [0, 0, 0], {}, [8]),
        ("concat", [0, 1], {"axis": 0}, [16]),
        ("scalar", [], {"value": "__import__('os')"}, []),
        ("scalar", [], {"value": "9" * 5000}, []),
        ("const", [], {"k": 1}, [8, 8]),
        ("const", [], {"k": -1}, [8, 8]),
        ("input", [], {"k": 7}, [8]),
    ):
        yield plan(slice_, weights, [op, args, attrs, "float32", shape])
    for dtype, between in (
        ("int64", []),
        ("int8", []),
        ("int64", [["abs", [2], {}, "int64", [8]]]),
        ("int64", [8, ["minimum", [2, 3], {}, "int64", [8]]]),
        ("int64", [0, ["maximum", [2, 3], {}, "int64", [8]]]),
        ("int64", [-1, ["maximum", [2, 3], {}, "int64", [8]], 7, ["minimum", [4, 5], {}]]),
        ("int64", [0, ["maximum", [2, 3], {}, "int64", [8]], 8, ["minimum", [4, 5], {}]]),
        ("bool", []),
    ):  # numbers at places that may not be there
        numbers = [
            ["scalar", [], {"value": str(x)}, "int64", []] for x in between if type(x) is int
        ]
        steps = [numbers.pop(0) if type(x) is int else [*x, "int64", [8]][:5] for x in between]
        nodes = [slice_, weights, ["cast", [0], {"dtype": dtype}, dtype, [8]], *steps]
        yield plan(*nodes, ["take_along_axis", [0, len(nodes) - 1], {"axis": 0}, "float32", [8]])
    wide = ["broadcast_to", [0], {"shape": [1 << 20, 8]}, "float32", [1 << 20, 8]]
    windows = {"axis": 0, "size": 1 << 19, "step": 1, "dilation": 1}
    yield plan(
        slice_, weights, wide, ["windows", [2], windows, "float32", [(1 << 19) + 1, 1 << 19, 8]]
    )
    twice = ["concat", [2] * 20, {"axis": 0}, "float32", [20 << 20, 8]]
    yield plan(slice_, weights, wide, twice)
    yield plan(slice_, weights, outs=[9])
    yield plan(slice_, weights, outs=[-1])
    yield plan(slice_, weights, outs=[])
    yield plan(weights)
    yield plan()
    for change in (
        {"offset": 64},
        {"offset": -64},
        {"crc32": 0},
        {"shape": [8, 9]},
        {"shape": [-8, -8]},
        {"shape": [1 << 31, 1 << 31]},
        {"dtype": "object"},
        {"dtype": "O"},
        {"dtype": "<f4"},
        {"more": 1},
    ):
        yield plan(slice_, weights, ["tanh", [0], {}, "float32", [8]], consts=[const | change])
    tanh = ["tanh", [0], {}, "float32", [8]]
    yield plan(slice_, tanh, consts=[const, const])  # overlapping
    yield plan(slice_, tanh, consts=[])  # bytes that nobody says anything of
    yield plan(slice_, *([tanh] * 30_000))
    yield plan(slice_, tanh, about={"name": 7})
    yield plan(slice_, tanh) | {"code": "import os"}


def plan_of_places(data):
    """A saved plan of the numbers of a slice at two places: the bytes of two int64."""
    nodes = [
        ["input", [], {"k": 0}, "float32", [8]],
        ["const", [], {"k": 0}, "int64", [2]],
        ["take_along_axis", [0, 1], {"axis": 0}, "float32", [2]],
    ]
    const = {"dtype": "int64", "shape": [2], "offset": 0, "crc32": zlib.crc32(data)}
    plan = {"about": {"name": "x"}, "nodes": nodes, "outs": [2], "consts": [const]}
    return signed(json.dumps(plan).encode(), data.ljust(64, b"\0"))


# --- all of them --------------------------------------------------------------------------------


def cases(valid, marker, count, seed=0):
    """(suffix, from what, what was done, bytes): those by hand, the others at random."""
    rng = random.Random(seed)
    by_hand = list(made_by_hand(marker))
    yield from ((suffix, "", what, data) for suffix, what, data in by_hand)
    names = sorted(valid)
    for _ in range(count - len(by_hand)):
        of = rng.choice(names)
        suffix = of.rpartition(".")[2]
        lie = {"xpapply": lying_plan, "safetensors": lying_safetensors}.get(suffix)
        make = lie if lie is not None and rng.random() < 0.5 else damaged
        what, data = make(rng, valid[of])
        yield suffix, of, what, data


# --- the process that reads ---------------------------------------------------------------------


def peak_after(run):
    """What `run` returns, and by how many bytes it grew the process at most."""

    def status(field):
        with open("/proc/self/status") as lines:
            return next(int(x.split()[1]) << 10 for x in lines if x.startswith(field))

    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    before = status("VmRSS")
    found = run()
    return found, status("VmHWM") - before


def content(model):
    """What a model computes, as a graph and bytes."""
    import xpapply

    try:
        graph = getattr(model, "graph", None) or xpapply.lift(model, (6,))
    except xpapply.UnsupportedError as error:  # of a node that is damaged
        return str(error), []
    return str(graph), [x.tobytes() for x in graph.consts]


def main(folder, manifest):
    import time
    from pathlib import Path

    import numpy as np
    import torch

    import xpapply

    torch.load  # loaded, as it is where models are read  # noqa: B018
    folder = Path(folder)
    files = json.loads(Path(manifest).read_text())

    def read(path, suffix):
        more = {"activation": "relu"} if suffix == "pt" else {}
        return xpapply.load_model(path, **more)

    valid = {p.name: content(read(p, p.suffix[1:])) for p in (folder / "valid").iterdir()}
    for path, suffix, of in files:

        def attempt(path=path, suffix=suffix, of=of):
            try:
                model = read(folder / path, suffix)
            except (xpapply.InputError, xpapply.UnsupportedError) as error:
                return f"refused {error}"
            except Exception as error:
                return f"raised {type(error).__name__}: {error}"
            try:
                return "same" if of and content(model) == valid[of] else "other"
            except xpapply.InputError:  # of slices of another length
                return "other"

        start = time.process_time()  # a busy machine changes nothing
        result, nbytes = peak_after(attempt)
        seconds = time.process_time() - start
        if result == "other" and suffix == "xpapply":
            model = read(folder / path, suffix)
            small = sum(n.aval.nbytes for n in model.graph.nodes) < 1 << 22
            if small and isinstance(model.slice[1], str):
                try:  # whatever it computes, it does no harm
                    with np.errstate(all="ignore"), xpapply.options(fallback="silent"):
                        model(np.zeros((2, *model.slice.shape), model.slice.dtype))
                except Exception as error:
                    result = f"other, which raises {type(error).__name__}"
        print(json.dumps([path, result[:400], seconds, nbytes]), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
