"""Abstract values: types, and the registers that hold them."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from ....errors import TraceError
from ....functions.guards import Guards, Where
from ....ir.typed import Array, Literal, Register, TypedFunction
from ....ir.typed.function import Type, Value

PYTHON, NUMPY, EITHER, NO_AXES = "python", "numpy", "either", "no axes"
"""Whose number it is. Python's and NumPy's float64 compute the same; beside float32 they do not.
An array without axes is NumPy's number, until something is done to it in place."""
HOST = "host"
"""The kind of numbers where slices are on a device, with copies on the host that are NumPy's."""
DEVICE, FRESH = "device", "fresh"
"""CuPy's numbers are arrays without axes: elements of arrays, and others that something else may
hold as well; and what an operation gave, as long as one name alone has it."""
ON_DEVICE = (DEVICE, FRESH)


class Num(NamedTuple):
    """A number."""

    dtype: str
    kind: str
    value: Value


class Mixed(NamedTuple):
    """A number of Python's that is an integer, or a float, as it comes.

    Attributes
    ----------
    is_int : Num
        Whether it is an integer.
    as_int : Num
        That integer; of a float anything.
    as_float : Num
        The value of both. The kind is that of the float.
    """

    is_int: Num
    as_int: Num
    as_float: Num


class Arr(NamedTuple):
    """An array.

    Attributes
    ----------
    own : int
        Whether the function may write to it: it has made it, or it is (a part of) a slice,
        `OF_SLICE`.
    most : int
        How many elements it has at most; 0: that is not known.
    is_packed : bool
        Whether they are known to lie side by side.
    """

    type: Array
    own: int
    value: Register
    most: int = 0
    is_packed: bool = False


OF_SLICE = 2


class OnDevice(NamedTuple):
    """An array of CuPy's that a function fetches: what its copy on the host is."""

    copy: Any


class Inner(NamedTuple):
    """The type of inner lists."""

    dtype: str
    kind: str
    site: int


class Lst(NamedTuple):
    """A list of numbers of one type, or of none yet, or of lists.

    Attributes
    ----------
    site : int
        Where it was made: names of one site may be names of one list.
    """

    dtype: Any
    kind: str
    site: int
    value: Register


class Rows(NamedTuple):
    """A list of tuples, or of lists such as `Tup` says: a list for each of their places.

    Attributes
    ----------
    columns : tuple of Lst
        The lists.
    of_lists : bool
        Whether it is one of lists.
    number : str
        Of complex numbers, whose parts have a list each, whose numbers they are; "text": of texts,
        whose letters, first one and length have a list each; else nothing.
    """

    columns: tuple[Lst, ...]
    of_lists: bool
    number: str = ""

    def one(self, parts: tuple[Any, ...], made: Callable[..., Value]) -> Any:
        """An element of its parts; `made` makes a complex number of them."""
        if not self.number:
            return Tup(parts, self.of_lists)
        if self.number == "text":
            return Letters(*parts)
        value = made(*(p.value for p in parts))
        return Num(str(value.type), self.number, value)


class Held(NamedTuple):
    """A deque, a dict or a set.

    Attributes
    ----------
    what : str
        Which one of them.
    items : Lst or Rows
        Elements, or keys, in the order in which they came.
    values : Lst, Rows or None
        The values of a dict.
    places : Lst or None
        Where keys are, by their hashes.
    state : Lst
        One number, which grows with every change of what is in it.
    most : Num or Known
        How many a deque holds at most; what a dict gives for a key that it has not.
    """

    what: str
    items: Any
    values: Any
    places: Any
    state: Lst
    most: Any


class Watched(NamedTuple):
    """An iterator over what must not change meanwhile."""

    inner: Any
    state: Lst
    seen: Num


class Tup(NamedTuple):
    """A tuple; or a read-only list, of several types or of the user's."""

    items: tuple[Any, ...]
    is_list: bool = False


class Starred(NamedTuple):
    """A list or tuple that starred arrays stand in, of which arrays are made; or one such array."""

    items: tuple[Any, ...]


class Keywords(NamedTuple):
    """What a parameter ``**kwargs`` gets: arguments by their names."""

    names: tuple[str, ...]
    values: tuple[Any, ...]


class Record(NamedTuple):
    """A solver's result: values by name or number; or a single callable."""

    names: tuple[str | int, ...]
    values: tuple[Any, ...]


SPECTRUM = ("real", "imag")
"""The names in a record of complex numbers, as two arrays."""
CALLED = "__call__"
"""The name in a record of a function, and what it gets before other arguments."""


class Known(NamedTuple):
    """An object of the user's, or of a library's."""

    value: Any


class Text(NamedTuple):
    """One of several known texts.

    Attributes
    ----------
    texts : tuple of str
        Which ones.
    value : Value
        The number of the one that it is.
    """

    texts: tuple[str, ...]
    value: Value


class Letters(NamedTuple):
    """A text that is put together: a part of a list.

    Attributes
    ----------
    codes : Lst or Arr
        Numbers of letters, in a list, or in a constant of which texts are known.
    first, size : Num
        Where in it the text begins, and how many letters it has.
    """

    codes: Any
    first: Num
    size: Num


class Method(NamedTuple):
    """A method of a value."""

    owner: Any
    name: str


class Function(NamedTuple):
    """A function that is defined while the slice is computed.

    Attributes
    ----------
    number : int
        Which of those that are defined.
    depth : int
        Of the function that has defined it, whose names it reads.
    defaults, named : tuple
        Of its last arguments, and of those by name that have one.
    attributes : tuple
        Names and numbers.
    """

    number: int
    depth: int
    defaults: tuple[Any, ...]
    named: tuple[Any, ...]
    attributes: tuple[Any, ...] = ()


class Span(NamedTuple):
    """A slice: the bounds of an index."""

    start: Any
    stop: Any
    step: Any


class Range(NamedTuple):
    """``range``: also one that has been gone through in part."""

    start: Num
    stop: Num
    step: Num


class Along(NamedTuple):
    """An iterator over an array or a list, at a place; or one that goes down."""

    over: Any
    at: Num
    down: bool = False


class Through(NamedTuple):
    """An iterator over a tuple, at a known place."""

    over: Tup
    at: int


class Counted(NamedTuple):
    """``enumerate``."""

    inner: Any
    at: Num


class Zipped(NamedTuple):
    """``zip``; `is_strict`: it raises if one of them ends before another."""

    inner: tuple[Any, ...]
    is_strict: bool = False


class Once(NamedTuple):
    """Something that can be gone through, but once."""

    inner: Any


class Eager(NamedTuple):
    """An iterator over what was computed before Python would do so."""

    inner: Any


class Cursor(NamedTuple):
    """An iterator that is kept, over a list, an array or a text.

    Attributes
    ----------
    over : Lst, Rows, Arr or Letters
        What it goes through.
    place : Lst
        One number: where it is.
    stop : Num or None
        Where it ends before that does.
    ahead : int
        How many elements are taken before it, in the same round.
    """

    over: Any
    place: Lst
    stop: Any
    ahead: int = 0


class Groups(NamedTuple):
    """``itertools.groupby``: a group is what is left of its part of a list.

    Attributes
    ----------
    values, keys, bounds : Lst or Rows
        All values, the keys of groups, and where groups begin and the last one ends.
    place : Lst
        Where the last group that was given is.
    at : Num
        The next group.
    """

    values: Any
    keys: Any
    bounds: Any
    place: Lst
    at: Num


class Raised(NamedTuple):
    """An exception."""

    kind: type


class Errors(NamedTuple):
    """The error state, as ``numpy.errstate`` sets it: see `ERRORS`.

    Attributes
    ----------
    said : tuple of str
        "ignore"; "mark": the slice is left to the function; "": as it is said outside.
    """

    said: tuple[str, ...]

    def of(self, kind: str) -> str:
        """The setting for one kind."""
        return self.said[ERRORS.index(kind)]

    def all(self, said: str) -> tuple[str, ...]:
        """The kinds of which that is said."""
        return tuple(k for k, s in zip(ERRORS, self.said, strict=True) if s == said)


ERRORS = ("divide", "over", "under", "invalid")
"""Kinds of NumPy's floating-point warnings."""
NOTHING_SAID = Errors(("",) * len(ERRORS))
ITERATORS = (Watched, Along, Through, Counted, Zipped, Once, Eager, Groups)
"""Iterators that are consumed: a name for one would be another one each time."""
Abstract = Any
"""Any of the above."""


def integer(n: int) -> Num:
    """A number of Python's that is written in the source."""
    return Num("int64", PYTHON, Literal(n, "int64"))


class Leaves(Exception):
    """Here compiled code leaves the slice to the Python function, always.

    `raises`: what that would raise, for handlers that are compiled.
    """

    def __init__(self, why: str, raises: type | None = None) -> None:
        self.why, self.raises = why, raises


class Inlined(NamedTuple):
    """A call of a function that is written where it is called."""

    function: Any
    args: list[Abstract]
    kwargs: dict[str, Abstract]


LETTERS = "letters"
"""The pseudo-dtype of results made of letters: texts that are put together."""


class Expected(NamedTuple):
    """A result: what the first slice gave.

    Attributes
    ----------
    dtype : str
        Of its numbers, or "text", or `LETTERS`.
    shape : tuple of int
        Of `LETTERS` with a last axis for those of a text.
    width : int
        How many letters each text gets.
    is_whole : bool
        Whether a longer one is left to the function, not cut.
    """

    dtype: str
    shape: tuple[int, ...]
    width: int = 0
    is_whole: bool = False


class Writes(Protocol):
    """The interface for writing instructions, with what is known at this point.

    Attributes
    ----------
    expected : sequence of Expected or None
        The results of the first slice; None: it has not run yet.
    guess : list of Expected or None
        Where the results that the source tells are put, if these are expected.
    watch : Guards
        What looks at all that the function reaches.
    element : str
        Whose number an element of an array is: `NUMPY`, or `DEVICE`.
    fetches : bool
        Whether slices are on a device, and it computes with copies on the host.
    cached : dict
        With numbers of which types functions are called that have a cache.
    most : dict
        How large the lengths of arrays are at most, as far as that is known.
    lengths : dict
        The lengths of slices that are the same for all kernels, by their numbers.
    made : TypedFunction
        What is written.
    """

    element: str
    made: TypedFunction
    fetches: bool
    cached: dict[Any, Any]
    most: dict[Value, int]
    lengths: dict[int, int]
    expected: Sequence[Expected] | None
    guess: list[Expected] | None
    watch: Guards

    @property
    def state(self) -> MutableMapping[tuple[int, str], Abstract]:
        """Values by the depth of a function and a name."""

    def expect(self, results: Sequence[Expected] | None) -> None:
        """Say what results are like; None: that is not known."""

    def op(self, op: str, dtype: Type, *args: Value, what: Any = None) -> Register:
        """The register that an instruction writes."""

    def do(self, op: str, *args: Value, what: Any = None) -> None:
        """An instruction without a result."""

    def mark(self, condition: Value, why: str, raises: type | None = None) -> None:
        """Leave the slice to the Python function where a condition holds.

        `raises`: what that would raise; where it is handled, compiled code goes on there.
        """

    @property
    def handles(self) -> bool:
        """Whether some exceptions are handled here."""

    @property
    def errors(self) -> Errors:
        """The function's own error state."""

    def set_errors(self, errors: Errors) -> None:
        """Say what becomes of NumPy's warnings from now on."""

    def retyped(self, x: Lst) -> None:
        """Say that a list, and what may be the same one, has another type from now on."""

    def writes(self, x: Arr) -> None:
        """Say that the function writes to an array; refuse it for one that is not its own."""

    def flattens(self) -> None:
        """Say that a part of a slice is flattened: a copy or not, as the slice lies in memory."""

    def ignores(self, kind: str) -> bool:
        """Whether NumPy's warnings of a kind are ignored here, whatever the caller says."""

    def mark_number(self, why: str) -> int:
        """The number of a mark on this line."""

    def given(self, at: Where, path: tuple[int, ...], x: Num) -> Num:
        """A number that was found somewhere; where such are given, one that each call reads."""

    def external(self, *name: str) -> int:
        """The number of a library's function."""

    def constant(self, x: np.ndarray, is_own: bool = False) -> Arr:
        """An array of the user's, which the function reads; `is_own`: of ours, known by content."""

    def content(self, x: Abstract) -> np.ndarray | None:
        """The array of the user's that was just read, whose content counts from now on."""

    def source(self, owner: Any, place: Callable[[Any], Any] | None = None, key: Any = None) -> Tup:
        """The source of random numbers of a generator: its numbers are drawn in order.

        `place`: what gives it, where others may come; `key`: of that place.
        """

    def children(self, rng: Tup) -> Arr | None:
        """What the generators are made of that one spawns; None: they are not known."""

    def site(self, part: int = 0) -> int:
        """The number of this place in the source, where a list is made, or one of several."""

    def text(self, x: str) -> int:
        """The number that stands for a text in a result."""

    def differs(self) -> None:
        """Say that a result may be of another dtype than that of the first slice."""

    def rounds(self, about: float) -> None:
        """Say that what is computed here may differ from what a library gives, relatively."""

    def count_of_parameters(self, f: Abstract) -> int:
        """The number of positional parameters; 0: unknown."""

    def reads_part(self, k: int) -> bool:
        """Whether part `k` of this step's result may be read later."""

    def refuse(self, why: str) -> TraceError:
        """An error for something that is not compiled, with the line."""

    def value(self, x: Any) -> Abstract:
        """The value of an operand."""

    def put(self, name: str | None, value: Abstract) -> None:
        """Give a name a value."""
