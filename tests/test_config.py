import asyncio
import os
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

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
        *({"fallback": x} for x in ("loud", "", None, True, ["warn"])),
        *({"precision": x} for x in ("low", "", None, 32, np.array(["high", "high"]))),
        *({"threads": x} for x in (-1, 1.5, 2.0, True, np.True_, None, "2", np.array([1, 2]))),
        *({"block_bytes": x} for x in (-1, "many", False, 1e6, None)),
        *({"engine": x} for x in (None, False, 0, b"loop", np.sum)),
        *({"workers": x} for x in (0, -2, 1.5, True, None, "2")),
        *({"progress": x} for x in (2, None, "yes", np.ones(2))),
        *({n: x} for n in ("resume", "compile") for x in (2, None, "yes")),
        *({"memory": x} for x in (-1, 1.5, True, None, "lots", "1 XB", "-1 MB", "")),
        *({"device": x} for x in (None, 0, "gpu", "cuda:", "cpu")),
        {"speed": 11},
    ],
)
def test_wrong_options(wrong):
    """At the line that has them, whether or not it is a ``with``."""
    with pytest.raises(xpapply.InputError, match=next(iter(wrong))):
        xpapply.options(**wrong)


def test_options_have_names():
    with pytest.raises(TypeError, match="options have names"):
        xpapply.options("loop")


@pytest.mark.parametrize("threads", [2, np.int64(2), np.array(2)])
def test_whole_numbers_of_any_kind(threads):
    with xpapply.options(threads=threads) as found:
        assert type(found.threads) is int
        assert found == config.Options(threads=2)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("500 MB", 500_000_000),
        ("1.5GB", 1_500_000_000),
        ("2 GiB", 2 << 30),
        ("64k", 64_000),
        ("123", 123),
        ("7 b", 7),
        (np.int64(9), 9),
    ],
)
def test_sizes_in_bytes(text, count):
    with xpapply.options(memory=text) as found:
        assert (type(found.memory), found.memory) == (int, count)


def test_sizes_from_the_environment(environment):
    environment(XPAPPLY_MEMORY="500 MB", XPAPPLY_RESUME="1", XPAPPLY_DEVICE="cuda:1")
    now = config.current()
    assert now.fill is None
    environment(
        XPAPPLY_MEMORY="500 MB", XPAPPLY_RESUME="1", XPAPPLY_DEVICE="cuda:1", XPAPPLY_FILL="nan"
    )
    now = config.current()
    assert np.isnan(now.fill)
    assert (now.memory, now.resume, now.device) == (500_000_000, True, "cuda:1")


# --- what does nothing says so ------------------------------------------------------------


def test_options_alone_change_nothing_and_say_so():
    message = r"options\(threads=1\) changed nothing: write 'with xpapply.options\(threads=1\):'"
    line = sys._getframe().f_lineno + 2
    with pytest.warns(RuntimeWarning, match=message) as caught:
        xpapply.options(threads=1)
    assert (caught[0].filename, caught[0].lineno) == (__file__, line)
    assert config.current().threads == 0

    def never():
        kept = xpapply.options(engine="loop", threads=2)
        return repr(kept)

    with pytest.warns(RuntimeWarning, match=r"options\(engine='loop', threads=2\) changed nothing"):
        assert "inside 'with' only" in never()


def test_nothing_to_warn_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        xpapply.options()
        with xpapply.options(threads=1), ExitStack() as stack:
            stack.enter_context(xpapply.options(threads=2))
        kept = xpapply.options(threads=3)
        with kept:
            pass
        del kept
        with pytest.raises(xpapply.InputError):
            xpapply.options(threads=-3)


def test_the_warning_reaches_a_script(tmp_path):
    script = tmp_path / "first_day.py"
    script.write_text("import xpapply\nxpapply.options(engine='loop')\n")
    ran = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": str(Path(xpapply.__file__).parents[1])},
    )
    assert "first_day.py:2: RuntimeWarning: options(engine='loop') changed nothing" in ran.stderr


# --- decorators -----------------------------------------------------------------------


@xpapply.options(threads=7)
def decorated(x, y=0):
    """Its doc."""
    return x, y, config.current().threads


def test_decorator():
    assert decorated(1, y=2) == (1, 2, 7)
    assert (decorated.__name__, decorated.__doc__) == ("decorated", "Its doc.")
    with xpapply.options(threads=2, fallback="silent"):
        assert decorated(1) == (1, 0, 7)
        assert config.current().threads == 2
    assert config.current().threads == 0


def test_decorator_of_recursive_functions_in_threads():
    @xpapply.options(threads=5)
    def depth(n):
        assert config.current().threads == 5
        if n:
            depth(n - 1)
        return config.current().threads

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(depth, [3] * 200)) == {5}
        assert set(pool.map(lambda _: config.current().threads, range(20))) == {0}


def test_decorator_of_coroutines():
    @xpapply.options(threads=5)
    async def task():
        await asyncio.sleep(0)
        return config.current().threads

    async def main():
        found = await asyncio.gather(*(task() for _ in range(5)))
        return found, config.current().threads

    assert asyncio.run(main()) == ([5] * 5, 0)


def test_generators_are_no_functions_to_decorate():
    def generator():
        yield config.current().threads

    with pytest.raises(TypeError, match="generator is a generator: put the with inside it"):
        xpapply.options(threads=5)(generator)


def test_one_object_many_times():
    quiet = xpapply.options(fallback="silent")
    for _ in range(2):
        with quiet, xpapply.options(fallback="raise"), quiet:
            assert config.current().fallback == "silent"
        assert config.current().fallback == "warn"


# --- the environment --------------------------------------------------------------------


def test_environment(environment):
    environment(XPAPPLY_THREADS="2", XPAPPLY_FALLBACK="silent", XPAPPLY_ENGINE="loop")
    assert config.current() == config.Options(fallback="silent", threads=2, engine="loop")
    with xpapply.options(threads=1):
        assert config.current().fallback == "silent"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("XPAPPLY_THREADS", "two"),
        ("XPAPPLY_THREADS", "-1"),
        ("XPAPPLY_THREADS", "1.5"),
        ("XPAPPLY_THREADS", "True"),
        ("XPAPPLY_THREADS", " "),
        ("XPAPPLY_BLOCK_BYTES", "1MB"),
        ("XPAPPLY_FALLBACK", "loud"),
        ("XPAPPLY_PRECISION", "HIGH"),
    ],
)
def test_wrong_environment(environment, name, value):
    environment(**{name: value})
    with pytest.raises(xpapply.InputError, match=f"environment variable {name}={value!r}: use"):
        config.current()


@pytest.mark.parametrize("name", ["threads", "block_bytes", "fallback", "precision", "engine"])
def test_an_empty_variable_is_not_set(environment, name):
    environment(**{f"XPAPPLY_{name.upper()}": ""})
    assert config.current() == config.Options()


def test_an_unknown_engine_in_the_environment(environment):
    environment(XPAPPLY_ENGINE="cuda")
    net = xpapply.MLP([np.ones((2, 3))])
    for how in ({}, {"threads": 1}):
        with (
            xpapply.options(**how),
            pytest.raises(
                xpapply.UnsupportedError, match=r"'cuda' \(environment variable XPAPPLY_E"
            ),
        ):
            xpapply.apply_along_axis(net, 1, np.zeros((2, 3)))


def test_threads():
    with xpapply.options(threads=5):
        assert config.current().thread_count() == 5
    assert 1 <= config.current().thread_count() <= (os.cpu_count() or 1)


def test_unknown_engine():
    net = xpapply.MLP([np.ones((2, 3))])
    with xpapply.options(engine="abacus"), pytest.raises(xpapply.UnsupportedError, match="abacus"):
        xpapply.apply_along_axis(net, 1, np.zeros((2, 3)))
