"""Ambient state that a function depends on without naming it: settings of libraries, classes."""

from __future__ import annotations

import abc
import contextlib
import sys
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ....functions.guards import Guards
from ....functions.snapshots import LIBRARIES, lives_on
from ....limits import LIMITS
from ....runtime import error_state
from ....runtime.warning_filters import Place, silent
from ..trace.recorder import Recorder

_SETTINGS = frozenset(
    "get_printoptions geterr geterrcall getbufsize printoptions show_config show_runtime".split()
)
"""Functions of NumPy that tell how it is set."""


# --- memory ---------------------------------------------------------------------------------------


def watch_memory(watch: Guards, x: Any) -> None:
    """Notice a write into memory that arrays may be made of: of a `bytearray`, a `mmap` ..."""
    was = _content(x)
    if was is None:
        return
    try:
        ref: Callable[[], Any] = weakref.ref(x)
    except TypeError:  # the place where it was found holds it anyway
        ref = lambda: x  # noqa: E731
    watch.add(lambda: (now := ref()) is not None and _content(now) == was)


def _content(x: Any) -> Any:
    """The bytes of an object's memory; None: it shows none.

    What is never equal where it is too large to be looked at in each call.
    """
    try:
        with memoryview(x) as memory:
            if memory.nbytes <= LIMITS.copied:
                return memory.tobytes()
    except (TypeError, ValueError, BufferError, NotImplementedError):
        return None
    return object()


# --- modules and classes --------------------------------------------------------------------------


def makes(cls: type, name: str) -> bool:
    """Whether a module's class computes an attribute: a property, or code of its own."""
    if cls is types.ModuleType:
        return False
    own = [c for c in cls.__mro__ if c not in (types.ModuleType, object)]
    return any({name, "__getattr__", "__getattribute__"} & vars(c).keys() for c in own)


def watch_name(watch: Guards, cls: type) -> None:
    """Notice another name of a class."""
    if not lives_on(cls):
        for name in ("__name__", "__qualname__"):
            watch.look(cls, "attribute", name)


def watch_registered(watch: Guards) -> None:
    """Notice classes that are registered with abstract base classes."""
    token = abc.get_cache_token()
    watch.add(lambda: abc.get_cache_token() == token)


def decides_instances(cls: Any) -> bool:
    """Whether a metaclass decides `isinstance` by code."""
    if isinstance(cls, tuple):
        return any(map(decides_instances, cls))
    kind = type(cls)
    if lives_on(kind):
        return False
    found = {getattr(kind, n, None) for n in ("__instancecheck__", "__subclasscheck__")}
    return any(isinstance(f, types.FunctionType) and f.__module__ != "abc" for f in found)


# --- settings -------------------------------------------------------------------------------------


def watch_printing(watch: Guards) -> None:
    """Notice other options for NumPy's texts."""
    was = _printing()
    watch.add(lambda: _printing() == was)


def _printing() -> str:
    return repr(sorted(np.get_printoptions().items()))


def tells_settings(function: Any) -> bool:
    """Whether a function of NumPy returns a setting."""
    name = getattr(function, "__name__", "")
    return name in _SETTINGS and (getattr(function, "__module__", "") or "").startswith("numpy")


def watch_torch(watch: Guards, function: Any, args: tuple, kwargs: dict, found: Any) -> None:
    """Notice other settings of torch: what a function without tensors has said, the dtype that it
    makes tensors of, and how their texts are."""
    torch = sys.modules["torch"]
    if isinstance(found, torch.Tensor):
        was = _torchs(torch)
        watch.add(lambda: _torchs(torch) == was)
    elif not (args or kwargs) and type(found) in (bool, int, float, str, torch.dtype):
        watch.add(lambda: function() == found)


def _torchs(torch: Any) -> tuple[Any, ...]:
    """Settings of torch: how tensors are made and printed."""
    told = getattr(torch._tensor_str, "PRINT_OPTS", None)
    texts = tuple(vars(told).items()) if hasattr(told, "__dict__") else repr(told)
    return torch.get_default_dtype(), torch.get_default_device(), texts


# --- what constants alone give --------------------------------------------------------------------


@contextlib.contextmanager
def of_constants(recorder: Recorder, function: Any) -> Iterator[None]:
    """Refuse what warns: in the loop it would do so for each slice, or raise.

    It is called while a function is traced, once; where nothing depends on the slice, never again.
    """
    name = getattr(function, "__name__", "a function")
    seen: set[Place] = set()
    special = sys.modules.get("scipy.special")
    errors: Any = ()
    with contextlib.ExitStack() as stack:
        # between the two, or it would look as if the user had silenced everything
        stack.enter_context(silent(_NOTHING))
        stack.enter_context(error_state.noting(seen.add, _CALLED))
        if special is not None and getattr(special, name, None) is function:
            stack.enter_context(special.errstate(all="raise", underflow="ignore", loss="ignore"))
            errors = special.SpecialFunctionError
        try:
            yield
        except errors as error:
            raise recorder.refuse(f"{name} of constants alone may raise: {error}") from None
    if seen:
        raise recorder.refuse(f"{name} of constants alone warns: {next(iter(seen))[0]}")


@contextlib.contextmanager
def of_user(recorder: Recorder) -> Iterator[None]:
    """The same for arithmetic on NumPy scalars in the user's code, which has no calls."""
    held = [recorder]  # no longer than that: NumPy keeps the function for a while

    def reported(kind: str, _: int) -> None:
        frame: Any = sys._getframe(1)
        while frame is not None and _root(frame) in _OTHERS:
            frame = frame.f_back
        if frame is None or _root(frame) == _OWN:  # which computes with values of the slice
            return
        while frame is not None and frame.f_code is not Recorder.real.__code__:
            frame = frame.f_back  # so does what that calls
        if frame is None:
            raise held[0].refuse(f"arithmetic of constants alone warns: {kind}")

    try:
        with np.errstate(**_CALLED, call=reported):  # type: ignore[arg-type]
            yield
    finally:
        held.clear()


def _root(frame: types.FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


_OWN = __name__.partition(".")[0]
_OTHERS = LIBRARIES - {_OWN}
_NOTHING = "(?!)"
_CALLED = {kind: "ignore" if kind == "under" else "call" for kind in error_state.IGNORED}
