"""Graphs within functions of slices: NumPy's engine until a kernel pays."""

import pickle

import numpy as np
import pytest

import xpapply
from xpapply import frontends
from xpapply.ir.graph import ShapeDtype
from xpapply.planning import engines

pytest.importorskip("llvmlite")
X = np.random.default_rng(0).standard_normal((500, 6)).astype("f")
NET = xpapply.MLP([np.ones((3, 6), "f")], [np.arange(3, dtype="f")])


@pytest.fixture
def patient():
    return engines.Deferring(frontends.find(NET).lift(NET, ShapeDtype((6,), "float32"), (), {}))


def ran(patient):
    return {engine.name for engine in patient._engines.values()}


def test_few_slices_need_no_kernel(patient):
    want = X @ np.ones((6, 3)) + np.arange(3)
    for _ in range(3):
        np.testing.assert_allclose(patient(X, 1), want, rtol=1e-4, atol=1e-4)
    assert ran(patient) == {"numpy"}


def test_many_slices_get_one_once_that_pays(patient):
    patient(X, 1)
    patient._budget.limit = 1e-9
    patient(X, 1)
    assert ran(patient) == {"numpy", "cpu"}


def test_who_asks_for_an_engine_gets_it(patient):
    with xpapply.options(engine="cpu"):
        patient(X, 1)
    assert ran(patient) == {"cpu"}


def test_copies_in_other_processes_are_patient_too(patient):
    assert type(pickle.loads(pickle.dumps(patient))) is engines.Deferring
