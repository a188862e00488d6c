"""Random Python functions with loops of several numbers, or of several slices, as source text."""

from __future__ import annotations

import random

from .loops import CONSTANTS, HEAD, Program
from .short_loops import ShortProgram


class OfNumbers(Program):
    """Draws a program of two numbers, as `numpy.vectorize` calls it."""

    def __init__(self, r: random.Random, ndim: int = 1, whole: bool = False) -> None:
        super().__init__(r, ndim, whole)
        self.vectors, self.tables, self.length = [], [], "3"
        self.numbers = ["p", "q"]
        self.ints = ["p"] if whole else []

    def draw(self) -> str:
        helpers = self.helper() if self.chance(0.4) else []
        helpers += self.recursive() if self.chance(0.15) else []
        self.lines, self.level = [], 1
        for _ in range(self.r.choice([1, 2, 2, 3])):
            self.statement(2)
        while not any("for " in x or "while " in x for x in self.lines):
            self.loop(1)
        self.line(f"return {self.returned()}")
        used = [f"{k} = {x}" for k, x in CONSTANTS.items()]
        return HEAD + "\n".join([*used, "", *helpers, "def f(p, q):", *self.lines]) + "\n"


class OfSlices(ShortProgram):
    """Draws a program of two slices."""

    def __init__(self, r: random.Random, ndim: int = 1, whole: bool = False) -> None:
        super().__init__(r, ndim, whole)
        self.vectors = ["u", "v"]

    def draw(self) -> str:
        return super().draw().replace("def f(v):", "def f(v, u):")
