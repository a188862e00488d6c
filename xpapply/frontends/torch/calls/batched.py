"""torch's own operations on many slices at once: for modules that are no graph, and for autograd.

A module is called on batches of slices if it takes them: if a batch gives what its slices give
alone, whatever lies beside them, and nothing in it looks at the numbers. Else torch.vmap runs it.
"""

from __future__ import annotations

import functools
import re
import sys
import types
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import torch

from .... import config
from ....errors import InputError, TraceError, UnsupportedError, add_note, warn
from ....functions import advice
from ....limits import LIMITS
from ....runtime import threads
from ....runtime.error_state import let_pass
from ..lift.flattened import with_channels_last
from ..model import modules, with_batch_of_one
from ..outputs import not_one_array
from ..profile import Profile
from ..results import Parts, Structure, by_slice, compare
from . import BATCH, VMAP
from .snapshot import untouched

WAY_OUT = "write forward so that it takes a batch of slices, (B, M), and gives B results"


def _most_bytes(device: torch.device, wanted: int) -> int:
    """Bytes that a chunk may have alive on a device, if all slices want so many."""
    if device.type != "cuda":
        return min(LIMITS.torch_chunk, torch.get_num_threads() * LIMITS.torch_chunk_thread)
    most = min(LIMITS.torch_gpu_chunk, _total_bytes(device) // LIMITS.torch_gpu_share)
    if min(wanted, most) < LIMITS.torch_gpu_asked:
        return most
    own = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return min(most, max(LIMITS.torch_gpu_asked, (torch.cuda.mem_get_info(device)[0] + own) // 2))


@functools.cache
def _total_bytes(device: torch.device) -> int:
    return int(torch.cuda.get_device_properties(device).total_memory)


class Batches:
    """A function of a tensor, called on many at once: ``(B, *slice)`` to ``(B, *result)``.

    Parameters
    ----------
    f, args, kwargs
        ``f(slice, *args, **kwargs)``. It is referred to weakly: plans live in a memory that
        is forgotten with `f`.

    Attributes
    ----------
    way : str
        `BATCH` or `VMAP`; "" where slices had to be run alone after all.
    writes : bool
        `f` writes to what it gets, as far as is known.
    bytes_per_slice : int
        Alive at the worst moment; 0 while it is not known.
    result : tuple or None
        Shape and dtype of one result, if it is known.
    channels_last : bool
        A batch of images has its channels last in memory.
    """

    def __init__(self, f: Any, args: tuple = (), kwargs: dict | None = None) -> None:
        bound = isinstance(f, types.MethodType)
        self._function: Callable[[], Any] = weakref.WeakMethod(f) if bound else weakref.ref(f)
        self._args, self._kwargs = args, kwargs or {}
        self.way = VMAP
        self.writes = True
        self.bytes_per_slice = 0
        self.result: tuple[tuple[int, ...], torch.dtype] | None = None
        self.channels_last = False
        self._recurs = False
        self._several = False
        self._shapes: list[tuple[int, ...]] = []
        self._compared: set[int] = set()
        self._most: int | None = None

    @property
    def function(self) -> Any:
        """`f`, while it is there."""
        found = self._function()
        if found is None:
            raise InputError("the function that this plan was made for is gone: keep it alive")
        return found

    def _of_batch(self, n: int) -> Any:
        """`f` for a batch of `n`."""
        last = self.channels_last and n >= LIMITS.images_worth
        return with_channels_last(self.function) if last else self.function

    # --- deciding -------------------------------------------------------------------------

    @threads.forkable
    def prove(self, samples: torch.Tensor, forced: str = "") -> None:
        """Find the way by running a few slices ``(k, *slice)``, alone and together.

        Raises
        ------
        TraceError
            If no way gives what slices give alone.
        """
        if len(samples) == 1:
            samples = torch.cat([samples, samples])
        with untouched(modules(self.function, self._args, self._kwargs)):
            try:
                alone = [self._alone(s.clone()) for s in samples]
            except (TraceError, InputError):
                raise
            except Exception as error:
                let_pass(error)
                if out_of_memory(error):
                    if _free_others(samples.device):
                        return self.prove(samples, forced)  # type: ignore[no-any-return]
                    _advise(error, samples[:1])
                    raise
                raise TraceError(first_line(error)) from None
            first = self._as_one(alone[0], 0)
            self.result = tuple(first.shape), first.dtype
            # surest first; what runs slice by slice inside torch comes last
            tries = [(BATCH, True), (VMAP, True), (BATCH, False), (VMAP, False)]
            refused: dict[str, str] = {}
            for way, strict in tries:
                if forced and way != forced:
                    continue
                try:
                    (self._prove_batch if way == BATCH else self._prove_vmap)(
                        samples, alone, strict=strict
                    )
                except (TraceError, InputError) as error:
                    refused[way] = str(error)
                except Exception as error:
                    let_pass(error)
                    refused[way] = _without_rule(error) or first_line(error)
                else:
                    self.way = way
                    return
        why = "; ".join(f"{way}: {why}" for way, why in refused.items())
        raise TraceError(why if forced else f"{why}; {WAY_OUT}")

    def _prove_batch(self, samples: torch.Tensor, alone: list[Parts], *, strict: bool) -> None:
        """Prove that a batch gives what its slices give, in any order and beside any others."""
        first, got = self._profiled(self._together, samples)
        if first.looks:
            raise TraceError(f"in a batch {first.looks}")
        compare(got, alone)
        others, expected, more = samples.flip(0), alone[::-1], 1
        if not first.might_fail:  # whatever mixes slices spreads it
            k = len(others)
            more = k + 1
            apart = torch.full((2 * k + 1, *others.shape[1:]), torch.nan).to(others)
            apart[1::2] = others
            others = apart
        elif strict:
            raise TraceError(
                f"{first.might_fail} might not take NaN, which shows what mixes slices"
            )
        elif all(torch.equal(s, samples[0]) for s in samples):
            raise TraceError("its slices are equal, so that they do not show whether they mix")
        else:
            others, expected = torch.cat([others, others[:1]]), [*expected, expected[0]]
        second, got = self._profiled(self._together, others)
        compare(got if first.might_fail else got.map(lambda p: p[1::2]), expected)
        self._measured(first, second, more, samples)
        if first.pools and samples.device.type == "cpu":
            self._try_channels_last(samples, alone)

    def _try_channels_last(self, samples: torch.Tensor, alone: list[Parts]) -> None:
        """On CPUs torch finds maxima of windows in half the time where the channels lie last.

        Where they do lets a module see its images in another order of memory: what uses `view`
        may not take it.
        """
        if self._args or self._kwargs or with_channels_last(self.function) is None:
            return
        self.channels_last = True
        try:
            many = torch.cat([samples] * LIMITS.images_worth)
            compare(self._together(many), alone * LIMITS.images_worth)
        except Exception as error:
            let_pass(error)
            self.channels_last = False

    def _prove_vmap(self, samples: torch.Tensor, alone: list[Parts], *, strict: bool) -> None:
        """Prove that torch.vmap gives what slices give, at once."""
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            first, got = self._profiled(self._vmapped, samples)
            second, _ = self._profiled(self._vmapped, torch.cat([samples, samples]))
        if strict and any("performance drop" in str(w.message) for w in said):
            raise TraceError("torch.vmap runs it slice by slice")
        compare(got, alone)
        self._measured(first, second, len(samples), samples)

    def measure(self, samples: torch.Tensor) -> None:
        """Find out how much memory a slice takes, of an `f` that is known to be pure."""
        with untouched(modules(self.function, self._args, self._kwargs)):
            run = self._together if self.way == BATCH else self._vmapped
            first, _ = self._profiled(run, samples)
            second, _ = self._profiled(run, torch.cat([samples, samples]))
        self._measured(first, second, len(samples), samples)

    def _profiled(
        self, run: Callable[[torch.Tensor], Parts], samples: torch.Tensor
    ) -> tuple[Profile, Parts]:
        given = samples.clone()
        with Profile(given) as found:
            result = run(given)
        return found, result.map(torch.clone)

    def _measured(self, one: Profile, two: Profile, more: int, samples: torch.Tensor) -> None:
        """Measure bytes per slice as a difference, so that a call's constant overhead drops out."""
        slice_bytes = samples[0].numel() * samples.element_size()
        self.bytes_per_slice = max(1, (two.peak - one.peak) // more) + slice_bytes
        self.writes = one.writes or two.writes
        self._recurs = one.recurs

    # --- running --------------------------------------------------------------------------

    def rows(self, device: torch.device, n: int) -> int:
        """Slices of a chunk of `n`: as many as have no more alive than a number of bytes."""
        each = max(1, self.bytes_per_slice)
        asked = config.current().block_bytes
        most = max(1, (asked or _most_bytes(device, n * each)) // each)
        if self._recurs and not asked and n >= LIMITS.recurrent_parts * LIMITS.recurrent_slices:
            return min(most, -(-n // LIMITS.recurrent_parts))
        return most

    def most_rows(self) -> int:
        """Slices of the largest chunk on the host."""
        return max(1, LIMITS.torch_chunk // max(1, self.bytes_per_slice))

    @threads.forkable
    def __call__(self, rows: torch.Tensor) -> Any:
        """The results of slices ``(B, *slice)``; of fewer at a time where memory runs out."""
        return self._as_one(self._in_memory(rows), 1)

    def _in_memory(self, rows: torch.Tensor) -> Parts:
        n = rows.shape[0]
        if self._most is None or n <= self._most:
            try:
                return self._run_or_free(rows)
            except (RuntimeError, MemoryError) as error:
                if not out_of_memory(error):
                    raise
                if n == 1:
                    _advise(error, rows)
                    raise
            self._most = n // 2
        half = self._most
        pieces = [self._in_memory(rows[k : k + half]) for k in range(0, n, half)]
        return Parts.joined(pieces, torch.cat)

    def _run_or_free(self, rows: torch.Tensor) -> Parts:
        """Run, and once more after other libraries have freed cached memory."""
        try:
            return self._run(rows)
        except (RuntimeError, MemoryError) as error:
            if not (out_of_memory(error) and _free_others(rows.device)):
                raise
        return self._run(rows)

    def _run(self, rows: torch.Tensor) -> Parts:
        if self.way == VMAP:
            return self._vmapped(rows)
        if self.way != BATCH:
            return Parts.joined(map(self._alone, rows), torch.stack)
        if rows.shape[0] in self._compared:
            return self._together(rows)
        return self._first_of_its_size(rows)

    def tried(self, n: int) -> bool:
        """Whether so many slices run as one batch, with one result for each."""
        once = self._most is None or n <= self._most
        return self.way == BATCH and n in self._compared and once and not self._several

    def tried_batch(self, rows: torch.Tensor) -> torch.Tensor:
        """The results of a batch of a size that was `tried`."""
        found = self._of_batch(rows.shape[0])(rows, *self._args, **self._kwargs)
        return by_slice(found, rows.shape[0], self._shapes[0])

    def _first_of_its_size(self, rows: torch.Tensor) -> Parts:
        """A batch of another size could take another path: some of its slices are run alone."""
        n = len(rows)
        places = sorted({0, n // 2, n - 1})
        samples = rows[places].detach().clone()
        try:
            result = self._together(rows)
            with torch.no_grad():
                some = result.map(lambda p: p.detach()[places])
                compare(some, [self._alone(v) for v in samples])
        except TraceError as error:
            self.way = ""
            why = f"in a batch of {n:,} slices, {error}"
            if config.current().fallback == "raise":
                raise UnsupportedError(f"only the loop can run it: {why}") from None
            if config.current().fallback == "warn":
                warn(f"{type(self.function).__name__} runs slice by slice: {why}")
            return self._run(rows)
        self._compared.add(n)
        return result

    def _alone(self, v: torch.Tensor) -> Parts:
        """The results for one slice, as the loop has them."""
        found = with_batch_of_one(self.function)(v, *self._args, **self._kwargs)
        self._several = isinstance(found, (tuple, list))
        parts = list(found) if self._several else [found]
        tensors = all(isinstance(p, torch.Tensor) for p in parts)
        if not tensors or len({p.shape for p in parts}) > 1:
            raise TraceError(not_one_array(found))
        self._shapes = [tuple(p.shape) for p in parts]
        return Parts(parts)

    def _vmapped(self, rows: torch.Tensor) -> Parts:
        """Run by torch.vmap, which keeps the meaning of one call per slice."""
        f = with_batch_of_one(self.function)

        def one(v: torch.Tensor) -> Any:
            found = f(v, *self._args, **self._kwargs)
            return tuple(found) if isinstance(found, (tuple, list)) else found

        found = torch.vmap(one)(rows)
        self._several = isinstance(found, tuple)
        return Parts(found if self._several else [found])

    def _together(self, rows: torch.Tensor) -> Parts:
        """Run by one call; results have the shapes that slices give alone."""
        n = rows.shape[0]
        found = self._of_batch(n)(rows, *self._args, **self._kwargs)
        if isinstance(found, (tuple, list)) != self._several:
            raise TraceError(f"a batch gives {type(found).__name__}")
        parts = list(found) if self._several else [found]
        if len(parts) != len(self._shapes):
            raise TraceError(f"a batch gives {len(parts)} results, not {len(self._shapes)}")
        return Parts(by_slice(p, n, s) for p, s in zip(parts, self._shapes, strict=True))

    def _as_one(self, parts: Parts, axis: int) -> Any:
        """Several results as one, stacked after the axis of the slices, as NumPy would."""
        return torch.stack(list(parts), axis) if self._several else parts[0]


class Structured(Batches):
    """`Batches` whose results are all tensors that a module returns, however they lie in it."""

    def __init__(self, f: Any, structure: Structure) -> None:
        super().__init__(f)
        self._structure = structure

    def _alone(self, v: torch.Tensor) -> Parts:
        parts = self._structure.parts(self.function(v))
        self._shapes = [tuple(p.shape) for p in parts]
        return parts

    def _vmapped(self, rows: torch.Tensor) -> Parts:
        return Parts(torch.vmap(lambda v: tuple(self._structure.parts(self.function(v))))(rows))

    def _together(self, rows: torch.Tensor) -> Parts:
        parts = self._structure.parts(self.function(rows))
        return Parts(by_slice(p, len(rows), s) for p, s in zip(parts, self._shapes, strict=True))

    def _as_one(self, parts: Parts, axis: int) -> Any:
        return parts if axis else parts[0]  # the first one is what is known of it before


def _without_rule(error: Exception) -> str:
    """The reason where torch.vmap has no rule for an operation; "" for other errors."""
    found = re.search(r"Batching rule not implemented for aten::(\w+)", str(error))
    return f"torch has no batching rule for {found[1]}" if found else ""


def first_line(error: Exception) -> str:
    """An error by its class and first line, without torch's advice to its developers."""
    text = str(error).strip().partition("\n")[0]
    sentences = [s for s in re.split(r"(?<=[.!?])\s+", text) if not _FOR_TORCH.search(s)]
    said = " ".join(sentences).rstrip(" .") or text
    return f"{type(error).__name__}: {said}"


_FOR_TORCH = re.compile(r"\b(file|open|report)\b[^.]* (issue|bug)|bug report|https?://")


def _free_others(device: torch.device) -> bool:
    """Free unused blocks of CuPy's pool; return whether there were any."""
    cupy = sys.modules.get("cupy")
    if device.type != "cuda" or cupy is None:
        return False
    with cupy.cuda.Device(device.index or 0):
        pool = cupy.get_default_memory_pool()
        before = pool.total_bytes()
        pool.free_all_blocks()
        return bool(pool.total_bytes() < before)


def _advise(error: BaseException, rows: torch.Tensor) -> None:
    """Say where memory ran out, and what to do, where no fewer slices can run at a time."""
    advice.note(error)
    dtype = str(rows.dtype).partition(".")[2]
    add_note(
        error,
        f"not even one slice {dtype}{list(rows.shape[1:])} fits into the memory of {rows.device} "
        "with what the network makes of it: give smaller slices (tiles that overlap), a network of "
        "a smaller dtype (net.half(), net.bfloat16()), or arrays on a device with more memory",
    )


def out_of_memory(error: Exception) -> bool:
    """Whether an error means that memory ran out."""
    if isinstance(error, (MemoryError, torch.cuda.OutOfMemoryError)):
        return True
    return "can't allocate memory" in str(error) or "out of memory" in str(error).lower()
