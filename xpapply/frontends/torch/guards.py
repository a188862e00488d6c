"""Noticing that a module has changed since it was lifted, in a few microseconds."""

from __future__ import annotations

import ctypes
import operator
import sys
import weakref
import zlib
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from ...functions.guards import Guards
from ...functions.reach import reach
from ...functions.snapshots import lives_on, same, snapshot
from ...limits import LIMITS
from .autocast import autocast_dtypes
from .calls import script
from .calls.snapshot import recomputed
from .model import modules as modules_in
from .model import parts, tensors_of


def watch(
    f: Any, args: tuple, kwargs: dict, sources: tuple = (), *, numbers: bool = True
) -> Callable[[], bool]:
    """Notice changes of weights (also in place), structure, mode, hooks and attributes.

    `sources` are the tensors that the graph's constants were made from, wherever
    they were found: in lists, in globals, in modules that are not registered. Without `numbers`
    weights are not read: where `f` itself runs, what torch does not count as a change is none.
    """
    everything = modules_in(f, args, kwargs)
    scripted = [m for m in everything if script.is_script(m)]
    tensors = {id(t): t for m in everything for t in tensors_of(m)}
    others = [*parts(f), *args, *kwargs.values(), *sources]
    for m in everything:
        others += m.__dict__.values()
    tensors |= {id(t): t for t in others if isinstance(t, torch.Tensor)}
    held = [x for x in (*args, *kwargs.values()) if not isinstance(x, torch.Tensor)]
    plain = [m for m in everything if m not in scripted]
    unchanged: Any = Watch(f, plain, list(tensors.values()), held, numbers)
    unchanged = script.watched(unchanged, scripted) if scripted else unchanged
    autocast = autocast_dtypes()
    return lambda: autocast_dtypes() == autocast and unchanged()


class Watch:
    """``unchanged()``: whether modules, tensors and what ``forward`` reaches are as they were.

    Tensors are held, so no address can come to name another one; modules are not.
    Tensors on the CPU are compared by their bytes too, large ones by samples:
    ``t.data.mul_(2)`` and writes through a NumPy view do not count as a new version in torch.
    (Not so without `numbers`.)
    What is not tensor or module, but reached by them, is looked at by `Guards`.
    """

    def __init__(
        self,
        f: Any,
        modules: list[nn.Module],
        tensors: list[torch.Tensor],
        others: list[Any],
        numbers: bool = True,
    ) -> None:
        modules, found = list(modules), {id(t): t for t in tensors}
        self._guards = _guards(f, modules, found, others)
        tensors = self._tensors = list(found.values())
        # where `f` itself runs it sees what its tensors are now
        self._look = _look if numbers else _look_briefly
        self._looks = list(map(self._look, tensors))
        self._addresses = list(map(torch.Tensor.data_ptr, tensors))
        self._strides = list(map(torch.Tensor.stride, tensors)) if numbers else []
        self._modules = _Modules(modules)
        # all of the torch classes, whose forward a user may have replaced
        kinds = {c for m in modules for c in type(m).__mro__ if issubclass(c, nn.Module)}
        self._classes: list[Any] = [c for c in kinds if lives_on(c)]
        self._forwards = list(map(_forward, self._classes))
        host = [t.detach() for t in tensors if t.device.type == "cpu" and t.layout == torch.strided]
        host = host if numbers else []
        small = [t for t in host if t.nbytes <= LIMITS.weights_copied]
        self._bytes = _together([t for t in small if t.is_contiguous()])
        self._readers = [_reader(t) for t in small if not t.is_contiguous()]
        self._read = [read() for read in self._readers]
        self._large: list[_Whole | _Large] = []
        room = LIMITS.weights_whole
        for t in host:
            if t.nbytes > LIMITS.weights_copied:
                whole = t.nbytes <= room and t.is_contiguous()
                room -= t.nbytes * whole
                self._large.append(_Whole(t) if whole else _Large(t))

    def __call__(self) -> bool:
        """Whether all is unchanged."""
        # maps, for this is most of what a repeated call waits for
        tensors = self._tensors
        if (
            list(map(self._look, tensors)) != self._looks
            or list(map(torch.Tensor.data_ptr, tensors)) != self._addresses
            or (self._strides and list(map(torch.Tensor.stride, tensors)) != self._strides)
            or not self._modules.unchanged()
            or list(map(_forward, self._classes)) != self._forwards
            or torch.nn.modules.module._has_any_global_hook()  # type: ignore[no-untyped-call]
            or not self._guards()
        ):
            return False
        for memory, content in self._bytes:
            if b"".join(memory) != content:
                return False
        for large in self._large:
            if not large.unchanged():
                return False
        return not self._readers or [read() for read in self._readers] == self._read


_forward = operator.attrgetter("forward", "__call__", "__getattr__")
_look = operator.attrgetter("_version", "requires_grad", "shape")
_look_briefly = operator.attrgetter("requires_grad", "shape")
STANDARD = frozenset(nn.Module().__dict__)


class _Modules:
    """The classes, attributes, parameters, buffers, children and hooks of modules.

    Modules are not kept alive where they may reach the function that is remembered: where a
    class or an attribute is the user's.
    """

    def __init__(self, modules: list[nn.Module]) -> None:
        plain = set(_of_torch_alone(modules))
        self._refs = [weakref.ref(m) for m in modules if m in plain]
        self._kinds = [type(m) for m in modules if m in plain]
        # lists of dicts compare in C, by identity of the values first; most are empty
        dicts = [d for m in modules if m in plain for d in (vars(m), *_dicts(m))]
        self._empty = [d for d in dicts if not d]
        self._dicts = [d for d in dicts if d]
        self._contents = [dict(d) for d in self._dicts]
        self._users = [_Module(m) for m in modules if m not in plain]

    def unchanged(self) -> bool:
        """Whether they are unchanged."""
        try:
            if any(self._empty) or self._dicts != self._contents:
                return False
            if [type(ref()) for ref in self._refs] != self._kinds:
                return False
            for m in self._users:
                if not m.unchanged():
                    return False
        except (RuntimeError, KeyError):  # another tensor: == is not a truth value
            return False
        return True


class _Module:
    """A module of a user's class, or with such modules in it."""

    def __init__(self, m: nn.Module) -> None:
        self._ref, self._kind, self._names = weakref.ref(m), weakref.ref(type(m)), tuple(vars(m))
        # attributes of other kinds are among the guards
        kept = vars(m).keys() - STANDARD - recomputed(m)
        own = [k for k, v in vars(m).items() if k in kept and is_plain(v)]
        own += {"training"} & vars(m).keys()  # a compiled module asks the one it was made of
        any_two = ("_non_persistent_buffers_set",) * 2  # a getter of one name gives no tuple
        self._get = operator.itemgetter(*own, *any_two)
        self._plain = self._get(vars(m))
        self._parameters, self._buffers = dict(m._parameters), dict(m._buffers)
        self._children = tuple(m._modules)
        self._refs = [_nothing if c is None else weakref.ref(c) for c in m._modules.values()]
        self._hooks = [snapshot(dict(d)) for d in (m._forward_hooks, m._forward_pre_hooks)]
        self._hooked = any((m._forward_hooks, m._forward_pre_hooks))

    def unchanged(self) -> bool:
        m = self._ref()
        if m is None or type(m) is not self._kind():
            return False
        found = vars(m)
        if tuple(found) != self._names or not all(map(operator.is_, self._get(found), self._plain)):
            return False
        parameters, buffers, children, *hooks = _parts(found)
        if parameters != self._parameters or buffers != self._buffers:
            return False
        if self._hooked or any(hooks):
            return all(map(same, map(dict, hooks), self._hooks)) and self._same(children)
        return self._same(children)

    def _same(self, children: dict[str, Any]) -> bool:
        return tuple(children) == self._children and all(
            map(operator.is_, children.values(), map(operator.call, self._refs))
        )


def _nothing() -> None:
    """A stand-in for a missing child."""


_parts = operator.itemgetter(
    "_parameters", "_buffers", "_modules", "_forward_hooks", "_forward_pre_hooks"
)


def _dicts(m: nn.Module) -> tuple[dict[str, Any], ...]:
    """The dicts of a module that its forward can see, beside attributes."""
    return _parts(vars(m))  # type: ignore[no-any-return]


def _of_torch_alone(modules: list[nn.Module]) -> list[nn.Module]:
    """Modules that are torch's own, with all their contents."""

    def alone(m: nn.Module) -> bool:
        return (
            lives_on(type(m))
            and all(k in STANDARD or is_plain(v) for k, v in vars(m).items())
            and not any((m._forward_hooks, m._forward_pre_hooks))
        )

    own = {m: alone(m) for m in modules}
    return [m for m in modules if all(own.get(c, False) for c in m.modules())]


def is_plain(x: Any) -> bool:
    """Whether an attribute is plain, so that identity is all there is to compare."""
    if type(x) is tuple:
        return all(map(is_plain, x))
    plain = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device)
    return isinstance(x, (*plain, torch.Tensor))


def _guards(
    f: Any, modules: list[nn.Module], tensors: dict[int, torch.Tensor], others: list[Any]
) -> Guards:
    """Guards of what is reached beside modules and tensors; those found are added."""
    guards = Guards()
    known = {id(m) for m in modules}

    def inside(m: nn.Module) -> list[Any]:
        kind: Any = type(m)
        found = [kind.forward if lives_on(kind) else kind]
        for name, value in vars(m).items():
            if name not in STANDARD and not is_plain(value):
                guards.look(m, "entry", name)
                found.append(value)
        return found

    def own(x: Any) -> list[Any] | None:
        if isinstance(x, torch.Tensor):
            tensors[id(x)] = x
            return []
        if not isinstance(x, nn.Module):
            return None
        found = []
        for m in x.modules():
            if id(m) not in known and not isinstance(m, torch.jit.ScriptModule):
                known.add(id(m))
                modules.append(m)
                for t in (*m._parameters.values(), *m._buffers.values()):
                    if t is not None:
                        tensors[id(t)] = t
                found += inside(m)
        return found

    reach(guards, [f, *others, *(x for m in list(modules) for x in inside(m))], own)
    return guards


class _Whole:
    """The bytes of a large tensor, beside a copy of them."""

    def __init__(self, t: torch.Tensor) -> None:
        self._now = t.view(-1).view(torch.uint8).numpy()
        self._was = self._now.copy()
        self._given = self._now.ctypes.data, self._was.ctypes.data, self._was.nbytes

    def unchanged(self) -> bool:
        """Whether they are unchanged."""
        return _memcmp(*self._given) == 0


_memcmp = ctypes.CDLL("msvcrt" if sys.platform == "win32" else None).memcmp
_memcmp.argtypes, _memcmp.restype = (
    [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t],
    ctypes.c_int,
)


class _Large:
    """The bytes of a tensor that is too large to compare all of them in each call.

    What changes all over it is seen at once; a single number when its block has its turn.
    """

    def __init__(self, t: torch.Tensor) -> None:
        span = 1 + sum((n - 1) * s for n, s in zip(t.shape, t.stride(), strict=True))
        memory = t.as_strided((span,), (1,)).view(torch.uint8).numpy()
        step = memory.nbytes // LIMITS.weights_sampled // t.element_size() * t.element_size()
        self._samples = memory[: step * LIMITS.weights_sampled].reshape(
            LIMITS.weights_sampled, step
        )[:, : t.element_size()]
        self._sampled = self._samples.tobytes()
        self._blocks = [
            memory[k : k + LIMITS.weights_block].data
            for k in range(0, memory.nbytes, LIMITS.weights_block)
        ]
        self._sums = list(map(zlib.adler32, self._blocks))
        self._turn = 0

    def unchanged(self) -> bool:
        """Whether the samples and the next block are unchanged."""
        turn = self._turn = (self._turn + 1) % len(self._blocks)
        if zlib.adler32(self._blocks[turn]) != self._sums[turn]:
            self._turn -= 1  # who asks again gets the same answer
            return False
        return self._samples.tobytes() == self._sampled


def _together(tensors: list[torch.Tensor]) -> list[tuple[list[memoryview], bytes]]:
    """The memory of contiguous tensors, and its bytes now, in groups that are read at once."""
    groups: list[list[memoryview]] = []
    room = 0
    for t in tensors:
        if not groups or t.nbytes > room:
            groups.append([])
            room = LIMITS.weights_copied
        groups[-1].append(t.view(-1).view(torch.uint8).numpy().data)
        room -= t.nbytes
    return [(group, b"".join(group)) for group in groups]


def _reader(t: torch.Tensor) -> Callable[[], bytes]:
    """A reader of the bytes of a tensor on the CPU."""
    return (t.view(torch.int16) if t.dtype == torch.bfloat16 else t).numpy().tobytes
