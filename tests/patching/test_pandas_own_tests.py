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
    paths = os.pathsep.join(map(str, (HERE.parents[1], HERE.parent, HERE, tmp_path)))
    env = os.environ | {"PYTHONPATH": paths, "LOOKED": str(looked)}
    how = "-q -n 0 -p no:cacheprovider -p engine_of_pandas --no-header -k MockEngine".split()
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
