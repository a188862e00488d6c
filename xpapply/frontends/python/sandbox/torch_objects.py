"""Substitutes of torch objects inside ``f``: functions, tensors, contexts, networks."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from ..trace.python_builtins import real
from ..trace.stand_ins import asked, tracers
from ..trace.tensors import FROM_NUMPY, TracedTensor, box, call, from_numpy, torch_module
from . import ambient
from .autocast import Autocast, AutocastClass, in_autocast
from .proxies import Forbidden, Function
from .torch_models import Model

if TYPE_CHECKING:
    from .stage import Stage

_CONTEXTS = frozenset(["no_grad", "inference_mode"])


def substitute(stage: Stage, x: Any, name: str) -> Any:
    """The substitute of a torch object."""
    torch = torch_module()
    if isinstance(x, torch.nn.Module):
        return Model(stage, x, name or type(x).__name__)
    if isinstance(x, torch.autocast):
        return Autocast(stage, x, name)
    if isinstance(x, (torch.dtype, torch.device, torch.Size)):
        return x
    if isinstance(x, torch.Tensor):
        with torch.inference_mode(False):  # tensors made there have no versions
            copy = x.detach().clone()
        before, dtype = copy._version, copy.dtype
        # by its content: .data and .numpy() write without a new version
        stage.watch.content(
            x, _content(x), lambda x, was: x.dtype == dtype and torch.equal(_content(x), was)
        )
        stage.checks.append(lambda: copy._version == before)
        return TracedTensor(stage.recorder, copy, None)
    return Forbidden(stage, x, name)


def _content(x: Any) -> Any:
    """The bytes of a tensor."""
    flat = x.detach().reshape(-1).contiguous()
    return flat.clone().view(torch_module().uint8) if flat.dtype.is_floating_point else flat.clone()


class _TorchFunction(Function):
    """A function of torch."""

    __slots__ = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        function, recorder = self.__xpapply_real__, self._xp_stage.recorder
        found = list(tracers((args, kwargs)))
        args, kwargs = tuple(map(real, args)), {k: real(v) for k, v in kwargs.items()}
        if function.__name__ in FROM_NUMPY and found and not isinstance(args[0], TracedTensor):
            return from_numpy(recorder, function, *args, **kwargs)
        if function.__name__ in ("rand", "randn", "randint", "randperm", "normal", "bernoulli"):
            raise recorder.refuse(f"it draws random numbers: torch.{function.__name__}")
        if function.__name__ in ("manual_seed", "save", "load", "set_grad_enabled"):
            raise recorder.refuse(f"it calls torch.{function.__name__}")
        if not found:
            made = in_autocast(recorder, function)(*args, **kwargs)
            ambient.watch_torch(self._xp_stage.watch, function, args, kwargs, made)
            return box(recorder, made, None)
        if any(isinstance(t, TracedTensor) and t.ref is not None for t in found):
            return call(recorder, function, args, kwargs)
        given = asked((args, kwargs), f"torch.{function.__name__}()")
        found_here = in_autocast(recorder, function)(*given[0], **given[1])
        ambient.watch_torch(self._xp_stage.watch, function, given[0], given[1], found_here)
        return box(recorder, found_here, None)


def function(stage: Stage, x: Any, name: str) -> Any:
    """A function or class of torch."""
    torch = torch_module()
    if not isinstance(x, type):
        return _TorchFunction(stage, x, name)
    if issubclass(x, torch.autocast):
        return AutocastClass(stage, x, name)
    if x.__name__ in _CONTEXTS or x in (torch.Tensor, torch.device):
        return x
    dtype = _OLD.get(x.__name__)
    if dtype is not None and x.__module__ == "torch":
        made = functools.partial(torch.tensor, dtype=getattr(torch, dtype))
        return lambda v: from_numpy(stage.recorder, made, v)
    return Forbidden(stage, x, name)


_OLD = {"FloatTensor": "float32", "DoubleTensor": "float64", "LongTensor": "int64"}
"""The old classes for tensors of one dtype."""
