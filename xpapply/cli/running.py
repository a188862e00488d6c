"""``xpapply run``: from a file through a function into a file, block by block."""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .. import apply_along_axis, explain, frontends
from ..errors import InputError, add_note
from ..limits import LIMITS
from ..loop import reference
from ..planning.plan import Plan
from ..storage import blocks, stores, stream
from ..storage.journal import ENDING, OtherRun
from . import explained, files, fills, places
from .stages import Converted, Finished, Missing, NoLabelError, options_of

_DONE = re.compile(r"out has (.* blocks)")
"""The note of an interrupted run."""


@dataclass
class Job:
    """The input of a run.

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
        """Whether stored numbers are scaled."""
        return bool(np.any(self.image.slope != 1) or np.any(self.image.offset != 0))

    def wanted_dtype(self) -> np.dtype:
        """The dtype for `f`: real numbers for networks and scaled files."""
        dtype = np.dtype(self.image.array.dtype).newbyteorder("=")
        if dtype.kind not in "fc" and (self.is_scaled or not frontends.is_python(self.f)):
            return np.dtype(np.float32 if dtype.itemsize <= 2 else np.float64)
        if dtype.kind not in "fcbiu":
            raise InputError(f"the input has elements of dtype {dtype}, which are not numbers")
        return dtype

    @property
    def name(self) -> str:
        """The file, in words."""
        return str(self.image.path or "the input")

    def first(self) -> tuple[np.ndarray, list[str]]:
        """The first slice, ``(1, *core)``, and where it is."""
        self._check_any()
        index = (0,) * len(self.batch)
        return self._slice(index)[0][None], [self.place(index)]

    def sample(self, count: int, inside: np.ndarray | None = None) -> tuple[np.ndarray, list[str]]:
        """A sample of measured slices, ``(count, *core)``, and their places.

        The first and the last of all are among them. `inside`: only where this is true.
        """
        self._check_any()
        total = math.prod(self.batch)
        within = np.arange(total) if inside is None else np.flatnonzero(inside)
        found, at = [], []
        for k in _spread(len(within), count):
            index = np.unravel_index(within[k], self.batch)
            x, absent = self._slice(index)
            if not absent:
                found.append(x)
                at.append(self.place(index))
                if len(found) == count:
                    break
        if not found:
            where = "inside the mask" if inside is not None else f"of {total:,}"
            raise InputError(
                f"no slices to compare: all that were looked at, {where}, have no data. Say "
                "another --mask or --nodata"
            )
        return np.array(found), at

    def _check_any(self) -> None:
        if 0 in self.batch:
            raise InputError(f"the input has no slices along axis {self.axis}")

    def _slice(self, index: Any) -> tuple[np.ndarray, bool]:
        """A slice as `f` gets it, and whether it has no measured values."""
        batch = tuple(slice(int(k), int(k) + 1) for k in index)
        left = iter(batch)
        shape = self.image.array.shape
        x = self.source.read(
            tuple(slice(0, n) if a in self.axes else next(left) for a, n in enumerate(shape))
        )
        absent = self.missing.at(batch)
        x = np.squeeze(x, tuple(a for a in range(x.ndim) if a not in self.axes))
        gone = absent is not None and bool(absent.all())
        return x.transpose(np.argsort(np.argsort(self.axes))), gone

    def place(self, index: Any) -> str:
        """A slice, in indices of the file."""
        left = iter(index)
        parts = (":" if a in self.axes else str(next(left)) for a in range(self.image.array.ndim))
        return f"[{', '.join(parts)}]"


def _spread(total: int, count: int) -> Iterator[int]:
    """Numbers below `total`: so many that are spread over all, then more between them."""
    seen: set[int] = set()
    for many in (count, 4 * count, 16 * count, max(64 * count, 4096)):
        for k in np.linspace(0, total - 1, min(many, total)).astype(int).tolist():
            if k not in seen:
                seen.add(k)
                yield k


def axis_of(text: str | None, image: files.Image) -> int | tuple[int, ...]:
    """The axes of an option, or the format's default."""
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
    """The output of a run."""

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
        """The result of a job, determined by one slice before anything is written."""
        x, at = job.first()
        core = tuple(range(1, x.ndim))
        with places.told(job.name, at):
            one = np.asarray(apply_along_axis(job.f, core if len(core) > 1 else 1, x))
        own, before = one.shape[1:], reference.first_place(job.axes)
        shape = (*job.batch[:before], *own, *job.batch[before:])
        axes = tuple(range(before, before + len(own)))
        stored, kind, classes = shape, one.dtype, None
        if labels:
            if len(own) != 1:
                raise InputError(
                    f"--argmax: results have the shape {own}, and not one number for each class"
                )
            stored, classes = job.batch, own[0]
            kind = fills.label_dtype(classes, None if dtype else fill)
        if dtype is not None:
            kind = _dtype(dtype, kind, classes)
        elif kind == np.bool_:
            kind = np.dtype(np.uint8)
        fill = fills.checked(fill, kind, gaps, classes, dtype is not None)
        return cls(job, one.dtype, shape, axes, stored, kind, labels, fill)

    def said(self, path: Path) -> str:
        """The output, in words."""
        what = " labels" if self.labels else ""
        return f"{path} {self.stored} {self.stored_dtype}{what}"

    def wanted(self, resume: bool) -> files.Wanted:
        """The facts that a format needs."""
        chunks, given = None, getattr(self.job.image.array, "chunks", None)
        if given:
            kept = [n for a, n in enumerate(given) if a not in self.job.axes]
            at = reference.first_place(self.job.axes)
            own = () if self.labels else tuple(self.shape[a] for a in self.core)
            chunks = (*kept[:at], *own, *kept[at:])
        core = () if self.labels else self.core
        array, axes = self.job.image.array, self.job.axes
        slice_ = math.prod(array.shape[a] for a in axes) * self.job.wanted_dtype().itemsize
        result = math.prod(self.shape[a] for a in self.core) * self.dtype.itemsize
        fit = blocks.memory() // stream.at_a_time(LIMITS.cli_threads) // (slice_ + result)
        stored = result if core else self.stored_dtype.itemsize
        room = max(1, fit) * stored
        return files.Wanted(self.job.image, self.fill, resume, core, axes, chunks, room)

    def target(self, array: Any, mask: Any) -> Any:
        """The target that results pass through on their way to an array."""
        plain = not self.labels and mask is None and self.job.nodata is None
        if plain and self.dtype == self.stored_dtype and type(array) is not np.ndarray:
            return array
        return Finished(
            array, self.shape, self.dtype, self.core, self.labels, self.fill, mask,
            self.job.missing,
        )  # fmt: skip

    def plan(self, target: Any) -> Plan:
        """The plan of a run into a target."""
        with places.told(self.job.name):
            return explain(self.job.f, self.job.axis, self.job.source, out=target)

    def explained(self, path: Path | None, mask: Any = None) -> str:
        """The plan of a run, before there is an output."""
        unit = None
        if path is not None:
            unit = files.unit_of(path, self.stored, self.stored_dtype, self.wanted(False))
        unwritten = explained.Unwritten(self.stored, self.stored_dtype, unit)
        job, whole = self.job, self.plan(self.target(unwritten, mask))
        return explained.said(job.f, job.axis, job.source, whole, job.name)

    def write(self, path: Path, mask: Any, resume: bool, around: Callable[[], Any]) -> str:
        """Compute and write all of it; what ran, in words."""
        if not resume:  # what it lists is not in the output that is made now
            for old in _lists(files.part_of(path)):
                old.unlink()
        with around():  # which has the memory that chunks are made for
            output = files.of_format(path).create(
                path, self.stored, self.stored_dtype, self.wanted(resume)
            )
        job, target = self.job, self.target(output.array, mask)
        whole: Any = None
        try:
            with around(), places.told(job.name):
                whole = self.plan(target)
                whole(job.source, job.axis)
        except BaseException as error:
            target = whole = None
            self._left(error, output)
            raise
        try:
            with around():
                ran = explained.ran(job.f, job.axis, job.source, whole)
            del target, whole
            output.finish()
        except BaseException as error:
            packed = _beside(output.part, ".nii")
            add_note(error, f"all results are in {packed if packed.exists() else output.part}")
            raise
        return ran

    @staticmethod
    def _left(error: BaseException, output: files.Output) -> None:
        """Keep what --resume needs, and delete the rest."""
        lists = _lists(output.part)
        known = lists and '"function": null' not in lists[0].read_text().partition("\n")[0]
        notes = getattr(error, "__notes__", [])
        done = next((m[1] for n in notes if (m := _DONE.match(n))), None)
        error.__notes__ = [n for n in notes if not _DONE.match(n)]
        if isinstance(error, OtherRun):
            raise InputError(_another(error, output.part)) from None
        nothing = done is not None and done.startswith("0 of")
        if known and not nothing and not isinstance(error, NoLabelError):
            if done is not None:
                add_note(
                    error,
                    f"{done} are done, and kept in {output.part}: the same command with --resume "
                    "goes on there. After a change of MODEL, INPUT or options begin anew without "
                    "--resume",
                )
            return
        if isinstance(error, NoLabelError):
            add_note(error, "Nothing is kept: begin anew without --resume.")
        with suppress(Exception):
            output.close()
        for left in (output.part, _beside(output.part, ".nii"), *lists):
            with suppress(OSError):
                shutil.rmtree(left) if left.is_dir() else left.unlink()


def _beside(part: Path, end: str) -> Path:
    return part.with_name(part.name + end)


def _lists(part: Path) -> list[Path]:
    """Journals of an output."""
    return [p for end in ("", ".nii") if (p := _beside(part, end + ENDING)).exists()]


def _another(error: OtherRun, part: Path) -> str:
    """The error that an interrupted run had other options."""
    said = []
    for name, (was, now) in error.differ.items():
        if name == "axis":
            said.append("--axis was {}, is {}".format(*(",".join(map(str, a)) for a in (was, now))))
        elif name == "out":
            before, here = options_of(was), options_of(now)
            for option in sorted(before.keys() | here.keys()):
                if before.get(option) != here.get(option):
                    said.append(_differs(option, before.get(option), here.get(option)))
        else:
            what = "MODEL" if name == "function" else "INPUT"
            said.append(f"{what} is another one, or was changed")
    return (
        f"--resume: {part} is of another run: {'; '.join(said) or 'its options were others'}. Say "
        "it all as it was said then; or begin anew without --resume"
    )


def _differs(option: str, was: str | None, now: str | None) -> str:
    if option == "--mask":  # of which a digest is known
        was, now = was and "another one", now and "another one"
        return f"--mask was {was or 'none'}, is {now or 'none'}"
    return f"{option} was {was or 'none'}, is {now or 'none'}"


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


def parity(job: Job, count: int, inside: np.ndarray | None = None) -> tuple[int, float, float]:
    """Compare slices with the plain loop: their number, and the largest differences."""
    x, at = job.sample(count, inside)
    axis: Any = tuple(range(1, x.ndim)) if x.ndim > 2 else 1
    with places.told(job.name, at):
        ours = np.asarray(apply_along_axis(job.f, axis, x))
        wanted = np.asarray(reference.apply(job.f, axis, x, (), {}))
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
