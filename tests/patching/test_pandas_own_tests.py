"""pandas' own tests of its engines, with ours in the place of the one that they make up."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
pytest.importorskip("pandas", "3")
pytest.importorskip("pandas.tests.apply.conftest")

TESTS = (
    "pandas.tests.apply.test_frame_apply",
    "pandas.tests.apply.test_series_apply",
    "pandas.tests.series.methods.test_map",
)


def run(tmp_path, tests, *more):
    looked = tmp_path / "looked.json"
    own = os.environ.get("PYTHONPATH", "")  # where pandas may be
    paths = os.pathsep.join(map(str, (HERE.parents[1], HERE.parent, HERE, tmp_path, own)))
    env = os.environ | {"PYTHONPATH": paths, "LOOKED": str(looked)}
    # not by plugins that happen to be installed, which may warn, nor as a worker of ours
    env |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
    how = "-q -p no:cacheprovider -p engine_of_pandas --no-header -k MockEngine".split()
    alone = ("-c", os.devnull, "--rootdir", str(tmp_path), "-W", "ignore")
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *how, *alone, *more, "--pyargs", *tests],
        capture_output=True,
        text=True,
        env=env,
        cwd=tmp_path,
        check=False,
        timeout=300,
    )
    return ran, json.loads(looked.read_text()) if looked.exists() else {}


def test_they_pass(tmp_path):
    ran, counted = run(tmp_path, TESTS)
    assert ran.returncode == 0, ran.stdout[-5000:] + ran.stderr[-2000:]
    assert " failed" not in ran.stdout
    assert counted["engine"] >= 30, counted
    assert counted["at once"] >= 3, counted


def test_they_can_fail(tmp_path):
    """What is not what pandas gives is noticed."""
    (tmp_path / "wrong.py").write_text(
        "from xpapply.pandas import engine\n"
        "own = engine.rows.apply\n"
        "engine.rows.apply = lambda *a: own(*a).iloc[::-1]\n"
    )
    ran, _ = run(tmp_path, TESTS[:1], "-p", "wrong")
    assert ran.returncode == 1, ran.stdout[-5000:]
    assert " failed" in ran.stdout


def test_wherever_pandas_lies_and_whatever_else_is_installed(tmp_path):
    (tmp_path / "elsewhere.py").write_text(
        "import sys\n"
        "import pytest\n"
        "@pytest.hookimpl(tryfirst=True)\n"
        "def pytest_collection_finish():\n"
        "    sys.modules['other.conftest'] = sys.modules.pop('pandas.tests.apply.conftest')\n"
    )
    (tmp_path / "warns.py").write_text("raise Warning('no benchmarks here')\n")
    info = tmp_path / "warns-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: warns\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[pytest11]\nwarns = warns\n")
    ran, counted = run(tmp_path, TESTS[1:2], "-p", "elsewhere")
    assert ran.returncode == 0, ran.stdout[-5000:] + ran.stderr[-2000:]
    assert counted["engine"], counted
