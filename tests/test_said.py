"""What a reason says: the user's line, what was met there, and what to write instead."""

import ast
import builtins
import functools
import inspect
import linecache
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import xpapply
from conftest import library

pytest.importorskip("scipy")

import said_programs

X = np.round(np.random.default_rng(0).normal(size=(60, 6)), 2)

FAST = frozenset(
    (
        "set_of_elements dict_lookup generator_object namespace deep_copy imports permutations "
        "getter ragged ragged_unique nonzero eigenvalues eigenvectors roots singular errstate "
        "packbits block boxes spline label schur expm recursion group_by "
        "ones_by_slice zeros_by_slice range_by_slice"
    ).split()
)
"""Programs that run at once on such slices, or may."""

PROGRAMS = [
    f
    for name, f in vars(said_programs).items()
    if inspect.isfunction(f) and f.__module__ == "said_programs" and name not in FAST
]

_FIRST = "write use return draw leave pass make test".split()
_PUBLIC = frozenset(dir(builtins)) | frozenset(dir(np)) | frozenset(dir(xpapply))
_ROOMS = "frontends batching planning".split()
_PACKAGE = Path(xpapply.__file__).parent


@functools.cache
def internal_names():
    """The classes of xpapply's own modules, and other words of its own."""
    found = {"<U0", "NoRule", "Proxy", "Tracer", "Recorder", "Sandbox", "frontends", "batching."}
    for path in (p for room in _ROOMS for p in (_PACKAGE / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                found.add(node.name)
    return found - _PUBLIC


def faults(reason, f, raised=None):
    """What is wrong with a reason; `raised`: what NumPy's loop raises."""
    found = []
    code = f.__code__
    place = re.search(r"\((\w+\.py):(\d+): (.*)\)(?=;)", reason)
    if place is None:
        found.append("no line")
        words = reason
    else:
        file, line, text = place.groups()
        lines, first = inspect.getsourcelines(f)
        written = " ".join(linecache.getline(code.co_filename, int(line)).split())
        if file != Path(code.co_filename).name or not first <= int(line) < first + len(lines):
            found.append("a line of something else")
        if not written.startswith(text.removesuffix("...")):
            found.append("not what is written there")
        words = reason.replace(place[0], "")
    for name in internal_names():
        if re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", words):
            found.append(f"names {name}")
    if re.search(r"xpapply\.(?!options|explain|elementwise)", words):
        found.append("names a module")
    if re.search(r"https?:|[Ff]ile an issue", words):
        found.append("sends the user elsewhere")
    if re.search(r"<U\d|(?<![\w.])_[A-Za-z]\w*|__module__", words):
        found.append("names what the user has not written")
    if re.search("changes a|class|list", words) and "another function of NumPy" in reason:
        found.append("says to do something else")
    claimed = re.search(r"it raises (\w+)", words)
    if claimed and claimed[1] != type(raised).__name__:
        found.append(f"claims {claimed[1]}, where the loop raises {raised!r}")
    instead = reason.rpartition("; ")[2].partition(" ")[0]
    if instead not in _FIRST:
        found.append("nothing to do")
    if len(words) > 330:
        found.append("too long")
    return found


def of_the_loop(f):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            np.apply_along_axis(f, 1, X.copy())
        except Exception as error:
            return error
    return None


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_a_reason(f):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        p = xpapply.explain(f, 1, X.copy())
    assert p.engine == "loop"
    (reason,) = p.reasons
    assert not faults(reason, f, of_the_loop(f)), reason


def test_there_are_many_reasons():
    assert len(PROGRAMS) >= 60


@pytest.mark.parametrize(
    ("reason", "says"),
    [
        ("it calls print, which xpapply does not know", "no line"),
        ("it calls print (said_programs.py:1: x); use y", "a line of something else"),
        ("NoRule: no roots ({}); use y", "names NoRule"),
        ("an index by Proxy ({}); use y", "names Proxy"),
        ("results of dtypes <U0 ({}); use y", "names <U0"),
        ("xpapply.frontends.python ({}); use y", "names a module"),
        ("it raises ValueError: read-only ({}); use y", "claims ValueError"),
        ("it calls print ({}); because", "nothing to do"),
    ],
)
def test_the_form_can_be_missed(reason, says):
    f = said_programs.prints
    lines, first = inspect.getsourcelines(f)
    place = f"said_programs.py:{first + 1}: {lines[1].strip()}"
    assert not faults(f"it calls print ({place}); leave it out", f)
    assert any(says in x for x in faults(reason.format(place), f))


# --- what was not so ------------------------------------------------------------------


def alike(f, x=X, **close):
    want = np.apply_along_axis(f, 1, x)
    got = xpapply.apply_along_axis(f, 1, x)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, **close)


@pytest.mark.parametrize("given", ["outside", "argument", "part"])
def test_coefficients_of_compiled_filters(given):
    """Compiled code asks for memory that it could write to, and writes nothing."""
    signal = said_programs.signal
    sos = signal.butter(4, 0.3, output="sos")
    x = np.random.default_rng(1).normal(size=(300, 24))
    if given == "argument":
        want = np.apply_along_axis(lambda v, s: signal.sosfilt(s, v), 1, x, sos)
        got = xpapply.apply_along_axis(lambda v, s: signal.sosfilt(s, v), 1, x, sos)
        np.testing.assert_allclose(got, want)
        return
    f = {
        "outside": lambda v: signal.sosfilt(sos, v),
        "part": lambda v: signal.sosfilt(sos[:1], v),
    }[given]
    assert xpapply.explain(f, 1, x).engine == "numpy"
    for _ in range(2):
        alike(f, x)


def test_coefficients_that_are_read_only():
    signal = said_programs.signal
    sos = signal.butter(2, 0.3, output="sos")
    sos.flags.writeable = False
    x = np.random.default_rng(1).normal(size=(300, 24))
    for apply in (np.apply_along_axis, xpapply.apply_along_axis):
        with pytest.raises(ValueError, match="read-only"):
            apply(lambda v: signal.sosfilt(sos, v), 1, x)


@pytest.mark.parametrize(
    "f",
    [
        lambda v: np.poly1d(v)(0.5),
        lambda v: np.poly1d(v).order,
        lambda v: np.poly1d(v).o + len(np.poly1d(v).coeffs),
        lambda v: np.poly1d(v).c.sum(),
        lambda v: np.poly1d(v).deriv()(2.0),
        lambda v: np.poly1d(v).deriv(2).c.max(),
        lambda v: np.poly1d(v).integ()(2.0),
        lambda v: np.poly1d(v).integ(k=3)(2.0),
        lambda v: np.abs(np.poly1d(v).r).sum(),
        lambda v: (np.poly1d(v) * np.poly1d([1, 2]))(2.0),
        lambda v: np.poly1d(v)[0],
        lambda v: len(np.poly1d(v)),
        lambda v: np.poly1d(v[:3], True)(2.0),
        lambda v: np.poly1d([v[0], 2.0]).c.sum(),
        lambda v: np.poly1d([1.0, 2.0]).deriv()(v).sum(),
    ],
)
def test_polynomials(f):
    x = X[:, :4].copy()
    x[3, 0] = 0.0
    x[7, :2] = 0.0
    x[9] = 0.0
    for given in (X, x):
        alike(f, given, rtol=1e-9, atol=1e-9)
        reasons = xpapply.explain(f, 1, given).reasons
        assert not any("raises" in r for r in reasons), reasons


def test_texts_of_elements():
    with pytest.warns(xpapply.FallbackWarning, match=r"it returns text.*test_said.py.*; return"):
        xpapply.vectorize(lambda a: "p" if a > 0 else "n")(np.ones((60, 60)))


def test_warnings_of_vmap_are_not_the_users():
    torch = library("torch")
    t = torch.randn(2000, 7, generator=torch.Generator().manual_seed(0))

    def f(v):
        return torch.histc(v, 3)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", xpapply.FallbackWarning)
        got = xpapply.apply_along_axis(f, 1, t)
    assert torch.equal(got, torch.stack([f(v) for v in t]))
