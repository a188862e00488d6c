"""Functions of slices of several arrays: vectors, numbers and matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from .writer import DTYPES, E, Writer

NAMES = ("v", "other", "third")


class SeveralWriter(Writer):
    """Writes a function of several slices, and the signature that it has."""

    def __init__(self, r: Any, theme: str) -> None:
        self.sizes = {d: 1 + r.randrange(6) for d in "nmk"}
        self.dtypes = [DTYPES[r.randrange(len(DTYPES))] for _ in range(1 + r.randrange(3))]
        super().__init__(r, self.sizes["n"], self.dtypes[0], theme)
        cores = ["n"]
        for name, dtype in zip(NAMES[1:], self.dtypes[1:], strict=False):
            core = self.pick("n", "n", "n", "m", "", "", "mk", "nm")
            cores.append(core)
            form = ("num", "arr", "mat")[len(core)]
            dt = "u" if dtype == "uint8" else np.dtype(dtype).kind
            self.vars.append(E(name, form, tuple(self.sizes[d] for d in core), dt, name=True))
        self.cores = cores
        self.lines = [f"def f({', '.join(NAMES[: len(cores)])}):"]

    def some_length(self) -> int:
        if self.chance(0.3):
            return self.sizes[self.pick("n", "m", "k")]
        return super().some_length()

    def _dims(self, k: int, shape: tuple[int, ...]) -> str:
        """The core dims of a result: known ones where they are as long, or new ones."""
        found = []
        for a, n in enumerate(shape):
            own = [d for d in dict.fromkeys("".join(self.cores)) if self.sizes[d] == n]
            found.append(self.pick(*own) if own and self.chance(0.7) else f"r{k}{a}")
        return f"({','.join(found)})"

    @property
    def signature(self) -> str:
        """As `vectorize` takes it."""
        inputs = ",".join(f"({','.join(c)})" for c in self.cores)
        return f"{inputs}->{','.join(self.outputs)}"

    def _one(self, form: str, n: Any) -> str:
        if form == "num":
            return self.num().src if self.chance(0.9) else self.pick(self.cond(), self.const())
        if form == "arr":
            return self.arr(n).src
        if form == "mat":
            return self.mat(n).src
        return "np.array([" + ", ".join(self.num().src for _ in range(n)) + "])"

    def result(self) -> None:
        self.line(f"return {', '.join(self._one(*r) for r in self.promised)}")

    def write(self) -> str:
        self.promised: list[tuple[str, Any]] = []
        self.outputs = []
        for k in range(self.pick(1, 1, 1, 2, 3)):
            form = self.pick("num", "arr", "num", "arr", "list", "mat")
            n: Any = self.some_length()
            if form == "mat":
                n = (1 + self.r.randrange(3), 1 + self.r.randrange(3))
            if form == "list":
                n = 1 + self.r.randrange(4)
            self.promised.append((form, n))
            shape = () if form == "num" else n if form == "mat" else (n,)
            self.outputs.append(self._dims(k, shape))
        for _ in range(self.r.randrange(5)):
            self.statement()
        self.result()
        return "\n".join(self.lines) + "\n"
