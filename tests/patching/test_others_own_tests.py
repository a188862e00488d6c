"""The own tests of NumPy, SciPy, scikit-learn, xarray and pandas, by ``python -m xpapply``."""

import ast
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent

SUITES = {
    "numpy": (
        "numpy.lib.tests.test_shape_base::TestApplyAlongAxis",
        "numpy.lib.tests.test_function_base::TestVectorize",
        "numpy.ma.tests.test_extras::TestApplyAlongAxis",
        "numpy.ma.tests.test_extras::TestMedian",
        "numpy.matrixlib.tests.test_interaction::test_apply_along_axis_matrix",
        "numpy.lib.tests.test_nanfunctions::TestNanFunctions_Median",
    ),
    "scipy": (
        "scipy.linalg.tests.test_special_matrices",
        "scipy.special.tests.test_ellip_harm",
        "scipy.signal.tests.test_signaltools::TestLinearFilterFloat64",
        "scipy.stats.tests.test_rank",
        "scipy.stats.tests.test_resampling::TestBootstrap",
        "scipy.stats.tests.test_discrete_distns::TestNCH",
        "scipy.stats.tests.test_mstats_basic::TestRanking",
        "scipy.stats.tests.test_mstats_basic::TestMquantiles",
        "scipy.stats.tests.test_mstats_basic::TestMode",
    ),
    "sklearn": (
        "sklearn.ensemble.tests.test_voting::test_tie_situation",
        "sklearn.ensemble.tests.test_voting::test_weights_iris",
        "sklearn.ensemble.tests.test_voting::test_predict_on_toy_problem",
        "sklearn.ensemble.tests.test_voting::test_sample_weight",
        "sklearn.ensemble.tests.test_voting::test_set_estimator_drop",
        "sklearn.cluster.tests.test_bicluster::test_fit_best_piecewise",
    ),
    "xarray": ("xarray.tests.test_computation",),
    "pandas": (
        "pandas.tests.apply.test_frame_apply",
        "pandas.tests.series.methods.test_map",
        "pandas.tests.frame.methods.test_map",
        "pandas.tests.window.test_apply",
        "pandas.tests.groupby.test_apply",
    ),
}
"""The tests that reach NumPy's loops, by their package."""
DEEP = os.environ.get("XPAPPLY_PROFILE") == "deep"
REPEATED = () if DEEP else ("-k", "not bootstrap_against", "-m", "not single_cpu")
"""Tests that come to one loop hundreds of times, and those of pandas' engine of numba.

These take half of the time; the latter compile, and come to no loop of ours.
"""
AT_ONCE = {"numpy": 20, "scipy": 100, "sklearn": 1, "xarray": 5, "pandas": 40}
"""Calls that run at once at least: these tests do run ours."""


def there(test):
    """Whether this version of the library has it."""
    module, _, name = test.partition("::")
    tree = ast.parse(Path(importlib.util.find_spec(module).origin).read_text(encoding="utf-8"))
    return not name or name in {getattr(x, "name", "") for x in tree.body}


def reaching(test):
    """The tests of a file of xarray's that come to a loop: the others are of something else."""
    if DEEP or not test.startswith("xarray."):
        return [test]
    text = Path(importlib.util.find_spec(test).origin).read_text(encoding="utf-8")
    found = {x.name: ast.get_source_segment(text, x) for x in ast.parse(text).body if is_test(x)}
    return [f"{test}::{x}" for x, code in found.items() if re.search("vectorize|polyfit", code)]


def is_test(node):
    return isinstance(node, ast.FunctionDef) and node.name.startswith("test")


def run(tests, folder, looked):
    own = os.environ.get("PYTHONPATH", "")  # where the libraries may be
    paths = os.pathsep.join(map(str, (HERE.parents[1], HERE.parent, HERE, own)))
    env = os.environ | {"PYTHONPATH": paths, "LOOKED": str(looked)}
    # not by plugins that happen to be installed, which may warn, nor as a worker of ours
    env |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
    how = ("-q", "-p", "look_always", "-p", "no:cacheprovider", "--no-header", *REPEATED)
    alone = ("-c", os.devnull, "--rootdir", str(folder))  # not by our configuration
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "xpapply",
            "-m",
            "pytest",
            *how,
            *alone,
            *REPEATED,
            "--pyargs",
            *tests,
        ],
        capture_output=True,
        text=True,
        env=env,
        cwd=folder,
        check=False,
        timeout=500,
    )


@pytest.mark.slow
@pytest.mark.parametrize("package", SUITES)
def test_they_pass(package, tmp_path):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"no {package} here")
    looked = tmp_path / "looked.json"
    tests = [test for test in SUITES[package] if there(test)]
    assert len(tests) > len(SUITES[package]) / 2
    ran = run([x for test in tests for x in reaching(test)], tmp_path, looked)
    assert ran.returncode == 0, ran.stdout[-5000:] + ran.stderr[-2000:]
    assert " failed" not in ran.stdout
    rows = json.loads(looked.read_text())
    at_once = sum(n for row in rows for name, n in row["engines"].items() if name != "loop")
    assert at_once >= AT_ONCE[package], ran.stderr[-5000:]
    assert "xpapply: " in ran.stderr  # the report of the runner


def test_they_can_fail(tmp_path):
    """What is not what the original gives is noticed."""
    (tmp_path / "wrong.py").write_text(
        "import numpy as np\n"
        "from xpapply.planning.python import running as p\n"
        "own = p.along\n"
        "p.along = lambda *a: np.flip(own(*a)) + 1\n"
    )
    looked = tmp_path / "looked.json"
    tests = ("-p", "wrong", "numpy.lib.tests.test_shape_base::TestApplyAlongAxis")
    ran = run(tests, tmp_path, looked)
    assert ran.returncode == 1, ran.stdout[-5000:]
    assert " failed" in ran.stdout
