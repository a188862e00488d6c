"""A function that is written anew, applied: at once, or else pandas' own loop with the original.

pandas' loop goes on with what its first calls gave: `f` is called as often as without xpapply.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

import numpy as np

from .. import config
from ..arrays import as_tuple
from ..errors import TraceError, UnsupportedError
from ..functions.cache import BoundedDict, kept
from ..limits import LIMITS
from ..loop.arguments import Arguments, Looped
from ..loop.begun import Begun
from ..loop.signature import Signature, resolve
from ..loop.vectorize import LoopedCall
from ..planning.application import announce
from ..planning.python import python_functions, running
from ..planning.python.several_arrays import Several
from ..runtime.warning_filters import silent


@dataclass
class Job:
    """What pandas applies a function to.

    Attributes
    ----------
    f : callable
        The user's function.
    own : callable
        ``own(f)`` is pandas' own loop with such a function.
    call : callable
        ``call(k)`` is what `f` gives for the slice of this number, by pandas' own way.
    slices : int
        How many there are.
    number : callable
        ``number(k)``: in which of pandas' own calls that one is made.
    ahead : callable
        ``ahead()`` makes those of pandas' calls that come before the first one of these.
    """

    f: Any
    own: Callable[[Any], Any]
    call: Callable[[int], Any]
    slices: int
    number: Callable[[int], int] = lambda k: k
    host: Host = field(default_factory=lambda: Host())
    known: dict[int, Any] = field(default_factory=dict)
    """Results by the number of the call."""
    looped: bool = False
    """Whether pandas' own loop runs."""
    ahead: Callable[[], None] = lambda: None
    by_pandas: Callable[[int], Any] | None = None
    """``by_pandas(k)`` is the same as `call`, by pandas' way, where `call` has a shorter one."""

    def result(self, k: int) -> Any:
        """The result for a slice, whose call is made once: what it raises is raised again."""
        if not self.known:
            self.ahead()
        return self.once(self.number(k), lambda: self.call(k))

    def once(self, at: int, call: Callable[[], Any]) -> Any:
        """What one of pandas' calls gives, by its number."""
        if at not in self.known:
            try:
                self.known[at] = call()
            except Exception as error:
                self.known[at] = Raised(error)
        return given(self.known[at])

    def of_some(self, at: np.ndarray) -> Job:
        """The same for some of the slices."""

        def number(k: int) -> int:
            return self.number(int(at[k]))

        def call(k: int) -> Any:
            return self.call(int(at[k]))

        found = Job(self.f, self.own, call, len(at), number, self.host, self.known)
        if (by_pandas := self.by_pandas) is not None:
            found.by_pandas = lambda k: by_pandas(int(at[k]))
        return found

    def loop(self) -> Any:
        """pandas' own result."""
        self.looped = True
        # what is pure may be called again: that takes less than to look for what is known
        pure = not self.known or why_impure(self.f) is None
        return self.own(self.f if pure else Known(self.f, self.known))


@dataclass(frozen=True)
class Raised:
    """What a call raised."""

    error: Exception


def given(result: Any) -> Any:
    """A result that is known; what its call raised is raised again."""
    if type(result) is Raised:
        raise result.error
    return result


class Host:
    """Who runs what functions are applied to: for users, who are told where pandas' loop runs."""

    def run(self, what: OfPandas) -> Any:
        """The results at once; an `Own` with pandas' own result where they cannot be."""
        if config.current().engine == "loop":
            return what.loop()
        found = python_functions.decide(what, calls=True)
        if found.why is None:
            return what.at_once(found.traced, found.begun)
        if found.loops is not None:
            return found.loops.timed(what.slices, what.loop, found.known)
        if not found.quick:
            what.announce(found.why)
        return what.loop()

    def tell(self, job: Job, why: str) -> None:
        """Tell that pandas' loop runs."""
        announce(job.f, job.slices, why, np.empty(0))

    def loop(self, job: Job) -> Any:
        """pandas' own result, while something runs."""
        return job.loop()

    def by_pandas(self, job: Job, why: str) -> Any:
        """pandas' own result, where it is known that nothing else can be; "": that is right so."""
        if why and config.current().fallback == "raise":
            self.tell(job, why)
        found = job.loop()  # which may raise what the user's function does: nothing else is told
        if why:
            self.tell(job, why)
        return found


class Refusal:
    """A context that ends with what is refused within, and keeps the reason.

    pandas' loop runs after it: while an exception is handled, that would be the context of what
    the user's function raises.
    """

    why: str | None = None

    def __enter__(self) -> Refusal:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> bool:
        if not isinstance(error, TraceError):
            return False
        self.why = str(error)
        return True


class Known:
    """A function of which the results of some calls are known, by their numbers."""

    def __init__(self, f: Any, known: dict[int, Any]) -> None:
        self._f, self.known, self._count = f, known, -1
        self.__name__ = getattr(f, "__name__", "f")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._count += 1
        if self._count in self.known:
            return given(self.known[self._count])
        return self._f(*args, **kwargs)


@dataclass
class OfPandas(Several):
    """What a function that is written anew is applied to; its loop is pandas' own.

    Attributes
    ----------
    job : Job
        What pandas applies the original to.
    encode : callable
        ``encode(result, again, k)``: what the function that is written anew returns for slice `k`
        where the original returns this; None: nothing. ``again()`` calls it.
    """

    job: Job = field(kw_only=True, repr=False)
    encode: Callable[[Any, Callable[[], Any], int], Any] = field(kw_only=True, repr=False)
    whole: bool = field(default=False, kw_only=True)
    """Whether NumPy may warn where pandas does not."""
    silent: bool = field(default=False, kw_only=True)
    """Whether NumPy's warnings of slices without elements are pandas' silence."""
    part: bool = field(default=False, kw_only=True)
    """Whether these are some of the slices that pandas' loop goes over."""
    took: float = field(default=0.0, kw_only=True)
    """Seconds of pandas' own call."""
    on_host = is_others = True

    def begun(self) -> Begun:
        """The first calls, which pandas' own loop would make."""
        times: list[float] = []
        # no more than pandas' loop begins with
        most, found = min(LIMITS.begun_by_pandas, self.slices), None
        for k in range(most if self.job.number(most - 1) == most - 1 else 1):
            started = time.perf_counter()
            try:
                result = self.job.result(k)
            except Exception:
                if k == 0:
                    raise
                break  # which is raised when it is its turn
            times.append(time.perf_counter() - started)
            if (one := self.encoded(result, k)) is None:
                if k == 0:
                    raise NotTaken(result)
                break  # what pandas may raise of
            found = found if k else one
        self.took = min(times)  # the first one takes longer than the others
        return Begun([found], self.took, sum(times))

    def encoded(self, result: Any, k: int) -> Any:
        """What the function that is written anew returns where pandas' call for slice `k` did."""

        def again() -> Any:  # of what NumPy warns pandas does not
            with np.errstate(all="ignore"), silent():
                return self.call(*self.arguments.given(self.slice_at((k,))))

        return self.encode(result, again, k)

    def for_batches(self, said: BaseException | str) -> None:
        """Nothing else is tried."""

    def note(self, error: Exception, index: tuple[int, ...]) -> None:
        """Errors stay as they are."""

    @property
    def around(self) -> float:
        """Seconds that pandas' loop takes beside the call of what is written anew, at least.

        Its first call is slower than the others: those that were timed later tell more.
        """
        return LIMITS.pandas_turn_share * (_turns.get(key_of(self.f)) or self.took)

    def around_call(self) -> float:
        """Nothing more: it is a part of what a call takes."""
        return 0.0

    def at_once(self, traced: Any, begun: Begun | None) -> Any:
        """All slices at once."""
        if not self.whole:
            return running.at_once(traced, self, begun)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            found = running.at_once(traced, self, begun)
        if isinstance(found, Own) or not any(self._would_show(x) for x in seen):
            warn(seen if isinstance(found, Own) else ())
            return found
        return self.loop()  # which warns, if pandas does

    def _would_show(self, x: warnings.WarningMessage) -> bool:
        return not (self.silent and str(x.message).startswith(_OF_NONE))

    def loop(self, known: Sequence[Any] = ()) -> Any:
        """pandas' own; for some of its slices its calls of these."""
        if self.part and (found := self._calls()) is not None:
            return found
        return Own(self.job.host.loop(self.job))

    def _calls(self) -> tuple[np.ndarray, ...] | None:
        """The results of pandas' own calls; None: others than those of what is written anew."""
        found = []
        for k in range(self.slices):
            result = self.job.result(k)
            found.append(self.encoded(result, k))
            if found[-1] is None:
                return None
        columns = zip(zip(*found, strict=True), self.call.arguments.dtypes or (), strict=True)
        return tuple(np.array(x, dtype) for x, dtype in columns)

    def announce(self, why: str) -> None:
        """Tell the user that pandas' loop runs."""
        self.job.host.tell(self.job, why)


_OF_NONE = ("Mean of empty slice", "All-NaN ", "Degrees of freedom <= 0 for slice")
"""What NumPy's functions warn of and pandas' methods do not."""
_turns: BoundedDict = kept(BoundedDict())
"""Seconds of pandas' own calls, by the code of what is written anew."""


def key_of(f: Any) -> Any:
    """What is the same of functions that are made anew for each call."""
    return getattr(f, "__code__", id(type(f)))


class NotTaken(Exception):
    """The first call gives what no function that is written anew does."""

    def __init__(self, result: Any) -> None:
        kind = type(result).__name__
        super().__init__(f"it returns {'an' if kind[:1] in 'aeiou' else 'a'} {kind}")


@dataclass(frozen=True)
class Own:
    """What pandas' own loop gave."""

    result: Any


def applied(
    job: Job,
    f: FunctionType,
    operands: Sequence[np.ndarray],
    signature: str,
    dtypes: Sequence[Any] | None,
    encode: Callable[[Any, Callable[[], Any], int], Any],
    args: tuple,
    kwargs: dict[str, Any],
    **more: Any,
) -> OfPandas:
    """What a function that is written anew is applied to.

    `signature`: "" where it gets numbers. `args`: what it gets, with a `Looped` for each of the
    operands.
    """
    shapes = [x.shape for x in operands]
    if signature:
        wanted = Signature.parse(signature)
    else:
        assert dtypes is not None
        wanted = Signature(((),) * len(operands), ((),) * len(dtypes))
    dims = resolve(wanted, shapes)
    count = len(wanted.outputs)
    arguments = Arguments(
        args or tuple(map(Looped, range(len(operands)))),
        kwargs,
        numbers=not signature,
        results=count if count > 1 else 0,
        dtypes=None if dtypes is None else tuple(map(np.dtype, dtypes)),
        exactly=True,
    )
    call = LoopedCall(f, arguments)
    return OfPandas(call, list(operands), dims, _never, job=job, encode=encode, **more)


def of_parts(
    job: Job,
    f: FunctionType,
    bounds: Sequence[np.ndarray],
    columns: Sequence[np.ndarray],
    dtypes: Sequence[Any],
    encode: Callable[..., Any],
    args: tuple,
    kwargs: dict[str, Any],
    **more: Any,
) -> OfPandas:
    """What a function of ``begin, until, *columns, *args`` is applied to, as `of_part` makes it.

    The columns get room: what is compiled for arrays of one length serves many.
    """
    operands = [*bounds]
    for x in columns:
        room = np.zeros(1 << max(10, (len(x) - 1).bit_length()), x.dtype)
        room[: len(x)] = x
        operands.append(room)
    signature = ",".join(["()"] * len(bounds) + ["(n)"] * len(columns))
    signature += "->" + ",".join(["()"] * len(dtypes))
    given = (*map(Looped, range(len(operands))), *args)
    return applied(job, f, operands, signature, dtypes, encode, given, kwargs, varies=True, **more)


def warn(seen: Iterable[warnings.WarningMessage]) -> None:
    """Warn of what was recorded."""
    for x in seen:
        warnings.warn_explicit(x.message, x.category, x.filename, x.lineno)


def _never() -> Any:
    raise AssertionError("the loop is pandas' own")


def results(what: OfPandas) -> Any:
    """The results at once, or an `Own`: what raises at once is left to its loop to raise."""
    job = what.job
    try:
        found = job.host.run(what)
    except NotTaken as error:
        why = str(error)
    except UnsupportedError:
        raise
    except Exception as error:
        # of some of pandas' slices another one may raise sooner
        last = job.slices - 1
        own = job.number(last) == last or why_impure(job.f) is not None
        if job.looped or (not job.known and own):
            raise
        why = f"at once it raises {type(error).__name__}"
    else:
        if not isinstance(found, Own) and what.slices > 1 and not _is_sample_right(what, found):
            why = "some of its results are not those of pandas' own calls"
        else:
            return found
    return Own(job.host.by_pandas(job, why))


def _is_sample_right(what: OfPandas, found: Any) -> bool:
    """Whether the last result is that of pandas' own call."""
    job, began = what.job, time.perf_counter()
    if job.by_pandas is not None:
        result = job.by_pandas(what.slices - 1)
    else:
        result = job.call(what.slices - 1)
        _turns[key_of(what.f)] = time.perf_counter() - began
    wanted = what.encoded(result, what.slices - 1)
    if wanted is None:
        return False
    both = zip(as_tuple(found), as_tuple(wanted), strict=True)
    return all(np.allclose(x[-1], y, rtol=1e-7, atol=1e-12, equal_nan=True) for x, y in both)


def is_few(slices: int) -> bool:
    """Whether so few slices take less time in pandas' loop than looking closer."""
    return slices <= LIMITS.few_slices and config.current().fallback != "raise"


def why_impure(f: Any) -> str | None:
    """Why a function may not be called once more, or in another order; None: it may."""
    from ..functions.repeatable import why_not_repeatable

    return why_not_repeatable(f)
