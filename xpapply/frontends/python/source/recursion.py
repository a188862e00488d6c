"""Functions that are not written where they are called.

Those that call themselves: a stack keeps what they still need, and where they go on. A call of
itself puts the values of the function's names and the number of the place on the stack and begins
again; a return takes the number off it, and goes on there.

Long ones that several places call with values of the same types: they are written once, as
functions that the typed function runs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ....ir.typed import Array, Block, Literal, Register, Slot, TypedFunction
from ....ir.typed.function import Value
from ....limits import LIMITS
from . import iterators, objects
from .blocks import Blocks, types_of
from .calls import LIBRARY
from .frames import ERRORS, RESULT, Caller, Code, Place, calls_itself
from .keys import built, joined, taken_apart
from .reading.steps import Const, Flow, Step
from .values import (
    NOTHING_SAID,
    NUMPY,
    Abstract,
    Arr,
    Function,
    Inlined,
    Keywords,
    Known,
    Leaves,
    Lst,
    Mixed,
    Num,
    Text,
    Tup,
)

STACK = Slot(".stack", "list")
DEPTH = 200
"""Calls of itself; deeper ones are left to Python, which has a limit of its own."""


class Site(NamedTuple):
    """A call site of a function that calls itself.

    Attributes
    ----------
    number : int
        What stands on the stack; 0: the caller goes on.
    place : Place or None
        Where.
    result : str or None
        The name that gets the result.
    keys : tuple
        What is kept on the stack: names, and the keys of their values.
    """

    number: int
    place: Any = None
    result: str | None = None
    keys: tuple[tuple[Any, Any], ...] = ()


@dataclass(slots=True)
class Group:
    """All places where one function goes on, and the blocks to which it returns."""

    sites: list[Site] = field(default_factory=lambda: [Site(0)])
    hubs: list[Any] = field(default_factory=list)
    blocks: dict[tuple[int, int], int] = field(default_factory=dict)

    def pairs(self) -> Iterator[tuple[Any, Site]]:
        """Pairs of a hub and a site that have no block yet."""
        for hub in self.hubs:
            for site in self.sites:
                if (hub.index, site.number) not in self.blocks:
                    yield hub, site


def lists(key: Any) -> Iterator[tuple[Any, str, int]]:
    """The lists in a key: what they are of, whose numbers, and where they were made."""
    if type(key) is tuple:
        if key[:1] == (Lst,):
            yield key[1:4]
        else:
            for k in key:
                yield from lists(k)


def words(kinds: list[Any]) -> int:
    """The number of 64-bit words that values take on the stack."""
    return sum(1 + 2 * k.ndim if isinstance(k, Array) else 1 for k in kinds)


def of_site(n: int) -> Literal:
    """The number of a place, as it stands on the stack."""
    return Literal(n, "int64")


class RecursiveCalls(Blocks, ABC):
    """Writes calls of functions within themselves, and where their returns go on."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._groups: dict[Any, Group] = {}

    @abstractmethod
    def _bind(self, code: Code, depth: int, call: Inlined) -> None:
        """Give the parameters of a function their values."""

    @abstractmethod
    def _returned(self, all_callers: tuple[Caller, ...], value: Abstract) -> None:
        """Go on in the caller, with a result."""

    def _group(self, place: Place) -> Group:
        key = place._replace(part=0, step=0).key
        return self._groups.setdefault(key, Group())

    def _stack(self) -> Register:
        return self.op("load", "list", what=STACK)

    def _push(self, *values: Value) -> None:
        stack, memory = self._stack(), self.mark_number("its recursion needs much memory")
        for v in values:
            self.do("push", stack, v, what=memory)

    def _recurse(self, result: str | None, call: Inlined, depth: int) -> None:
        """Begin a function again that is written now, or has called what is, so deep."""
        callers, code = self.place.callers[:depth], self.place.code_at(depth)
        if not callers or not calls_itself(code):
            raise self.refuse(f"{code.flow.name} calls itself")
        self.made.walks = True
        after = self.place._replace(step=self.place.step + 1)
        own = len(self.place.callers), result
        registers: list[Value] = []
        keys: list[tuple[Any, Any]] = []
        for at in self._live(after):
            if at[0] >= depth and at not in (own, ERRORS) and at in self.state:
                keys.append((at, taken_apart(self.state[at], registers)))
        if any(not isinstance(dtype, str) for dtype, *_ in lists(tuple(keys))):
            raise self.refuse("a list of lists in a function that calls itself")
        group = self._group(Place(callers, code, 0, 0))
        wanted = Site(0, after, result, tuple(keys))
        same = [
            s
            for s in group.sites[1:]
            if (s.place.key, s.result, s.keys) == (after.key, result, wanted.keys)
        ]
        if not same:
            same = [wanted._replace(number=len(group.sites))]
            group.sites += same
        if len(group.sites) > LIMITS.typed_versions:
            raise self.refuse(f"{code.flow.name} calls itself in too many ways")
        most = DEPTH * (1 + words([r.type for r in registers]))
        far = self.op("list length", "int64", self._stack())
        self.do("round", what=self.mark_number("a loop of very many rounds"))
        self.mark(self.op("ge", "bool", far, Literal(most, "int64")), "a deep recursion")
        for at in [at for at in self.state if at[0] >= depth and at != ERRORS]:
            del self.state[at]
        self._bind(code, depth, call)
        self._push(*registers, of_site(same[0].number))
        self._go(Place(callers, code, 0, 0))

    def _resumed(self) -> bool:
        """Write a block where a function goes on after a call of itself; whether there was one."""
        found = [(g, *p) for g in self._groups.values() for p in g.pairs()][:1]
        for group, hub, site in found:
            self.made.blocks.append(Block())
            index = group.blocks[hub.index, site.number] = len(self.made.blocks) - 1
            self._begin(index, hub.keys)
            callers = hub.place.callers
            value = self.state.pop((len(callers), RESULT))
            if site.number == 0:
                self._returned(callers, value)
                continue
            stack = self._stack()
            kinds = [k for _, key in site.keys for k in types_of(key)]
            pulled = [self.op("pull", k, stack) for k in reversed(kinds)][::-1]
            values = iter(pulled)
            for at, key in site.keys:
                self.state[at] = built(key, values)
            if site.result is not None:
                self.state[len(site.place.callers), site.result] = value
            self._go(site.place)
        return bool(found)

    def _end_recursion(self) -> None:
        """Write where returns of functions go on that call themselves."""
        if not self._groups:
            return
        self.line = 0
        kept = {
            (site, dtype, kind)
            for g in self._groups.values()
            for s in g.sites
            for dtype, kind, site in lists(s.keys)
        }
        if kept & self._retyped:  # the types on the stack would be unknown
            raise self.refuse("a list gets its type while a function calls itself")
        memory = self.mark_number("its recursion needs much memory")
        self._block = Block()
        self.do("store", self.op("new list", "list", what=memory), what=STACK)
        self.made.blocks[0].instructions[:0] = self._block.instructions
        for group in self._groups.values():
            for hub in group.hubs:
                self._block = self.made.blocks[hub.index]
                number = self.op("pull", "int64", self._stack())
                ends = [(s.number, group.blocks[hub.index, s.number]) for s in group.sites]
                for n, target in ends[:-1]:
                    slot = Slot(".site", "int64")
                    self.do("store", number, what=slot)
                    same = self.op("eq", "bool", number, of_site(n))
                    self.do("branch", same)
                    self.made.blocks.append(Block())
                    self._block.targets = (target, len(self.made.blocks) - 1)
                    self._block = self.made.blocks[-1]
                    number = self.op("load", "int64", what=slot)
                self.do("jump")
                self._block.targets = (ends[-1][1],)


@dataclass(slots=True)
class _Shared:
    """A function, as it is called with values of some types.

    Attributes
    ----------
    what : object
        Which function, the types of what it reads, and those of it that the source says.
    number : int or None
        Which of the typed function's it is; None: it is written where it is called.
    result : object
        The key of what it gives.
    """

    what: Any
    number: int | None = None
    result: Any = None


class _NotAlone(Exception):
    """A function cannot be one of its own."""


class SharedCalls(RecursiveCalls, ABC):
    """Writes functions that several places call."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._defined: list[tuple[Flow, tuple[str, ...], Any]] = []
        self._shared: list[_Shared] = []
        self._functions = self.made.functions
        self._base = -1  # how deep the function lies that is written as one of its own
        self._gives: list[Any] = []  # keys of what it gives

    @abstractmethod
    def _another(self) -> Any:
        """A writer of a function that this one calls."""

    @abstractmethod
    def _write_all(self, place: Place) -> None:
        """Write what begins at a place, and all that comes of it."""

    @abstractmethod
    def _flow_of(self, f: Abstract) -> Flow | None:
        """The parts of a function that was read, if a value is one."""

    def _bind(self, code: Code, depth: int, call: Inlined) -> None:
        """Give the parameters of a function their values."""
        if not code.is_of(LIBRARY):
            kept = [iterators.kept(self, x) for x in call.args]
            named = {name: iterators.kept(self, x) for name, x in call.kwargs.items()}
            call = call._replace(args=kept, kwargs=named)
        parameters = _parameters(code)
        rest, others = code.flow.parameters.vararg, code.flow.parameters.kwarg
        count = len(code.flow.parameters.posonlyargs + code.flow.parameters.args)
        if len(call.args) > count and rest is None:
            raise Leaves("a call with too many arguments", TypeError)
        if rest is not None:
            self.state[depth, rest.arg] = Tup(tuple(call.args[count:]))
        for name, value in zip(parameters, call.args[:count], strict=False):
            self.state[depth, name] = value
        by_position = {x.arg for x in code.flow.parameters.posonlyargs}
        more = {k: x for k, x in call.kwargs.items() if k not in parameters} if others else {}
        if others is not None:
            if not by_position.isdisjoint(call.kwargs):
                raise self.refuse("a name that is in ** and before /")
            self.state[depth, others.arg] = Keywords((*more,), (*more.values(),))
        for name, value in call.kwargs.items():
            if name in more:
                continue
            if name not in parameters or name in by_position or (depth, name) in self.state:
                raise Leaves("a call with wrong arguments", TypeError)
            self.state[depth, name] = value
        for name, value in self._defaults(code, call.function).items():
            if (depth, name) not in self.state:
                self.state[depth, name] = value
        for name in parameters:
            if (depth, name) not in self.state:
                raise Leaves(f"{code.flow.name} is called without {name}", TypeError)

    def _defaults(self, code: Code, f: Any) -> dict[str, Abstract]:
        """The values of parameters that are not given."""
        a = code.flow.parameters
        positional = [x.arg for x in (*a.posonlyargs, *a.args)]
        if isinstance(f, Function):
            last = positional[len(positional) - len(f.defaults) :]
            names = self._defined[f.number][1]
            return dict(zip(last, f.defaults, strict=True)) | dict(zip(names, f.named, strict=True))
        if not (f.__module__ or "").startswith(LIBRARY):
            self.watch.function(f, gives=True)
        at, defaults = self.watch.at(f, "attribute", "__defaults__"), f.__defaults__ or ()
        values = [objects.known(self, x, at, (k,)) for k, x in enumerate(defaults)]
        found = dict(zip(positional[len(positional) - len(defaults) :], values, strict=True))
        return found | objects.of_dict(self, f, "__kwdefaults__", f.__kwdefaults__ or {})

    @abstractmethod
    def count_of_parameters(self, f: Abstract) -> int:
        """The number of positional parameters; 0: unknown."""

    def value(self, x: Any) -> Abstract:
        """The value of an operand."""
        if isinstance(x, Const):
            return objects.known(self, x.value)
        if type(x) is tuple:
            return tuple(map(self.value, x))
        found = self.state.get((len(self.place.callers), x))
        if found is None:
            raise Leaves(f"the name {x} has no value", UnboundLocalError)
        return found

    def put(self, name: str | None, value: Abstract) -> None:
        """Give a name a value."""
        if name is not None:
            self.state[len(self.place.callers), name] = value

    @property
    def count_of_blocks(self) -> int:
        """The number of blocks so far."""
        return len(self.made.blocks) + sum(len(f.blocks) for f in self._functions)

    def _run(self, result: str | None, place: Place) -> bool:
        """Run a function that is called, whose parameters have values, if it is one of its own."""
        code, depth = place.code, len(place.callers)
        read = self._read_by(code, depth)
        if read is None or not self._is_worth(code, read.values()):
            return False
        registers: list[Value] = []
        keys = [(at, taken_apart(read[at], registers)) for at in sorted(read)]
        if not all(_is_plain(key) for _, key in keys):
            return False
        said = [(n, x) for n, x in enumerate(registers) if isinstance(x, Literal)]
        frames = max((d for d, _ in read if d < depth), default=-1) + 1
        around = [c.code.key for c in place.callers[:frames]]
        line = self.line if code.is_of(LIBRARY) else 0
        types = [((d if d < depth else -1, name), key) for (d, name), key in keys]
        what = code.key, types, said, around, line
        found = next((s for s in self._shared if s.what == what), None)
        if found is None:
            found = _Shared(what)
            self._shared.append(found)
            if _calls(self.place.code.flow, self.place.part, self._step) < 2:
                return False
            self._write_function(found, place, keys, registers)
        elif found.number is None and found.result is None:
            self._write_function(found, place, keys, registers)
        if found.number is None:
            return False
        for at in [at for at in self.state if at[0] >= depth]:
            del self.state[at]
        self.do("run", *(x for x in registers if isinstance(x, Register)), what=found.number)
        kinds = types_of(found.result)
        given = [self.op("given", kind, what=n) for n, kind in enumerate(kinds)]
        if result is not None:
            self.state[depth - 1, result] = built(found.result, iter(given))
        return True

    def _is_worth(self, code: Code, read: Iterable[Abstract]) -> bool:
        """Whether a function may be written once as a function of its own, and is long enough."""
        p = self.place
        frames = [(p.code, p.part), *((c.code, c.part) for c in p.callers)]
        if self.element != NUMPY or self.errors != NOTHING_SAID or calls_itself(code):
            return False
        if any(c.flow.parts[part].handler is not None for c, part in frames):
            if not code.is_of(LIBRARY):  # what it raises may be handled
                return False
        flows = [code.flow, *filter(None, map(self._flow_of, read))]
        return sum(len(part.steps) for f in flows for part in f.parts) >= LIMITS.typed_shared

    def _handler(self, speaks: bool = False) -> Place | None:
        """The handler of an exception raised here, within the function's own frames."""
        found = super()._handler(speaks)
        if found is not None and len(found.callers) < self._base:
            raise _NotAlone
        return found

    def _read_by(self, code: Code, depth: int) -> dict[tuple[int, str], Abstract] | None:
        """Values that a function reads: parameters, and variables of enclosing functions.

        None: it may write to such names.
        """
        found = {at: self.state[at] for at in self.state if at[0] == depth}
        waiting = [(code.flow, code.outer)] if code.outer >= 0 else []
        waiting += self._defined_in(found.values())
        seen: set[tuple[int, int]] = set()
        while waiting:
            flow, outer = waiting.pop()
            if (id(flow), outer) in seen:
                continue
            seen.add((id(flow), outer))
            for level, name in _names_around(flow):
                if level == 0:
                    return None
                d = outer
                for _ in range(level - 1):
                    d = self.place.code_at(d).outer
                if (d, name) in self.state and (d, name) not in found:
                    found[d, name] = self.state[d, name]
                    waiting += self._defined_in([self.state[d, name]])
        return found

    def _defined_in(self, values: Iterable[Abstract]) -> list[tuple[Flow, int]]:
        """The functions in values that are defined in others, and how deep these are."""
        found = []
        for x in values:
            if isinstance(x, Function):
                flow = self._flow_of(x)
                assert flow is not None
                found.append((flow, x.depth))
            if type(x) is tuple or isinstance(x, (Tup, Function)):
                found += self._defined_in(y for y in x if isinstance(y, tuple))
        return found

    def _write_function(
        self, found: _Shared, place: Place, keys: list[Any], registers: list[Value]
    ) -> None:
        """Write a function, if all its returns give values of the same types."""
        inner = self._another()
        made: TypedFunction = inner.made
        made.name = place.code.flow.name
        made.marks, made.constants = self.made.marks, self.made.constants
        made.externals, made.texts = self.made.externals, self.made.texts
        made.sources = self.made.sources
        inner._shared, inner._functions, inner._tables = self._shared, self._functions, self._tables
        made.results = ()
        inner._base, inner.line, inner._step = len(place.callers), self.line, self._step
        made.inputs = tuple(x.type for x in registers if isinstance(x, Register))
        made.blocks.append(inner._block)
        given = iter([inner.op("input", kind, what=n) for n, kind in enumerate(made.inputs)])
        values = iter([x if isinstance(x, Literal) else next(given) for x in registers])
        for at, key in keys:
            inner.state[at] = built(key, values)
        inner.place = place
        found.result = ()  # callers write it there meanwhile
        try:
            inner._write_all(place)
        except _NotAlone:
            return
        for flag in ("decides", "walks", "writes", "rounds"):
            setattr(self.made, flag, getattr(self.made, flag) or getattr(made, flag))
        self._flattens |= inner._flattens
        self._may_not_both()
        if inner._gives:
            made.gives = tuple(types_of(inner._gives[0]))
            found.result, found.number = inner._gives[0], len(self._functions)
            self._functions.append(made)

    def _give(self, value: Abstract) -> None:
        """End a function of its own, with its result."""
        registers: list[Value] = []
        key = taken_apart(value, registers)
        if not _is_plain(key) or self.errors != NOTHING_SAID:
            raise _NotAlone
        if self._gives:
            key = joined(self._gives[0], key)
            if key is None:
                raise _NotAlone
        self._gives = [key]
        self.do("return", *registers)


def _parameters(code: Code) -> list[str]:
    a = code.flow.parameters
    return [x.arg for x in (*a.posonlyargs, *a.args, *a.kwonlyargs)]


_PLAIN = (Num, Arr, Text, Known, Mixed, Tup, Function, tuple)
"""Values that functions of their own are given."""


def _is_plain(key: Any) -> bool:
    """Whether a key has no lists or other mutable values."""
    kind, *parts = key
    if kind in (Num, Arr, Text, Known):
        return True
    if kind is None:
        return parts[0] is None or isinstance(parts[0], (bool, int, str))
    return kind in _PLAIN and all(map(_is_plain, parts))


def _names_around(flow: Flow) -> Iterator[tuple[int, str]]:
    """The names of functions around it that one reads, and how far out; 0: it writes to one."""
    for part in flow.parts:
        for s in part.steps:
            if s.kind in ("outer", "set outer"):
                yield (s.args[0] if s.kind == "outer" else 0), s.args[1]
            elif s.kind == "function":
                for level, name in _names_around(s.args[0].value[0]):
                    if level != 1:  # else it is its own
                        yield max(level - 1, 0), name


def _calls(flow: Flow, part: int, step: int) -> int:
    """The number of places at which a function calls a callee."""
    wanted = _called(flow.parts[part].steps, step)
    count = 0
    for p in flow.parts:
        for n, s in enumerate(p.steps):
            count += s.kind == "call" and _called(p.steps, n) == wanted
    return count


def _called(steps: list[Step], n: int) -> Any:
    """The name of what a step calls."""
    s = steps[n]
    if s.kind != "call":
        return None
    how = next((x for x in steps[:n] if x.result == s.args[1]), None)
    return s.args[1] if how is None or how.kind not in _NAMED else (how.kind, *how.args)


_NAMED = ("global", "outer")
