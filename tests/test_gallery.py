"""The gallery: its scripts run, and its page shows what is in them."""

import ast
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = ROOT / "examples" / "gallery"
PAGE = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
NEEDED = {
    "mri_bilateral": ("nibabel", "scipy"),
    "hyperspectral_map": ("tensorly", "sklearn"),
    "ndvi_trend": ("nrt", "xarray"),
    "series_anomalies": ("statsmodels",),
    "digits_cnn": ("torch", "sklearn"),
    "colour_quaternions": ("sklearn",),
}
NRT_FILE = "sentinel2_cube_subset_romania_10m.nc"

# as a reader runs them; but what runs a few slices depends on the machine, and must not here
RUN = """
import runpy
import sys
from conftest import PATIENT
from xpapply.limits import LIMITS
del sys.argv[0]
with LIMITS.set(**PATIENT):
    runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", NEEDED)
def test_script(name, tmp_path):
    for package in NEEDED[name]:
        pytest.importorskip(package)
    if name == "ndvi_trend":
        data = find_spec("nrt.data")
        if not data or not (Path(data.origin).parent / NRT_FILE).exists():
            pytest.skip("nrt 0.3 and later have no images in their wheel")
    ran = subprocess.run(
        [sys.executable, "-c", RUN, SCRIPTS / f"{name}.py", "--small", "--out", tmp_path],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{SCRIPTS}"},
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    assert "FallbackWarning" not in ran.stderr
    assert "checked " in ran.stdout  # against the loop, by assert_allclose
    assert re.findall("^fallback (.*)", ran.stdout, re.M) in (["none"], ["none"] * 2)
    picture = tmp_path / f"{name}.png"
    if find_spec("matplotlib") is None:
        assert "matplotlib is not installed" in ran.stdout
    else:
        assert picture.stat().st_size > 10_000


def functions(text):
    """The functions of some code without their docstrings, by name."""
    found = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            if ast.get_docstring(node) is not None:
                del node.body[0]
            node.returns = None
            for argument in node.args.args:
                argument.annotation = None
            node.decorator_list = []
            found[node.name] = ast.unparse(node)
    return found


def test_page_and_scripts_are_alike():
    sections = re.split(r"^## ", PAGE, flags=re.M)[1:]
    named = [re.search(r"\]\(\.\./examples/gallery/(\w+)\.py\)", s)[1] for s in sections]
    assert named == [*NEEDED]
    assert {p.stem for p in SCRIPTS.glob("*.py")} == {*NEEDED, "beside_numpy"}
    for name, section in zip(named, sections, strict=True):
        shown = functions("\n".join(re.findall(r"```python\n(.*?)```", section, re.S)))
        inside = functions((SCRIPTS / f"{name}.py").read_text(encoding="utf-8"))
        assert shown
        for f, text in shown.items():
            assert text == inside[f]


@pytest.mark.parametrize("name", NEEDED)
def test_picture_of_the_page(name):
    alternative = re.search(rf"!\[([^]]+)\]\(_static/gallery/{name}\.png\)", PAGE)[1]
    assert len(alternative) > 40
    picture = ROOT / "docs" / "_static" / "gallery" / f"{name}.png"
    assert picture.stat().st_size <= 150_000


# --- the page of methods ---

METHODS = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")


def test_methods_of_the_page_are_those_of_the_benchmark():
    pytest.importorskip("scipy")
    from benchmarks.method_rows import rows

    inside = {}
    for file in ("method_pixels", "method_series", "method_models", "loop_series", "solver_rows"):
        text = (ROOT / "benchmarks" / f"{file}.py").read_text(encoding="utf-8")
        for name, found in functions(text).items():
            inside.setdefault(name, set()).add(found)
    shown = functions("\n".join(re.findall(r"```python\n(?!>>>)(.*?)```", METHODS, re.S)))
    assert len(shown) >= len(rows())
    for name, text in shown.items():
        assert text in inside[name], name


def test_methods_have_pictures():
    pytest.importorskip("scipy")
    from benchmarks.method_rows import rows

    for row in rows():
        alternative = re.search(rf"!\[([^]]+)\]\(_static/methods/{row.name}\.png\)", METHODS)[1]
        assert len(alternative) > 40
        picture = ROOT / "docs" / "_static" / "methods" / f"{row.name}.png"
        assert picture.stat().st_size <= 40_000
        assert f"<!-- fill: method {row.name} -->" in METHODS


@pytest.mark.slow
def test_pictures_of_methods_are_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    pytest.importorskip("scipy")
    command = [sys.executable, "-m", "examples.methods", "--out", tmp_path, "pelt", "whittaker"]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=300)
    assert ran.returncode == 0, ran.stderr
    assert {p.name for p in tmp_path.iterdir()} == {"pelt.png", "whittaker.png"}
