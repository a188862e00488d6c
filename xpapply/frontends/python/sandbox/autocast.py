"""`torch.autocast` inside ``f``: torch's functions are written down with what they run in."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..trace.recorder import Recorder
from .proxies import Forbidden, real_arguments


class AutocastClass(Forbidden):
    """`torch.autocast` and the like."""

    __slots__ = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        made = self.__xpapply_real__(*real_arguments(args), **real_arguments(kwargs))
        return Autocast(self._xp_stage, made, self._xp_name)


class Autocast(Forbidden):
    """An autocast context: active around calls of torch by `f`, not around xpapply's own."""

    __slots__ = ()

    def __enter__(self) -> Autocast:
        recorder, what = self._xp_stage.recorder, self.__xpapply_real__
        for name in ("device", "fast_dtype", "_enabled"):
            self._xp_stage.watch.look(what, "attribute", name)
        state = (what.device, what.fast_dtype, what._enabled)
        recorder.autocast = (*recorder.autocast, state)
        return self

    def __exit__(self, *error: Any) -> None:
        recorder = self._xp_stage.recorder
        recorder.autocast = recorder.autocast[:-1]


@dataclass(frozen=True)
class _InAutocast:
    """A function that runs in such contexts, the outermost first."""

    function: Callable[..., Any]
    states: tuple[tuple[str, Any, bool], ...]

    @property
    def __name__(self) -> str:
        return getattr(self.function, "__name__", "a torch function")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        torch = sys.modules["torch"]
        with contextlib.ExitStack() as stack:
            for device, dtype, enabled in self.states:
                if enabled or torch.is_autocast_enabled(device):  # torch warns of absent devices
                    stack.enter_context(
                        torch.autocast(device, dtype=dtype, enabled=enabled, cache_enabled=False)
                    )
            return self.function(*args, **kwargs)


def _around() -> tuple[Any, ...]:
    """The dtypes that `torch.autocast` asks for around ``f``."""
    torch = sys.modules["torch"]
    devices = [d for d in ("cpu", "cuda") if torch.is_autocast_enabled(d)]
    return tuple((d, torch.get_autocast_dtype(d)) for d in devices)


def in_autocast(recorder: Recorder, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of torch, as it runs where ``f`` is."""
    if recorder.around is None:
        around = recorder.around = _around()
        recorder.stage.watch.add(lambda: _around() == around)
    return _InAutocast(function, recorder.autocast) if recorder.autocast else function
