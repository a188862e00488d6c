"""Stages between a file and the function: scaling, masks, labels.

An input and an output around the arrays of files. They share which slices have no values: those are
seen when a block is read, and are filled when its results are written.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from ..errors import InputError
from ..storage import stores
from ..storage.stores import Block, Store
from . import fills


class NoLabelError(InputError):
    """Raised where a NaN has no label: the same run would fail again."""


class Missing:
    """Slices without values in the current blocks, by place."""

    def __init__(self, nodata: float | None, axes: tuple[int, ...]) -> None:
        self.nodata, self.axes = nodata, axes
        self._found: dict[tuple[tuple[int, int], ...], np.ndarray] = {}

    def see(self, block: Block, x: np.ndarray) -> None:
        """Look at the numbers of a block, as they are stored."""
        if self.nodata is None:
            return
        here: Any = fills.where(x, self.nodata)
        self._found[self._key(block, self.axes)] = here.any(axis=self.axes)

    def at(self, batch: Block) -> np.ndarray | None:
        """The mask of the block of these slices."""
        if self.nodata is None:
            return None
        return self._found.pop(self._key(batch, ()))

    @staticmethod
    def _key(block: Block, axes: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
        return tuple((s.start, s.stop) for a, s in enumerate(block) if a not in axes)


LAYOUT = " | "
"""The separator of the parts of `Finished.layout`; options are the last."""


def options_of(layout: str) -> dict[str, str]:
    """The options of a layout of `Finished`, or of a plain output, which has none."""
    parts = (part.partition(" ") for part in layout.split(LAYOUT) if part.startswith("--"))
    return {name: value for name, _, value in parts}


class _Around(Store):
    """Another store, seen otherwise."""

    def __init__(self, x: Any, shape: tuple[int, ...], dtype: np.dtype, missing: Missing) -> None:
        self.x: Any = self
        self.inner = x if isinstance(x, Store) else stores.store(x)
        self.shape, self._dtype, self.path = shape, dtype, self.inner.path
        self.about = self.inner.about
        self.read_unit, self.write_unit = self.inner.read_unit, self.inner.write_unit
        self.order, self._missing = self.inner.order, missing

    @property
    def dtype(self) -> np.dtype:
        """The dtype seen by the function."""
        return self._dtype

    def describe(self) -> str:
        """A description for messages."""
        return self.inner.describe()


class Converted(_Around):
    """The numbers that are meant, ``stored * slope + offset``, in the dtype that `f` gets."""

    def __init__(self, x: Any, dtype: np.dtype, slope: Any, offset: Any, missing: Missing) -> None:
        super().__init__(x, tuple(x.shape), dtype, missing)
        self._slope, self._offset = slope, offset
        if self._is_scaled:
            self.about += f" scaled by {np.ravel(slope)} {np.ravel(offset)}"

    def ahead(self, block: Block) -> None:
        """Do what makes reading a block quick."""
        self.inner.ahead(block)

    def read(self, block: Block) -> np.ndarray:
        """A copy of a block, as numbers that are meant."""
        x = self.inner.read(block)
        self._missing.see(block, x)
        y = np.array(x, self._dtype, order="K")
        if self._is_scaled:
            y *= self._part(self._slope, block)
            y += self._part(self._offset, block)
        self.inner.release(block)
        return y

    @property
    def _is_scaled(self) -> bool:
        return bool(np.ndim(self._slope) or (self._slope, self._offset) != (1, 0))

    def _part(self, factor: Any, block: Block) -> Any:
        """A number, or those of the bands of a block."""
        if np.ndim(factor) == 0:
            return self._dtype.type(factor)
        index = tuple(s if n > 1 else slice(None) for s, n in zip(block, factor.shape, strict=True))
        return factor[index].astype(self._dtype)


class Finished(_Around):
    """The target of results: labels of the largest, another dtype, fill values.

    Parameters
    ----------
    target : Store
        What is written to.
    shape : tuple of int
        Of the results of `f`, with their core dims.
    dtype : dtype
        Of these results.
    core : tuple of int
        The axes of the results that one slice has.
    labels : bool
        Whether the position of the largest along the core axis is written.
    fill : number
        What is written where there is no result.
    mask : ndarray of bool or None
        Where results are written; its dims are those of the slices.
    """

    def __init__(
        self, target: Any, shape: tuple[int, ...], dtype: np.dtype, core: tuple[int, ...],
        labels: bool, fill: Any, mask: Any, missing: Missing,
    ) -> None:  # fmt: skip
        super().__init__(target, shape, dtype, missing)
        self._core, self._labels, self._fill = core, labels, fill
        self._mask = mask
        if labels:
            self.read_unit = self.write_unit = self._with_core(self.inner.write_unit)
            order = [a + sum(c <= a for c in core) for a in self.inner.order]
            self.order = (*order, *core)

    def layout(self) -> str:
        """The layout that an interrupted run must share."""
        given: dict[str, Any] = {
            "--argmax": self._labels or None,
            "--fill": None if self._fill != self._fill else self._fill,  # NaN is the default
            "--nodata": self._missing.nodata,
        }
        if self._mask is not None:
            digest = hashlib.sha256(np.packbits(self._mask).tobytes()).hexdigest()
            given["--mask"] = digest[:16]
        options = [f"{k} {_number(x)}" for k, x in given.items() if x is not None]
        return LAYOUT.join([super().layout(), self.inner.layout(), *options])

    def why_read_only(self) -> str:
        """ "": it is new."""
        return self.inner.why_read_only()

    def check_room(self) -> None:
        """Raise `OSError` if there is no room for it where it lies."""
        self.inner.check_room()

    def flush(self) -> None:
        """Make written data visible to other readers."""
        self.inner.flush()

    def release(self, block: Block) -> None:
        """A block that was written is not needed again."""
        self.inner.release(self._without_core(block) if self._labels else block)

    def can_read(self, block: Block) -> bool:
        """Whether a written block can be read."""
        return self.inner.can_read(self._without_core(block) if self._labels else block)

    def write(self, block: Block, y: np.ndarray) -> None:
        """Put the results of a block where they belong."""
        batch = self._without_core(block)
        absent = self._missing.at(batch)
        if self._mask is not None:
            outside = ~self._mask[batch]
            absent = outside if absent is None else absent | outside
        if self._labels:
            if y.dtype.kind == "f" and (none := np.isnan(y).any(self._core[0])).any():
                if self._fill is None:
                    raise NoLabelError(self._no_label(none, batch))
                absent = none if absent is None else absent | none
            y, block = y.argmax(self._core[0]), batch
        if absent is not None and absent.any():
            y = np.array(y, self.inner.dtype)
            own = () if self._labels else self._core
            y[np.broadcast_to(np.expand_dims(absent, own), y.shape)] = self._fill
        self.inner.write(block, y)

    def _no_label(self, none: np.ndarray, batch: Block) -> str:
        starts = [s.start for s in batch]
        index = [str(k + s) for k, s in zip(np.argwhere(none)[0].tolist(), starts, strict=True)]
        for a in sorted(self._missing.axes):
            index.insert(a, ":")
        ways = fills.ways(self.inner.dtype, self.shape[self._core[0]])
        return (
            f"--argmax: some results are NaN, first at the slice [{', '.join(index)}] of the "
            f"input, and NaN is no class: say which label stands there, {ways}"
        )

    def _without_core(self, block: Block) -> Block:
        return tuple(s for a, s in enumerate(block) if a not in self._core)

    def _with_core(self, unit: tuple[int, ...]) -> tuple[int, ...]:
        rest = iter(unit)
        return tuple(1 if a in self._core else next(rest) for a in range(len(self.shape)))


def _number(x: Any) -> Any:
    """A number as one writes it."""
    return int(x) if isinstance(x, float) and x.is_integer() else x
