"""Generators of random numbers: NumPy's own functions that draw from them, and slices in order.

NumPy's library exports the functions that its `Generator` calls, and says how they are called
(``numpy/random/distributions.h``). So a number that compiled code draws has NumPy's bits, and the
state that it is drawn from is the generator's own.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..errors import Differs
from ..limits import LIMITS
from .error_state import Handled
from .registry import LEGACY, PYTHONS, generator_kind
from .warning_filters import FILTERS

_WORDS = 5
"""Words of a ``bitgen_t``: the address of the state, and of four functions."""


class Source:
    """A source of random numbers.

    Parameters
    ----------
    owner : Generator, RandomState or random.Random
        Whose methods it calls.
    place : callable or None
        ``place(f)`` gives the owner, where another one of its kind may come.

    Attributes
    ----------
    words : array
        A ``bitgen_t`` as its own: that has the addresses of its state and of its functions.
    gauss : array
        Of legacy methods and of Python's: whether a normal number is kept, and which one.
    kind : str
        The class of its bit generator.
    lock
        Who draws has it.
    """

    def __init__(self, owner: Any, place: Callable[[Any], Any] | None = None) -> None:
        self.owner, self.place = owner, place
        self._how = generator_kind(owner)
        self._own = _mersenne() if self._how == PYTHONS else self._now()
        self.kind = type(self._own).__name__
        self.words, self.gauss = np.zeros(_WORDS, np.uint64), np.zeros(2)
        self.key: Any = None  # by which who makes it knows it
        self._is_drawn_from = threading.RLock()
        self._take()
        self._gauss = [0.0, 0.0]

    def _take(self) -> None:
        place = self._own.ctypes.bit_generator
        self.words[:] = (ctypes.c_uint64 * _WORDS).from_address(place.value)
        self.lock = self._own.lock

    def becomes(self, owner: Any) -> None:
        """Draw from another one of its kind."""
        self.owner = owner
        if self._now() is not self._own:
            self._own = self._now()
            self._take()

    @property
    def has_gauss(self) -> bool:
        """Whether a normal number is kept."""
        return self._how in (LEGACY, PYTHONS)

    def _now(self) -> Any:
        if self._how == PYTHONS:
            return self._own
        return self.owner._bit_generator if self._how == LEGACY else self.owner.bit_generator

    def is_kept(self) -> bool:
        """Whether its owner still draws from it, if it is the only one."""
        return self.place is not None or self._now() is self._own

    @property
    def state(self) -> Any:
        """The state, for restoring."""
        if self._how == PYTHONS:
            return self.owner.getstate()
        return self.owner.get_state(legacy=False) if self._how == LEGACY else self._own.state

    @state.setter
    def state(self, was: Any) -> None:
        if self._how == PYTHONS:
            self.owner.setstate(was)
        elif self._how == LEGACY:
            self.owner.set_state(was)
        else:
            self._own.state = was

    def begin(self, now: Any) -> None:
        """Before compiled code draws: it takes what is not in the ``bitgen_t`` from a state."""
        if self._how == LEGACY:
            self.gauss[:] = now["has_gauss"], now["gauss"]
        elif self._how == PYTHONS:
            _, (*key, place), gauss = now
            inner = {"key": np.array(key, np.uint32), "pos": place}
            self._own.state = {"bit_generator": self.kind, "state": inner}
            self.gauss[:] = gauss is not None, gauss or 0.0
        self._gauss = self.gauss.tolist()

    def end(self) -> None:
        """After it has drawn: the owner takes that back."""
        has, gauss = self.gauss.tolist()
        if self._how == LEGACY and [has, gauss] != self._gauss:
            now = self.owner.get_state(legacy=False)
            self.owner.set_state(now | {"has_gauss": int(has), "gauss": gauss})
        elif self._how == PYTHONS:
            inner = self._own.state["state"]
            key = *inner["key"].tolist(), inner["pos"]
            self.owner.setstate((3, key, gauss if has else None))


def _mersenne() -> Any:
    """NumPy's generator with the steps of Python's."""
    from numpy.random import MT19937

    return MT19937(0)


def _content(state: Any) -> Any:
    """A state as something that can be compared."""
    if isinstance(state, dict):
        return [(name, _content(x)) for name, x in state.items()]
    return state.tobytes() if isinstance(state, np.ndarray) else state


class Shared(Handled):
    """Other threads may draw from a generator that has no lock."""


class Kept:
    """Allow draws inside; afterwards generators are restored, unless `stays` was called.

    What ends a process or a thread is no reason to put them back: it comes of the function.

    Parameters
    ----------
    sources : sequence of Source
        What is drawn from.
    alone : bool
        Whether no other thread draws meanwhile.

    Raises
    ------
    Shared
        If others might, whatever is done.
    """

    def __init__(self, sources: Sequence[Source], alone: bool = True) -> None:
        self._sources, self._alone = sources, alone

    def __enter__(self) -> Kept:
        if any(x._how == PYTHONS for x in self._sources) and _has_threads():
            raise Shared("other threads, which run, may draw from Python's generator as well")
        with contextlib.ExitStack() as locks:
            if self._alone:
                locks.enter_context(_held(self._sources, calls=True))
            self._states = [x.state for x in self._sources]
            self._locks = locks.pop_all()
        return self

    @classmethod
    @contextlib.contextmanager
    def of(cls, sources: Sequence[Source], f: Any, alone: bool = True) -> Iterator[Kept]:
        """The same for a function about to run, with no other thread drawing.

        Within that it may run with others itself: then these are drawn from, until that is over.
        """
        with contextlib.ExitStack() as held:
            held.enter_context(_in_one_order([x._is_drawn_from for x in sources]))
            for x in sources:
                if x.place is not None:
                    held.callback(x.becomes, x.owner)
                    x.becomes(x.place(f))
            yield held.enter_context(cls(sources, alone))

    def stays(self) -> None:
        """Keep what was drawn."""
        self._sources = ()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._locks:
            if kind is None or issubclass(kind, Exception):
                for x, was in zip(self._sources, self._states, strict=False):
                    x.state = was


def _has_threads() -> bool:
    """Whether other threads than ours run."""
    return sum(not t.name.startswith("xpapply") for t in threading.enumerate()) > 1


def seconds_of_states(sources: Sequence[Source]) -> float:
    """Estimated seconds of a call for reading the states of generators."""
    least = 0.0
    for x in sources:
        times = []
        for _ in range(3):
            began = time.perf_counter()
            x.state  # noqa: B018
            times.append(time.perf_counter() - began)
        least += min(times)
    return _LOOKS * least


_LOOKS = 6
"""Reads and writes of a state per call."""


# --- slices in the loop's order -----------------------------------------------------------------


def in_order(
    sources: Sequence[Source],
    go: Callable[[int, int], None],
    marks: np.ndarray,
    begin: int,
    by_itself: Callable[[int], None],
    compared: Callable[[int], None],
    checked: Sequence[int] = (),
    size: int = 0,
) -> np.ndarray:
    """Run slices that draw, one after the other: the marks of those that the function ran for.

    Compiled code goes through some slices; where it marks one, the generators are put back and it
    goes up to that one. So the function itself finds them as in the loop.

    Parameters
    ----------
    sources : sequence of Source
        What they draw from.
    go : callable
        ``go(begin, end)`` runs slices in compiled code, which marks those that it leaves.
    marks : array
        Those, of all slices.
    begin : int
        The first slice.
    by_itself, compared : callable
        ``by_itself(k)`` has the function itself run for a slice; so does ``compared(k)``, which
        raises where compiled code gave something else.
    checked : sequence of int
        Which ones are compared; so are the states after them.
    size : int
        How many slices are run before marks are looked for; 0: few, as nothing is known of them.
    """
    found, count, at, size = np.zeros_like(marks), len(marks), begin, size or LIMITS.drawn_first
    left = sorted(checked)
    while at < count:
        while left and left[0] < at:
            left.pop(0)
        is_checked = left[:1] == [at]
        end = at + 1 if is_checked else min(count, at + size, *left[:1])
        with _held(sources, calls=is_checked):
            before, after = [x.state for x in sources], None
            stop = _some(sources, before, go, marks, at, end)
            if stop < end or is_checked:
                after = [_content(x.state) for x in sources]
                for x, was in zip(sources, before, strict=True):
                    x.state = was
            if stop < end:
                found[stop] = marks[stop]
                _some(sources, before, go, marks, at, stop)
            elif is_checked:
                compared(at)
                if [_content(x.state) for x in sources] != after:
                    raise Differs("compiled it leaves a generator in another state")
        if stop < end:
            by_itself(stop)
            size = max(LIMITS.drawn_least, 2 * (stop - at))
            if is_checked:
                left[0] = stop + 1
            at = stop + 1
        else:
            at, size = end, size if is_checked else 2 * size
    return found


@contextlib.contextmanager
def _held(sources: Sequence[Source], calls: bool = False) -> Iterator[None]:
    """A context in which no other thread draws; `calls`: the function draws itself."""
    locks = [x.lock for x in sources]
    with contextlib.ExitStack() as held:
        if calls:  # it shows no warning, for which there is a lock as well
            held.enter_context(FILTERS)
            locks = [x for x in locks if type(x) is type(FILTERS)]  # else it would wait for itself
        held.enter_context(_in_one_order(locks))
        yield


@contextlib.contextmanager
def _in_one_order(locks: Sequence[Any]) -> Iterator[None]:
    """Hold locks inside: each once, in an order common to all threads."""
    with contextlib.ExitStack() as held:
        for _, lock in sorted({id(x): x for x in locks}.items()):
            held.enter_context(lock)
        yield


def _some(
    sources: Sequence[Source],
    states: Sequence[Any],
    go: Callable[[int, int], None],
    marks: np.ndarray,
    at: int,
    end: int,
) -> int:
    """Go through some slices: the first one that is marked, or `end`. `states`: those of now."""
    if at < end:
        for x, now in zip(sources, states, strict=True):
            x.begin(now)
        go(at, end)
        for x in sources:
            x.end()
    left = np.flatnonzero(marks[at:end])
    return at + int(left[0]) if left.size else end


# --- what can be drawn --------------------------------------------------------------------------


class Distribution:
    """A distribution: what a method of a generator draws.

    Parameters
    ----------
    function : str
        Which NumPy calls for each number.
    parameters : str
        Its parameters: for each a name, a default or nothing, and which numbers it may be.
    result : dtype
        Of what is drawn.
    is_legacy : bool
        Whether the legacy method of this name calls the same.
    """

    def __init__(
        self, function: str, parameters: str = "", result: str = "float64", is_legacy: bool = False
    ) -> None:
        self.function, self.result, self.is_legacy = function, result, is_legacy
        parts = [p.split(":") for p in parameters.split()]
        heads = [head.partition("=") for head, _ in parts]
        self.names = tuple(head[0] for head in heads)
        self.defaults = {head[0]: float(head[2]) for head in heads if head[2]}
        self.may_be = tuple(kind for _, kind in parts)

    @property
    def type(self) -> str:
        """The dtype of its parameters."""
        return "float32" if self.result == "float32" else "float64"


_D = Distribution
DISTRIBUTIONS: dict[str, Distribution] = {
    "normal": _D("random_normal", "loc=0:any scale=1:size"),
    "standard_normal": _D("random_standard_normal"),
    "uniform": _D("random_uniform", "low=0:any high=1:end", is_legacy=True),
    "random": _D("random_standard_uniform", is_legacy=True),
    "exponential": _D("random_exponential", "scale=1:size"),
    "standard_exponential": _D("random_standard_exponential"),
    "gamma": _D("random_gamma", "shape:size scale=1:size"),
    "standard_gamma": _D("random_standard_gamma", "shape:size"),
    "beta": _D("random_beta", "a:positive b:positive"),
    "chisquare": _D("random_chisquare", "df:positive"),
    "f": _D("random_f", "dfnum:positive dfden:positive"),
    "geometric": _D("random_geometric", "p:chance", "int64"),
    "gumbel": _D("random_gumbel", "loc=0:any scale=1:size"),
    "laplace": _D("random_laplace", "loc=0:any scale=1:size"),
    "logistic": _D("random_logistic", "loc=0:any scale=1:size"),
    "lognormal": _D("random_lognormal", "mean=0:any sigma=1:size"),
    "pareto": _D("random_pareto", "a:positive"),
    "poisson": _D("random_poisson", "lam=1:rate", "int64", is_legacy=True),
    "power": _D("random_power", "a:positive"),
    "rayleigh": _D("random_rayleigh", "scale=1:size"),
    "standard_cauchy": _D("random_standard_cauchy"),
    "standard_t": _D("random_standard_t", "df:positive"),
    "vonmises": _D("random_vonmises", "mu:any kappa:size"),
    "wald": _D("random_wald", "mean:positive scale:positive"),
    "weibull": _D("random_weibull", "a:size"),
}
"""Methods, and what they draw."""
SHORT: dict[str, Distribution] = {
    name: _D(DISTRIBUTIONS[name].function + "_f", "shape:size" * (name == "standard_gamma"),
             "float32")
    for name in ("standard_normal", "random", "standard_exponential", "standard_gamma")
}  # fmt: skip
"""Distributions of float32."""
BOUNDED, INTERVAL = "random_bounded_uint64", "random_interval"
"""An integer of a range, as `Generator.integers` draws it, and as shuffles do."""
EXCHANGES = "exchanges"
"""The integers of a whole shuffle: no function of NumPy's."""
MERSENNE, MT19937 = "mersenne", "MT19937"
"""A seed of an MT19937: NumPy's function for it is not exported."""
TRIALS = "random_binomial"
"""Binomial trials, which keep constants between draws."""

_TYPES: dict[str, Any] = {
    "float64": ctypes.c_double, "float32": ctypes.c_float, "int64": ctypes.c_int64,
    "array": ctypes.c_void_p, "": None,
}  # fmt: skip


def drawn(name: str, result: str, given: Sequence[Any], types: Sequence[str]) -> Any:
    """Call a function; of arrays it gets where they are."""
    if name == EXCHANGES:
        for i in range(given[1] - 1, 0, -1):
            given[2][i] = drawn(INTERVAL, "int64", (given[0], i), ("array", "int64"))
        return None
    if name == MERSENNE:
        return _seeded(*given)
    places = [x.ctypes.data if kind == "array" else x for x, kind in zip(given, types, strict=True)]
    return _callable(name, result, tuple(types))(*places)


def _seeded(words: np.ndarray, x: int) -> None:
    """Source: M. Matsumoto and T. Nishimura's ``init_genrand`` of 2002."""
    state = (ctypes.c_uint32 * 625).from_address(int(words[0]))
    for k in range(624):
        state[k] = x
        x = (1812433253 * (x ^ x >> 30) + k + 1) % (1 << 32)
    state[624] = 624


@functools.cache
def _callable(name: str, result: str, types: tuple[str, ...]) -> Any:
    return ctypes.CFUNCTYPE(_TYPES[result], *(_TYPES[t] for t in types))(place_of(name))


@functools.cache
def place_of(name: str) -> int:
    """The address of a function; 0: this NumPy has none of that name."""
    try:
        from numpy.random import _generator  # type: ignore[attr-defined]

        found = getattr(ctypes.CDLL(_generator.__file__), name, None)
    except (ImportError, AttributeError, OSError):
        return 0
    return 0 if found is None else ctypes.cast(found, ctypes.c_void_p).value or 0


@functools.cache
def is_known(function: str) -> bool:
    """Whether a function exists and draws what NumPy's methods draw, by a trial."""
    if function == EXCHANGES:
        return is_known(INTERVAL)
    if function == MERSENNE:
        return _seeds_so()
    if not place_of(function):
        return False
    module: Any = importlib.import_module("numpy.random")
    for name in ("PCG64", "MT19937"):
        a, b = (module.Generator(getattr(module, name)(7)) for _ in range(2))
        mine, its = _by_address(function, Source(b).words), _by_method(function, a)
        same = mine.dtype == its.dtype and np.array_equal(mine, its)
        if not same or _content(a.bit_generator.state) != _content(b.bit_generator.state):
            return False
    return True


def _seeds_so() -> bool:
    """Whether NumPy seeds an MT19937 and draws from it with our steps."""
    from numpy.random import RandomState

    own = RandomState(0)
    for seed in (0, 12345, (1 << 32) - 1):
        _seeded(Source(own).words, seed)
        if _content(own.get_state(legacy=False)) != _content(RandomState(seed).get_state(False)):
            return False
    drawn, inner = own._bit_generator.random_raw(), own.get_state(legacy=False)["state"]  # type: ignore[attr-defined, call-overload, index]
    x = int(inner["key"][0])
    x ^= x >> 11
    x ^= x << 7 & 0x9D2C5680
    x ^= x << 15 & 0xEFC60000
    return (x ^ x >> 18, 1) == (drawn, inner["pos"])


_COUNT = 300
"""Numbers that are drawn to try a function."""
_EXAMPLES = {"any": 0.25, "size": 1.75, "positive": 2.5, "chance": 0.25, "rate": 11.5, "end": 1.75}


def _of(function: str) -> tuple[str, Distribution]:
    """The method that a function is called by, and what it draws."""
    tables = (*DISTRIBUTIONS.items(), *SHORT.items())
    return next((name, x) for name, x in tables if x.function == function)


def _by_method(function: str, g: Any) -> Any:
    """Draw by NumPy's method."""
    if function == INTERVAL:
        return g.permutation(_COUNT)
    if function == BOUNDED:
        return g.integers(0, 1001, _COUNT)
    if function == TRIALS:
        return g.binomial(200, 0.25, _COUNT)
    if function.startswith(_FILL):
        return g.integers(0, 101, _COUNT, function[len(_FILL) : -len(_FILLS)])
    name, of = _of(function.removesuffix(_FILLS))
    more = {"dtype": np.float32} if of.result == "float32" else {}
    return getattr(g, name)(*(_EXAMPLES[kind] for kind in of.may_be), size=_COUNT, **more)


def _by_address(function: str, words: np.ndarray) -> np.ndarray:
    """Draw by the address of the function."""
    if function == INTERVAL:
        found = np.arange(_COUNT)
        for i in range(_COUNT - 1, 0, -1):
            j = drawn(function, "int64", (words, i), ("array", "int64"))
            found[[i, j]] = found[[j, i]]
        return found
    if function.startswith(_FILL) and function.endswith(_FILLS):
        found = np.empty(_COUNT, function[len(_FILL) : -len(_FILLS)])
        given = (words, 0, 100, _COUNT, 0, found)
        drawn(function, "", given, ("array", *("int64",) * 4, "array"))
        return found
    if function.endswith(_FILLS):
        of_floats = np.empty(_COUNT)
        drawn(function, "", (words, _COUNT, of_floats), ("array", "int64", "array"))
        return of_floats
    if function == BOUNDED:
        return _drawn_alike(function, "int64", "int64", (words, 0, 1000, 0, 0))
    if function == TRIALS:
        own = (words, 0.25, 200, np.zeros(64, np.int64)), ("array", "float64", "int64", "array")
        return np.array([drawn(function, "int64", *own) for _ in range(_COUNT)])
    _, of = _of(function)
    numbers = [_EXAMPLES[kind] for kind in of.may_be]
    if "end" in of.may_be:  # it gets how far that is
        numbers[1] -= numbers[0]
    return _drawn_alike(function, of.result, of.type, (words, *numbers))


def _drawn_alike(function: str, result: str, kind: str, given: tuple[Any, ...]) -> np.ndarray:
    types = ("array", *(kind,) * (len(given) - 1))
    return np.array([drawn(function, result, given, types) for _ in range(_COUNT)], result)


_FILL, _FILLS = "random_bounded_", "_fill"
