"""The interface of ways to run a graph of one slice on CuPy arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...codegen import tensor_network
from ...codegen.cost import SIDE_BY_SIDE, Device, Spacing
from . import compiler
from .weights import Weights


@dataclass(frozen=True)
class Task:
    """The key of the choice between ways.

    Attributes
    ----------
    number : int
        The device.
    slices : int
        How many there are.
    precision : str
        As `xpapply.options` says.
    finite : bool
        Whether no weight is infinite or NaN.
    spacing : Spacing
        How the slices lie.
    """

    number: int
    slices: int
    precision: str
    finite: bool
    spacing: Spacing = SIDE_BY_SIDE

    @property
    def device(self) -> Device:
        """The device as the cost model has it."""
        return compiler.device(self.number)


def spacing(x: Any, at: int) -> Spacing:
    """The spacing of slices along axis `at`, with axes in memory order."""
    beside = 1
    for a in reversed(range(x.ndim)):
        if a == at or x.shape[a] == 1:
            continue
        if x.strides[a] != beside * x.itemsize:
            break
        beside *= x.shape[a]
    return Spacing(beside, abs(x.strides[at]))


def target(task: Task) -> tensor_network.Target:
    """The target of kernels on tensor cores."""
    return tensor_network.Target(task.device.core or "mma", task.precision, task.device.shared)


class Way:
    """A strategy to run a graph.

    Attributes
    ----------
    engine : str
        The name of the engine that is this way alone; "" for none.
    what : str
        What `explain` shows of it.
    shown : bool
        Whether `explain` says why it cannot run where it was not requested.
    failed : dict
        By device and name: what the compiler or the driver said when it did not run there.
    """

    engine = ""
    what: str
    shown = True

    def __init__(self) -> None:
        self.failed: dict[tuple[int, str], str] = {}

    def named(self, task: Task) -> str:
        """Its description in `explain`, for a task."""
        return self.what

    def refusal(self, task: Task) -> str | None:
        """Why it cannot run, or None."""
        return self.failed.get((task.number, self.named(task))) or self.why_not(task)

    def why_not(self, task: Task) -> str | None:
        """Why it cannot run wherever it compiles, or None."""
        return None

    def seconds(self, task: Task) -> float:
        """Estimated seconds."""
        raise NotImplementedError

    def runner(self, task: Task) -> Callable[[Any, int, int, Weights, Any], None]:
        """The run: `run` by default."""
        return self.run

    def run(self, x: Any, at: int, slices: int, bound: Weights, out: Any) -> None:
        """All slices of `x` into `out`; both in memory order."""
        raise NotImplementedError
