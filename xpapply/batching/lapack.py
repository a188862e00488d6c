"""Functions that pass numbers to iterations of LAPACK, some of which never end on infinities.

NumPy's loop may have stopped at an earlier slice, so that no slice is handed over that the loop
may not have reached: those that are not finite are left to ``f``, in their order.
"""

from __future__ import annotations

_ALWAYS = frozenset(
    f"numpy.{name}"
    for name in (
        "linalg.svd linalg.svdvals linalg.pinv linalg.matrix_rank linalg.eigh linalg.eigvalsh "
        "linalg.lstsq linalg.cond polyfit polynomial.polynomial.polyfit "
        "polynomial.chebyshev.chebfit polynomial.legendre.legfit polynomial.hermite.hermfit "
        "polynomial.hermite_e.hermefit polynomial.laguerre.lagfit"
    ).split()
) | {"scipy.linalg.expm"}

_OF_SINGULAR_VALUES = (2, -2, "nuc")


def may_not_end(name: str, args: tuple, kwargs: dict) -> bool:
    """Whether a call may not end for numbers that are not finite."""
    if name in _ALWAYS:
        return True
    if name in ("numpy.linalg.norm", "numpy.linalg.matrix_norm"):
        order = kwargs.get("ord", args[1] if len(args) > 1 else None)
        matrix = getattr(args[0] if args else None, "ndim", 2) > 1
        return matrix and any(order == k for k in _OF_SINGULAR_VALUES if type(order) is not bool)
    return name.startswith("scipy.linalg.") and kwargs.get("check_finite", True) is False
