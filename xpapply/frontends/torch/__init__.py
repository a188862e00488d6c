"""The frontend of torch modules, scripted, traced and exported functions; parts load on use.

`lift.graphs` makes graphs, `calls` torch's own ways to run all slices; a first call of few slices
loads neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from ...ir.avals import ShapeDtype
from .. import AllAtOnce, Frontend
from .calls import WAYS
from .calls.snapshot import untouched as untouched
from .guards import watch
from .lift.flattened import fitted, flattened, several
from .model import by_mode, length_of_slices, modules, parameter_dtype, parts, tensors_of
from .one_slice import several_of_slice, slice_function
from .outputs import described as described
from .results import Structure as Structure

if TYPE_CHECKING:
    from ...ir.graph import Graph
    from ...loop.arguments import Arguments


def lift_function(f: Any, aval: ShapeDtype, args: tuple, kwargs: dict) -> Graph:
    """The graph of a Python function of a tensor that has no side effects."""
    from .lift import graphs

    return graphs.of_function(f, aval, args, kwargs)


def lift_several(f: Any, avals: Sequence[ShapeDtype], arguments: Arguments) -> Graph:
    """The graph of a Python function of several tensors that has no side effects."""
    from .lift import graphs

    return graphs.several_of_function(f, avals, arguments)


def batches_inside(*given: Any) -> Any:
    """A module that a function calls on all slices at once, as `inside.Inside` has it."""
    from .inside import Inside

    return Inside(*given)


class TorchFrontend(Frontend):
    """`torch.nn.Module`s, and functions that torch scripted, traced, exported or compiled."""

    ways = WAYS
    waits = True
    watch = staticmethod(watch)
    slice_function = staticmethod(slice_function)
    several_of_slice = staticmethod(several_of_slice)
    by_mode = staticmethod(by_mode)
    length_of_slices = staticmethod(length_of_slices)
    fitted = staticmethod(fitted)
    flattened = staticmethod(flattened)
    several = staticmethod(several)

    def lift(self, f: Any, aval: ShapeDtype, args: tuple, kwargs: dict) -> Graph:
        """The graph of ``f(slice, *args, **kwargs)``, or of a batch of one."""
        from .lift import graphs

        return graphs.of_module(f, aval, args, kwargs)

    def lift_several(self, f: Any, avals: Sequence[ShapeDtype], arguments: Arguments) -> Graph:
        """The graph of a network of slices of several arrays, or with several results."""
        from .lift import graphs

        return graphs.several_of_module(f, avals, arguments)

    def half_dtype(self, f: Any, arr: Any, args: tuple, kwargs: dict) -> str:
        """The dtype of 16 bits that torch would compute in for `arr`; "": none."""
        from .calls import chunks

        return chunks.half_dtype(f, arr, args, kwargs)

    def vectorized(self, *given: Any, **how: Any) -> AllAtOnce:
        """All slices as a batch, or by `torch.vmap`."""
        from .calls import chunks

        return chunks.vectorized(*given, **how)

    def differentiable(self, f: Any, arr: Any, args: tuple, kwargs: dict) -> bool:
        """Whether autograd records the call: a tensor, or a parameter, requires grad."""
        if not isinstance(arr, torch.Tensor) or not torch.is_grad_enabled():
            return False
        tensors = [t for m in modules(f, args, kwargs) for t in tensors_of(m)]
        others = [t for t in (*parts(f), *args, *kwargs.values()) if isinstance(t, torch.Tensor)]
        return any(t.requires_grad for t in (arr, *tensors, *others))

    def parameter_dtype(self, f: Any, dtype: str) -> str:
        """The dtype of its parameters."""
        return str(parameter_dtype(f, dtype)).rpartition(".")[2]


FRONTEND = TorchFrontend()
