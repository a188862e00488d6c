"""Modules that Python functions call with tensors of a slice: all slices at once."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils._pytree import tree_flatten, tree_unflatten

from ...errors import InputError, TraceError
from ...limits import LIMITS
from .calls import BATCH, VMAP
from .calls.batched import WAY_OUT, Structured, first_line
from .calls.snapshot import untouched
from .model import modules
from .results import Parts, Structure


class Inside:
    """A module in a function, which gives it tensors like those in `args` and `kwargs`.

    Call it with these, with batches of those that are `moving`: that depend on the slice. Where
    the module wants the axis of batches is tried out: in front, second (as recurrent and attention
    layers do by default), or in the place of an axis of length 1; constants are repeated along
    it if they have to be. For one slice the module returned `found`, of the `structure`.

    Raises
    ------
    TraceError
        If no place of the axis gives what slices give alone.
    """

    def __init__(
        self,
        module: nn.Module,
        args: tuple,
        kwargs: dict,
        moving: list[Any],
        structure: Structure,
        found: Any,
    ) -> None:
        alone = structure.parts(found)
        form = self._form = _Form(args, kwargs, moving)
        samples = form.packed([torch.stack([x, x]) for x in form.samples])
        refused: list[str] = []
        every = [*form.places()]
        # most take batches as they give them: in front
        tries = [(BATCH, places, k > 0) for k, places in enumerate((every[0], *every))]
        for way, places, look in (*tries, (VMAP, {}, False)):
            try:
                # the module is not kept, but by its own owner
                self._called = _OfSlices(module, form, places, structure)
                self._batches = Structured(self._called, structure)
                if look:
                    self._called.look(samples[0], alone)
                self._batches.prove(samples, way)
                if self._batches.writes:
                    raise TraceError("forward writes to the tensor that it gets")
            except TraceError as error:
                refused.append(str(error))
            else:
                form.forget()
                return
        raise TraceError("; ".join(dict.fromkeys([refused[0], refused[-1], WAY_OUT])))

    def __call__(self, args: tuple, kwargs: dict) -> Parts:
        """The tensors of the structure for a batch, each ``(B, *result)``, in chunks."""
        many = self._form.moving(args, kwargs)
        n = len(many[0])
        size = self._batches.rows(many[0].device, n)
        chunks = ([x[k : k + size] for x in many] for k in range(0, n, size))
        pieces = [self._batches(self._form.packed(chunk)) for chunk in chunks]
        return pieces[0] if len(pieces) == 1 else Parts.joined(pieces, torch.cat)


class _At(NamedTuple):
    """The batch axis of a tensor: before this axis of a sample, or in its place."""

    axis: int
    in_place: bool = False


_Places = dict[int, _At | None]


class _Form:
    """The arguments of a call: which of them are tensors, and which depend on the slice.

    Those that do lie side by side in one tensor, as `Structured` has slices: `samples` are
    those of one slice.
    """

    def __init__(self, args: tuple, kwargs: dict, moving: list[Any]) -> None:
        leaves, self._spec = tree_flatten((args, kwargs))
        first = {id(x): k for k, x in reversed([*enumerate(leaves)])}
        self._same = [first[id(x)] for x in leaves]
        """Positions of equal arguments: self-attention compares identities."""
        ids = set(map(id, moving))
        tensors = [k for k in sorted(first.values()) if isinstance(leaves[k], torch.Tensor)]
        self._moving = [k for k in tensors if id(leaves[k]) in ids]
        self._constant = [k for k in tensors if id(leaves[k]) not in ids]
        self._leaves = leaves
        self.samples = [leaves[k] for k in self._moving]
        self._shapes = [x.shape for x in self.samples]
        self._dtypes = [x.dtype for x in self.samples]
        floats = [d for d in self._dtypes if d != torch.bool]
        self._dtype = floats[0] if floats else torch.bool
        if any(d != self._dtype for d in floats):
            raise TraceError(f"it gets {' and '.join(str(d)[6:] for d in dict.fromkeys(floats))}")

    def forget(self) -> None:
        """The samples are needed no more."""
        for k in self._moving:
            self._leaves[k] = None
        self.samples = []

    def places(self) -> Iterator[_Places]:
        """Iterate over candidates for batch axes; tensors of one shape have it alike."""
        groups: dict[tuple[bool, Any], list[int]] = {}
        for k in (*self._moving, *self._constant):
            groups.setdefault((k in self._moving, self._leaves[k].shape), []).append(k)
        options = [_options(*group) for group in groups]
        for found in itertools.islice(itertools.product(*options), LIMITS.inside_tries):
            yield {k: at for at, ks in zip(found, groups.values(), strict=True) for k in ks}

    def moving(self, args: tuple, kwargs: dict) -> list[torch.Tensor]:
        """The batches in such arguments."""
        leaves = tree_flatten((args, kwargs))[0]
        return [leaves[k] for k in self._moving]

    def packed(self, many: list[torch.Tensor]) -> torch.Tensor:
        """Batches side by side; one alone as it lies."""
        flat = [x.reshape(len(x), -1).to(self._dtype) for x in many]
        return flat[0] if len(flat) == 1 else torch.cat(flat, 1)

    def arguments(self, flat: torch.Tensor, places: _Places) -> tuple[tuple, dict]:
        """The arguments for one slice, or for a batch of them."""
        given, batch = [*self._leaves], flat.shape[:-1]
        parts = torch.split(flat, [shape.numel() for shape in self._shapes], -1)
        for k, part, shape, dtype in zip(
            self._moving, parts, self._shapes, self._dtypes, strict=True
        ):
            given[k] = part.reshape((*batch, *shape)).to(dtype)
        for k, at in places.items() if batch else ():
            if at is not None:
                x = given[k] if k in self._moving else given[k].expand((*batch, *given[k].shape))
                x = x.squeeze(at.axis + 1) if at.in_place else x
                given[k] = x.movedim(0, at.axis).contiguous()  # cuDNN takes no other states
        found: tuple[tuple, dict] = tree_unflatten([given[k] for k in self._same], self._spec)
        return found


def _options(moving: bool, shape: tuple[int, ...]) -> list[_At | None]:
    """Candidates for the batch axis of this shape; None: a constant."""
    before: list[_At | None] = [] if moving else [None]
    for k in range(min(2, len(shape) + 1)):
        if len(shape) > k + (k == 0) and shape[k] == 1:
            before.append(_At(k, in_place=True))
        before.append(_At(k))
    return before


class _OfSlices:
    """A module as a function of slices that lie flat, ``(M,)``, or of a batch, ``(B, M)``."""

    def __init__(
        self, module: nn.Module, form: _Form, places: _Places, structure: Structure
    ) -> None:
        self._module, self._form, self._places = weakref.ref(module), form, places
        self._structure = structure
        self._results: list[tuple[int, tuple[int, ...]] | None] = []

    @property
    def __self__(self) -> nn.Module:
        """The object of a method, whose attributes and weights matter."""
        module = self._module()
        if module is None:
            raise InputError("the network that this plan was made for is gone: keep it alive")
        return module

    def look(self, sample: torch.Tensor, alone: Parts) -> None:
        """See where the results of a batch have their axis: states of an LSTM after the layers."""
        with untouched(modules(self)):
            try:
                n = next(n for n in itertools.count(3) if not any(n in t.shape for t in alone))
                many = self._structure.parts(self._call(sample.repeat(n, 1)))
            except (TraceError, InputError):
                raise
            except Exception as error:  # forward itself does not take these shapes
                raise TraceError(first_line(error)) from None
        self._results = [
            (t.shape.index(n), tuple(one.shape)) if n in t.shape else None
            for t, one in zip(many, alone, strict=True)
        ]

    def _call(self, flat: torch.Tensor) -> Any:
        args, kwargs = self._form.arguments(flat, self._places)
        return self.__self__(*args, **kwargs)

    def __call__(self, flat: torch.Tensor) -> Any:
        found = self._call(flat)
        if flat.ndim == 1 or not any(self._results):
            return found
        parts = [
            t if at is None else t.movedim(at[0], 0).reshape((len(flat), *at[1]))
            for t, at in zip(self._structure.parts(found), self._results, strict=True)
        ]
        return self._structure.filled(parts)
