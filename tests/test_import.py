"""`import xpapply` is cheap: it loads nothing; the public names load their files when asked for."""

import ast
import copy
import importlib
import pickle
import pydoc
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import xpapply


def in_new_process(code):
    """What `code` prints where nothing but Python's own start was imported before."""
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert ran.stderr == ""
    return ast.literal_eval(ran.stdout)


def loaded_by(code):
    """Modules that `code` loads, and `import numpy` does not."""
    return in_new_process(
        "import sys, numpy as np\n"
        "before = set(sys.modules)\n"
        f"{code}\n"
        "print(sorted(sys.modules.keys() - before))"
    )


def test_import_loads_no_other_module():
    assert loaded_by("import xpapply") == ["xpapply"]


@pytest.mark.parametrize(
    "name", ["FallbackWarning", "InputError", "UnsupportedError", "get_array_module", "options"]
)
def test_small_names_load_no_wing(name):
    loaded = loaded_by(f"from xpapply import {name}")
    wings = ("frontends", "backends", "codegen", "batching", "ir", "planning", "special")
    assert [m for m in loaded if m.partition(".")[2].startswith(wings)] == []


@pytest.mark.parametrize("f", ["xpapply.MLP([np.ones((4, 8))])", "lambda v: v.max() - v.min()"])
def test_networks_and_few_slices_load_no_tracer(f):
    code = f"net = {f}\nxpapply.apply_along_axis(net, -1, np.ones((9, 8)))"
    loaded = loaded_by(f"import numpy as np, xpapply\n{code}")
    wings = ("xpapply.frontends.python", "xpapply.batching")
    assert [m for m in loaded if m.startswith(wings)] == []


@pytest.mark.parametrize(
    "f",
    [
        "lambda v: xpapply.special.logsumexp(v)",
        "lambda v: v * xpapply.special.norm(v)",
    ],
)
def test_functions_that_are_the_first_to_ask_for_a_name(f):
    """What is loaded within `f` for the first time is no reason for the loop."""
    code = (
        "import numpy as np, xpapply\n"
        "x = np.arange(400.0).reshape(40, 10)\n"
        f"f = {f}\n"
        "with xpapply.options(fallback='silent'):\n"
        "    plan = xpapply.explain(f, 1, x)\n"
        "    got = xpapply.apply_along_axis(f, 1, x)\n"
        "same = np.allclose(got, np.apply_along_axis(f, 1, x))\n"
        "print([plan.vectorized or plan.reasons, same])"
    )
    vectorized, same = in_new_process(code)
    assert same
    assert vectorized is True


def test_a_first_function_loads_no_compiler_that_it_cannot_pay_for():
    """To load it counted as the function's time, which made that the loop's for good."""
    first = in_new_process(
        "import sys, numpy as np, xpapply\n"
        "from xpapply.limits import LIMITS\n"
        "LIMITS.first_call = 0.1  # whatever this machine does beside\n"
        "f, arr = lambda v: v.sum(), np.ones((20_000, 8))\n"
        "found = xpapply.apply_along_axis(f, -1, arr)\n"
        "print(('xpapply.backends.cpu' in sys.modules, float(found.sum()),"
        " xpapply.explain(f, -1, arr).engine))"
    )
    assert first == (False, 160_000.0, "numpy")


def test_what_compiles_loops_loads_no_other_kernels():
    """Its price counts on that: the others take as long again to load."""
    code = (
        "import xpapply\n"
        "def f(v):\n"
        "    s = 0.0\n"
        "    for x in v:\n"
        "        s = s + x if x > 0 else s\n"
        "    return s\n"
        "with xpapply.options(engine='cpu'):\n"
        "    xpapply.apply_along_axis(f, -1, np.ones((40, 5)))"
    )
    file = (1, None, code.splitlines(keepends=True), "<f>")
    run = f"exec(compile({code!r}, '<f>', 'exec'))"
    code = f"import linecache\nlinecache.cache['<f>'] = {file!r}\n{run}"
    loaded = loaded_by(code)
    assert "xpapply.backends.cpu.typed" in loaded
    others = ("xpapply.backends.cpu.networks", "xpapply.codegen.llvm.network", "xpapply.ir.slices")
    assert [m for m in loaded if m.startswith(others)] == []


def test_a_first_function_loads_what_it_runs():
    """A process that calls one function should not wait for what others need."""
    loaded = loaded_by(
        "import xpapply\n"
        "from xpapply.limits import LIMITS\n"
        "LIMITS.first_call = 0.1  # whatever this machine does beside\n"
        "xpapply.apply_along_axis(lambda v: v.mean(), 1, np.ones((20_000, 8)))"
    )
    assert len([m for m in loaded if m.partition(".")[0] == "xpapply"]) <= 100
    late = {"llvmlite", "numpy.ma", "numpy.random", "multiprocessing", "concurrent", "tempfile"}
    assert late.isdisjoint(loaded)
    assert "xpapply.frontends.python.run.executor" in loaded  # it did not run in the loop


LOOP = """
def f(v):
    s = 0.0
    for x in v:
        s = s + x if x > 0 else 0.5 * s
    return s
"""


def of_a_first_loop(then, limit):
    """Modules that the first call of a function with a loop loads, whatever this machine does."""
    code = f"import linecache, xpapply\nfrom xpapply.limits import LIMITS\n{limit}"
    code += f"\nlinecache.cache['<f>'] = (1, None, {LOOP.splitlines(keepends=True)!r}, '<f>')"
    return loaded_by(f"{code}\nexec(compile({LOOP!r}, '<f>', 'exec'))\n{then}")


@pytest.mark.parametrize(
    ("call", "most"),
    [("apply_along_axis(f, 1, x)", 35), ("vectorize(f, signature='(n)->()')(x)", 58)],
)
def test_a_first_loop_that_is_short_loads_nothing_that_plans(call, most):
    loaded = of_a_first_loop(f"xpapply.{call}", "LIMITS.first_loops = 60.0; x = np.ones((99, 99))")
    ours = [m for m in loaded if m.startswith("xpapply")]
    assert len(ours) <= most
    wings = ("frontends.", "backends.cpu", "batching", "codegen", "ir.typed", "library")
    assert [m for m in ours if m.removeprefix("xpapply.").startswith(wings)] == []
    late = {"llvmlite", "numpy.ma", "numpy.random", "concurrent", "decimal", "hashlib", "tempfile"}
    if "vectorize" not in call:
        assert late.isdisjoint(loaded)


def test_a_first_loop_that_is_compiled_loads_no_tracer():
    loaded = of_a_first_loop(
        "xpapply.apply_along_axis(f, 1, np.ones((99, 99)))",
        "LIMITS.first_loops, LIMITS.typed_worth, LIMITS.plan_worth = 1e-9, 0.0, 0.0",
    )
    ours = [m for m in loaded if m.startswith("xpapply")]
    assert "xpapply.backends.cpu.typed" in ours
    assert len(ours) <= 155
    traced = ("trace", "sandbox", "data_dependent", "graphs", "run.in_blocks", "run.executor")
    traced = tuple(f"xpapply.frontends.python.{name}" for name in traced)
    assert [m for m in ours if m.startswith((*traced, "xpapply.batching"))] == []


def test_a_function_that_is_the_first_to_draw():
    """The generators are not known before they are loaded: a trial tells that they are."""
    vectorized, reasons = in_new_process(
        "import numpy as np, xpapply\n"
        "p = xpapply.explain(lambda v: v.sum() + np.random.rand(), 1, np.ones((40, 10)))\n"
        "print([p.vectorized, p.reasons])"
    )
    assert not vectorized
    assert "random" in reasons[0]


def test_what_is_not_loaded_takes_time():
    seconds = in_new_process(
        "from xpapply.runtime import registry\n"
        "one = registry.loading('backends', 'cpu')\n"
        "registry.find('backends', 'cpu')\n"
        "print((one, registry.loading('backends', 'cpu')))"
    )
    assert seconds[0] > 0.1
    assert seconds[1] == 0.0


def test_entry_points_are_read_only_where_something_installed_has_them(tmp_path):
    ours = "import xpapply; xpapply.apply_along_axis(lambda v: v.sum(), 1, np.zeros((9, 5)))\n"
    network = "xpapply.apply_along_axis(xpapply.MLP([np.ones((2, 5))]), 1, np.zeros((9, 5)))\n"
    assert "importlib.metadata" not in loaded_by(ours + network)
    numpys = "xpapply.apply_along_axis(np.linalg.norm, 1, np.zeros((9, 5)))\n"
    own = "class A:\n    def __call__(self, v):\n        return v.sum()\n"
    own += "xpapply.apply_along_axis(A(), 1, np.zeros((9, 5)))\n"
    assert "importlib.metadata" not in loaded_by(ours + numpys + own)
    other = "import operator; xpapply.apply_along_axis(operator.itemgetter(0), 1, np.ones((9, 1)))"
    assert "importlib.metadata" not in loaded_by(ours + other)
    info = tmp_path / "strange-1.0.dist-info"
    info.mkdir()
    (info / "entry_points.txt").write_text("[xpapply.frontends]\nstrange = strange_frontend\n")
    path = f"import sys; sys.path.append({str(tmp_path)!r})\n"
    assert "importlib.metadata" in loaded_by(path + ours + other)


def test_archives_may_have_entry_points(tmp_path):
    place = tmp_path / "strange.zip"
    with zipfile.ZipFile(place, "w") as archive:
        archive.writestr("strange-1.0.dist-info/METADATA", "Name: strange\nVersion: 1.0\n")
        lines = "[xpapply.backends]\nstrange = strange_backend\n"
        archive.writestr("strange-1.0.dist-info/entry_points.txt", lines)
        archive.writestr("strange_backend.py", "BACKEND = 1")
    found = in_new_process(
        f"import sys; sys.path.append({str(place)!r})\n"
        "from xpapply.runtime import registry\n"
        "print([registry.names('backends')[-1], registry.find('backends', 'strange').BACKEND])"
    )
    assert found == ["strange", 1]


def test_entry_points_are_read_once(tmp_path):
    info = tmp_path / "strange-1.0.dist-info"
    info.mkdir()
    (info / "entry_points.txt").write_text("[xpapply.frontends]\nstrange = strange_frontend\n")
    twice = in_new_process(
        f"import sys; sys.path.append({str(tmp_path)!r})\n"
        "import importlib.metadata, operator, numpy as np, xpapply; read = []\n"
        "Two = type('Two', (), {'__module__': 'two', '__call__': lambda self, v: 2.0})\n"
        "whole = importlib.metadata.entry_points\n"
        "importlib.metadata.entry_points = lambda **how: read.append(how) or whole(**how)\n"
        "for f in (operator.itemgetter(0), Two()):\n"
        "    xpapply.apply_along_axis(f, 1, np.ones((9, 1)))\n"
        "print(len(read))"
    )
    assert twice == 1


def test_frontends_and_backends_of_other_distributions(tmp_path):
    info = tmp_path / "other-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[xpapply.backends]\nstrange = other_backend\n")
    (tmp_path / "other_backend.py").write_text(
        "from xpapply.backends import Backend\n"
        "class Strange(Backend):\n"
        "    name = 'strange'\n"
        "BACKEND = Strange()\n"
    )
    engine, names = in_new_process(
        f"import sys; sys.path.append({str(tmp_path)!r})\n"
        "from xpapply.backends import choice\n"
        "print((choice.backend('strange').name, choice.names()))"
    )
    assert engine == "strange"
    assert len(set(names)) == len(names)
    assert set(names) > {"loop", "array_api", "numpy", "cupy", "torch", "strange"}


def test_the_backend_in_the_documentation(tmp_path):
    """The whole file that `docs/extending.md` shows, in a distribution of its own."""
    pytest.importorskip("array_api_strict")
    text = (Path(__file__).parents[1] / "docs" / "extending.md").read_text()
    (source,) = re.findall(r"the whole of `strict_backend.py`.*?```python\n(.*?)```", text, re.S)
    assert sum(map(bool, source.splitlines())) < 25
    declared = re.search(r'(?<="xpapply.backends"]\n)(.*?) = "(.*?)"\n', text)
    info = tmp_path / "other-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    lines = f"[xpapply.backends]\n{declared[1]} = {declared[2]}\n"
    (info / "entry_points.txt").write_text(lines)
    (tmp_path / f"{declared[2]}.py").write_text(source)
    plan, refused = in_new_process(
        f"import sys; sys.path.append({str(tmp_path)!r})\n"
        "import array_api_strict as xp, numpy as np, xpapply\n"
        "net = xpapply.MLP([np.ones((2, 3)), np.ones((1, 2))], activation='tanh')\n"
        "x = np.arange(24.0).reshape(2, 3, 4)\n"
        "for axis, arr in ((1, x), (0, np.eye(3)), (2, x.astype('f4').transpose(2, 0, 1))):\n"
        "    got = np.asarray(xpapply.apply_along_axis(net, axis, xp.asarray(arr)))\n"
        "    np.testing.assert_allclose(got, np.apply_along_axis(net, axis, arr))\n"
        "mean = xpapply.special.mean_var(xp.asarray(x), axis=1)[0]\n"
        "np.testing.assert_allclose(np.asarray(mean), x.mean(1))\n"
        "plan = xpapply.explain(net, 1, xp.asarray(x))\n"
        "from xpapply.backends import choice\n"
        "from xpapply.ir.slices.slice_graph import written\n"
        "graph, reasons = written(lambda v: v + 1.0, [('float64', True)])[0], []\n"
        "found = choice.able_for_slices(graph, [xp.asarray(x)], reasons)\n"
        "print(((plan.engine, plan.kernels), ([b.name for b, _ in found], reasons)))"
    )
    assert plan == (declared[1], ("one array operation per node, all slices at once",))
    assert refused == (["array_api"], [f"{declared[1]}: it has no functions of slices"])


# --- the public names --------------------------------------------------------------------------


def test_dir_shows_the_public_names():
    assert dir(xpapply) == sorted(xpapply.__all__)


def test_dir_shows_the_public_names_before_they_are_loaded():
    shown = in_new_process("import xpapply; print(dir(xpapply))")
    assert shown == sorted(xpapply.__all__)


@pytest.mark.parametrize("name", xpapply.__all__)
def test_each_name_may_be_the_first_that_is_asked_for(name):
    ask = f"import xpapply; first = xpapply.{name}; from xpapply import {name}"
    assert in_new_process(f"{ask}; print(first is {name} is vars(xpapply)['{name}'])") is True


def test_star_import():
    names = in_new_process("from xpapply import *; print([n for n in dir() if n[:2] != '__'])")
    assert names == sorted(xpapply.__all__)


def test_what_type_checkers_see_is_what_is_loaded():
    tree = ast.parse(Path(xpapply.__file__).read_text())
    choices = [n for n in tree.body if isinstance(n, ast.If)]
    (typed,) = (n for n in choices if ast.unparse(n.test) == "TYPE_CHECKING")
    seen = {name.name: node.module for node in typed.body for name in node.names}
    assert sorted(seen) == sorted(xpapply.__all__)
    for name, file in seen.items():
        module = importlib.import_module(f"xpapply.{file or name}")
        assert getattr(xpapply, name) is (getattr(module, name) if file else module)


def test_no_other_name():
    with pytest.raises(AttributeError, match="module 'xpapply' has no attribute 'aply'"):
        _ = xpapply.aply
    assert not hasattr(xpapply, "__wrapped__")  # doctest and inspect ask for it


def test_names_first_asked_for_by_many_threads():
    names = ["special", "apply_along_axis", "MLP", "elementwise", "Plan", "options"]
    found = in_new_process(
        "import sys, threading, xpapply\n"
        "sys.setswitchinterval(1e-5)\n"
        f"names = {names}\n"
        "start, found = threading.Barrier(len(names)), []\n"
        "def ask(name):\n"
        "    start.wait()\n"
        "    getattr(xpapply, name)\n"
        "    found.append(name)\n"
        "threads = [threading.Thread(target=ask, args=(name,)) for name in names]\n"
        "[t.start() for t in threads], [t.join() for t in threads]\n"
        "print(found)"
    )
    assert sorted(found) == sorted(names)


@pytest.mark.parametrize("name", [n for n in xpapply.__all__ if n != "special"])
def test_names_are_pickled_and_copied(name):
    public = getattr(xpapply, name)
    assert pickle.loads(pickle.dumps(public)) is public
    assert copy.deepcopy(public) is public


def test_help_shows_the_public_names():
    text = pydoc.plain(pydoc.render_doc(xpapply))
    for name in xpapply.__all__:
        assert name in text
    assert "Apply a function to the 1-D slices of an array along an axis." in text


def test_several_threads_may_be_the_first_to_call():
    """One imports the frontend of Python functions, and others find it half loaded."""
    raised = in_new_process(
        "import threading, numpy as np, xpapply\n"
        "x, raised = np.random.default_rng(0).random((400, 8)), []\n"
        "start = threading.Barrier(6)\n"
        "def run():\n"
        "    start.wait()\n"
        "    try:\n"
        "        xpapply.explain(lambda v: v.max() - v.min(), -1, x)\n"
        "    except Exception as error:\n"
        "        raised.append(repr(error))\n"
        "threads = [threading.Thread(target=run) for _ in range(6)]\n"
        "[t.start() for t in threads]\n"
        "[t.join() for t in threads]\n"
        "print(raised)"
    )
    assert raised == []


def test_a_module_without_a_frontend_is_named(tmp_path):
    info = tmp_path / "strange-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: strange\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[xpapply.frontends]\nstrange = strange_frontend\n")
    (tmp_path / "strange_frontend.py").write_text("def lift(f, aval, args, kwargs): ...\n")
    (tmp_path / "strange.py").write_text("class Net:\n    def __call__(self, v): return v\n")
    said = in_new_process(
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import numpy as np, strange, xpapply\n"
        "try:\n"
        "    xpapply.apply_along_axis(strange.Net(), -1, np.ones((3, 4)))\n"
        "except TypeError as error:\n"
        "    print(repr(str(error)))"
    )
    assert "strange_frontend" in said
    assert "FRONTEND" in said


ERRORS = "def f(x):\n    return math.erf(x) + 1.0\n"


@pytest.mark.parametrize("seconds", [0.0, 1e6])
def test_what_takes_long_to_load_is_loaded_where_it_pays(seconds):
    """NumPy has no error function: SciPy's takes longer to load than a short loop does."""
    pytest.importorskip("scipy")
    limits = f"LIMITS.first_loops, LIMITS.plan_worth, LIMITS.first_call = 1e-9, 0.0, {seconds}"
    code = f"import math, numpy as np, xpapply\nfrom xpapply.limits import LIMITS\n{limits}"
    call = "xpapply.vectorize(f)(np.linspace(-1.0, 1.0, 500))"
    loaded = loaded_by(
        f"{code}\nexec({ERRORS!r})\nwith xpapply.options(fallback='silent'):\n    {call}"
    )
    assert ("scipy.special" in loaded) == bool(seconds)
