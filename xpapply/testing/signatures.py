"""Strategies for Hypothesis that draw signatures, and arrays that fit them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..loop.signature import Signature
from .strategies import DTYPES, ORDERS, _composite, _layout, _strategies, _values

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy


def signatures(
    *,
    max_inputs: int = 3,
    max_results: int = 2,
    max_dims: int = 2,
    fixed: bool = True,
    optional: bool = True,
) -> SearchStrategy[str]:
    """Signatures as `xpapply.vectorize` takes them, such as ``"(m,n),(n)->(m)"``.

    Parameters
    ----------
    max_inputs, max_results : int, optional
        Most arrays, and most results.
    max_dims : int, optional
        Most core dims of each.
    fixed : bool, optional
        Whether some dims have a size in the place of a name.
    optional : bool, optional
        Whether some dims may be missing (``?``).

    Returns
    -------
    SearchStrategy of str
        All core dims of results are those of arrays.

    Raises
    ------
    ImportError
        Without Hypothesis.

    Examples
    --------
    >>> from hypothesis import given
    >>> @given(signatures(max_results=1))
    ... def test(signature):
    ...     assert signature.count("->") == 1
    >>> test()
    """
    st = _strategies()

    def draw_signature(draw: Any) -> str:
        names = draw(
            st.lists(st.sampled_from(["m", "n", "k"]), min_size=1, max_size=3, unique=True)
        )
        if fixed and draw(st.integers(0, 4)) == 0:
            names[0] = draw(st.sampled_from(["1", "2", "3"]))
        may_miss = names[-1] if optional and draw(st.integers(0, 4)) == 0 else None
        shown = {n: n + "?" * (n == may_miss) for n in names}

        def side(dims: Sequence[str], most: int) -> list[list[str]]:
            core = st.lists(st.sampled_from(dims), max_size=max_dims) if dims else st.just([])
            found: list[list[str]] = draw(st.lists(core, min_size=1, max_size=most))
            return found

        inputs = side(names, max_inputs)
        known = sorted({n for core in inputs for n in core})
        outputs = side(known, max_results)
        both = (
            ",".join(f"({','.join(shown[n] for n in core)})" for core in cores)
            for cores in (inputs, outputs)
        )
        return "->".join(both)

    found: SearchStrategy[str] = _composite()(draw_signature)
    return found


def operands(
    signature: str,
    *,
    sizes: Mapping[str, int] | None = None,
    loop: Sequence[int] | None = None,
    max_side: int = 4,
    dtypes: Sequence[str] | Sequence[Sequence[str]] = DTYPES,
    orders: Sequence[str] = ORDERS,
    exponents: tuple[int, int] = (-2, 2),
    special: bool = False,
) -> SearchStrategy[list[np.ndarray]]:
    """NumPy arrays that fit a signature: their core dims agree, their loop dims broadcast.

    Parameters
    ----------
    signature : str
        As for `xpapply.vectorize`.
    sizes : dict of str to int, optional
        Sizes of core dims; 1 to `max_side` for those that are not given.
    loop : sequence of int, optional
        The loop dims; up to 3 where they are not given. One array has all of them, unless it
        lacks a dim with a ``?``.
    max_side : int, optional
        Greatest length of a dim.
    dtypes : sequence of str, optional
        Names of dtypes; or of sequences of them, one for each array.
    orders : sequence of str, optional
        Memory layouts, as for `~xpapply.testing.arrays`.
    exponents : (int, int), optional
        Range of the powers of ten that floating-point values are scaled by.
    special : bool, optional
        Put NaN, infinities, -0.0 and subnormal numbers among floating-point values.

    Returns
    -------
    SearchStrategy of list of ndarray
        Some of them have fewer loop dims than others, or loop dims of length 1, and some lack
        the dims with a ``?``.

    Raises
    ------
    ImportError
        Without Hypothesis.
    ValueError
        If the signature does not parse.

    Examples
    --------
    >>> from hypothesis import given
    >>> @given(operands("(m,n),(n)->(m)", sizes={"n": 3}))
    ... def test(given):
    ...     matrix, vector = given
    ...     assert matrix.shape[-1] == vector.shape[-1] == 3
    >>> test()
    """
    st = _strategies()
    parsed = Signature.parse(signature)

    def draw_operands(draw: Any) -> list[np.ndarray]:
        known = dict(sizes or {})
        dims = {d for core in parsed.inputs for d in core}
        gone = {d.name for d in sorted(dims, key=str) if d.optional and draw(st.booleans())}
        for d in sorted(dims, key=str):
            known.setdefault(d.name, d.size or draw(st.integers(1, max_side)))
        shape = loop
        if shape is None:
            shape = draw(st.lists(st.integers(1, max_side), max_size=3))
        whole = draw(st.integers(0, len(parsed.inputs) - 1)) if parsed.inputs else 0
        rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        return [
            one(
                draw,
                k,
                [known[d.name] for d in core if d.name not in gone],
                own_loop(draw, shape, k == whole, any(d.name in gone for d in core)),
                rng,
            )
            for k, core in enumerate(parsed.inputs)
        ]

    def own_loop(draw: Any, shape: Sequence[int], whole: bool, lacks_a_dim: bool) -> list[int]:
        if lacks_a_dim:  # with loop dims it would not be missing
            return []
        if whole:
            return list(shape)
        found = [draw(st.sampled_from([n, n, n, 1])) for n in shape]
        return found[draw(st.integers(0, len(found))) if draw(st.booleans()) else 0 :]

    def one(
        draw: Any, k: int, core: list[int], own: list[int], rng: np.random.Generator
    ) -> np.ndarray:
        some = dtypes if isinstance(dtypes[0], str) else dtypes[k]
        dtype = np.dtype(draw(st.sampled_from(list(some))))
        order = draw(st.sampled_from(list(orders)))
        scale = 10.0 ** draw(st.integers(*exponents))
        shape = own + core
        x = _layout(order, shape or [1], rng, lambda s: _values(rng, s, dtype, scale, special))
        return x if shape else x.reshape(())

    found: SearchStrategy[list[np.ndarray]] = _composite()(draw_operands)
    return found
