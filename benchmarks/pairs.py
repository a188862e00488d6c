"""Functions of two arrays on a GPU: what one launch reaches of the rate of a copy.

JAX and torch.compile take part where they work.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import torch

import xpapply

from . import networks, runner
from . import pairs_report as names
from .clocks import Call
from .runner import Peer

REPEATS = 9
HOST_CALLS = 200
SHAPES = ((4_000_000, 32), (500_000, 256), (60_000, 2048))
DTYPES = ("float32", "float64")
QUICK = 100
SMALL = (100, 8)

# --- the functions, for one slice of each of two arrays -------------------------------


def correlation(a: Any, b: Any) -> Any:
    a, b = a - a.mean(), b - b.mean()
    return (a * b).sum() / ((a * a).sum() * (b * b).sum()) ** 0.5


def slope(x: Any, y: Any) -> Any:
    u = x - x.mean()
    return (u * (y - y.mean())).sum() / (u * u).sum()


def weighted_mean(a: Any, w: Any) -> Any:
    return (a * w).sum() / w.sum()


def distance(a: Any, b: Any) -> Any:
    return ((a - b) ** 2).sum() ** 0.5


def relative_difference(a: Any, b: Any) -> Any:
    return (a - b) / (a + b)


# the same of whole arrays, slices last


def correlation_by_hand(a: Any, b: Any) -> Any:
    a, b = a - a.mean(-1, keepdims=True), b - b.mean(-1, keepdims=True)
    return (a * b).sum(-1) / ((a * a).sum(-1) * (b * b).sum(-1)) ** 0.5


def slope_by_hand(x: Any, y: Any) -> Any:
    u = x - x.mean(-1, keepdims=True)
    return (u * (y - y.mean(-1, keepdims=True))).sum(-1) / (u * u).sum(-1)


def weighted_mean_by_hand(a: Any, w: Any) -> Any:
    return (a * w).sum(-1) / w.sum(-1)


def distance_by_hand(a: Any, b: Any) -> Any:
    return ((a - b) ** 2).sum(-1) ** 0.5


FUNCTIONS = {
    "correlation": (correlation, correlation_by_hand, "(n),(n)->()"),
    "slope": (slope, slope_by_hand, "(n),(n)->()"),
    "weighted mean": (weighted_mean, weighted_mean_by_hand, "(n),(n)->()"),
    "distance": (distance, distance_by_hand, "(n),(n)->()"),
    "relative difference": (relative_difference, relative_difference, "(n),(n)->(n)"),
}
"""Of one slice of each, of whole arrays, and the signature."""


@dataclass
class Case(runner.Case):
    """A function and its two arrays, or an array and one slice that broadcasts."""

    on: Any
    function: str
    shape: tuple[int, ...]
    dtype: str = "float32"
    one: bool = False

    wrong = 1e-3
    patience = 0.3

    @property
    def name(self) -> str:  # type: ignore[override]
        return names.key(self.function, self.shape, self.dtype, self.one)

    @cached_property
    def tensors(self) -> tuple[torch.Tensor, ...]:
        """Numbers from 0.5 to 1.5, the second like the first by half."""
        generator = torch.Generator(self.on.name).manual_seed(0)
        how: Any = {"generator": generator, "device": self.on.name}
        how["dtype"] = getattr(torch, self.dtype)
        a = torch.rand(self.shape, **how)
        b = torch.rand(self.shape[-1:] if self.one else self.shape, **how)
        return a.add_(0.5), b.add_(a[0] if self.one else a).mul_(0.5).add_(0.25)

    @cached_property
    def arrays(self) -> tuple[Any, ...]:
        return tuple(self.on.array(t) for t in self.tensors)

    @cached_property
    def truth(self) -> torch.Tensor:
        """In float64, a part after the other."""
        by_hand = FUNCTIONS[self.function][1]
        a, b = self.tensors
        pieces = a.split(max(1, len(a) // 16))
        others = [b] * len(pieces) if self.one else b.split(len(pieces[0]))
        found = [by_hand(x.double(), y.double()) for x, y in zip(pieces, others, strict=True)]
        return torch.cat(found)

    def bytes(self) -> tuple[int, int]:
        """That must be read and written."""
        size = self.tensors[0].element_size()
        return size * sum(t.numel() for t in self.tensors), size * self.truth.numel()

    def sizes(self) -> set[int]:
        return {self.truth.numel(), self.bytes()[1] // 4}

    def error(self, y: Any, peer: Peer) -> float:
        return networks.relative_error(networks.tensor(y, self.on), self.truth)


# --- the peers ------------------------------------------------------------------------


def ours(case: Case, tensors: bool = False) -> Call:
    f, _, signature = FUNCTIONS[case.function]
    xs = case.tensors if tensors else case.arrays
    return partial(xpapply.vectorize(f, signature=signature), *xs)


def by_hand(case: Case) -> Call:
    return partial(FUNCTIONS[case.function][1], *case.arrays)


def torch_by_hand(case: Case) -> Call:
    return torch.inference_mode()(partial(FUNCTIONS[case.function][1], *case.tensors))


def compiled(case: Case) -> tuple[Call, str]:
    return networks.torch_compile(FUNCTIONS[case.function][1], *case.tensors)


def jax(case: Case) -> Call:
    import jax

    f, _, signature = FUNCTIONS[case.function]
    whole = jax.jit(jax.numpy.vectorize(f, signature=signature))
    return networks.jax_call(case.on, whole, case.tensors)


def float32(case: Case) -> bool:
    return case.dtype == DTYPES[0]


PEERS = (
    Peer(names.OURS, ours),
    Peer(names.OURS_TORCH, partial(ours, tensors=True), fits=float32),
    Peer(names.HAND, by_hand),
    Peer(names.TORCH, torch_by_hand, fits=float32),
    Peer(names.COMPILE, compiled, fits=float32),
    Peer(names.JAX, jax, "host", fits=float32),
)
"""What takes long to compile is tried in float32 alone."""


# --- the run --------------------------------------------------------------------------


def cases(on: Any, quick: bool) -> list[Case]:
    shapes = [(QUICK, n) for _, n in SHAPES] if quick else SHAPES
    found = [
        Case(on, function, shape, dtype)
        for dtype in DTYPES
        for function in FUNCTIONS
        for shape in shapes
    ]
    return [*found, *(Case(on, function, shapes[1], one=True) for function in FUNCTIONS)]


def start(run: runner.Run) -> dict[str, Any]:
    return {"limits": {"copy": run.on.copy_rate()}, "cases": {}}


def measure(run: runner.Run) -> None:
    for function in FUNCTIONS:
        case = Case(run.on, function, SMALL)
        run.part(f"host/{function}", partial(runner.small, case, PEERS[:4], 15, HOST_CALLS))
    for peers in (PEERS[:4], PEERS[4:]):
        todo = run.chosen(cases(run.on, run.quick))
        while todo:
            case = todo.pop(0)  # its arrays end with it
            entry = run.data["cases"].setdefault(case.name, {"ways": {}})
            run.measure(case, peers, entry["ways"], 3 if run.quick else REPEATS)
            if "bytes" not in entry and any("first" in found for found in entry["ways"].values()):
                entry["bytes"] = case.bytes()
