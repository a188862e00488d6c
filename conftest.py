"""Fixtures and profiles shared by tests and doctests."""

import os
import warnings

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("ci", max_examples=60, deadline=None)
settings.register_profile(
    "deep", max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("XPAPPLY_PROFILE", "ci"))

REQUIRED = [name for name in os.environ.get("XPAPPLY_REQUIRE", "").split(",") if name]
"""Libraries whose absence is a failure, not a skip: a GPU run cannot pass by skipping."""


def have_gpu() -> bool:
    try:
        import cupy

        return bool(cupy.cuda.runtime.getDeviceCount())
    except Exception:
        return False


def pytest_collection_modifyitems(config, items):
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if not marked or have_gpu():
        return
    if "cupy" in REQUIRED:
        raise pytest.UsageError("XPAPPLY_REQUIRE names cupy, but there is no CUDA device")
    for item in marked:
        item.add_marker(pytest.mark.skip(reason="no CUDA device"))


def library(name):
    """Import a library for a test; its absence is a skip unless XPAPPLY_REQUIRE names it."""
    if name in REQUIRED:
        return __import__(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(name)


@pytest.fixture(scope="session")
def torch():
    return library("torch")


@pytest.fixture(scope="session")
def cupy():
    return library("cupy")
