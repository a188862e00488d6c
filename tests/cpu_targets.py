"""Lesser CPUs that this machine can stand for."""

from unittest import mock

import pytest

import xpapply

pytest.importorskip("llvmlite")

from xpapply.backends.cpu import compiler

TARGETS = ["", *dict.fromkeys(t for t in ("AVX2", "SSE2") if compiler.host().name != "NEON")]


def on(target):
    """As if this machine had no more than these vector instructions."""
    try:
        found = compiler.host(target)
    except xpapply.InputError as error:
        pytest.skip(str(error))
    return mock.patch.object(compiler, "host", return_value=found)
