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
    pandas 2150 -> 5410 named rows, groups, nullable dtypes, methods of Series, lists, helpers
    functions 2150 -> 2630 advice on dtypes, snapshots, what a cache keeps, decorators
    patching 1750 -> 1890 groups transformed and filtered, one look at all names, columns
