"""One run of a Python function on one real slice, which writes down what happens to it."""

from __future__ import annotations

import functools
import math
import random
import sys
import time
import types
import weakref
from typing import Any

import numpy as np

from ...batching import find
from ...batching.names import CUPY, root_of
from ...errors import TraceError, line_of, outermost
from ...guards import Guards
from ...warning_filters import silent
from . import operations
from .library_calls import Runs
from .purity import impure
from .python_builtins import real
from .recorder import Recorder
from .sandbox import Stage
from .scratch import Scratch
from .tree import Path, Ref, SideExit


class Tracing:
    """Traces one function, on one slice after the other."""

    def __init__(self, args: tuple, kwargs: dict, library: str, runs: Runs) -> None:
        self._args, self._kwargs = args, kwargs
        self._library, self._runs = library, runs
        self.watch = Guards()
        self.scratch = Scratch()
        """The attributes that every call of ``f`` sets."""
        self.length = 1
        """Numbers in a slice."""
        self.eps = 0.0
        """The lowest precision on the way of the last slice."""
        self.seconds = 0.0
        """What a run takes."""
        self.catches = False
        """Whether `f` catches exceptions."""
        self.keeps = False
        """Whether it keeps a large array of the user's alive."""

    @outermost
    def __call__(self, f: Any, v: Any) -> tuple[Path, Any]:
        """The path of the slice `v`, and the result of ``f`` for it.

        Raises
        ------
        TraceError
            With the reason and the user's line. Any other exception is that of ``f``.
        """
        started = time.perf_counter()
        states = _random_states()
        recorder = Recorder(operations, self._library, line_of(f))
        self.watch.start(f)
        stage = Stage(recorder, self.watch, self._runs)
        recorder.stage = stage
        f = stage.substitute(f)
        args = tuple(stage.argument(a) for a in self._args)
        kwargs = {k: stage.argument(a) for k, a in self._kwargs.items()}
        if self._library == "torch":
            tracer: Any = operations.tensors.Tensor(recorder, v, Ref(0))
        else:
            tracer = recorder.input(v)
        self.length = math.prod(v.shape)
        try:
            with silent(), np.errstate(all="ignore"):
                result = f(tracer, *args, **kwargs)
                stage.check()
                if _drew(states):
                    raise recorder.refuse("it draws random numbers")
                found = recorder.path(_plain(result))
        except RecursionError:
            raise TraceError("it recurses too deeply") from None
        except Exception as error:
            drew = _drew(states)
            if recorder.refused is not None or drew:
                raise (recorder.refused or recorder.refuse("it draws random numbers")) from None
            stage.check()
            recorder.raised(error)
            found = recorder.off_path(), None
        self.scratch.add(stage.writes, leaves=isinstance(found[0].result, SideExit))
        self.catches, self.eps = stage.catches, recorder.eps
        self.keeps |= stage.keeps
        self.seconds = time.perf_counter() - started
        return found


def _random_states() -> list[tuple[Any, Any, Any]]:
    """The global random generators: what they are, and how to put that back."""
    found: list[tuple[Any, Any, Any]] = [(random.getstate, random.setstate, random.getstate())]
    get = np.random.get_state
    found.append((lambda: _flat(get()), np.random.set_state, get()))
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "get_rng_state"):
        found.append(
            (
                lambda: torch.get_rng_state().numpy().tobytes(),
                torch.set_rng_state,
                torch.get_rng_state(),
            )
        )
    return found


def _flat(state: Any) -> Any:
    return [x.tobytes() if isinstance(x, np.ndarray) else x for x in state]


def _drew(states: list[tuple[Any, Any, Any]]) -> bool:
    """Whether random numbers were drawn; the generators are put back."""
    drew = False
    for get, put, was in states:
        then = was.numpy().tobytes() if hasattr(was, "numpy") else was
        then = _flat(was) if isinstance(was, tuple) and isinstance(was[0], str) else then
        if get() != then:
            put(was)
            drew = True
    return drew


def _plain(result: Any) -> Any:
    """A result without substitutes."""
    if isinstance(result, (list, tuple)):
        return [_plain(x) for x in result]
    return real(result)


def why_impure(f: Any) -> str | None:
    """Why a function cannot be tried out, by its own code: it writes to something outside."""
    while isinstance(f, functools.partial):
        f = f.func
    if operations.estimators.is_method(f):
        return None
    f = getattr(f, "__func__", f)
    if not isinstance(f, types.FunctionType) or root_of(f) in CUPY or find(f) is not None:
        return None  # of what is known the code does not matter
    code = f.__code__
    if code in _harmless:
        return None
    why = impure(code)
    if why is None:
        _harmless.add(code)
    return why


_harmless: weakref.WeakSet[types.CodeType] = weakref.WeakSet()
"""Code that has been looked at; reasons name the file, in which equal code may differ."""
