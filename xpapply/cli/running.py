"""``xpapply run``: from a file through a function into a file, block by block."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .. import apply_along_axis, explain, frontends, loop
from ..errors import InputError, add_note
from ..planning.plan import Plan
from ..storage import stores
from ..storage.journal import ENDING
from . import files
from .stages import Converted, Finished, Missing, check_mask

_LABELS = (np.uint8, np.uint16, np.uint32)


@dataclass
class Job:
    """What a run reads.

    Attributes
    ----------
    f : callable
        The function of a slice.
    image : Image
        The input.
    axis : int or tuple of int
        Of the slices, not negative.
    nodata : float or None
        What stands in the input where nothing was measured.
    """

    f: Any
    image: files.Image
    axis: int | tuple[int, ...]
    nodata: float | None = None

    def __post_init__(self) -> None:
        self.missing = Missing(self.nodata, self.axes)
        x, dtype = self.image.array, self.wanted_dtype()
        same = np.dtype(x.dtype) == dtype and x.dtype.isnative and self.nodata is None
        if same and not self.is_scaled and not isinstance(x, stores.Store):
            self.source = stores.store(x)
        else:
            slope, offset = self.image.slope, self.image.offset
            self.source = Converted(x, dtype, slope, offset, self.missing)
        self.source.about += self.image.state()

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes of the slices."""
        return self.axis if isinstance(self.axis, tuple) else (self.axis,)

    @property
    def batch(self) -> tuple[int, ...]:
        """The lengths of the dims that are not of a slice."""
        return tuple(n for a, n in enumerate(self.image.array.shape) if a not in self.axes)

    @property
    def is_scaled(self) -> bool:
        """Whether the numbers that are stored are not those that are meant."""
        return bool(np.any(self.image.slope != 1) or np.any(self.image.offset != 0))

    def wanted_dtype(self) -> np.dtype:
        """What `f` gets: real numbers where it is a network, or where they are scaled."""
        dtype = np.dtype(self.image.array.dtype).newbyteorder("=")
        if dtype.kind not in "fc" and (self.is_scaled or not frontends.is_python(self.f)):
            return np.dtype(np.float32 if dtype.itemsize <= 2 else np.float64)
        if dtype.kind not in "fcbiu":
            raise InputError(f"the input has elements of dtype {dtype}, which are not numbers")
        return dtype

    def sample(self, count: int) -> np.ndarray:
        """Some slices, ``(count, *core)``, the first and the last of all among them."""
        total = math.prod(self.batch)
        if total == 0:
            raise InputError(f"the input has no slices along axis {self.axis}")
        found = []
        for k in np.unique(np.linspace(0, total - 1, min(count, total)).astype(int)):
            at = iter(np.unravel_index(k, self.batch))
            block = tuple(
                slice(0, n) if a in self.axes else slice(int(i := next(at)), int(i) + 1)
                for a, n in enumerate(self.image.array.shape)
            )
            x = self.source.read(block)
            x = np.squeeze(x, tuple(a for a in range(x.ndim) if a not in self.axes))
            found.append(x.transpose(np.argsort(np.argsort(self.axes))))
        return np.array(found)

    def plan(self) -> Plan:
        """What would run on slices like these in memory."""
        x = self.sample(1024)
        core = tuple(range(1, x.ndim))
        return explain(self.f, core if len(core) > 1 else 1, x)


def axis_of(text: str | None, image: files.Image) -> int | tuple[int, ...]:
    """The axes that an option names, or the one that the format tells."""
    ndim = image.array.ndim
    if text is None:
        if image.axis is None:
            raise InputError(
                f"say --axis: which axis of {image.array.shape} has the values of a slice"
            )
        return image.axis % ndim
    try:
        axes = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"--axis {text}: use a number, or several with commas") from None
    if any(not -ndim <= a < ndim for a in axes):
        raise InputError(f"--axis {text}: the input has {ndim} axes, {image.array.shape}")
    axes = tuple(a % ndim for a in axes)
    if len({*axes}) < len(axes):
        raise InputError(f"--axis {text}: an axis is named twice")
    return axes if len(axes) > 1 else axes[0]


@dataclass
class Result:
    """What a run writes, and how."""

    job: Job
    dtype: np.dtype
    shape: tuple[int, ...]
    core: tuple[int, ...]
    stored: tuple[int, ...]
    stored_dtype: np.dtype
    labels: bool
    fill: Any

    @classmethod
    def of(
        cls, job: Job, labels: bool, dtype: str | None, fill: float | None, gaps: bool
    ) -> Result:
        """What comes out of a job: known from one slice, before anything is written."""
        x = job.sample(1)
        core = tuple(range(1, x.ndim))
        one = np.asarray(apply_along_axis(job.f, core if len(core) > 1 else 1, x))
        own, at = one.shape[1:], loop.first_place(job.axes)
        shape = (*job.batch[:at], *own, *job.batch[at:])
        places = tuple(range(at, at + len(own)))
        stored, kind = shape, one.dtype
        if labels:
            if len(own) != 1:
                raise InputError(
                    f"--argmax: results have the shape {own}, and not one number for each class"
                )
            stored = job.batch
            kind = next(np.dtype(t) for t in _LABELS if own[0] <= np.iinfo(t).max + 1)
        if dtype is not None:
            kind = _dtype(dtype, kind, own[0] if labels else None)
        elif kind == np.bool_:
            kind = np.dtype(np.uint8)
        return cls(
            job, one.dtype, shape, places, stored, kind, labels, _fill(fill, kind, gaps, labels)
        )

    def said(self, path: Path) -> str:
        """The output, in words."""
        what = ", labels of the largest" if self.labels else ""
        return f"{path} {self.stored} {self.stored_dtype}{what}"

    def wanted(self, resume: bool) -> files.Wanted:
        """What the format has to know."""
        chunks, given = None, getattr(self.job.image.array, "chunks", None)
        if given:
            kept = [n for a, n in enumerate(given) if a not in self.job.axes]
            at = loop.first_place(self.job.axes)
            own = () if self.labels else tuple(self.shape[a] for a in self.core)
            chunks = (*kept[:at], *own, *kept[at:])
        core = () if self.labels else self.core
        return files.Wanted(self.job.image, self.fill, resume, core, self.job.axes, chunks)

    def write(self, path: Path, mask: Any, resume: bool, around: Callable[[], Any]) -> None:
        """Compute and write all of it."""
        output = files.of_format(path).create(
            path, self.stored, self.stored_dtype, self.wanted(resume)
        )
        if resume:
            _check_left(output.array, self.stored, self.stored_dtype, output.part)
        target = output.array
        plain = not self.labels and mask is None and self.job.nodata is None
        if not plain or self.dtype != self.stored_dtype or type(target) is np.ndarray:
            target = Finished(
                target, self.shape, self.dtype, self.core, self.labels, self.fill, mask,
                self.job.missing,
            )  # fmt: skip
        try:
            with around():
                apply_along_axis(self.job.f, self.job.axis, self.job.source, out=target)
        except Exception as error:
            target = None
            self._left(error, output)
            raise
        try:
            output.finish()
        except Exception as error:
            packed = output.part.with_name(output.part.name + ".nii")
            add_note(error, f"all results are in {packed if packed.exists() else output.part}")
            raise

    @staticmethod
    def _left(error: Exception, output: files.Output) -> None:
        """Keep what --resume can go on with, and nothing else."""
        name = output.part.name
        lists = [
            p
            for p in output.part.parent.iterdir()
            if p.name.startswith(name) and p.suffix == ENDING
        ]
        if lists and '"function": null' not in lists[0].read_text().partition("\n")[0]:
            error.__notes__ = [
                f"the same command with --resume goes on; {lists[0]} lists what is done"
            ]
            return
        with suppress(Exception):
            output.close()
        for left in (output.part, output.part.with_name(name + ".nii"), *lists):
            with suppress(OSError):
                shutil.rmtree(left) if left.is_dir() else left.unlink()


def _check_left(found: Any, shape: tuple[int, ...], dtype: np.dtype, part: Path) -> None:
    if tuple(found.shape) != shape or np.dtype(found.dtype).newbyteorder("=") != dtype:
        raise InputError(
            f"--resume: {part} is {tuple(found.shape)} {found.dtype}, this run makes {shape} "
            f"{dtype}. Say the same as then, or leave --resume away and say --overwrite"
        )


def _dtype(text: str, kind: np.dtype, classes: int | None) -> np.dtype:
    try:
        wanted = np.dtype(text)
    except TypeError:
        raise InputError(f"--dtype {text}: there is no such dtype") from None
    if wanted.kind not in "fciu":
        raise InputError(f"--dtype {text} has no numbers: choose one that has")
    if classes is not None and wanted.kind in "iu" and classes - 1 <= np.iinfo(wanted).max:
        return wanted
    rule: Any = "safe" if wanted.kind in "iu" else "same_kind"
    if not np.can_cast(kind, wanted, rule):
        raise InputError(
            f"--dtype {text} would cut results of {kind}: choose a dtype of real numbers, or say "
            "--argmax for labels"
        )
    return wanted


def _fill(given: float | None, dtype: np.dtype, gaps: bool, labels: bool) -> Any:
    """What stands where there is no result."""
    if given is None:
        if not gaps:
            return None
        if dtype.kind not in "fc":
            raise InputError(f"results are {dtype}: say --fill, the value where there is no result")
        return math.nan
    if not gaps and not labels:
        raise InputError("--fill is for what --mask or --nodata leave out, and there is neither")
    if dtype.kind in "ui":
        limits = np.iinfo(dtype)
        if not math.isfinite(given) or given != int(given) or not limits.min <= given <= limits.max:
            raise InputError(f"--fill {given:g} does not fit results of {dtype}")
        return int(given)
    return given


def mask_of(text: str, job: Job) -> tuple[np.ndarray, files.Image]:
    """The mask that an option names, for the slices of a job: where there is a number but 0."""
    image = files.read(text)
    try:
        found = stores.store(image.array).read(tuple(slice(0, n) for n in image.array.shape))
        meant = np.asarray(found) * image.slope + image.offset
        inside = (meant != 0) & ~np.isnan(meant)
        if image.nodata is not None:
            inside &= np.asarray(found) != image.nodata
    finally:
        image.close()
    if inside.ndim == len(job.batch) + 1 and inside.shape[0] == 1:  # one band
        inside = inside[0]
    return check_mask(inside, job.batch, text), image


def parity(job: Job, count: int) -> tuple[int, float, float]:
    """How many slices were compared with the plain loop, and the largest differences."""
    x = job.sample(count)
    axis: Any = tuple(range(1, x.ndim)) if x.ndim > 2 else 1
    ours = np.asarray(apply_along_axis(job.f, axis, x))
    wanted = np.asarray(loop.apply(job.f, axis, x, (), {}))
    if ours.shape != wanted.shape:
        raise InputError(f"results have the shape {ours.shape}, those of the loop {wanted.shape}")
    both = np.isfinite(ours) & np.isfinite(wanted)
    if not np.array_equal(np.where(both, 0, ours), np.where(both, 0, wanted), equal_nan=True):
        return len(x), math.inf, math.inf
    wide = np.result_type(wanted.dtype, np.float64)
    gap = np.abs(np.where(both, ours, 0).astype(wide) - np.where(both, wanted, 0))
    scale = np.abs(np.where(both, wanted, 0)).max(initial=0)
    largest = float(gap.max(initial=0))
    return len(x), largest, largest / float(scale) if scale else largest
