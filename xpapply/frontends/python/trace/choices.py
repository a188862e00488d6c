"""``max(x, 0.0)``: the greater of numbers of several kinds, without a decision.

What Python gives there is NumPy's number for some slices, and Python's ``0.0`` for others. Most of
what is done with it comes out the same for both.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ....batching import find
from ....batching.scalars import LARGEST
from ....limits import LIMITS
from .recorder import Recorder
from .stand_ins import replaced, tracers
from .tracer import Tracer

_JOINED = frozenset(
    (
        np.add, np.subtract, np.multiply, np.true_divide, np.floor_divide, np.remainder, np.less,
        np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal,
    )
)  # fmt: skip
"""Functions with the same result for both kinds beside a number or array of NumPy's kind."""


class BranchChoice(Tracer):
    """A number of NumPy, or one of Python's constants.

    Whoever asks for its value or its kind decides: then slices part. `one` is a number of one kind
    that is equal to it in each slice.
    """

    __slots__ = ("_decide", "_found", "constants", "is_constant", "one")
    is_choice = True

    def __init__(
        self, one: Tracer, constants: tuple, is_constant: Tracer, decide: Callable[[], Any]
    ) -> None:
        for name, x in (
            ("recorder", one.recorder), ("owned", True), ("unset", None), ("_memory", None),
            ("_part", None), ("_seen", 0), ("one", one), ("constants", constants),
            ("is_constant", is_constant), ("_decide", decide), ("_found", None),
        ):  # fmt: skip
            object.__setattr__(self, name, x)

    def decided(self) -> Any:
        """The chosen value, a decision by which slices part."""
        if self._found is None:
            found = self.constants[0] if len(self.constants) == 1 else None
            if not bool(self.is_constant):
                found = self.one
            object.__setattr__(self, "_found", (self._decide() if found is None else found,))
        found = self._found[0]
        return found.decided() if isinstance(found, BranchChoice) else found

    @property  # type: ignore[misc]
    def value(self) -> Any:  # type: ignore[override]
        found = self.decided()
        return found.value if isinstance(found, Tracer) else found

    @property  # type: ignore[misc]
    def ref(self) -> Any:  # type: ignore[override]
        found = self.decided()
        return found.ref if isinstance(found, Tracer) else None

    @property
    def exact(self) -> bool:
        """Whether the other kind represents the constants exactly."""
        if self._found is not None:
            return False
        kind = _kind(self.one)
        return all(_as(kind, c) == c for c in self.constants)

    @property
    def has_one_dtype(self) -> bool:
        """Whether an array of it has the same dtype for each slice."""
        dtype = np.asarray(self.one.value).dtype
        return self._found is None and all(np.asarray(c).dtype == dtype for c in self.constants)

    def _operate(self, ufunc: Any, python: Any, a: Any, b: Any) -> Any:
        found = _joined(ufunc, python, a, b)
        return super()._operate(ufunc, python, a, b) if found is NotImplemented else found

    def _unary(self, ufunc: Any, python: Any) -> Any:
        found = _joined(ufunc, python, self)
        return super()._unary(ufunc, python) if found is NotImplemented else found

    def __bool__(self) -> bool:
        return bool(self.one) if self._found is None else super().__bool__()


def _kind(x: Any) -> Any:
    """The class of a number; None for others and for unknown ones."""
    if isinstance(x, BranchChoice):
        return _kind(x.one)
    value = x.value if isinstance(x, Tracer) else x
    if type(value) in (int, float, bool):
        return type(value)
    if isinstance(value, np.generic) and value.dtype.kind in "iufb":
        return type(value)
    return None


def _as(kind: Any, c: Any) -> Any:
    """A constant as a number of a kind."""
    with np.errstate(all="ignore"):
        return kind(c)


def _holds(kind: Any, c: Any) -> bool:
    """Whether a Python constant may stand beside numbers of a kind, as one of them."""
    if kind is None or kind in (int, bool, np.bool_) or type(c) not in (int, float):
        return False
    if kind is float:
        return type(c) is int and abs(c) <= LARGEST
    if issubclass(kind, np.integer):
        limits = np.iinfo(kind)
        return type(c) is int and limits.min <= c <= limits.max
    if type(c) is int:
        return bool(abs(c) <= LARGEST and _as(kind, c) == c)
    # a number that becomes 0 or infinity is true where it was false
    return bool(c == 0 or c != c or 0 < abs(_as(kind, c)) < np.inf or abs(c) == np.inf)


def _same_bits(a: Any, b: Any) -> bool:
    a, b = np.asarray(a), np.asarray(b)
    return bool(a.dtype == b.dtype and a.tobytes() == b.tobytes())


def _joined(ufunc: Any, python: Callable[..., Any], *operands: Any) -> Any:
    """An operation of which it makes no difference what its operands are."""
    choices = [x for x in operands if isinstance(x, BranchChoice)]
    if any(x._found is not None for x in choices) or len({_kind(x) for x in choices}) > 1:
        return NotImplemented
    if len(operands) > 1 and ufunc not in _JOINED:
        return NotImplemented
    kind = _kind(choices[0])
    ones: list[Any] = []
    constants: list[tuple] = []
    for x in operands:
        if isinstance(x, BranchChoice):
            ones.append(x.one)
            constants.append(x.constants)
        elif not isinstance(x, Tracer) and type(x) in (int, float):
            if not (_holds(kind, x) or (kind is float and type(x) is float)):
                return NotImplemented
            ones.append(x)
            constants.append((x,))
        elif _stands_beside(x, kind, choices[0].constants):
            ones.append(x)
            constants.append(())
        else:
            return NotImplemented
    one = python(*ones)
    if not isinstance(one, Tracer) or one.ref is None:
        return NotImplemented
    combined = [*itertools.islice(itertools.product(*constants), LIMITS.choices + 1)]
    if not combined:
        return one
    made = _of_constants(python, kind, combined, _kind(one))
    if made is None:
        return NotImplemented
    which = functools.reduce(np.logical_and, [x.is_constant for x in choices])
    return BranchChoice(one, made, which, lambda: python(*(_decided(x) for x in operands)))


def _decided(x: Any) -> Any:
    return x.decided() if isinstance(x, BranchChoice) else x


def _stands_beside(x: Any, kind: Any, constants: tuple) -> bool:
    """Whether an operand gives the same beside a number of a kind and beside a Python constant."""
    value = x.value if isinstance(x, Tracer) else x
    if kind is float:  # of the constants, which are integers
        numpys = isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind == "f"
        return numpys or type(value) is float
    if not isinstance(value, (np.ndarray, np.generic)):
        return False
    if kind is np.float64 and value.dtype.kind in "iu":  # which become floats beside both
        return all(type(c) is float for c in constants)
    return bool(value.dtype == np.dtype(kind))


def _of_constants(
    python: Callable[..., Any], kind: Any, combined: list[tuple], becomes: Any
) -> tuple | None:
    """Results of an operation for Python constants, if they are those for the kind."""
    if len(combined) > LIMITS.choices or becomes is None:
        return None
    made = []
    for given in combined:
        try:
            own = python(*given)
            with np.errstate(all="raise"):
                other = python(*(_as(kind, c) for c in given))
                if not _same_bits(becomes(own), other):
                    return None
        except (ArithmeticError, ValueError):
            return None
        if type(own) is not bool and not (_holds(becomes, own) or type(own) is becomes):
            return None
        made.append(own)
    return tuple(made)


def extreme(recorder: Recorder, name: str, numbers: tuple) -> Any:
    """``max`` or ``min`` of some numbers; NotImplemented where a decision has to be taken."""
    better = operator.gt if name == "max" else operator.lt
    if not 2 <= len(numbers) <= LIMITS.choices or any(_kind(x) is None for x in numbers):
        return NotImplemented
    if not any(isinstance(x, BranchChoice) or (isinstance(x, Tracer) and x.ref) for x in numbers):
        return NotImplemented
    found = numbers[0]
    for x in numbers[1:]:
        if _together(x, found) is None:
            return NotImplemented
        found = _chosen(recorder, better(x, found), x, found)
    return found


def _together(a: Any, b: Any) -> Any:
    """The kind that holds both of two numbers; None if there is none."""
    kinds = _kind(a), _kind(b)
    if any(k in (bool, np.bool_) for k in kinds):
        return None
    moving = [isinstance(x, Tracer) for x in (a, b)]
    if kinds[0] is kinds[1]:
        return kinds[0]
    if all(moving) or not any(moving):
        return None
    kind, other = (kinds[0], b) if moving[0] else (kinds[1], a)
    return kind if _holds(kind, other) else None


def _chosen(recorder: Recorder, condition: Any, yes: Any, no: Any) -> Any:
    """``yes if condition else no``."""
    if not isinstance(condition, Tracer):
        return yes if condition else no
    kind = _together(yes, no)
    asked = condition.one if isinstance(condition, BranchChoice) else condition
    given = [x.one if isinstance(x, BranchChoice) else x for x in (yes, no)]
    real = _as(kind, _plain(given[0] if _plain(asked) else given[1]))
    row = find(np.where)
    assert row is not None
    one = recorder.call(row, lambda *_: real, (asked, *given), check=False)
    constants = [c for x in (yes, no) for c in _constants(x, kind)]
    if not constants:
        return one
    constants = [*{repr(c): c for c in constants}.values()]  # 0.0 is not -0.0, nor 0
    parts = [_is_constant(x, kind) for x in (yes, no)]
    if parts[0] is True and parts[1] is False:
        which: Any = asked
    else:
        which = np.where(asked, *parts)  # type: ignore[call-overload]
    return BranchChoice(one, tuple(constants), which, lambda: yes if bool(condition) else no)


def _is_constant(x: Any, kind: Any) -> Any:
    return x.is_constant if isinstance(x, BranchChoice) else bool(_constants(x, kind))


def _constants(x: Any, kind: Any) -> tuple:
    if isinstance(x, BranchChoice):
        return x.constants
    return () if isinstance(x, Tracer) or type(x) is kind else (x,)


def _plain(x: Any) -> Any:
    return x.value if isinstance(x, Tracer) else x


def as_one(tree: Any) -> Any:
    """Arguments with numbers of one kind, where an array of them has the same dtype.

    A list of them has NumPy's, unless all are Python's: one decision for all.
    """
    tree = replaced(lambda t: t.one if isinstance(t, BranchChoice) and t.has_one_dtype else t, tree)
    found = [x for x in tracers(tree) if isinstance(x, BranchChoice)]
    if len(found) < 2 or not isinstance(tree, (list, tuple)):
        return tree
    kinds = {_kind(x) for x in found}
    others = [x for x in tracers(tree) if not isinstance(x, BranchChoice)]
    if len(kinds) > 1 or others or not kinds <= {float, np.float64}:
        return tree
    if len(found) != np.size(replaced(lambda _: 0, tree)) or any(x._found for x in found):
        return tree
    if bool(np.stack([x.is_constant for x in found]).all()):
        return tree
    return replaced(lambda t: t.one, tree)


def number(x: Any) -> Any:
    """A number of one kind that has the value of `x`, if that is all that matters."""
    return x.one if isinstance(x, BranchChoice) and x.exact else x


def beside(inputs: tuple) -> tuple:
    """Operands of a ufunc, with numbers of one kind where their kinds make no difference."""
    if not any(isinstance(x, BranchChoice) for x in inputs):
        return inputs
    own = [x for x in inputs if isinstance(x, BranchChoice)]
    floats = all(_kind(x) is np.float64 and {*map(type, x.constants)} == {float} for x in own)
    others = [_plain(x) for x in inputs if not isinstance(x, BranchChoice)]
    wide = all(type(x) in (int, float) or np.asarray(x).dtype == np.float64 for x in others)
    return tuple(map(number, inputs)) if floats and wide else inputs
