"""Array operations as one program, where their library compiles them: JAX."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from .. import arrays

KERNEL = "all array operations as one program of jax.jit"
"""The description of `program` on arrays of JAX, for `explain`."""


def program(run: Callable[..., Any], like: Any) -> Callable[..., Any]:
    """Wrap `run` for arrays, and numbers in tuples of them, of the library of `like`.

    JAX compiles each operation for each shape anyway, so that all of them as one program are ready
    sooner, too. It is compiled once for each shape and dtype, as long as the caller keeps it, and
    derivatives go through it.
    """
    if arrays.library(like) != "jax":
        return run
    import jax

    return jax.jit(run)  # type: ignore[no-any-return]


def constants(like: Any) -> AbstractContextManager[Any]:
    """A context for making arrays that may be kept, also while JAX traces."""
    if arrays.library(like) != "jax":
        return nullcontext()
    import jax

    return jax.ensure_compile_time_eval()  # type: ignore[no-any-return]
