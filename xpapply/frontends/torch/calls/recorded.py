"""A batch of a module as a straight line of torch's operations: what its layers came to once.

On a CPU a small batch waits for Python: each layer looks for its hooks, its weights, its settings.
The line holds the weights themselves, so that it sees what is written to them.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ....errors import TraceError
from ..results import are_close

_Run = Callable[[torch.Tensor], torch.Tensor]


def recorded(run: _Run, x: torch.Tensor) -> _Run:
    """Record ``run(x)`` for tensors of this layout; `run` has no side effects.

    Raises
    ------
    TraceError
        For what writes to tensors that are there before.
    """
    with _Recorder() as recorder:
        want = run(x)
    line = _Line(recorder.calls, x, want).function()
    if not are_close(line(x), want):
        raise TraceError("what was recorded gives something else")
    return line


class _Recorder(TorchDispatchMode):
    """Writes down the operations that run, and keeps what they gave: addresses stay unique."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[tuple[Any, tuple, dict[str, Any], Any]] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        found = func(*args, **(kwargs or {}))
        self.calls.append((func, args, kwargs or {}, found))
        return found


class _Line:
    """Operations as the text of a function: a name for each tensor, dropped after its last use."""

    def __init__(self, calls: list[Any], given: torch.Tensor, result: torch.Tensor) -> None:
        self._names = {id(given): "given"}
        self._values: dict[str, Any] = {"__builtins__": builtins}
        self._before = {_memory(given)}
        """Memory that was there before: of the array, of weights."""
        lines: list[str] = []
        last: dict[str, int] = {}  # where a name is used last
        for func, args, kwargs, found in calls:
            self._check(func, args, kwargs)
            words = [self._text(a) for a in args]
            words += [f"{k}={self._text(a)}" for k, a in kwargs.items()]
            several = not isinstance(found, torch.Tensor)
            names = [self._name(t) for t in (found if several else [found])]
            to = "".join(f"{n}, " for n in names) if several else names[0]
            used = [self._names.get(id(t), "") for t in tree_leaves((args, kwargs))]
            last |= dict.fromkeys([*used, *names], len(lines))
            lines.append(f"{to} = {self._value(func)}({', '.join(words)})")
        end = self._text(result)
        for name, k in last.items():
            if name not in ("", end):
                lines[k] += f"; del {name}"
        self._text_of_all = "\n    ".join(["def line(given):", *lines, f"return {end}"])

    def function(self) -> _Run:
        exec(self._text_of_all, self._values)
        line: _Run = self._values["line"]
        return line

    def _check(self, func: Any, args: tuple, kwargs: dict[str, Any]) -> None:
        """Raise for what writes to memory that was there before."""
        for t in tree_leaves((args, kwargs)):
            if isinstance(t, torch.Tensor) and id(t) not in self._names:
                self._before.add(_memory(t))
        if not func._schema.is_mutable or func is torch.ops.aten.detach_.default:
            return  # torch.tensor() detaches what it makes
        for k, argument in enumerate(func._schema.arguments):
            if argument.alias_info is None or not argument.alias_info.is_write:
                continue
            written = kwargs.get(argument.name, args[k] if k < len(args) else None)
            if any(isinstance(t, torch.Tensor) and _memory(t) in self._before
                   for t in tree_leaves(written)):  # fmt: skip
                raise TraceError(f"{func} writes to a tensor that was there before")

    def _name(self, t: Any) -> str:
        return self._names.setdefault(id(t), f"t{len(self._names)}")

    def _text(self, x: Any) -> str:
        if id(x) in self._names and isinstance(x, torch.Tensor):
            return self._names[id(x)]
        if isinstance(x, (list, tuple)) and any(isinstance(t, torch.Tensor) for t in x):
            return f"[{', '.join(map(self._text, x))}]"
        return self._value(x)

    def _value(self, x: Any) -> str:
        """A name for what does not change."""
        name = f"c{len(self._values)}"
        self._values[name] = x
        return name


def _memory(t: torch.Tensor) -> int:
    return t.untyped_storage().data_ptr()
