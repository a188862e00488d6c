"""A Python function as a typed function: types are followed from where it begins, part by part.

A part is written once for each set of types that its names may have there: so a name that is an
integer at first and a float later has two parts of a loop, not one type that is neither. Functions
of the user's that it calls are written where they are called.
"""

from __future__ import annotations

import contextlib
import types
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ....errors import TraceError
from ....functions.guards import Guards, argument
from ....ir.typed import Array, Literal, TypedFunction
from ....ir.typed.counters import unchecked
from ....ir.typed.ending import asked_once, counted_before
from ....ir.typed.function import COUNTED, COUNTED_OF_OURS, Type
from ....ir.typed.ranges import decided
from ....ir.typed.repeated import done_once
from ....ir.typed.sooner import asked_sooner
from ....library.of_cupy import SHORT
from ....limits import LIMITS
from . import (
    exceptions,
    iterators,
    numbers,
    objects,
    places,
    recursion,
    results,
)
from .calls import LIBRARY, SOLVERS, mixed, of_device
from .each_step import STEPS
from .frames import HUB, RESULT, Caller, Code, Place, Version, calls_itself
from .kinds import fetched, letters, texts
from .reading.find import tree_of
from .reading.flow import Const, Flow, Step, flow_of
from .recursion import SharedCalls
from .values import (
    DEVICE,
    FRESH,
    HOST,
    LETTERS,
    NUMPY,
    OF_SLICE,
    PYTHON,
    Abstract,
    Arr,
    Expected,
    Function,
    Inlined,
    Known,
    Leaves,
    Num,
    OnDevice,
    Tup,
)

_flows: weakref.WeakKeyDictionary[types.CodeType, Flow] = weakref.WeakKeyDictionary()


class Input(NamedTuple):
    """A stand-in for an argument: a slice, or an element as a Python number."""

    k: int
    as_python: bool = False
    infinite: float = 0.0
    """The infinity that the first slice has here; slices with another value are left."""
    length: int = 0
    """That of all slices; 0: they may have several."""


def typed(
    f: Any,
    arguments: Sequence[Abstract],
    named: Mapping[str, Abstract],
    inputs: Sequence[Type],
    expected: Sequence[Expected] | None,
    watch: Guards,
    element: str = NUMPY,
) -> TypedFunction:
    """The typed function of a Python function.

    Parameters
    ----------
    f : callable
        Of slices.
    arguments, named : sequence, mapping
        What it is called with; an `Input` stands for a slice.
    inputs : sequence of Array or dtype
        The slices.
    expected : sequence of Expected, Guess or None
        The results of the first slice; a `Guess` is filled with those that the source tells. None:
        it is only looked at whether the function is compiled, and does nothing else.
    watch : Guards
        What it reaches is looked at from now on.
    element : str
        Whose number an element of a slice is: `NUMPY`, `DEVICE`, or `HOST`.

    Raises
    ------
    TraceError
        If it does something that is not compiled, with the line.
    """
    try:
        return _settled(Typer(f, inputs, expected, watch, element), arguments, named) or Typer(
            f, inputs, expected, watch, element, settles=False
        ).run(arguments, named)
    except fetched.Fetches:
        return typed(f, arguments, named, inputs, expected, watch, HOST)
    except results.PutTogether:
        if not expected or any(e.dtype != texts.TEXT for e in expected):
            raise
    except TraceError:
        of_numbers = any(isinstance(x, Input) and x.as_python for x in arguments)
        if element != DEVICE or not (of_numbers or fetched.may_fetch(f)):
            raise
        with contextlib.suppress(TraceError):  # numbers of Python's, by NumPy's rules
            return typed(f, arguments, named, inputs, expected, watch, HOST)
        raise
    expected = [e._replace(dtype=LETTERS, shape=(*e.shape, e.width)) for e in expected]
    made = Typer(f, inputs, expected, watch, element).run(arguments, named)
    made.spells = True
    return made


def _settled(
    typer: Typer, arguments: Sequence[Abstract], named: Mapping[str, Abstract]
) -> TypedFunction | None:
    """The typed function; None: the origin of some floats (Python or NumPy) matters after all."""
    try:
        made = typer.run(arguments, named)
    except fetched.ReadAnew:
        raise
    except TraceError:
        if not typer.settled:
            raise
        return None
    found = [x.result.type for b in made.blocks for x in b.instructions if x.result is not None]
    short = any(str(getattr(kind, "dtype", kind)) in ("float16", "float32") for kind in found)
    return None if short and typer.settled else made


def _int(n: int) -> Literal:
    return Literal(n, "int64")


class Typer(SharedCalls):
    """Writes one typed function."""

    def __init__(
        self,
        f: Any,
        inputs: Sequence[Type],
        expected: Sequence[Expected] | None,
        watch: Guards,
        element: str = NUMPY,
        *,
        settles: bool = True,
    ) -> None:
        name = getattr(f, "__name__", None) or type(f).__name__
        super().__init__(name, inputs, expected, watch, element)
        self.settles = self.settles and settles
        self._f = f
        self._kept: list[Any] = []

    # --- blocks ---------------------------------------------------------------------------

    def run(self, arguments: Sequence[Abstract], named: Mapping[str, Abstract]) -> TypedFunction:
        """Write all blocks."""
        self.made.blocks.append(self._block)
        given = [self._argument(x, k) for k, x in enumerate(arguments)]
        by_name = {name: self._argument(x, name) for name, x in named.items()}
        found = objects.callee(self, Known(self._f), given, by_name)
        if not isinstance(found, Inlined):
            raise self.refuse("it is no function of Python's")
        code = self._code(found.function)
        self.place = Place((), code, 0, 0)
        self._bind(code, 0, found)
        self._write_all(self.place)
        if self.made.functions:  # few have any
            from ....ir.typed import written_out

            self.made = written_out.written_out(self.made) if self.on_device else self.made
            written_out.seldom_run(self.made)
        for made in (self.made, *self.made.functions):
            unchecked(made)
            asked_once(made)
            if self.expected is not None and not self.on_device:
                asked_sooner(made)  # no thread of a GPU guesses, and LLVM sees less through it
        if self.expected is not None:
            # what LLVM sees itself takes half the time of a short function here
            if not (self._goes_through_few and self.made.is_written_out):
                decided(self.made)
            if not self.on_device:  # LLVM's own passes see most of that for a GPU
                asked_sooner(self.made)  # what is left
                done_once(self.made)
                if any(x.op == "rem" for x in self.made.instructions):
                    from ....ir.typed.quotients import rounded_down

                    rounded_down(self.made)
        if self.on_device:
            from ....ir.typed.margins import with_margins
            from ....ir.typed.positive import undivided

            counted_before(self.made)
            undivided(self.made)
            with_margins(self.made, LIMITS.typed_margin)
        return self.made

    @property
    def _goes_through_few(self) -> bool:
        """Whether a device knows the lengths of all slices, and they are short."""
        arrays = [k for k, kind in enumerate(self.made.inputs) if isinstance(kind, Array)]
        lengths = [self.lengths.get(k, 0) for k in arrays]
        return bool(lengths) and all(0 < n <= SHORT for n in lengths)

    def _write_all(self, place: Place) -> None:
        """Write what begins at a place, which is gone to, and all that comes of it."""
        self._go(place)
        while self._waiting:
            self._write(self._waiting.pop())
            while not self._waiting and self._resumed():
                pass
            if self.count_of_blocks > LIMITS.typed_blocks:
                raise self.refuse("its names have too many types on too many ways")
        self._end_recursion()
        self._merge()

    def _another(self) -> Typer:
        """A writer of a function that this one calls."""
        found = Typer(
            self._f, (), self.expected, self.watch, HOST if self.fetches else self.element
        )
        found._kept, found._defined = self._kept, self._defined
        found.cached = self.cached
        return found

    def _argument(self, x: Abstract, name: int | str) -> Abstract:
        if not isinstance(x, Input):
            return objects.known(self, x, argument(name))
        kind = self.made.inputs[x.k]
        value = self.op("input", kind, what=x.k)
        if isinstance(kind, Array):
            found = Arr(kind, OF_SLICE, value)
            if self.fetches:
                return OnDevice(found)
            if x.length:
                self.lengths[x.k] = x.length
                unlike = self.op("ne", "bool", places.length(self, found), _int(x.length))
                self.mark(unlike, "slices of another length")
            return found._replace(most=x.length)
        if x.infinite:
            self.mark(
                self.op("ne", "bool", value, Literal(x.infinite, kind)),
                "a number that is infinite for the first slice",
            )
            return Num(kind, NUMPY, Literal(x.infinite, kind))
        if not x.as_python:
            return Num(kind, NUMPY, value)
        dtype = numbers.OF_PYTHON.get(numbers.kind_of(kind), "int64")
        self.of_numbers, self.made.flushes = True, False
        return Num(dtype, PYTHON, numbers.cast(self, value, dtype))

    def _code(self, f: types.FunctionType) -> Code:
        found = _flows.get(f.__code__)
        if found is None:
            found = _flows[f.__code__] = flow_of(tree_of(f))
        self._kept.append(f)
        return Code(found, f)

    def _flow_of(self, f: Abstract) -> Flow | None:
        """The parts of a function that was read, if a value is one."""
        if isinstance(f, Function):
            return self._defined[f.number][0]
        own = f.value if isinstance(f, Known) else None
        is_one = isinstance(own, types.FunctionType | types.MethodType)
        code = getattr(own, "__code__", None) if is_one else None
        return None if code is None else _flows.get(code)

    def _code_of(self, f: Any) -> Code:
        """The code of a function, also of one that is defined here."""
        if not isinstance(f, Function):
            return self._code(f)
        flow, _, function = self._defined[f.number]
        return Code(flow, function, f.depth)

    def count_of_parameters(self, f: Abstract, exactly: bool = False) -> int:
        """The number of positional parameters; 0: unknown.

        `exactly`: it takes neither fewer nor more arguments.
        """
        bound = 0
        if isinstance(f, Known):
            found, bound = f.value, int(isinstance(f.value, types.MethodType))
            found = found.__func__ if bound else found
            if not isinstance(found, types.FunctionType):
                return 0
        elif isinstance(f, Function):
            found = f
        else:
            return 0
        a = self._code_of(found).flow.parameters
        if exactly and (a.defaults or a.vararg or a.kwonlyargs):
            return 0
        return len(a.posonlyargs) + len(a.args) - bound

    def function(self, inner: Const, defaults: Any, named: Any) -> Function:
        """A function that is defined here."""
        flow, names = inner.value
        known = flow, names, self.place.code.function
        at = [k for k, x in enumerate(self._defined) if x[0] is flow and x[2] is known[2]]
        if not at:
            self._defined.append(known)
        number = at[0] if at else len(self._defined) - 1
        return Function(number, len(self.place.callers), self.value(defaults), self.value(named))

    def _outer(self, level: int) -> int:
        """The depth of the function that has defined this one, or the one around that."""
        code = self.place.code
        for _ in range(level - 1):
            code = self.place.callers[code.outer].code
        return code.outer

    def outer(self, level: int, name: str) -> Abstract:
        """The value of a name of a function around this one."""
        found = self.state.get((self._outer(level), name))
        if found is None:
            raise Leaves(f"the name {name} has no value", NameError)
        if isinstance(found, Num) and found.kind == FRESH:
            found = self.state[self._outer(level), name] = found._replace(kind=DEVICE)
        return found

    def iterator(self, x: Any, calm: bool) -> Abstract:
        """The iterator of a loop; calm if the body changes nothing of it."""
        found = iterators.gone_through(self, self.value(x), calm or self._is_ours)
        if self.on_device and not iterators.is_fixed(found):
            if iterators.is_counted(found) and not self._has_few_rounds:
                self.count_round(iterators.most_rounds(self, found))
        return found

    def set_outer(self, level: int, name: str, value: Abstract) -> None:
        """Give a name of a function around this one a value."""
        depth = self._outer(level)
        self._stays(value, depth)
        self.state[depth, name] = iterators.kept(self, value)

    def _stays(self, value: Abstract, depth: int) -> None:
        """Refuse a function that is defined deeper: its names are gone where it goes."""
        if isinstance(value, Function) and value.depth > depth:
            raise self.refuse("a function that outlives the one that defines it")
        if isinstance(value, (Tup, Function)):
            for x in value:
                if type(x) is tuple:
                    for y in x:
                        self._stays(y, depth)

    def _write(self, version: Version) -> None:
        if version.place.part == HUB:
            self._group(version.place).hubs.append(version)
            return
        self._begin(version.index, version.keys)
        self._go_on(version.place)
        read = {a for x in self._block.instructions for a in x.args}
        self._block.instructions = [
            x for x in self._block.instructions if x.op != "load" or x.result in read
        ]

    def _go_on(self, place: Place) -> None:
        """Write the steps from a place to the end of its part."""
        steps = place.code.flow.parts[place.part].steps
        is_ours = place.code.is_of(LIBRARY)
        self.solves = is_ours and place.code.function.__module__ in SOLVERS
        if is_ours:
            self.line = place.line_of_call(LIBRARY) or self.line
        for k in range(place.step, len(steps)):
            step = steps[k]
            if step.line and not is_ours:  # reasons are about lines of the user's
                self.line = step.line
            self.place, self._step = place._replace(step=k), k
            if at := mixed.found_in(step, self.state, self.place):
                self._part_by(at)
                return
            try:
                if not self._take(step):
                    return
            except Leaves as leaves:
                speaks = step.kind == "raise" and place.code.function.__module__ in SOLVERS
                speaks = speaks and leaves.raises is not NotImplementedError
                self._leaves(leaves.why, leaves.raises, speaks)
                return
            except TraceError as error:
                if "(line " in str(error) or isinstance(error, fetched.ReadAnew):
                    raise
                raise self.refuse(str(error)) from None

    def _part_by(self, at: tuple[int, str]) -> None:
        """Go on in two parts: where a number is an integer, and where it is a float."""
        number = self.state[at]
        targets = []
        for self.state[at] in (number.as_int, number.as_float):
            targets.append(self._to(self.place))
        self.made.decides = True
        self.do("branch", number.is_int.value)
        self._block.targets = tuple(targets)

    # --- steps ----------------------------------------------------------------------------

    def free(self, name: str) -> Abstract:
        """The value of a name, which a function reads that it does not belong to."""
        if (len(self.place.callers), name) not in self.state:
            raise Leaves(f"the name {name} has no value", NameError)
        return self.value(name)

    def _take(self, step: Step) -> bool:
        """Write a step; whether the next one follows."""
        kind, result, args, _ = step
        if self.element == DEVICE:
            of_device.note_holders(self, step, self._step)
        end = _ENDS.get(kind)
        if end is not None:
            end(self, step)
            return False
        if kind == "call":
            return self._call(step)
        found = STEPS[kind](self, *args)
        if isinstance(found, Inlined):  # a function of ours does it
            return self._inline(result, found)
        self.put(result, found)
        return True

    def _place(self, part: int) -> Place:
        return self.place._replace(part=part, step=0)

    def _jump(self, step: Step) -> None:
        self._go(self._place(self._targets[0]))

    @property
    def _targets(self) -> tuple[int, ...]:
        return self.place.code.flow.parts[self.place.part].targets

    def _branch(self, step: Step) -> None:
        condition = places.truth(self, self.value(step.args[0]))
        yes, no = self._targets
        if isinstance(condition, Literal):
            self._go(self._place(yes if condition.value else no))
            return
        self.made.decides = True
        targets = self._to(self._place(yes)), self._to(self._place(no))
        self.do("branch", condition)
        self._block.targets = targets

    def _more(self, step: Step) -> None:
        iterator = self.value(step.args[0])
        self.made.walks |= not iterators.is_fixed(iterator)
        counted: str | None = None
        if iterators.is_counted(iterator):  # and they were when it began
            if self._has_few_rounds:
                counted = COUNTED_OF_OURS
            elif not self._is_ours and not iterators.is_long(iterator):
                counted = COUNTED
        elif self.on_device and not iterators.is_fixed(iterator):
            self.count_round()
        condition = iterators.has_more(self, iterator)
        yes, no = self._targets
        if isinstance(condition, Literal):
            self._go(self._place(yes if condition.value else no))
            return
        targets = self._to(self._place(yes)), self._to(self._place(no))
        self.do("branch", condition, what=counted)
        self._block.targets = targets

    def _leave(self, step: Step) -> None:
        raise Leaves(step.args[0])

    def _raise(self, step: Step) -> None:
        raised = exceptions.raised(self, self.value(step.args[0]))
        if raised is NotImplementedError and self.place.code.function.__module__ in SOLVERS:
            raise Leaves("SciPy warns, or goes on in a way that is not compiled", raised)
        raise Leaves(f"it raises {raised.__name__}", raised)

    def _return(self, step: Step) -> None:
        value = self.value(step.args[0])
        if not self.place.callers:
            results.returned(self, value)
            self.do("return")
            return
        if id(self.place.code.function) in self.cached:
            kept = value.items if isinstance(value, Tup) and not value.is_list else (value,)
            if not all(isinstance(x, (Num, Known)) or letters.is_any(x) for x in kept):
                raise self.refuse("a function with a cache gives what may be written into")
        self._stays(value, len(self.place.callers) - 1)
        if calls_itself(self.place.code):
            self.state[len(self.place.callers), RESULT] = value
            self._go(self.place._replace(part=HUB, step=0))
            return
        self._returned(self.place.callers, value)

    def _returned(self, all_callers: tuple[Caller, ...], value: Abstract) -> None:
        """Go on in the caller, with a result."""
        if len(all_callers) == self._base:
            self._give(value)
            return
        *callers, last = all_callers
        depth = len(callers)
        if last.result is not None:
            self.state[depth, last.result] = value
        self._go(Place(tuple(callers), last.code, last.part, last.step))

    def _call(self, step: Step) -> bool:
        (names, spread), called, *given = step.args
        called = self.value(called)
        values = [self.value(x) for x in given]
        count = len(values) - len(names)
        args: list[Abstract] = []
        for k, x in enumerate(values[:count]):
            if k not in spread:
                args.append(x)
            elif isinstance(x, Tup):
                args += x.items
            else:
                whole = 0 if names or len(spread) > 1 else self.count_of_parameters(called, True)
                args += iterators.spread(self, x, whole - count + 1)
        by_name: dict[str, Abstract] = {}
        for name, x in zip(names, values[count:], strict=True):
            given_ = {name: x} if name is not None else objects.keywords(self, x)
            if not by_name.keys().isdisjoint(given_):
                raise Leaves("an argument that is given twice", TypeError)
            by_name |= given_
        return self.call(step.result, called, args, by_name)

    def call(
        self,
        result: str | None,
        called: Abstract,
        args: list[Abstract],
        kwargs: dict[str, Abstract],
    ) -> bool:
        """Call something; whether the next step follows here."""
        found = objects.callee(self, called, args, kwargs)
        if not isinstance(found, Inlined):
            self.put(result, found)
            return True
        return self._inline(result, found)

    def _inline(self, result: str | None, found: Inlined) -> bool:
        """Write a function where it is called."""
        callers = self.place.callers
        if len(callers) >= LIMITS.typed_depth:
            raise self.refuse("functions call each other too deeply")
        code = self._code_of(found.function)
        inside = [*(c.code.key for c in callers), self.place.code.key]
        if code.key == inside[-1] or (code.key in inside and not code.is_of(LIBRARY)):
            self._recurse(result, found, len(inside) - 1 - inside[::-1].index(code.key))
            return False
        here = Caller(self.place.code, self.place.part, self.place.step + 1, result)
        inner = Place((*callers, here), code, 0, 0)
        depth = len(callers) + 1
        for at in [at for at in self.state if at[0] >= depth]:
            del self.state[at]
        self._bind(code, depth, found)
        if self._run(result, inner):
            return True
        if calls_itself(code):
            self._push(recursion.of_site(0))
        self._go(inner)
        return False


_ENDS: dict[str, Callable[[Typer, Step], None]] = {
    "jump": Typer._jump,
    "branch": Typer._branch,
    "more": Typer._more,
    "leave": Typer._leave,
    "raise": Typer._raise,
    "return": Typer._return,
}

__all__ = ["Expected", "Input", "Leaves", "Typer", "typed"]
