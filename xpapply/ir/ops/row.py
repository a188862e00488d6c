"""The columns of the op table."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

Value = Any
"""An `ir.builder.Value`."""


class Kind(Enum):
    """The kind of an op, which determines its shape rule and batching rule."""

    LEAF = "leaf"  # the input, a constant array, a number
    ELEMENTWISE = "elementwise"  # broadcasts as NumPy does
    REDUCTION = "reduction"  # takes axes away (or keeps them with length 1)
    CONTRACTION = "contraction"  # einsum
    ALONG = "along"  # orders, adds up or picks numbers along an axis, which stays
    LAYOUT = "layout"  # moves elements, computes nothing
    TREES = "trees"  # goes down decision trees, whose nodes are constants
    COMPOSITE = "composite"  # defined by other ops


@dataclass(frozen=True, slots=True)
class Op:
    """A row of the op table.

    Attributes
    ----------
    name : str
        Name in graphs, and in the array API standard unless `api` says otherwise.
    kind : Kind
        Fixes the shape rule and the batching rule.
    doc : str
        One line for the docs.
    c : str
        C++ expression of the operands ``{0}``, ``{1}`` ...; ``T`` is their type. It
        spells NaN out: a comparison with NaN is false in C++ as in NumPy. For a
        reduction: how ``{1}`` joins what has come of the numbers before it; for argmax
        and argmin whether the number ``{1}`` takes the place of ``{0}``. Functions have
        their names of float64; kernels write those of float32, with a suffix f.
    int_c : str
        C++ expression of integers, where it is another.
    slice_c : str
        C++ expression in slice kernels, where these have a function for it.
    tensor_c : str
        The same in kernels on tensor cores, of float32.
    llvm : str or callable
        How kernels for CPUs write it: a word for floats, one for signed integers and one for
        those without a sign and booleans; the last stands for those that are not there, but
        one alone is for floats. A word is an instruction of LLVM, a condition of its
        comparisons, a function of `xpapply.codegen.llvm.functions`, or else one of LLVM's own
        functions. Or a function of the `Writer` and the operands that writes it, of floats.
    api : str
        Name in the array API standard, where it differs.
    torch : tuple of str
        Further names of the op in torch.
    result : str
        dtype of the result: "same" as the operands, "bool", "int64", or "attr": the
        attribute `dtype`.
    define : callable
        For a composite: the definition, on `Value` operands and keyword attributes.
    join : str
        For a reduction, and one whose steps are all kept: the elementwise op that joins two
        numbers.
    identity : float
        For a reduction: the number that changes nothing. In a dtype without infinities its
        smallest or largest number stands for them.
    instructions : float
        What one element takes in a kernel: for choosing between kernels.
    needs_registers : bool
        Its function in C++ needs registers of its own: threads take fewer slices at a time.
    keeps_finite : bool
        Finite operands give finite results, but for overflow.
    homogeneous : bool
        A power of two that multiplies the operand multiplies the result.
    rising : bool
        A larger operand gives no smaller result, and NaN alone gives NaN.
    shows : tuple of int
        The operands whose infinities and NaN are seen in the result, which then is one, too.
    gathers : bool
        Its result has numbers from here and there, as the windows of convolutions.
    silent : bool
        NumPy never warns of it.
    compares : bool
        Compares two numbers.
    complex : bool
        NumPy has it for complex numbers.
    in_special : bool
        Libraries have it in their copy of `scipy.special`, not beside the others.
    activation : str
        Its name in ``torch.nn`` (or in torch, as a function), if `xpapply.testing` is to
        draw networks with it.
    inexact : float
        Its last bits may be others than NumPy's, of floats: how many times the usual few bits it
        may be off. Above 1 that is of the largest number of a value.
    jumps : bool
        The smallest change of an operand may change the result by much.
    edges : tuple of float
        Where NumPy begins to warn of operands, of the last one.
    either_zero : bool
        Of zeros of both signs it may give another one than NumPy, whose choice depends on the
        vector instructions that it has.
    sees_zeros : bool
        The sign of a zero changes more than the sign of a zero.
    sign : str
        What the sign of the result needs for rounding to leave it, however small the number is:
        "operands", signs that rounding leaves; "positive", such operands above zero.
    positive : str
        When the result is not below zero: "always", or with all "operands" above it.
    off : callable
        A bound of how far the result may be off, of the operands and then of how far each of
        them may be off: also while an expression is being written. Where it is not given none
        is known.
    error : callable
        How far the result may be off where the operand is off by `e`, of the arrays
        ``(x, e, f(x), near)``; `near` is the least magnitude that the operand may have.
        Where it is not given: by `e`.
    domain : tuple of float
        Where tests draw operands from.
    """

    name: str
    kind: Kind
    doc: str = ""
    c: str = ""
    int_c: str = ""
    slice_c: str = ""
    tensor_c: str = ""
    llvm: str | Callable[..., Any] = ""
    api: str = ""
    torch: tuple[str, ...] = ()
    result: str = "same"
    define: Callable[..., Value] | None = None
    join: str = ""
    identity: float | None = None
    instructions: float = 25.0
    needs_registers: bool = False
    keeps_finite: bool = False
    homogeneous: bool = False
    rising: bool = False
    shows: tuple[int, ...] = ()
    gathers: bool = False
    silent: bool = False
    compares: bool = False
    complex: bool = False
    in_special: bool = False
    activation: str = ""
    inexact: float = 0
    jumps: bool = False
    edges: tuple[float, ...] = ()
    either_zero: bool = False
    sees_zeros: bool = False
    sign: str = ""
    positive: str = ""
    off: Callable[..., Any] | None = None
    error: Callable[[Any, Any, Any, Any], Any] | None = None
    domain: tuple[float, float] = (-50.0, 50.0)

    @property
    def finds_position(self) -> bool:
        """Whether it is a reduction to a position."""
        return self.kind is Kind.REDUCTION and self.result == "int64"

    @property
    def parameters(self) -> dict[str, inspect.Parameter]:
        """Parameters of a composite beside its operand."""
        if self.define is None:
            return {}
        _, *found = inspect.signature(self.define).parameters.values()
        return {p.name: p for p in found}


class _Calls:
    """``F.exp(x)`` writes the op "exp" into the graph that `x` belongs to."""

    def __getattr__(self, name: str) -> Callable[..., Value]:
        def call(*operands: Any, **attrs: Any) -> Value:
            builder = next(x.builder for x in operands if hasattr(x, "builder"))
            result: Value = builder.op(name, *operands, **attrs)
            return result

        return call


F = _Calls()

LARGER, SMALLER = (f"({{0}} {sign} {{1}} || {{0}} != {{0}} ? {{0}} : {{1}})" for sign in "><")
"""The C++ of maximum and minimum: NaN wins."""
LINEAR: dict[str, Any] = {"keeps_finite": True, "homogeneous": True}
"""Columns of what doubles with its operand."""
