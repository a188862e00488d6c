"""``python -m xpapply``: what a bug report needs."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

import xpapply

ROOT = Path(__file__).parents[1]


def run(*python: str) -> str:
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        [sys.executable, *python], capture_output=True, text=True, env=env, check=True, timeout=120
    )
    assert not ran.stderr
    return ran.stdout


def test_report_names_versions_and_engines():
    lines = [line.split(maxsplit=1) for line in run("-m", "xpapply").splitlines()]
    found = {name: text for name, text in lines if name != "engine"}
    assert found["xpapply"] == xpapply.__version__
    assert found["numpy"] == np.__version__
    engines = {text.split()[0] for name, text in lines if name == "engine"}
    assert {"loop", "array_api", "numpy", "torch", "cpu"} <= engines


def test_report_says_where_kernels_are_kept(monkeypatch, tmp_path):
    monkeypatch.setenv("XPAPPLY_CACHE_DIR", str(tmp_path))
    lines = run("-m", "xpapply").splitlines()
    assert any(
        line.split() == ["kernels", "on", "disk", str(tmp_path / "kernels")] for line in lines
    )
    (cpu,) = (line for line in lines if line.split()[:2] == ["engine", "cpu"])
    assert ("not installed" in cpu) == (not any(line.startswith("llvmlite") for line in lines))


def test_report_imports_no_array_library():
    code = (
        "import sys, xpapply.cli.installed as m; m.report(); "
        "print({'torch', 'cupy', 'jax', 'dask', 'sklearn', 'scipy', 'llvmlite'} & set(sys.modules))"
    )
    assert run("-c", code) == "set()\n"


def test_report_of_a_wrong_environment(monkeypatch):
    monkeypatch.setenv("XPAPPLY_THREADS", "two")
    lines = run("-m", "xpapply").splitlines()
    assert lines[-1].split(maxsplit=1)[1].startswith("environment variable XPAPPLY_THREADS='two'")
