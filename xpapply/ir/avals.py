"""Shapes and dtypes of values in graphs; apart from the graphs, for those that make none."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

BATCH = -1
"""Length of the batch axis in the shapes of a batched graph: known only when it runs."""
LENGTH = -2
"""Length of a slice in the shape of a vector: known only when it runs."""
VECTOR = (LENGTH,)
KINDS = {"U": "text", "S": "text", "M": "dates", "m": "times", "O": "objects"}
"""Names of values that are no numbers, by the kind of dtype."""
_SYMBOLS = {BATCH: "B", LENGTH: "N"}


class ShapeDtype(NamedTuple):
    """Shape and dtype of a value. dtypes are names: "float32", "bfloat16" ..."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def itemsize(self) -> int:
        """Bytes of a number; NumPy does not know bfloat16, nor its own names of texts, "str96"."""
        if self.dtype.startswith(("str", "bytes")):
            return int("".join(filter(str.isdigit, self.dtype)) or 0) // 8
        return 2 if self.dtype == "bfloat16" else np.dtype(self.dtype).itemsize

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return math.prod(self.shape) * self.itemsize

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(_SYMBOLS.get(n, str(n)) for n in self.shape)}]"
