"""Blocks of a typed function: their instructions and marks, one for each set of types.

What one block leaves for others lies in slots; where a set of types has a block, others go there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....arrays import library
from ....errors import TraceError
from ....functions.guards import Guards, Where
from ....ir.typed import Array, Block, Instruction, Literal, Mark, Register, Slot, TypedFunction
from ....ir.typed.function import Type, Value
from ....limits import LIMITS
from ....runtime.generators import Source
from . import calls, numbers
from .frames import ERRORS, HUB, RESULT, At, Guess, Place, State, Version, calls_itself
from .keys import built, joined, taken_apart
from .kinds.texts import TEXT
from .reading.steps import RAISED
from .values import (
    DEVICE,
    FRESH,
    HOST,
    LETTERS,
    NOTHING_SAID,
    NUMPY,
    OF_SLICE,
    PYTHON,
    Abstract,
    Arr,
    Errors,
    Expected,
    Known,
    Leaves,
    Lst,
    Num,
    Raised,
    Text,
    Tup,
)


class Blocks:
    """Writes blocks: instructions into the one of now, and others for further types."""

    def __init__(
        self,
        name: str,
        inputs: Sequence[Type],
        expected: Sequence[Expected] | None,
        watch: Guards,
        element: str = NUMPY,
    ) -> None:
        self.fetches = element == HOST
        """Whether slices are on a device and the function computes with copies on the host."""
        self.element = NUMPY if self.fetches else element
        self.solves = False
        self.of_numbers = False
        """Whether the function gets single elements, as Python numbers."""
        dtypes = [str(getattr(x, "dtype", x)) for x in inputs]
        self.settles = element == DEVICE and {*dtypes} == {"float64"}
        self.settled = False
        self.made = TypedFunction(name, tuple(inputs), (), flushes=element == DEVICE)
        self.made.fetches = self.fetches
        self.watch = watch
        self.guess: list[Expected] | None = expected if isinstance(expected, Guess) else None
        self.expect(None if self.guess is not None else expected)
        self.line = 0
        self.state = State({}, self._loaded)
        self.place: Place = None  # type: ignore[assignment]
        self._step = 0
        self._versions: dict[Any, list[Version]] = {}
        self._waiting: list[Version] = []
        self._block = Block()
        self._registers = 0
        self._retyped: set[Any] = set()
        self._flattens = False
        self._sites: dict[Any, int] = {}
        self._held: dict[Slot, Value] = {}
        self.cached: dict[Any, Any] = {}
        self.most: dict[Value, int] = {}
        self.lengths: dict[int, int] = {}
        self._tables: dict[tuple[Any, ...], np.ndarray] = {}
        self._constants: dict[Value, np.ndarray] = {}
        self._spawning: dict[Value, Source] = {}

    def expect(self, results: Sequence[Expected] | None) -> None:
        """Say what results are like; None: that is not known."""
        self.expected = results
        dtypes = [results_dtype(e.dtype) for e in results or ()]
        ndims = [1 if e.dtype == LETTERS else len(e.shape) for e in results or ()]
        self.made.results = tuple(map(Array, dtypes, ndims))

    # --- writing --------------------------------------------------------------------------

    def op(self, op: str, dtype: Type, *args: Value, what: Any = None) -> Register:
        """The register that an instruction writes."""
        self._registers += 1
        found = Register(self._registers, dtype)
        self._block.instructions.append(Instruction(op, found, args, what, self.line))
        if self.solves:
            self.made.calm.add(found)
        return found

    def do(self, op: str, *args: Value, what: Any = None) -> None:
        """An instruction without a result."""
        self._block.instructions.append(Instruction(op, None, args, what, self.line))

    def mark(self, condition: Value, why: str, raises: type | None = None) -> None:
        """Leave the slice to the Python function where a condition holds.

        `raises`: what that would raise; where it is handled, compiled code goes on there.
        """
        if isinstance(condition, Literal):
            if condition.value:
                raise Leaves(why, raises)
            return
        handler = None if raises is None else self._handler()
        if handler is None:
            self.do("mark", condition, what=self.mark_number(why))
        else:
            self.do("catch", condition, what=self._raised(handler, raises))

    @property
    def _is_ours(self) -> bool:
        """Whether the function being written belongs to our library."""
        return self.place.code.is_of(calls.LIBRARY)

    @property
    def on_device(self) -> bool:
        """Whether slices are on a device, which computes."""
        return self.fetches or self.element == DEVICE

    @property
    def _has_few_rounds(self) -> bool:
        """Whether its loops are short; those of solvers may be as long as the user wants."""
        return self._is_ours and self.place.code.function.__module__ not in calls.SOLVERS

    def count_round(self, *many: Value) -> None:
        """Count a round of a loop, or so many; there are not too many, and our own have few."""
        if not self.on_device or not self._has_few_rounds:
            self.do("round", *many, what=self.mark_number("a loop of very many rounds"))

    @property
    def handles(self) -> bool:
        """Whether some exceptions are handled here."""
        return self._handler() is not None

    def _handler(self, speaks: bool = False) -> Place | None:
        """The handler of an exception raised here; None: it is not compiled.

        `speaks`: a function of ours raises what the library would.
        """
        p = self.place
        if p is None:  # a function of a library is all that there is
            return None
        if (p.code.function.__module__ or "").startswith(calls.LIBRARY) and not speaks:
            return None  # which raises for what it leaves to others
        frames = [(p.callers, p.code, p.part)]
        frames += [(p.callers[:k], c.code, c.part) for k, c in enumerate(p.callers)][::-1]
        for callers, code, part in frames:
            handler = code.flow.parts[part].handler
            if handler is not None:
                return Place(callers, code, handler, 0)
            if calls_itself(code):  # which may have called itself
                return None
        return None

    def _raised(self, handler: Place, raises: Any) -> int:
        """The block where an exception is handled; the names of now are left for it."""
        at = len(handler.callers), RAISED
        self.state[at] = Raised(raises)
        found = self._to(handler)
        del self.state[at]
        return found

    def retyped(self, x: Lst) -> None:
        """Say that a list, and what may be the same one, has another type from now on."""
        self._retyped.add((x.site, x.dtype, x.kind))

    def writes(self, x: Arr) -> None:
        """Say that the function writes to an array; refuse it for one that is not its own."""
        if not x.own:
            raise self.refuse("it writes into an array that it has not made")
        if x.own == OF_SLICE and self.element == DEVICE:
            raise self.refuse("it writes into its slice on a device")
        self.made.writes |= x.own == OF_SLICE
        self._may_not_both()

    def flattens(self) -> None:
        """Say that a part of a slice is flattened: a copy or not, as the slice lies in memory."""
        self._flattens = True
        self._may_not_both()

    def _may_not_both(self) -> None:
        if self._flattens and self.made.writes:
            raise self.refuse("it writes into its slice, of which ravel may have made a copy")

    def ignores(self, kind: str) -> bool:
        """Whether NumPy's warnings of a kind are ignored here, whatever the caller says."""
        return self.errors.of(kind) == "ignore"

    @property
    def errors(self) -> Errors:
        """The function's own error state."""
        found: Errors = self.state.get(ERRORS, NOTHING_SAID)
        return found

    def set_errors(self, errors: Errors) -> None:
        """Say what becomes of NumPy's warnings from now on."""
        self.state[ERRORS] = errors
        self.do("errors", what=(errors.all("ignore"), errors.all("mark")))

    def mark_number(self, why: str) -> int:
        """The number of a mark on this line."""
        known = Mark(self.line, why)
        if known not in self.made.marks:
            self.made.marks.append(known)
        return self.made.marks.index(known) + 1

    def external(self, *name: str) -> int:
        """The number of a library's function."""
        if name not in self.made.externals:
            self.made.externals.append(name)
        return self.made.externals.index(name)

    def constant(self, x: np.ndarray, is_own: bool = False) -> Arr:
        """An array of the user's, which the function reads as it is then.

        `is_own`: one of ours, known by content.
        """
        of = "cupy" if self.element == DEVICE else "numpy"
        if is_own:
            x = self._tables.setdefault((x.dtype.str, x.shape, x.tobytes()), x)
        if x.dtype.name not in numbers.DTYPES or not x.dtype.isnative or x.ndim not in (1, 2):
            raise TraceError(f"it reads an array {x.shape} of {x.dtype}")
        if library(x) != of or type(x).__name__ != "ndarray":
            raise TraceError(f"it reads a {type(x).__name__}")
        if not any(x is c for c in self.made.constants):
            self.made.constants.append(x)
        k = next(k for k, c in enumerate(self.made.constants) if c is x)
        kind = Array(x.dtype.name, x.ndim)
        found = Arr(kind, False, self.op("constant", kind, what=k))
        self._constants[found.value] = x
        return found

    def given(self, at: Where, path: tuple[int, ...], x: Num) -> Num:
        """A number that was found somewhere; where such are given, one that each call reads."""
        if (at, path) not in self.watch.given or x.dtype not in _GIVEN:
            return x
        array = self.watch.given[at, path]
        if array is None:
            assert isinstance(x.value, Literal)
            array = self.watch.given[at, path] = np.array([x.value.value], x.dtype)
        first = Literal(0, "int64")
        value = self.op("element", x.dtype, self.constant(array).value, first)
        return x._replace(value=value)

    def content(self, x: Abstract) -> np.ndarray | None:
        """The array of the user's that was just read, whose content counts from now on.

        None: it is another one for each slice, or was read somewhere else.
        """
        found = self._constants.get(x.value) if isinstance(x, Arr) else None
        if not isinstance(found, np.ndarray):
            return None
        self.watch.array(found)
        return found

    def source(self, owner: Any, place: Callable[[Any], Any] | None = None, key: Any = None) -> Tup:
        """The source of random numbers of a generator: its numbers are drawn in order.

        Where its ``bitgen_t`` is, with legacy methods also where a normal number is kept, and its
        kind. `place`: what gives it, where others may come; `key`: of that place.
        """
        if self.on_device or self.element != NUMPY:
            raise self.refuse("it draws random numbers of NumPy's for slices on a device")
        known = [x for x in self.made.sources if x.key == (key or id(owner))]
        if not known:
            known = [Source(owner, place)]
            known[0].key = key or id(owner)
            self.made.sources.append(known[0])
            self.watch.add(known[0].is_kept)
        words = self.constant(known[0].words)
        self._spawning[words.value] = known[0]
        kept = [self.constant(known[0].gauss)._replace(own=True)] * known[0].has_gauss
        return Tup((words, *kept, Known(known[0].kind)))

    def children(self, rng: Tup) -> Arr | None:
        """What the generators are made of that one spawns; None: they are not known."""
        from ....runtime.spawned import Children, may_spawn  # which few functions need

        of = self._spawning.get(rng.items[0].value)  # type: ignore[union-attr]
        if of is None or not may_spawn(of.owner):
            return None
        key = "children", of.key
        known = [x for x in self.made.sources if x.key == key]
        if not known:
            known = [Children(of.owner, of.place)]
            known[0].key = key
            self.made.sources.append(known[0])
            self.watch.add(known[0].is_kept)
        return self.constant(known[0].words)._replace(own=True)

    def site(self, part: int = 0) -> int:
        """The number of this place in the source, where a list is made, or one of several."""
        # of a function of a library alone there is no place
        here = self.place and self.place.key, self.line, self._step, part
        return self._sites.setdefault(here, len(self._sites))

    def text(self, x: str) -> int:
        """The number that stands for a text in a result."""
        if x not in self.made.texts:
            self.made.texts.append(x)
        return self.made.texts.index(x)

    def differs(self) -> None:
        """Say that a result may be of another dtype than that of the first slice."""
        self.made.differs = True
        # of numbers the first call has told, and slices of NumPy's are asked before all run
        if (self.fetches or self.element != NUMPY) and not self.of_numbers:
            self.do("differs")

    def rounds(self, about: float) -> None:
        """Say that what is computed here may differ from what a library gives, relatively."""
        self.made.rounds = max(self.made.rounds, about)

    def reads_part(self, k: int) -> bool:
        """Whether part `k` of this step's result may be read later."""
        return self.place.code.flow.reads_part(self.place.part, self._step, k)

    def refuse(self, why: str) -> TraceError:
        """An error for something that is not compiled, with the line."""
        return TraceError(f"{why} (line {self.line})")

    # --- from block to block --------------------------------------------------------------

    def _live(self, place: Place) -> list[tuple[int, str]]:
        """The names that are still read, of all functions."""
        found: list[tuple[int, str]] = []
        for depth, c in enumerate(place.callers):
            live = c.code.flow.live_after(c.part, c.step)
            found += [(depth, n) for n in live if n != c.result]
        depth = len(place.callers)
        if place.part == HUB:
            return [ERRORS, *found, (depth, RESULT)]
        live = place.code.flow.live_after(place.part, place.step)
        return [ERRORS, *found, *((depth, n) for n in live)]

    def _to(self, place: Place) -> int:
        """The block for a place and the types of now, whose values are left in slots."""
        registers: dict[tuple[int, str], list[Value]] = {}
        keys: dict[tuple[int, str], Any] = {}
        for at in self._live(place):
            key = self.state.left.get(at)
            if key is not None:  # its slots hold it still
                keys[at] = key
                continue
            value = self._settled(place, at, self.state.get(at))
            if value is not None:
                keys[at] = taken_apart(value, registers.setdefault(at, []))
        version = self._version(place, keys)
        for at, values in registers.items():
            for k, v in enumerate(values):
                slot = Slot(f"{at[1]}.{at[0]}.{k}", v.type)
                if self._held.get(slot) != v:
                    self.do("store", v, what=slot)
                    self._held[slot] = v
        return version.index

    def _settled(self, place: Place, at: tuple[int, str], value: Any) -> Any:
        """A number as it goes from block to block.

        A float of Python's, of which it makes no difference, is one of the device's there: threads
        that had one for a while and those that had the other one would run one after the other.
        """
        if not self.settles or type(value) is not Num or value[:2] != ("float64", PYTHON):
            return value
        first = place.callers[0].code if place.callers else place.code
        if at[0] or at[1] not in first.flow.plain:
            return value
        self.settled = True
        return value._replace(kind=FRESH)

    def _version(self, place: Place, keys: dict[tuple[int, str], Any]) -> Version:
        versions = self._versions.setdefault(place.key, [])
        for v in versions:
            if v.keys == keys:
                return v
        for v in versions:
            if v.keys.keys() == keys.keys():
                wider = {at: joined(v.keys[at], key) for at, key in keys.items()}
                if None in wider.values():
                    continue
                if wider == v.keys:  # it takes these too
                    return v
                keys = wider
        for v in versions:
            if v.keys == keys:
                return v
        if len(versions) >= LIMITS.typed_versions:
            changing = [at[1] for at in keys if len({repr(v.keys.get(at)) for v in versions}) > 1]
            names = ", ".join(n for n in changing if not n.startswith("."))
            raise self.refuse(f"names change their types too often: {names or 'of its values'}")
        self.made.blocks.append(Block())
        found = Version(len(self.made.blocks) - 1, place, keys)
        versions.append(found)
        self._waiting.append(found)
        return found

    def _merge(self) -> None:
        """Leave out versions of parts that are covered by wider ones.

        Where a name is Python's number at first and NumPy's later, the part of a loop for the
        first alone was written before the other was known. Slices that leave it in different
        rounds could not go side by side.
        """
        blocks = self.made.blocks
        if any(x.op == "catch" for b in blocks for x in b.instructions):
            return  # who handles exceptions gains by knowing whose numbers these are
        into = list(range(len(blocks)))
        for versions in self._versions.values():
            if versions[0].place.part == HUB:
                continue
            for k, narrow in enumerate(versions):
                for wide in versions[k + 1 :]:
                    if _covers(wide.keys, narrow.keys):
                        into[narrow.index] = wide.index
        for b in blocks:
            b.targets = tuple(into[t] for t in b.targets)
        self.made.keep_reachable()

    def _begin(self, index: int, keys: dict[tuple[int, str], Any]) -> None:
        """Begin a block with the values that others have left."""
        self._block = self.made.blocks[index]
        self._held = {}
        self.state = State(keys, self._loaded)

    def _loaded(self, at: At, key: Any) -> Abstract:
        """A value that others have left."""
        return built(key, self._loads(at, key))

    def _loads(self, at: tuple[int, str], key: Any) -> Any:
        for k, kind in enumerate(types_of(key)):
            slot = Slot(f"{at[1]}.{at[0]}.{k}", kind)
            register = self.op("load", kind, what=slot)
            self._held[slot] = register
            yield register

    def _go(self, place: Place) -> None:
        """End this block: it goes on there."""
        index = self._to(place)
        self.do("jump")
        self._block.targets = (index,)

    def _leaves(self, why: str, raises: type | None, speaks: bool = False) -> None:
        """End this block: an exception is raised, or the slice is left to the function."""
        handler = None if raises is None else self._handler(speaks)
        if handler is None:
            self.do("leave", what=self.mark_number(why))
            return
        index = self._raised(handler, raises)
        self.do("jump")
        self._block.targets = (index,)


_GIVEN = frozenset("float64 float32 int64 int32".split())
"""Dtypes of numbers that are given, as `snapshots.number_kind` has them."""


def results_dtype(dtype: str) -> str:
    """The dtype of results while they are computed: texts are numbers."""
    return "int64" if dtype in (TEXT, LETTERS) else dtype


def _covers(wide: dict[Any, Any], narrow: dict[Any, Any]) -> bool:
    """Whether types `narrow` can continue as `wide`."""
    return wide.keys() == narrow.keys() and all(
        joined(wide[at], key) == wide[at] for at, key in narrow.items()
    )


def types_of(key: Any) -> list[Type]:
    """The types of the registers that a key stands for, in their order."""
    kind, *parts = key
    if kind is Num:
        return [parts[0]]
    if kind is Arr:
        return [parts[0]]
    if kind is Lst:
        return ["list"]
    if kind is Text:
        return ["int64"]
    if kind is Known or kind is None:
        return []
    return [t for p in parts for t in types_of(p)]
