"""The map of the package: its paths exist, its folders are all, its order is the tested one."""

import re
from pathlib import Path

from test_layers import ORDER

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "map.md").read_text(encoding="utf-8")
NAMED = [x for x in re.findall(r"`([\w/.-]+)`", PAGE) if x.endswith(("/", ".py", ".md"))]


def test_every_path_exists():
    assert len(NAMED) > 60
    missing = [x for x in NAMED if not any((top / x).exists() for top in (ROOT / "xpapply", ROOT))]
    assert missing == []


def test_every_folder_is_named():
    package = ROOT / "xpapply"
    inits = package.rglob("*/__init__.py")
    folders = {f"{path.parent.relative_to(package)}/" for path in inits}
    assert folders - {*NAMED} == set()


def test_the_order_is_that_of_imports():
    rows = re.findall(r"^\| (`.*?) \|", PAGE, re.M)
    first = [name for row in rows for name in re.findall(r"`([\w/.]+)`", row)]
    rooms = [name.removesuffix(".py").removesuffix("/") for name in first]
    known = [room for room in rooms if room in ORDER]
    assert known == sorted(known, key=ORDER.index)
    assert {*ORDER} - {*known} == {".", "__main__"}


def test_no_folder_is_crowded():
    """A newcomer reads a folder at a glance."""
    package = ROOT / "xpapply"
    sizes = {
        str(path.parent.relative_to(package)): len([*path.parent.glob("*.py")])
        for path in package.rglob("__init__.py")
    }
    assert sizes.pop(".") <= 12
    assert {folder: n for folder, n in sizes.items() if n > 20} == {}


LINES = """
    frontends 36750 -> 38710 generators, masks, nnls, splines, distributions, keyword arguments
    codegen 20550 -> 22170 shuffles, MT19937, long sums, how a GPU loads, formulas, its functions
    library 13400 -> 15490 generators, nnls, splines, BLAS, samples, distributions, densities
    planning 10950 -> 11610 limits, calls beside loops, kernels that loops wait for, prices on disk
    backends 9290 -> 10000 machine code for GPUs on disk, kernels with their arguments, short calls
    ir 8700 -> 9630 functions of hosts, quotients, choices, margins, lengths that do not fit
    batching 5650 -> 6590 least squares of rows of a mask, rank tests, shares of values
    models 4700
    . 3890 -> 3910 limits of helpers
    cli 3000
    loop 2600 -> 2630 results that end a loop at once
    pandas 2150 -> 5410 named rows, groups, nullable dtypes, methods of Series, lists, helpers
    functions 2150 -> 2630 advice on dtypes, snapshots, what a cache keeps, decorators
    patching 1750 -> 1890 groups transformed and filtered, one look at all names, columns
    runtime 1650 -> 1970 seeds of MT19937, generators that are spawned, what libm computes
    slice_functions 1600 -> 1630 complex numbers as pairs, which stood in special
    testing 1500
    lowering 1150
    arrays 1000
    storage 900
    labelled 800
    array_api 100
"""
"""How many lines the folders may have; ".": the files of the top.

A row that is raised keeps its first number and says why: ``pandas 2150 -> 2300 rolling windows``.
"""


def test_no_folder_grows_unnoticed():
    package, found = ROOT / "xpapply", {}
    for path in package.rglob("*.py"):
        lines = path.read_text(encoding="utf-8").count("\n")
        assert lines <= 600, path
        folder = path.relative_to(package).parts[0] if path.parent != package else "."
        found[folder] = found.get(folder, 0) + lines
    most = {}
    for row in LINES.strip().splitlines():
        folder, first, *raised = row.split()
        assert not raised or (raised[0] == "->" and len(raised) > 2), f"say why: {row}"
        most[folder] = int(raised[1] if raised else first)
    assert found.keys() == most.keys()
    assert {f: n for f, n in found.items() if n > most[f]} == {}, "shorten, or raise the row"
    spare = {f: n for f, n in found.items() if n < most[f] - 200}
    assert spare == {}, "fewer lines by now: lower the row"
