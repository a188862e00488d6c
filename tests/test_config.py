import os
import threading

import numpy as np
import pytest

import xpapply
from xpapply import config


@pytest.fixture
def environment(monkeypatch):
    """Set environment variables that count from now on."""

    def put(**variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(config, "_environment", None)

    yield put
    monkeypatch.undo()
    config._environment = None


def test_nested_and_restored():
    before = config.current()
    with xpapply.options(threads=3) as outer:
        assert outer.threads == 3
        with xpapply.options(fallback="raise"):
            assert (config.current().threads, config.current().fallback) == (3, "raise")
        assert config.current() == outer
    assert config.current() == before


def test_restored_after_an_error():
    before = config.current()
    with pytest.raises(KeyError), xpapply.options(threads=3):
        raise KeyError
    assert config.current() == before


def test_local_to_the_thread():
    seen = []
    with xpapply.options(threads=3):
        thread = threading.Thread(target=lambda: seen.append(config.current().threads))
        thread.start()
        thread.join()
    assert seen == [0]


@pytest.mark.parametrize(
    "wrong",
    [
        {"fallback": "loud"},
        {"threads": -1},
        {"threads": 1.5},
        {"block_bytes": "many"},
        {"precision": "low"},
        {"speed": 11},
    ],
)
def test_wrong_options(wrong):
    with pytest.raises(xpapply.InputError, match=next(iter(wrong))), xpapply.options(**wrong):
        pass


def test_environment(environment):
    environment(XPAPPLY_THREADS="2", XPAPPLY_FALLBACK="silent", XPAPPLY_ENGINE="loop")
    assert config.current() == config.Options(fallback="silent", threads=2, engine="loop")
    with xpapply.options(threads=1):
        assert config.current().fallback == "silent"


@pytest.mark.parametrize(
    ("name", "value"), [("XPAPPLY_THREADS", "two"), ("XPAPPLY_FALLBACK", "loud")]
)
def test_wrong_environment(environment, name, value):
    environment(**{name: value})
    with pytest.raises(xpapply.InputError, match=value):
        config.current()


def test_threads():
    with xpapply.options(threads=5):
        assert config.current().thread_count() == 5
    assert 1 <= config.current().thread_count() <= (os.cpu_count() or 1)


def test_unknown_engine():
    net = xpapply.MLP([np.ones((2, 3))])
    with xpapply.options(engine="abacus"), pytest.raises(xpapply.UnsupportedError, match="abacus"):
        xpapply.apply_along_axis(net, 1, np.zeros((2, 3)))
