"""Functions of several CuPy arrays or tensors as one function of slices."""

import numpy as np
import pytest

import xpapply
from xpapply.frontends.python.graphs.to_graph import to_graph
from xpapply.ir.graph import ShapeDtype
from xpapply.ir.rewrite import compact, fold
from xpapply.ir.slices.to_slice_graph import sliced
from xpapply.loop.arguments import Arguments, Looped
from xpapply.planning.python.one_launch import OneLaunch
from xpapply.planning.python.traced import TracedFunction


def correlation(a, b):
    a, b = a - a.mean(), b - b.mean()
    return (a * b).sum() / ((a * a).sum() * (b * b).sum()) ** 0.5


def slope(x, y):
    u = x - x.mean()
    return (u * (y - y.mean())).sum() / (u * u).sum()


SLICES = {
    "correlation": (correlation, "(n),(n)->()"),
    "slope": (slope, "(n),(n)->()"),
    "weighted sum": (lambda v, w: (v * w).sum() / w.sum(), "(n),(n)->()"),
    "distance": (lambda a, b: ((a - b) ** 2).sum() ** 0.5, "(n),(n)->()"),
    "elementwise": (lambda a, b: (a - b) * abs(a + 1), "(n),(n)->(n)"),
    "line": (lambda x, y: (slope(x, y), y - slope(x, y) * x), "(n),(n)->(),(n)"),
}
SHAPES = [((7, 30, 40), (30, 40)), ((60, 3), (60, 3)), ((5, 1, 300), (40, 300))]


def arrays_of(shapes, dtypes=("float32", "float32")):
    rng = np.random.default_rng(0)
    return [rng.random(s).astype(d) + 0.5 for s, d in zip(shapes, dtypes, strict=True)]


def launched(decided):
    """What ran the last call, if it ran as one function of slices."""
    traced, what = decided[-1][0].traced, decided[-1][1]
    return traced.ways[0].call_for(what.rows())


def agrees(f, signature, given, host):
    """Whether results are those of the loop over NumPy arrays."""
    got = xpapply.vectorize(f, signature=signature)(*given)
    want = np.vectorize(f, signature=signature)(*map(host, given))
    got, want = (y if isinstance(y, tuple) else (y,) for y in (got, want))
    for x, y in zip(got, want, strict=True):
        assert host(x).dtype == y.dtype
        np.testing.assert_allclose(host(x), y, rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize("engine", ["", "numpy"])
@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("name", SLICES)
def test_tensors(name, shapes, engine, decided):
    torch = pytest.importorskip("torch")
    f, signature = SLICES[name]
    given = [torch.from_numpy(x) for x in arrays_of(shapes)]
    with xpapply.options(engine=engine):
        agrees(f, signature, given, lambda x: x.numpy())
        assert launched(decided).engine == "numpy"
        assert xpapply.vectorize(f, signature=signature).explain(*given).engine == "numpy"


@pytest.mark.parametrize("dtypes", [("float64", "float32"), ("float32", "float64")])
def test_tensors_of_two_dtypes(dtypes, decided):
    torch = pytest.importorskip("torch")
    for f, signature in SLICES.values():
        given = [torch.from_numpy(x) for x in arrays_of(SHAPES[0], dtypes)]
        with np.errstate(all="ignore"):
            agrees(f, signature, given, lambda x: x.numpy())
        assert launched(decided) is not None


def test_tensors_however_they_lie(decided):
    torch = pytest.importorskip("torch")
    a, b = map(torch.from_numpy, arrays_of([(30, 7, 40), (40, 30)]))
    agrees(slope, "(n),(n)->()", [a.transpose(0, 1), b.T], lambda x: x.numpy())
    assert launched(decided) is not None
    agrees(slope, "(n),(n)->()", [a[..., ::2], b.T[:, None, 1::2]], lambda x: x.numpy())
    assert launched(decided) is not None


def test_constants_beside_tensors(decided):
    torch = pytest.importorskip("torch")
    weights = torch.linspace(0, 1, 40)
    f = xpapply.vectorize(lambda a, b: (a * b * weights).sum(), signature="(n),(n)->()")
    a, b = map(torch.from_numpy, arrays_of(SHAPES[0]))
    torch.testing.assert_close(f(a, b), (a * b * weights).sum(-1))
    assert launched(decided) is not None
    weights[3] = 50
    torch.testing.assert_close(f(a, b), (a * b * weights).sum(-1))


@pytest.mark.parametrize(
    ("f", "signature"),
    [
        (lambda a, b: (a * b).sum() if a[0] > b[0] else a.max(), "(n),(n)->()"),
        (lambda a, b: a[1:] * b[:-1], "(n),(n)->(m)"),
        (lambda a, b: a * b, "(n),()->(n)"),
    ],
)
def test_others_run_call_after_call(f, signature, decided):
    torch = pytest.importorskip("torch")
    a, b = map(torch.from_numpy, arrays_of([(30, 40), (30, 40)]))
    given = (a, b[:, 0]) if "()->" in signature else (a, b)
    agrees(f, signature, given, lambda x: x.numpy())
    traced, what = decided[-1][0].traced, decided[-1][1]
    assert traced.ways[0].why_not(what.rows())
    assert traced.ways[0].call_for(what.rows()) is None


def test_half_precision_is_torchs_own(decided):
    torch = pytest.importorskip("torch")
    a, b = (torch.from_numpy(x).half() for x in arrays_of(SHAPES[0]))
    found = xpapply.vectorize(lambda a, b: a * b + a, signature="(n),(n)->(n)")(a, b)
    assert torch.equal(found, a * b + a)
    assert launched(decided) is None


# --- CuPy ---------------------------------------------------------------------------------------


def graph_of(name, length=40, dtypes=("float32", "float32")):
    """The graph of a function, as CuPy arrays have it."""
    f, signature = SLICES[name]
    results = signature.partition("->")[2].count("(")
    slices = tuple(arrays_of([(length,)] * 2, dtypes))
    how = Arguments((Looped(0), Looped(1)), {}, results=results if results > 1 else 0)
    path = TracedFunction(f, how, slices, slices).blocks.path
    return compact(fold(to_graph(path, tuple(ShapeDtype((length,), d) for d in dtypes))))


@pytest.mark.parametrize("name", SLICES)
def test_kernels_of_several_arrays_compile(name, pairs):
    pytest.importorskip("cupy")
    from nvrtc import ARCHITECTURES, compile_plain
    from slice_kernel_cases import cupy_slices
    from slice_ways import contiguous_layout

    from xpapply.codegen import slice_kernels as codegen

    of = [(("float32", "float32"), ARCHITECTURES[0]), (("float64", "float32"), ARCHITECTURES[1])]
    for (dtypes, architecture), length in pairs(of, (3, 40, 3000)):
        graph = sliced(graph_of(name, dtypes=dtypes)).graph
        assert codegen.why_not(graph) is None
        kinds = [(d, True) for d in dtypes]
        layout = contiguous_layout(graph, kinds, (1000, length), (1,))
        dims = cupy_slices.dims_of(layout, True)
        share, _ = cupy_slices.sharing(graph, layout, dims, 132)
        text = codegen.slice_kernels(graph, share)
        assert compile_plain(text.source, architecture)


def test_what_is_no_function_of_slices_is_refused():
    graph = graph_of("weighted sum", length=1)
    assert OneLaunch(lambda: graph, None, ()).why_not(None)


@pytest.mark.gpu
@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("name", SLICES)
@pytest.mark.parametrize("lib", ["cupy", "torch"])
def test_on_a_gpu(lib, name, shapes, decided):
    module = pytest.importorskip(lib)
    f, signature = SLICES[name]
    given = arrays_of(shapes)
    if lib == "cupy":
        given, host = [module.asarray(x) for x in given], module.asnumpy
    else:
        given = [module.from_numpy(x).cuda() for x in given]

        def host(x):
            return x.cpu().numpy() if hasattr(x, "cpu") else x

    agrees(f, signature, given, host)
    assert launched(decided) is not None
    assert launched(decided).engine == "cupy"
