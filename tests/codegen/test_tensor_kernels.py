"""Texts of the kernel on tensor cores: compiled by NVRTC, and what is refused."""

import itertools
import re
import sys
from dataclasses import replace

import numpy as np
import pytest
from tensor_cases import (
    COLUMNS,
    CORES,
    ROWS,
    SHARED,
    bfloat16_net,
    double,
    graph_of,
    kernel,
    mlp,
    network,
    target,
)

from xpapply import testing
from xpapply.codegen import tensor_network
from xpapply.codegen.access import Access

DENSE_ROWS, DENSE_COLUMNS = Access(1, 0, True, dense=True), Access(0, 1, dense=True)

GROUPED = Access(2, 1, False, grouped=True)

ALIGNED_COLUMNS = Access(0, 1, dense=True, aligned=True)

EVEN = Access(1, 1, grouped=True, even=True)

ALIGNED_EVEN = replace(EVEN, aligned=True)

nvrtc_only = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the NVRTC wheels are for Linux"
)

WIDE_OFFSETS = Access(1, 1, wide=True, grouped=True)

TEXTS = [
    # every architecture and precision, with one network
    *(
        ("16-64-64-64-4", architecture, precision, "float32", access)
        for architecture in ("sm_80", "sm_90", "sm_90a", "sm_100")
        for precision, access in (("highest", ROWS), ("high", COLUMNS), ("medium", GROUPED))
    ),
    # every network and access
    ("8-16-1", "sm_90a", "highest", "float32", ROWS),
    ("8-16-1", "sm_80", "highest", "float32", WIDE_OFFSETS),
    ("16-32-32-1 tanh", "sm_90a", "highest", "float32", COLUMNS),
    ("16-32-32-1 tanh", "sm_100", "highest", "float32", ROWS),
    ("1-64-64-1", "sm_90a", "highest", "float32", ROWS),
    ("1-64-64-1", "sm_80", "medium", "float32", GROUPED),
    ("2-2-2", "sm_90a", "highest", "float32", ROWS),
    ("100-9", "sm_90a", "highest", "float32", WIDE_OFFSETS),
    ("softmax", "sm_90a", "highest", "float32", ROWS),
    ("softmax", "sm_80", "high", "float32", COLUMNS),
    ("LayerNorm", "sm_90a", "highest", "float32", GROUPED),
    ("LayerNorm", "sm_100", "highest", "float32", ROWS),
    ("skip", "sm_90a", "highest", "float32", ROWS),
    ("skip", "sm_80", "highest", "float32", WIDE_OFFSETS),
    ("concat", "sm_90a", "highest", "float32", ROWS),
    ("concat", "sm_90", "medium", "float32", COLUMNS),
    ("leaky relu", "sm_90a", "highest", "float32", GROUPED),
    ("leaky relu", "sm_80", "high", "float32", ROWS),
    ("GELU", "sm_90a", "highest", "float32", WIDE_OFFSETS),
    ("GELU", "sm_80", "highest", "float32", ROWS),
    ("sigmoid", "sm_90a", "highest", "float32", COLUMNS),
    ("sigmoid", "sm_100", "medium", "float32", ROWS),
    # slices without gaps
    ("8-16-1", "sm_90a", "highest", "float32", DENSE_ROWS),
    ("8-16-1", "sm_80", "highest", "float32", DENSE_COLUMNS),
    ("16-64-64-64-4", "sm_90a", "highest", "float32", DENSE_ROWS),
    ("13-37-21-3", "sm_90a", "highest", "float32", DENSE_COLUMNS),
    ("13-37-21-3", "sm_90", "highest", "uint8", DENSE_ROWS),
    *(
        (name, architecture, "highest", dtype, access)
        for (name, dtype), (architecture, access) in itertools.product(
            (("8-16-1", "float32"), ("13-37-21-3", "uint8"), ("3-24-4", "float64")),
            (("sm_90a", ALIGNED_COLUMNS), ("sm_80", EVEN), ("sm_90a", ALIGNED_EVEN)),
        )
    ),
    # layers that pass by in chunks, weights that stream
    ("7-200-5", "sm_90a", "highest", "float32", DENSE_ROWS),
    ("7-200-5", "sm_80", "medium", "float32", COLUMNS),
    ("32-128-128-8 tanh", "sm_90a", "highest", "float32", ROWS),
    ("256-256-256-10", "sm_90a", "high", "float32", DENSE_ROWS),
    ("256-256-256-10", "sm_90a", "medium", "float32", GROUPED),
    # every dtype of the input; rows read by fours, by twos, one by one, and as whole values
    *(
        (name, architecture, "high", dtype, access)
        for (name, architecture, access), dtype in itertools.product(
            (
                ("16-32-4", "sm_90a", ROWS),
                ("10-24-4", "sm_80", ROWS),
                ("9-24-4", "sm_80", COLUMNS),
                ("3-24-4", "sm_80", ROWS),
            ),
            ("float16", "uint8", "int64", "float64", "bool"),
        )
    ),
]


@nvrtc_only
@pytest.mark.parametrize(
    ("name", "architecture", "precision", "dtype", "access"),
    [pytest.param(*t, id="-".join(t[:4]) + f"-{TEXTS.index(t)}") for t in TEXTS],
)
def test_nvrtc_compiles(cupy, torch, name, architecture, precision, dtype, access):
    import nvrtc

    net, features = network(name)
    core = "wgmma" if architecture == "sm_90a" else "mma"
    text, _ = kernel(net, features, core, precision, access, dtype)
    assert len(nvrtc.compile_plain(text.source, architecture)) > 1000


@nvrtc_only
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize(("architecture", "core"), [("sm_90a", "wgmma"), ("sm_80", "mma")])
@pytest.mark.parametrize("access", [ROWS, COLUMNS, DENSE_ROWS, ALIGNED_EVEN, ALIGNED_COLUMNS])
@pytest.mark.parametrize("widths", [(16, 64, 4), (10, 24, 3), (3, 24, 2), (2, 1)])
def test_nvrtc_compiles_bfloat16(cupy, torch, widths, access, architecture, core, dtype):
    """Inputs and results of tensors in bfloat16, which CuPy does not have."""
    import nvrtc

    graph = graph_of(bfloat16_net(*widths), widths[0], dtype)
    assert graph.result.dtype == "bfloat16"
    text = tensor_network.tensor_kernel(graph, access, target(core, "medium"))
    kind = {"bfloat16": "bfloat16", "float32": "float"}[dtype]
    assert f"typedef {kind} IN;" in text.source
    assert "typedef bfloat16 OUT;" in text.source
    assert len(nvrtc.compile_plain(text.source, architecture)) > 1000


@nvrtc_only
@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8", "float64", "int64", "bfloat16"])
def test_no_vector_is_wider_than_what_rows_are_aligned_to(cupy, dtype):
    """16 bytes; from sm_100 on there are loads of 32."""
    from cupy.cuda import nvrtc

    text, _ = kernel(mlp(16, 32, 4), 16, "mma", "high", ROWS, dtype)
    program = nvrtc.createProgram(text.source, "kernel.cu", (), ())
    nvrtc.compileProgram(program, ("-arch=compute_100", "--std=c++17"))
    loads = set(re.findall(rb"ld\.global\S*\.v(\d)\.[a-z](\d+)", nvrtc.getPTX(program)))
    assert loads
    assert max(int(n) * int(bits) for n, bits in loads) <= 128


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("precision", ["highest", "high", "medium"])
def test_texts_do_not_depend_on_weights(core, precision):
    """Two models of one architecture share a kernel; the packed bytes differ, not their number."""
    one, two = (mlp(16, 40, 40, 3, seed=seed, bias=10.0**seed) for seed in (0, 5))
    (a, graph), (b, other) = (kernel(net, 16, core, precision) for net in (one, two))
    assert graph == other
    assert a.source == b.source
    packed = [text.pack(g.consts) for text in (a, b) for g in (graph, other)]
    assert len({p.size for p in packed}) == 1
    assert not np.array_equal(packed[0], packed[1])
    np.testing.assert_array_equal(packed[0], packed[2])
    np.testing.assert_array_equal(packed[1], packed[3])


@pytest.mark.parametrize(
    ("access", "other"), [(ROWS, COLUMNS), (COLUMNS, GROUPED), (ROWS, WIDE_OFFSETS)]
)
def test_what_is_packed_alike_says_so(access, other):
    """Weights are kept by the kernel's `packing`: the same must mean the same bytes."""
    for name in ("16-32-4", "13-37-21-3", "3-20-20-4", "8-16-1"):
        net, features = network(name)
        for core in CORES:
            one, graph = kernel(net, features, core, access=access)
            two, _ = kernel(net, features, core, access=other)
            same = np.array_equal(one.pack(graph.consts), two.pack(graph.consts))
            assert same or one.packing != two.packing


@pytest.mark.parametrize("core", CORES)
def test_refusals_say_why(torch, core):
    from torch import nn

    def refusal(f, features, shared=SHARED):
        return tensor_network.why_not(graph_of(f, features), target(core, "highest", shared))

    assert refusal(mlp(16, 64, 64, 64, 4), 16) is None
    assert "shared memory" in refusal(mlp(16, 64, 64, 64, 4), 16, 1 << 10)
    assert "registers" in refusal(mlp(16, 1000, 1000, 4), 16)
    assert "registers" in refusal(mlp(3000, 16, 1), 3000)
    assert "float64" in refusal(double(mlp(16, 32, 4)), 16)
    assert refusal(nn.Linear(16, 8).bfloat16(), 16) is None
    assert "product" in refusal(nn.Softmax(-1), 16)
    concatenation = testing.strategies._torch_modules()[1]
    assert "joining" in refusal(nn.Sequential(concatenation(nn.Linear(2, 9)), nn.Linear(11, 4)), 2)
    for name in ("softmax", "LayerNorm", "skip", "concat", "leaky relu", "GELU", "sigmoid"):
        net, features = network(name)
        assert refusal(net, features) is None


@pytest.mark.parametrize("core", CORES)
def test_axes_that_change_places_are_refused(torch, core):
    """The kernel has no numbers that move; axes of length 1 move none."""
    from torch import nn

    class Turned(nn.Module):
        def __init__(self, rows):
            super().__init__()
            self.shape = (rows, 32 // rows)
            self.first, self.last = nn.Linear(16, 32), nn.Linear(32, 4)

        def forward(self, x):
            y = torch.relu(self.first(x))
            batch = y.shape[:-1]
            y = y.reshape(*batch, *self.shape).transpose(-1, -2)
            return self.last(y.reshape(*batch, 32))

    for rows, refused in ((4, True), (1, False), (32, False)):
        graph = graph_of(Turned(rows).eval(), 16)
        reason = tensor_network.why_not(graph, target(core))
        assert (reason is not None and "permute_dims" in reason) == refused
