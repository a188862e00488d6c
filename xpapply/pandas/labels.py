"""What is known of a Series while a function that gets it is written anew."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from ..errors import TraceError

NUMPY = "_xpapply_numpy"
"""What NumPy is called in functions that are written anew."""


@dataclass(frozen=True)
class Labels:
    """What is known of a Series.

    Attributes
    ----------
    names : tuple or None
        Its labels, in their order; None: they are not known, or differ from call to call.
    kind : str
        Of its dtype, as of `numpy.dtype.kind`.
    gaps : bool
        Whether it may have NaN.
    some : bool
        Whether its elements were chosen by what they are: there may be none.
    columns : tuple of str
        Names of parameters, one for each label, where the Series is not there as an array;
        "" where there is none.
    masked : bool
        Whether its dtype is a nullable one: what has gaps has them in the place of pandas' NA.
    inner : tuple of Labels
        What is known of the columns, where these are Series: it is a DataFrame.
    """

    names: tuple[Hashable, ...] | None
    kind: str = "f"
    gaps: bool = False
    some: bool = False
    columns: tuple[str, ...] = ()
    inner: tuple[Labels | None, ...] = ()
    masked: bool = False


@dataclass(frozen=True)
class Array:
    """An expression of an array, and what is known of the Series that it stands for."""

    expr: Any
    labels: Labels


class Refused(TraceError):
    """Why a function cannot be written anew."""


LACKING = "elements of a nullable dtype of which some are missing: fillna, or astype('float64')"
"""Why a function of some Series with gaps is pandas' business."""
