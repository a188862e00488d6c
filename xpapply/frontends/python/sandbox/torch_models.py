"""Substitutes of torch networks inside ``f``: each runs by a plan of its own."""

from __future__ import annotations

import functools
import time
import types
import weakref
from collections.abc import ItemsView, Iterator, KeysView, ValuesView
from typing import TYPE_CHECKING, Any

import numpy as np

from ....batching import Batched, BatchingRule
from ....runtime import registry
from ..trace.stand_ins import replaced, tracers, values
from ..trace.tensors import TracedTensor, box, torch_module
from .autocast import in_autocast
from .proxies import Forbidden

if TYPE_CHECKING:
    from .stage import Stage


class Model(Forbidden):
    """A `torch.nn.Module`: it runs by its own plan, as if it were given alone."""

    __slots__ = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        module, stage = self.__xpapply_real__, self._xp_stage
        recorder, frontend = stage.recorder, _frontend()
        found = list(tracers((args, kwargs)))
        for t in found:
            if not isinstance(t, TracedTensor):
                raise recorder.refuse(f"{self._xp_name} of something that is not a tensor")
        stage.watch.add(frontend.watch(module, (), {}))
        # every one is asked, since asking may write a step down (`Selected`)
        moving = [t.value for t in [t for t in found if t.ref is not None]]

        given = _Copies((args, kwargs))

        def one() -> Any:
            with torch_module().no_grad(), frontend.untouched(frontend.modules(module)):
                return module(*given.tree[0], **given.tree[1])

        real = recorder.real(in_autocast(recorder, one))
        if given.written():
            raise recorder.refuse(f"{self._xp_name} writes to a tensor that it gets")
        structure = frontend.Structure(real)
        parts = tuple(structure.parts(real)) if structure.known else ()
        if not moving and structure.known:
            return structure.filled([box(recorder, x, None) for x in parts])
        why = ""
        plain = len(args) == 1 and not kwargs and not recorder.autocast
        if plain and isinstance(real, torch_module().Tensor):
            x = args[0]
            shape = tuple(x.value.shape)
            try:
                row = self._row(shape, x.value.dtype)
            except Exception as error:
                row, why = None, f"{error}; "
            if row is not None:
                alone = (_Run(module, row), x, shape[-1:], len(shape) > 1)
                return recorder.call(_MODEL, lambda _: real, (x,), batch=(alone, {}))
        if not structure.known:
            what, taken = frontend.described(real)
            hint = f"a module whose forward returns {taken} runs for all slices at once"
            raise recorder.refuse(f"{self._xp_name} returns {what}; {hint}")
        started = time.perf_counter()
        try:
            both = values(args), values(kwargs)
            batches = in_autocast(recorder, frontend.batches_inside)(
                module, *both, moving, structure, real
            )
        except Exception as error:
            mode, in_mode, _ = why.partition(" is in training mode")  # which is why all else fails
            said = f"{mode}{in_mode}" if in_mode else f"{why}{error}"
            raise recorder.refuse(f"{self._xp_name}: {said}") from None
        recorder.until += time.perf_counter() - started  # it has run for several slices
        run = _Run(module, in_autocast(recorder, batches), recorder.autocast)
        every = (run, args, kwargs)
        many = recorder.call(_IN_BATCHES, lambda *_, **__: parts, args, kwargs, batch=(every, {}))
        return structure.filled(many)

    def _row(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """The rule of the network's graph, for a vector or a batch of one; None for others."""
        if not shape or len(shape) > 2 or (len(shape) == 2 and shape[0] != 1):
            return None
        name = np.dtype(str(dtype).partition(".")[2])
        return self._xp_stage.calls.network(self.__xpapply_real__, shape[-1:], name)

    def __getattr__(self, name: str) -> Any:
        if name in _STAY and self._stays(name):
            return lambda *args, **kwargs: self._moved(name, args, kwargs)
        if name in ("forward", "predict"):
            method = getattr(type(self.__xpapply_real__), name)
            owner = self
            if name == "forward":
                return self.__call__
            return functools.partial(self._xp_stage.substitute(method), owner)
        if name in _PARTS and hasattr(type(self.__xpapply_real__), name):
            return lambda *args, **kwargs: self._found(name, *args, **kwargs)
        own = _method(self.__xpapply_real__, name)
        if own is not None:
            self._xp_stage.watch.attribute_of_class(type(self.__xpapply_real__), name)
            return types.MethodType(self._xp_stage.substitute(own), self)
        value = getattr(self.__xpapply_real__, name)
        if isinstance(
            value, (torch_module().nn.Module, torch_module().Tensor, bool, int, float, str)
        ):
            self._xp_stage.watch.add(_frontend().watch(self.__xpapply_real__, (), {}))
            return self._xp_stage.substitute(value, f"{self._xp_name}.{name}")
        return super().__getattr__(name)

    def _found(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method of torch's own that returns layers, numbers or tensors of a network."""
        module, stage = self.__xpapply_real__, self._xp_stage
        method: Any = getattr(type(module), name, None)
        if not getattr(method, "__module__", "").startswith("torch.nn.modules."):
            raise stage.recorder.refuse(f"it uses {self._xp_name}.{name}, {self._because}")
        stage.watch.add(_frontend().watch(module, (), {}))
        return self._part(stage.recorder.real(lambda: method(module, *args, **kwargs)))

    def _part(self, x: Any) -> Any:
        """The substitute of a part of the network, or of several."""
        if isinstance(x, (tuple, list)):
            return tuple(map(self._part, x))
        if isinstance(x, (Iterator, KeysView, ValuesView, ItemsView)):
            return map(self._part, x)
        return self._xp_stage.substitute(x, self._xp_name)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._found("__iter__"))

    def __len__(self) -> int:
        return int(self._found("__len__"))

    def __contains__(self, key: Any) -> bool:
        return bool(self._found("__contains__", key))

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, slice):
            return self._found("__getitem__", key)
        nn, kind = torch_module().nn, type(self.__xpapply_real__)
        if kind not in (nn.Sequential, nn.ModuleList):  # whose slices are of the same kind
            raise self._xp_stage.recorder.refuse(f"a slice of {self._xp_name}")
        return Layers(self._xp_stage, [*self][key], self._xp_name, called=kind is nn.Sequential)

    def _stays(self, name: str) -> bool:
        module = self.__xpapply_real__
        if name in ("eval", "train"):
            return not module.training
        return same_slot_of(module, name)

    def _moved(self, name: str, args: tuple, kwargs: dict) -> Any:
        """``net.to(device)`` and the like, if the network is there already."""
        stage, module, torch = self._xp_stage, self.__xpapply_real__, torch_module()
        stage.watch.add(_frontend().watch(module, (), {}))
        if name == "train" and (args or kwargs.get("mode", True)) not in (False, (False,)):
            raise stage.recorder.refuse(f"it puts {self._xp_name} into training mode")
        if name in ("eval", "train"):
            return self
        tensors = [*module.parameters(), *module.buffers()]
        if name == "requires_grad_":
            wanted = bool(args[0] if args else kwargs.get("requires_grad", True))
            same = all(t.requires_grad == wanted for t in module.parameters())
        else:
            device, dtype = _destination(torch, name, args, kwargs)
            same = all(t.device == device for t in tensors) if device is not None else True
            floats = [t for t in tensors if t.is_floating_point() or t.is_complex()]
            same = same and (dtype is None or all(t.dtype == dtype for t in floats))
        if not same:
            raise stage.recorder.refuse(f"it changes {self._xp_name} by .{name}()")
        return self


class Layers(list):
    """``net[:2]``: some layers of an `nn.Sequential`, or of an `nn.ModuleList`."""

    def __init__(self, stage: Stage, layers: list[Any], name: str, *, called: bool) -> None:
        super().__init__(layers)
        self._stage, self._name, self._called = stage, name, called

    def __call__(self, x: Any) -> Any:
        if not self._called:
            raise self._stage.recorder.refuse(f"a slice of {self._name} is called")
        for layer in self:
            x = layer(x)
        return x

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        if not isinstance(key, slice):
            return found
        return Layers(self._stage, found, self._name, called=self._called)


_PARTS = frozenset(
    (
        "children named_children modules named_modules parameters named_parameters buffers "
        "named_buffers get_submodule get_parameter get_buffer keys values items"
    ).split()
)
"""Methods of torch's own that say what a network consists of."""


def _method(module: Any, name: str) -> types.FunctionType | None:
    """A method that a user's class of networks has beside those that torch knows of."""
    if name in vars(module) or hasattr(torch_module().nn.Module, name):
        return None
    kind = next((c for c in type(module).__mro__ if name in vars(c)), None)
    found = None if kind is None or kind.__module__.startswith("torch.") else vars(kind)[name]
    return found if isinstance(found, types.FunctionType) else None


_STAY = frozenset("eval train to cpu cuda float double half bfloat16 requires_grad_".split())
"""Methods of a network that return it unchanged, if there is nothing to change."""


def same_slot_of(module: Any, name: str) -> bool:
    """Whether a network has torch's own method of this name."""
    return getattr(type(module), name) is getattr(torch_module().nn.Module, name)


def _destination(torch: Any, name: str, args: tuple, kwargs: dict) -> tuple[Any, Any]:
    """Device and dtype that a method of a network asks for."""
    dtypes = {"float": torch.float32, "double": torch.float64}
    dtypes |= {"half": torch.float16, "bfloat16": torch.bfloat16}
    if name in dtypes:
        return None, dtypes[name]
    if name == "to":
        like = args[0] if args else kwargs.get("tensor")
        if isinstance(like, torch.Tensor):
            return like.device, like.dtype
        given = dict(zip(("device", "dtype"), args, strict=False)) | kwargs
        if isinstance(given.get("device"), torch.dtype):
            given["dtype"] = given.pop("device")
        device = given.get("device")
        return device if device is None else _device(torch, device), given.get("dtype")
    index = args[0] if args else kwargs.get("device")
    return _device(torch, name if index is None or name == "cpu" else index), None


def _device(torch: Any, device: Any) -> Any:
    """A device, the current one where no number is given."""
    found = torch.device("cuda", device) if type(device) is int else torch.device(device)
    if found.type == "cuda" and found.index is None:
        return torch.device("cuda", torch.cuda.current_device())
    return found


class _Run:
    """The run of a network, equal to another one of the same network, held weakly."""

    def __init__(self, module: Any, row: Any, states: tuple = ()) -> None:
        self._module, self.row, self._states = weakref.ref(module), row, states
        self._hash = id(module)

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, _Run) and other._module() is self._module()
        return same and other._states == self._states  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return self._hash


def _run_model(xp: Any, _: Any, given: tuple, __: dict) -> Batched:
    run, x, shape, batched = given
    rows = Batched(x.array.reshape(x.array.shape[0], *shape))
    with torch_module().no_grad():
        found = run.row.rule(xp, None, (rows,), {}).array
    return Batched(found[:, None] if batched else found)


_MODEL = BatchingRule("torch network", _run_model)


def _run_in_batches(xp: Any, _: Any, given: tuple, __: dict) -> tuple[Batched, ...]:
    run, *arguments = given
    args, kwargs = torch_module().utils._pytree.tree_map_only(
        Batched, lambda x: x.array, tuple(arguments)
    )
    with torch_module().no_grad():
        return tuple(map(Batched, run.row(args, kwargs)))


_IN_BATCHES = BatchingRule("torch network in batches", _run_in_batches)


class _Copies:
    """Real arguments, with a copy of each tensor: of what is given twice one copy."""

    def __init__(self, tree: Any) -> None:
        self._made: dict[int, Any] = {}
        with torch_module().inference_mode(False):  # tensors made there have no versions
            self.tree = replaced(self._copy, tree)

    def _copy(self, t: Any) -> Any:
        if id(t.value) not in self._made:
            self._made[id(t.value)] = t.value.clone()
        return self._made[id(t.value)]

    def written(self) -> bool:
        """Whether the copies have been written to."""
        return any(t._version for t in self._made.values())


def _frontend() -> Any:
    """The module of torch's frontend: it has more than the contract."""
    return registry.find("frontends", "torch")
