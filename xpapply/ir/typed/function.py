"""Blocks of instructions on numbers and arrays, and how they are shown."""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy._core import umath

from .components import components


class Array(NamedTuple):
    """The type of an array that a function reads or makes."""

    dtype: str
    ndim: int

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(':' * self.ndim)}]"


Type = str | Array
"""The type of a value: a dtype's name, or an array."""
PARTS = {"complex64": "float32", "complex128": "float64"}
"""The float dtype of the parts of a complex one."""


@dataclass(frozen=True, slots=True)
class Register:
    """A value, written once."""

    number: int
    type: Type

    def __str__(self) -> str:
        return f"%{self.number}"


@dataclass(frozen=True, slots=True, eq=False)
class Literal:
    """A number that is written in the instruction. Zeros of two signs are two numbers."""

    value: Any
    type: str

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Literal) or (self.type, self.value) != (other.type, other.value):
            return False
        return _signs(self.value) == _signs(other.value)

    def __hash__(self) -> int:
        return hash((self.value, self.type))

    def __str__(self) -> str:
        return f"{self.value!r}:{self.type}"


def _signs(x: Any) -> list[float]:
    """The signs of zeros in a number, or in the parts of a complex one."""
    return [math.copysign(1, y) for y in (x.real, x.imag) if not y]


class Slot(NamedTuple):
    """A slot: a variable of one type that passes values between blocks."""

    name: str
    type: Type

    def __str__(self) -> str:
        return f"{self.name}:{self.type}"


Value = Register | Literal
KEPT = "kept"
"""A flag of ``cast``: denormals are kept, whatever the mode of the function."""
NOTED = "noted"
"""A flag of instructions: floating-point flags count, since NumPy would warn."""
COUNTED, COUNTED_OF_OURS = "counted", "counted, of ours"
"""A flag of the ``branch`` of a ``for``: the number of rounds is bounded before it; the second one:
in a loop of our library, which unrolls to few instructions."""
ARRAYS = "its arrays need much memory"
LISTS = "its lists grow long"
"""Why there are marks where memory is taken."""
OTHER = 0xFFFE
"""The mark of a first slice, whose result says of which dtype all are, and that is another one."""
WARNED = 0xFFFF
"""The mark of slices that NumPy may warn of."""


class Instruction(NamedTuple):
    """An instruction.

    Attributes
    ----------
    op : str
        See `xpapply.ir.typed.verify.OPS`.
    result : Register or None
        What it writes.
    args : tuple of Register or Literal
        What it reads.
    what : object
        What else it needs: a slot, a name, a number of an input.
    line : int
        Where it stands in the source; 0: nowhere.
    """

    op: str
    result: Register | None
    args: tuple[Value, ...]
    what: Any = None
    line: int = 0

    def __str__(self) -> str:
        left = "" if self.result is None else f"{self.result}:{self.result.type} = "
        what = () if self.what is None else (str(self.what),)
        return f"{left}{self.op} {', '.join((*what, *map(str, self.args)))}".rstrip()


class Mark(NamedTuple):
    """Why a slice is left to the Python function itself."""

    line: int
    why: str


@dataclass(slots=True)
class Block:
    """Instructions that run one after the other, the last says where it goes on.

    Attributes
    ----------
    instructions : list of Instruction
        The last is ``jump``, ``branch``, ``return`` or ``leave``.
        A ``catch`` before it goes on at another block where its operand is true.
    targets : tuple of int
        The blocks that may come next, but for those.
    """

    instructions: list[Instruction] = field(default_factory=list)
    targets: tuple[int, ...] = ()


@dataclass(slots=True)
class TypedFunction:
    """A function of slices.

    Attributes
    ----------
    name : str
        Of the Python function.
    inputs : tuple of Array or dtype
        The slices that it is called with; a dtype stands for a number.
    results : tuple of (dtype, ndim)
        What it returns, of fixed shape.
    blocks : list of Block
        The first is where it begins.
    marks : list of Mark
        What the numbers of ``mark`` and ``leave`` mean, from 1.
    constants : list of array
        Arrays of the user's that it reads.
    externals : list of (kind, name)
        Functions of libraries that it calls: of "libm", a "ufunc" of NumPy's, one of "cupy", or one
        that "draws" random numbers.
    texts : list of str
        Those that numbers stand for in results that are texts.
    spells : bool
        Whether its result is text whose letters it gives, as numbers.
    differs : bool
        Whether it may return another dtype than that of `results`, which it is put into then.
    flushes : bool
        Whether operations of float32 take numbers below the least normal one for zero, and give
        zero for them, as CuPy's kernels do. A ``cast`` of kind ``kept`` does not.
    rounds : float
        By how much its results may differ from those of a library's function that it stands for,
        relatively; 0: they have its bits.
    writes : bool
        Whether it writes to a slice. What a slice that is marked has then is not said.
    fetches : bool
        Whether its slices are on a device, and it computes with copies of them on the host: by
        NumPy's rules, though the device does it.
    tells : bool
        Whether it decides by last bits that are others on a device, and not only where it marks.
    decides, walks : bool
        Whether what it does depends on numbers of the slice, and whether how often it does that
        depends on the length of something.
    functions : list of TypedFunction
        Those that it runs in several places, each after those that it runs itself. Their inputs
        are values of any type; marks, constants, externals and texts are those of this one.
    gives : tuple of Array or dtype
        Of one of those: the types of what its ``return`` gives.
    sources : list of `xpapply.runtime.generators.Source`
        What it draws random numbers from: then slices go one after the other.
    calm : set of Register
        What a solver of ours computes and asks, which goes on until roundings are left: it may
        decide otherwise.
    given : tuple of int
        Those of `constants` that are one number each, which every call gives anew.
    of_host : TypedFunction or None
        Of one for a device that marks slices in which last bits decide: the same without such
        marks, for the host, whose last bits are right.
    """

    name: str
    inputs: tuple[Type, ...]
    results: tuple[Array, ...] = ()
    blocks: list[Block] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    constants: list[np.ndarray] = field(default_factory=list)
    externals: list[tuple[str, ...]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    spells: bool = False
    differs: bool = False
    flushes: bool = False
    rounds: float = 0.0
    writes: bool = False
    fetches: bool = False
    tells: bool = False
    decides: bool = False
    walks: bool = False
    functions: list[TypedFunction] = field(default_factory=list)
    gives: tuple[Type, ...] = ()
    sources: list[Any] = field(default_factory=list)
    calm: set[Register] = field(default_factory=set)
    given: tuple[int, ...] = ()
    of_host: TypedFunction | None = None

    @property
    def instructions(self) -> Iterator[Instruction]:
        """All of them, those of `functions` as well."""
        for block in self.blocks:
            yield from block.instructions
        for f in self.functions:
            yield from f.instructions

    @property
    def size(self) -> int:
        return sum(1 for _ in self.instructions)

    @property
    def nests(self) -> bool:
        """Whether it has nested loops."""
        if any(f.nests for f in self.functions):
            return True
        after = [self.targets(b) for b in self.blocks]
        for loop in _loops(after, set(range(len(after)))):
            entries = {t for k, to in enumerate(after) if k not in loop for t in to} & loop
            if any(_loops(after, loop - entries)):
                return True
        return False

    @property
    def is_written_out(self) -> bool:
        """Whether all its loops go through few elements.

        LLVM writes their rounds one after the other where it knows how many these are.
        """
        if self.functions:
            return False
        after = [self.targets(b) for b in self.blocks]
        waiting = _loops(after, set(range(len(after))))
        while waiting:
            loop = waiting.pop()
            entries = {t for k, to in enumerate(after) if k not in loop for t in to} & loop
            if any(self.blocks[k].instructions[-1].what != COUNTED_OF_OURS for k in entries):
                return False
            waiting += _loops(after, loop - entries)
        return True

    @staticmethod
    def targets(block: Block) -> list[int]:
        """All blocks that may come after one."""
        return [*block.targets, *(x.what for x in block.instructions if x.op == "catch")]

    def keep_reachable(self) -> None:
        found, waiting = {0}, [0]
        while waiting:
            for t in self.targets(self.blocks[waiting.pop()]):
                if t not in found:
                    found.add(t)
                    waiting.append(t)
        at = {old: new for new, old in enumerate(sorted(found))}
        self.blocks = [self.blocks[k] for k in sorted(found)]
        for b in self.blocks:
            b.targets = tuple(at[t] for t in b.targets)
            b.instructions = [
                x._replace(what=at[x.what]) if x.op == "catch" else x for x in b.instructions
            ]

    def __str__(self) -> str:
        given = self.inputs, self.results or self.gives
        inputs, results = (", ".join(map(str, x)) for x in given)
        lines = [f"{self.name}({inputs}) -> {results}"]
        for k, block in enumerate(self.blocks):
            lines.append(f"block {k}:")
            lines += [f"  {x}" for x in block.instructions[:-1]]
            last = block.instructions[-1]
            to = " or ".join(f"block {t}" for t in block.targets)
            lines.append(f"  {last}{' to ' * bool(to)}{to}")
        for k, f in enumerate(self.functions):
            lines += ["", f"function {k}: {f}"]
        return "\n".join(lines)


def _loops(after: list[list[int]], among: set[int]) -> list[set[int]]:
    """Sets of blocks that all lead to each other, and to themselves."""
    parts = components(among, lambda k: [t for t in after[k] if t in among])
    return [set(p) for p in parts if len(p) > 1 or p[0] in after[p[0]]]


_SPECIAL = "scipy.special."


def name_of(ufunc: Any) -> str:
    """The name by which `ufunc_named` knows a ufunc."""
    is_own = getattr(np, ufunc.__name__, None) is ufunc or hasattr(umath, ufunc.__name__)
    return ufunc.__name__ if is_own and not _is_special(ufunc) else _SPECIAL + ufunc.__name__


def _is_special(ufunc: Any) -> bool:
    module = sys.modules.get(_SPECIAL[:-1])
    return module is not None and getattr(module, ufunc.__name__, None) is ufunc


KEEP_NOTES = frozenset(
    "add subtract multiply divide power exp log sqrt square reciprocal sin cos".split()
)
"""Ufuncs whose loops of NumPy's do not forget what the processor has noted before."""


def ufunc_named(name: str) -> Any:
    """A ufunc of NumPy's or SciPy's; of ``clip`` the one that the function of that name calls."""
    if name.startswith(_SPECIAL):
        found = getattr(importlib.import_module(_SPECIAL[:-1]), name.removeprefix(_SPECIAL))
        assert isinstance(found, np.ufunc)
        return found
    found = getattr(np, name)
    return found if isinstance(found, np.ufunc) else getattr(umath, name)


EXACT = frozenset(("fmod", "fmodf", "nextafter", "remainder"))
"""Functions of the C library that have the same bits everywhere."""


_EXACT_UFUNCS = frozenset(
    "add subtract multiply divide sqrt square reciprocal negative absolute fabs floor ceil trunc "
    "rint copysign nextafter maximum minimum fmax fmin isfinite isnan isinf less less_equal "
    "greater greater_equal equal not_equal logical_and logical_or logical_xor logical_not "
    "bitwise_and bitwise_or bitwise_xor".split()
)


def is_rounded(external: Sequence[str]) -> bool:
    """Whether an external function differs in last bits on a device."""
    if external[0] == "ufunc":
        return external[1] not in _EXACT_UFUNCS
    return external[0] == "libm" and external[1] not in EXACT
