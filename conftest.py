"""Fixtures and profiles shared by tests and doctests."""

import functools
import gc
import inspect
import itertools
import math
import os
import sys
import threading
import warnings
import zlib
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, currently_in_test_context, reject, settings
from hypothesis.errors import UnsatisfiedAssumption
from hypothesis.strategies import DataObject

from xpapply.backends.cpu import compiler, machine_code
from xpapply.limits import LIMITS

# threads of torch that wait let go of their core: there are as many processes as cores
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# tests compile what they run, and leave nothing in the user's folders
os.environ["XPAPPLY_CACHE_DIR"] = ""
# nor is anything hidden that fails in the compiler itself
LIMITS.raised_faults = 1
# JAX compiles every operation for every shape, and the code runs once
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

_common = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("ci", max_examples=10, **_common)
settings.register_profile("deep", max_examples=5000, **_common)
# for looking around: failures are not made smaller, which takes long
settings.register_profile("quick", max_examples=30, phases=[Phase.generate], **_common)
settings.load_profile(os.environ.get("XPAPPLY_PROFILE", "ci"))
DEEP = settings.default.max_examples > 100
FEW_EXAMPLES, LONG = 4, 1.0
"""A test of random examples that has taken so many seconds has no more than so many of them."""

WITHOUT = [name for name in os.environ.get("XPAPPLY_WITHOUT", "").split(",") if name]
for _name in WITHOUT:
    sys.modules[_name] = None  # as if it were not installed

if "llvmlite" not in WITHOUT and find_spec("llvmlite"):
    import llvmlite.binding

    # where little is done about a kernel, LLVM's short cut ends the process: it takes no vectors
    # with a carry, which 512 bits make legal (an assertion of llvmlite 0.50's LLVM)
    llvmlite.binding.set_option("", "-fast-isel=false")

# numba needs llvmlite
NO_NUMBA = find_spec("numba") is None or sys.modules.get("llvmlite", "") is None
collect_ignore = ["xpapply/frontends/numba.py"] if NO_NUMBA else []

REQUIRED = [name for name in os.environ.get("XPAPPLY_REQUIRE", "").split(",") if name]
"""Libraries whose absence is a failure, not a skip: a GPU run cannot pass by skipping."""


def have_gpu() -> bool:
    try:
        import cupy

        return bool(cupy.cuda.runtime.getDeviceCount())
    except Exception:
        return False


@pytest.hookimpl(wrapper=True)
def pytest_collection(session):
    """What libraries and tests load stays: looking for garbage takes a third of loading them.

    The collector is not turned off: dask asks whether it is on where it is imported, and leaves it
    so from then on.
    """
    numbers = gc.get_threshold()
    gc.set_threshold(100_000_000, *numbers[1:])
    try:
        return (yield)
    finally:
        gc.set_threshold(*numbers)


def pytest_configure(config):
    # trees of syntax and graphs are many small objects and hardly ever garbage: with Python's own
    # numbers the collector looks at them again and again
    gc.set_threshold(20_000, 20, 20)
    for name in ("skip_xp_backends", "xfail_xp_backends", "uses_xp_capabilities"):
        config.addinivalue_line("markers", f"{name}: of SciPy's own tests, which ours import")


def pytest_addoption(parser):
    parser.addoption(
        "--cases",
        choices=["each", "all"],
        default="each",
        help="of a test with several parameters: as many cases as it takes for each value of each "
        "parameter to occur (and one in so many where a test says so), or all",
    )
    parser.addoption("--deal", type=int, default=1, help="with each: one case in so many of these")


def chosen(items, seed, deal=1):
    """The cases that run: each value of each parameter occurs in one; of these one in `deal`.

    Of tests with the mark `one_in` one in so many at the least, with `every_case` all. Which ones
    depends on `seed`, and on what each is called, not on what else there is.
    """
    tests, kept = {}, set()
    for item in items:
        tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in tests.values():
        if cases[0].get_closest_marker("every_case"):
            kept.update(cases)
            continue
        cases.sort(key=lambda item: zlib.crc32(f"{seed} {item.nodeid}".encode()))
        seen, run = set(), []
        for item in cases:
            values = values_of(item)
            if not values <= seen:
                seen |= values
                run.append(item)
        one_in = cases[0].get_closest_marker("one_in")
        kept.update(run[:: max(deal, one_in.args[0] if one_in else 1)])
    return kept


def values_of(item):
    """What a case has of each parameter; of those that one `parametrize` names, of all together."""
    spec = getattr(item, "callspec", None)
    if spec is None:
        return {item.nodeid}
    names = [mark.args[0] for mark in item.iter_markers("parametrize")]
    names = [n.replace(",", " ").split() if isinstance(n, str) else [*n] for n in names]
    rest = [[n] for n in spec.params.keys() - {n for group in names for n in group}]
    return {(*group, *(id(spec.params[n]) for n in group)) for group in (*names, *rest)}


def _exists(item):
    """Whether no mark `no_such_case` of a test says that its parameters do not go together."""
    for mark in item.iter_markers("no_such_case"):
        (says,) = mark.args
        names = inspect.signature(says).parameters
        if says(**{name: item.callspec.params[name] for name in names}):
            return False
    return True


@pytest.hookimpl(trylast=True)  # among what `-k` and `-m` leave
def pytest_collection_modifyitems(config, items):
    items[:] = [item for item in items if _exists(item)]
    if config.option.cases == "each" and not DEEP and not any("::" in a for a in config.args):
        # those for a GPU run where there is one, and take a minute there
        marked = [item for item in items if item.get_closest_marker("gpu")]
        rest = [item for item in items if not item.get_closest_marker("gpu")]
        if "llvmlite" in WITHOUT:
            rest = [item for item in rest if not item.get_closest_marker("kernels")]
        dropped = {*rest} - chosen(rest, REQUIRED + WITHOUT, config.option.deal)
        if marked and not have_gpu():  # one skip of a test says it for all of its cases
            dropped |= {*marked} - {*{x.nodeid.partition("[")[0]: x for x in marked}.values()}
        config.hook.pytest_deselected(items=[item for item in items if item in dropped])
        items[:] = [item for item in items if item not in dropped]
    if not DEEP:
        for item in items:
            _shorten(item)
    if NO_NUMBA:  # `collect_ignore` does not hold for a file that `testpaths` names
        for item in items:
            if item.path.name == "compared.md":
                item.add_marker(pytest.mark.skip(reason="its examples need numba"))
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if not marked or have_gpu():
        return
    if "cupy" in REQUIRED:
        raise pytest.UsageError("XPAPPLY_REQUIRE names cupy, but there is no CUDA device")
    for item in marked:
        item.add_marker(pytest.mark.skip(reason="no CUDA device"))


def _shorten(item):
    """Random examples end after some seconds, if there were some: the deep profile has them all."""
    test = getattr(getattr(item, "obj", None), "hypothesis", None)
    if test is None or hasattr(test.inner_test, "shortened"):
        return
    run, cases = test.inner_test, {}  # what each case of the test has used

    @functools.wraps(run)
    def shortened(*args, **kwargs):
        used = cases.setdefault(os.environ.get("PYTEST_CURRENT_TEST"), [0, 0.0, False])
        count, seconds, failed = used
        drawing = any(isinstance(x, (DataObject, Random)) for x in (*args, *kwargs.values()))
        if count >= FEW_EXAMPLES and seconds > LONG and not failed and not drawing:
            return  # a test that draws as it runs has to draw what it drew before
        start = os.times()
        try:
            run(*args, **kwargs)
        except UnsatisfiedAssumption:
            raise
        except BaseException:
            used[2] = True  # it is run again, and made smaller
            raise
        finally:
            used[0] += 1
            used[1] += sum(os.times()[:4]) - sum(start[:4])

    shortened.shortened = True
    test.inner_test = shortened


_numbers: dict[str, dict] = {}
"""The state of each test file's RNG when it was loaded."""


def pytest_collectstart(collector):
    """Networks that files make when they are loaded do not depend on the files before them."""
    _seed_torch()


def pytest_runtest_setup(item):
    """A test finds the same random numbers whatever ran before it: failures come again."""
    _seed_torch()
    machine_code.LEVEL = _level(item)
    compiler.object_code = _object_code if _is_optimised(item) else _object_code_once
    compiler.assembly = _assembly_at_best
    rng = getattr(getattr(item, "module", None), "RNG", None)
    if rng is not None:
        rng.bit_generator.state = _numbers.setdefault(item.module.__name__, rng.bit_generator.state)


BEST = machine_code.LEVEL


def _level(item):
    """How much LLVM does about a kernel: all where a test asks for it, and in one case of four.

    The least takes a tenth of the time, which is most of what such tests take.
    """
    if _is_optimised(item):
        return BEST
    return 0 if zlib.crc32(item.nodeid.encode()) % 4 else BEST


def _is_optimised(item):
    return DEEP or item.get_closest_marker("optimised") is not None


_assembly = compiler.assembly


def _assembly_at_best(text, target):
    """Whoever looks at instructions looks at those that users get."""
    level, machine_code.LEVEL = machine_code.LEVEL, BEST
    try:
        return _assembly(text, target)
    finally:
        machine_code.LEVEL = level


_object_code = compiler.object_code


def _object_code_once(text, target, **how):
    """Of one text in several tests, or several times in one, LLVM makes the same each time."""
    return _kept_object_code(machine_code.LEVEL, text, target, **how)


@functools.lru_cache(maxsize=256)
def _kept_object_code(level, text, target, **how):
    return _object_code(text, target, **how)


def _seed_torch():
    if sys.modules.get("torch") is not None:
        # `torch.manual_seed` notes the stack each time, for devices that are not there yet
        sys.modules["torch"].default_generator.manual_seed(0)


@pytest.fixture
def pairs(request):
    """Pairs of the values of two lists, for loops in a test: so many that each value occurs.

    Each case has other ones; all of them with ``--cases all``.
    """
    start = zlib.crc32(request.node.nodeid.encode())

    def of(first, second, turn=0):
        first, second = [*first], [*second]
        if DEEP or request.config.option.cases == "all":
            return [*itertools.product(first, second)]
        count = max(len(first), len(second))
        return [
            (first[k % len(first)], second[(k + start + turn) % len(second)]) for k in range(count)
        ]

    return of


@pytest.fixture
def alone(monkeypatch):
    """The threads of what runs the tests are not there."""
    every = threading.enumerate
    there = [t for t in every() if t is not threading.current_thread()]
    monkeypatch.setattr(threading, "enumerate", lambda: [t for t in every() if t not in there])


@pytest.fixture
def plan_always(monkeypatch):
    """However few slices there are, and however quick the function: the loop is never quicker."""
    import xpapply

    monkeypatch.setattr(LIMITS, "few_slices", 0)
    monkeypatch.setattr(LIMITS, "plan_worth", 0.0)
    with xpapply.options(fallback="silent"):
        yield


@pytest.fixture
def by_trace(monkeypatch):
    """No function is compiled from its source: what is tested runs those that are traced."""
    monkeypatch.setattr(LIMITS, "typed_worth", math.inf)


@pytest.fixture
def by_source(plan_always):
    """Functions with loops are compiled from their source, however quick the loop is."""
    with LIMITS.set(typed_worth=0.0, vectorize_unknown=0):
        yield


@pytest.fixture
def always(plan_always, monkeypatch):
    """The same of calls that `xpapply.patch` sees."""
    monkeypatch.setattr(LIMITS, "few_patched", 0)
    monkeypatch.setattr(LIMITS, "patched_worth", -1.0)
    monkeypatch.setattr(LIMITS, "patched_again", 0)


@pytest.fixture
def patched():
    """Patched for a test."""
    import xpapply

    with xpapply.patch() as found:
        yield found


@pytest.fixture
def without_llvmlite(monkeypatch):
    """As where no kernels are compiled for this CPU."""
    from xpapply.functions import cache

    monkeypatch.setattr("xpapply.backends._llvmlite_is_installed", lambda: False)
    cache.clear()
    yield
    cache.clear()


@pytest.fixture
def decided(monkeypatch):
    """How calls of `vectorize` were decided, and for what: a list that grows."""
    from xpapply.planning.python import several_arrays

    found, decide = [], several_arrays.decide

    def looked(what, **how):
        found.append((decide(what, **how), what))
        return found[-1][0]

    monkeypatch.setattr(several_arrays, "decide", looked)
    return found


@pytest.fixture(autouse=True, scope="module")
def _libraries_are_no_garbage():
    """What is there before a file's tests stays: the collector need not look at it each time."""
    gc.collect()
    gc.freeze()


def library(name):
    """Import a library for a test; its absence is a skip unless XPAPPLY_REQUIRE names it."""
    if name in REQUIRED:
        return __import__(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(name)


@pytest.fixture(autouse=True)
def _patience():
    """How long planning may take depends on the machine; what tests see must not."""
    with LIMITS.set(**PATIENT):
        yield


PATIENT = {
    "small_patience": 0.0,
    "first_plan": 0.0,
    "first_loops": 0.0,
    "network_patience": 0.0,
    "trace_seconds": 600.0,
    "paths_at_least": 60.0,
    "tried_blocks": 1,  # a run is one run, as later ones
    "given_up_from": 1e9,
    "loops_per_look": 0.0,
    "vectorize_unknown": 0,
    "plan_worth_of_networks": 0.0,
    "blocks_run": 0.0,
    "blocks_call": 0.0,
    "loops_per_run": 0.0,
    "first_call": 600.0,
    "lent": 1200.0,
    "run_tells": 0.0,
    "run_close": 0.0,
    "loop_less": 1e9,
}


@pytest.fixture
def quiet():
    """Without what estimators say of few samples, while a fallback of ours is an error."""
    import xpapply

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", xpapply.FallbackWarning)
        yield


@pytest.fixture(scope="session")
def torch():
    return library("torch")


@pytest.fixture(scope="session")
def cupy():
    return library("cupy")


@dataclass(frozen=True)
class Library:
    """An array library and the engine that shall run on its arrays, for tests with one body."""

    name: str
    engine: str

    def array(self, x: np.ndarray):
        """`x` as an array of this library, with the same strides wherever it has such strides."""
        if self.name == "numpy":
            return x
        if self.name == "torch":
            tensor = library("torch")
            if x.size and min((0, *x.strides)) >= 0:
                memory, offset = _memory(x)
                strides = [s // x.itemsize for s in x.strides]
                return tensor.from_numpy(memory).as_strided(x.shape, strides, offset)
            return tensor.from_numpy(x.copy())
        if self.name == "cupy":
            cupy = library("cupy")
            if not x.size:
                return cupy.asarray(x)
            memory, offset = _memory(x)
            start = cupy.asarray(memory)[offset:]
            return cupy.lib.stride_tricks.as_strided(start, x.shape, x.strides)
        if self.name == "cuda":
            return Library("torch", "").array(x).cuda()
        if self.name == "jax":
            return library("jax").numpy.asarray(x)
        return library(self.name).asarray(x.copy())

    def module(self, net):
        """A torch module on the device of the arrays."""
        return net.cuda() if self.name == "cuda" else net

    def numpy(self, x) -> np.ndarray:
        """An array of this library as a NumPy array."""
        from xpapply import testing

        return testing.parity._numpy(x)

    @contextmanager
    def __call__(self):
        """Force the engine; without autograd, which would force torch's own operations."""
        import xpapply

        torch = sys.modules.get("torch")
        with xpapply.options(engine=self.engine), torch.no_grad() if torch else nullcontext():
            yield


def _memory(x: np.ndarray):
    """The memory that `x` is a view of as a fresh 1-D array, and where in it `x` starts."""
    ends = [s * (n - 1) // x.itemsize for s, n in zip(x.strides, x.shape, strict=True)]
    offset = -sum(e for e in ends if e < 0)
    memory = np.zeros(offset + sum(e for e in ends if e > 0) + 1, x.dtype)
    np.lib.stride_tricks.as_strided(memory[offset:], x.shape, x.strides)[...] = x
    return memory, offset


LIBRARIES = [
    Library("numpy", "numpy"),
    Library("numpy", "cpu"),
    Library("numpy", "torch"),
    Library("numpy", "array_api"),
    Library("torch", "cpu"),
    Library("torch", "torch"),
    Library("torch", "array_api"),
    Library("array_api_strict", "array_api"),
    Library("jax", "array_api"),
    Library("cupy", "cupy"),
    Library("cupy", "array_api"),
    Library("cuda", "cupy"),
]
"""The matrix: all array libraries, with all engines that run networks on their arrays."""
FUSED = ("cpu", "torch")
"""What runs graphs on CPU tensors, and on NumPy arrays where torch is loaded."""
NAMES = tuple(dict.fromkeys(lib.name for lib in LIBRARIES))
GPU = ("cupy", "cuda")
OWN = [Library(name, "") for name in NAMES]
"""The libraries with whatever engine runs on their arrays if none is asked for."""


@dataclass(frozen=True)
class Slices(Library):
    """A library with the engine that it has for functions of slices."""

    @contextmanager
    def __call__(self):
        import xpapply

        with xpapply.options(engine=self.engine), _with_64_bits(self.name):
            yield

    def array(self, x):
        if self.name == "array_api_strict" and x.dtype == np.float16:
            if currently_in_test_context():
                reject()
            pytest.skip("the array API standard has no float16")
        return super().array(x)

    def can(self, *given):
        """Whether the library has the dtypes of what an expression gives of arrays."""
        *arrays, f = given
        with np.errstate(all="ignore"):
            dtypes = {x.dtype.name for x in (*arrays, np.asarray(f(*arrays)))}
        if self.name in ("torch", "cuda"):
            return not dtypes & {"uint16", "uint32", "uint64"}
        return self.name != "array_api_strict" or "float16" not in dtypes


@contextmanager
def _with_64_bits(name):
    if name != "jax":
        yield
        return
    jax = library("jax")
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        yield


_REFERENCE = [Slices(name, "array_api") for name in ("numpy", "torch")]
_COMPILED = [Slices(name, "cpu") for name in ("numpy", "torch")]
OF_SLICES = [*(Slices(name, "") for name in NAMES), *_REFERENCE, *_COMPILED]
"""The same matrix for functions of slices."""


def parameters(libraries, without=()):
    """Libraries as parameters of a fixture: those on a GPU are marked, `without` those named."""
    return [
        pytest.param(
            lib,
            id=lib.name
            if type(lib) is Library and not lib.engine
            else f"{lib.name}-{lib.engine or 'default'}",
            marks=[pytest.mark.gpu] * (lib.name in GPU)
            + [pytest.mark.kernels] * (lib.engine == "cpu"),
        )
        for lib in libraries
        if lib.name not in without
    ]


@pytest.fixture(params=parameters(LIBRARIES), scope="session")
def xp(request):
    """Every array library with every engine that runs on its arrays."""
    return present(request.param)


@pytest.fixture(params=parameters(LIBRARIES, without=["jax"]), scope="session")
def quick_xp(request):
    """The same without JAX, which compiles every operation for every shape."""
    return present(request.param)


GATHERING = [
    x for x in LIBRARIES if x.engine in ("array_api", "numpy") or x.name == x.engine == "cupy"
]
"""Those that run convolutions as graphs; the others refuse them."""


@pytest.fixture(params=parameters(GATHERING, without=["jax"]), scope="session")
def gathering_xp(request):
    """Every array library with every engine that runs convolutions on its arrays."""
    return present(request.param)


@pytest.fixture(params=parameters(OWN), scope="session")
def place(request):
    """Every array library."""
    return present(request.param)


@pytest.fixture(params=parameters(OWN, without=GPU), scope="session")
def host_place(request):
    """Every array library that needs no GPU."""
    return present(request.param)


@pytest.fixture(params=parameters(OF_SLICES), scope="session")
def any_lib(request):
    """Every array library with every engine for functions of slices."""
    return present(request.param)


@pytest.fixture(params=parameters(OF_SLICES, without=["jax"]), scope="session")
def lib(request):
    """The same without JAX."""
    return present(request.param)


def present(lib: Library) -> Library:
    """`lib`, or a skip where it or its engine is not installed."""
    for name in ("torch",) if "torch" in (lib.name, lib.engine) else (lib.name,):
        library("torch" if name == "cuda" else name)
    if lib.engine == "cupy" or lib.name == "cuda":
        library("cupy")
    if lib.engine == "cpu":
        library("llvmlite")
    return lib
