"""Tracing: one run of a Python function on one real slice, recorded."""

from __future__ import annotations

import math
import sys
import time
import types
import weakref
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from ....batching import find
from ....batching.names import CUPY, root_of
from ....errors import DRAWS, TraceError, line_of, outermost, written_at
from ....functions.estimators import is_method
from ....functions.guards import Guards
from ....functions.purity import impure
from ....limits import LIMITS
from ....loop.arguments import Arguments
from ....runtime.error_state import let_pass
from ....runtime.warning_filters import silent
from ..trace.python_builtins import plain, real
from ..trace.recorder import Recorder
from ..trace.tree import Path, Ref, SideExit
from . import operations
from .ambient import of_user
from .library_calls import Runs
from .sandbox import Sandbox
from .scratch import Scratch


class Tracing:
    """Traces one function, on one slice after the other."""

    def __init__(self, arguments: Arguments, library: str, runs: Runs) -> None:
        self._arguments = arguments
        self._library, self._runs = library, runs
        self.watch = Guards()
        self.scratch = Scratch()
        """The attributes that every call of ``f`` sets."""
        self.length = 1
        """Numbers in a slice."""
        self.eps = 0.0
        """The lowest precision on the way of the last slice."""
        self.seconds = 0.0
        """CPU seconds of the last run."""
        self.limit = math.inf
        """CPU seconds that a run may take."""
        self.per_step = 0.0
        """CPU seconds that each recorded step may take."""
        self.catches = False
        """Whether `f` catches exceptions."""
        self.keeps = False
        """Whether it keeps a large array of the user's alive."""
        self._settled = True

    @outermost
    def __call__(self, f: Any, v: Any) -> tuple[Path, Any]:
        """The path of the slice `v`, and the result of ``f`` for it.

        Raises
        ------
        TraceError
            With the reason and the user's line. Any other exception is that of ``f``.
        """
        try:
            for _ in range(LIMITS.random_tries - 1):
                with suppress(_Drew):  # or another thread did, such as those of distributed
                    return self._once(f, v)
            return self._once(f, v)
        finally:
            self._settled = False  # what is returned may keep things alive
            self.watch.settle()

    def settle(self) -> None:
        """Watch no longer what the last run made, and what is gone with it."""
        if not self._settled:
            self._settled = True
            self.watch.settle()

    def _once(self, f: Any, v: Any) -> tuple[Path, Any]:
        started = time.thread_time()
        states = _random_states()
        recorder = Recorder(operations, self._library, line_of(f), self.limit, self.per_step)
        self.watch.start(f)
        stage = Sandbox(recorder, self.watch, self._runs)
        recorder.stage = stage
        f = stage.substitute(f)
        arguments = self._arguments.replaced(stage.argument)
        slices = v if isinstance(v, tuple) else (v,)
        refs = [Ref(0, (k,)) for k in range(len(v))] if isinstance(v, tuple) else [Ref(0)]
        drew = False
        self.length = sum(math.prod(np.shape(x)) for x in slices)
        try:
            with silent(), of_user(recorder):
                inputs = [self._input(recorder, x, r) for x, r in zip(slices, refs, strict=True)]
                if self._arguments.numbers:
                    inputs = self._numbers(inputs)
                result = arguments.call(f, inputs)
                stage.check()
                if type(result) is tuple and arguments.exactly and not arguments.results:
                    raise recorder.refuse("it returns a tuple, which is more than one result")
                if drew := _drew(states):
                    raise recorder.refuse(DRAWS)
                found = recorder.path(_plain(result), self._arguments.results)
        except RecursionError:
            raise TraceError("it recurses too deeply") from None
        except Exception as error:
            let_pass(error)
            drew = _drew(states) or drew
            if recorder.refused is not None or drew:
                why = recorder.refused or recorder.refuse(DRAWS)
                raise (_Drew(*why.args) if drew else why) from None
            stage.check()
            recorder.raised(error, escapes=_by_a_stand_in(error))
            found = recorder.off_path(), None
        self.scratch.add(stage.writes, leaves=isinstance(found[0].result, SideExit))
        self.catches, self.eps = stage.catches, recorder.eps
        self.keeps |= stage.keeps
        self.seconds = time.thread_time() - started
        return found

    def _input(self, recorder: Recorder, x: Any, ref: Ref) -> Any:
        """The tracer of a slice."""
        if self._library == "torch":
            return operations.tensors.TracedTensor(recorder, x, ref)
        return recorder.input(x, ref)

    def _numbers(self, inputs: list[Any]) -> list[Any]:
        """Python's numbers for elements."""
        return [plain(x, _NUMBERS[np.asarray(x.value).dtype.kind]) for x in inputs]


_NUMBERS: dict[str, type] = {"b": bool, "i": int, "u": int, "f": float, "c": complex}
"""Python's numbers for those of NumPy."""


def _by_a_stand_in(error: Exception) -> bool:
    """Whether an exception may come from the tracer rather than from the slice.

    What the user's own code raises does not, except for attributes and types.
    """
    step = error.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    inside = step is None or not written_at(step.tb_frame.f_code.co_filename)
    return inside or isinstance(error, (TypeError, AttributeError))


class _Drew(TraceError):
    """Random numbers were drawn meanwhile."""


def _random_states() -> list[tuple[Any, Any, Any]]:
    """The global random generators: what they are, and how to put that back."""
    found: list[tuple[Any, Any, Any]] = []
    for name in ("random", "numpy.random"):
        module: Any = sys.modules.get(name)
        if module is None:  # who draws loads it, and is tried once more
            found.append((partial(sys.modules.__contains__, name), _leave, False))
        elif name == "random":
            found.append((module.getstate, module.setstate, module.getstate()))
        else:
            get = module.get_state
            found.append((lambda get=get: _flat(get()), module.set_state, get()))
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


def _leave(was: Any) -> None:
    """A generator that is new needs not be put back."""


def _flat(state: Any) -> Any:
    return [x.tobytes() if isinstance(x, np.ndarray) else x for x in state]


def _drew(states: list[tuple[Any, Any, Any]]) -> bool:
    """Whether random numbers were drawn; the generators are restored."""
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
    while isinstance(f, partial):
        f = f.func
    if is_method(f):
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
