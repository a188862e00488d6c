"""Random functions with loops that a device can run: of two numbers, or of a slice."""

from __future__ import annotations

import random


class DeviceLoops:
    """Draws one.

    Parameters
    ----------
    r : random.Random
    of_numbers : bool
        Whether it gets two numbers of Python's; else a slice ``v``.
    """

    def __init__(self, r: random.Random, *, of_numbers: bool) -> None:
        self.r, self.of_numbers = r, of_numbers
        self.floats = ["a", "b"] if of_numbers else ["v[0]", "v[-1]"]
        self.ints: list[str] = []
        self.lines: list[str] = []
        self.level, self.count, self.loops = 1, 0, 0

    def draw(self) -> str:
        """The source of ``f``."""
        r = self.r
        for _ in range(r.randrange(1, 3)):
            self._assigned(r.choice(["x", "k"]))
        for _ in range(r.randrange(1, 5)):
            self._statement(2)
        several = f"({self.number(1)}, {self.number(1)})"
        self._line(f"return {r.choice([self.number(2), self.number(2), several])}")
        head = "def g(p, q=2):\n    if p > q:\n        return p - q\n    return q * p\n\n\n"
        given = "a, b" if self.of_numbers else "v"
        return "import math\n\n\n" + head + f"def f({given}):\n" + "\n".join(self.lines) + "\n"

    # --- statements -----------------------------------------------------------------------------

    def _line(self, text: str) -> None:
        self.lines.append("    " * self.level + text)

    def _name(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def _assigned(self, kind: str) -> None:
        name = self._name(kind)
        if kind == "k":
            self._line(f"{name} = {self.whole(2)}")
            self.ints.append(name)
        else:
            self._line(f"{name} = {self.number(2)}")
            self.floats.append(name)

    def _within(self, depth: int, extra: str = "") -> None:
        """Some statements one level deeper; what they name is not known afterwards."""
        known = len(self.floats), len(self.ints)
        self.level += 1
        for _ in range(self.r.randrange(1, 4)):
            self._statement(depth - 1)
        if extra:
            self._line(extra)
        self.level -= 1
        del self.floats[known[0] :], self.ints[known[1] :]

    def _statement(self, depth: int) -> None:
        r = self.r
        own = [x for x in (*self.floats, *self.ints) if x[0] in "xk"]
        kind = r.randrange(9 if depth > 0 else 4)
        if kind < 2 and own:
            name = r.choice(own)
            if name[0] == "k":
                self._line(f"{name} {r.choice(['+=', '-=', '*='])} {r.choice(['1', '2', '3'])}")
            else:
                self._line(f"{name} {r.choice(['+=', '-=', '*='])} {self.number(1)}")
        elif kind < 4:
            self._assigned(r.choice(["x", "x", "k"]))
        elif kind == 4:
            self._line(f"if {self.condition(2)}:")
            self._within(depth, r.choice(["", "", "", f"return {self.number(1)}"]))
            if r.random() < 0.5:
                self._line("else:")
                self._within(depth)
        elif kind < 8:
            self._for(depth)
        else:
            name = self._name("n")
            self._line(f"{name} = 0")
            self._line(f"while {name} < {r.randrange(2, 9)} and {self.condition(1)}:")
            self.level += 1
            self._line(f"{name} += 1")
            self.level -= 1
            self._within(depth)

    def _for(self, depth: int) -> None:
        r, known = self.r, (len(self.floats), len(self.ints))
        ranged = [f"range({r.randrange(1, 7)})", f"range({self.whole(0)} % 5)", "range(5, 0, -2)"]
        if self.of_numbers or r.random() < 0.3:
            name = self._name("i")
            self._line(f"for {name} in {r.choice(ranged)}:")
            self.ints.append(name)
        else:
            one, other = self._name("e"), self._name("i")
            self._line(
                r.choice(
                    [
                        f"for {one} in v:",
                        f"for {one} in v[1:]:",
                        f"for {one} in reversed(v):",
                        f"for {other}, {one} in enumerate(v):",
                        f"for {one}, {other} in zip(v, v[::-1]):",
                    ]
                )
            )
            self.floats.append(one)
            if f"enumerate({'v'})" in self.lines[-1]:
                self.ints.append(other)
        if r.random() < 0.25:
            self.level += 1
            self._line(f"if {self.condition(1)}:")
            self._line("    " + r.choice(["break", "continue"]))
            self.level -= 1
        self._within(depth)
        del self.floats[known[0] :], self.ints[known[1] :]

    # --- expressions ----------------------------------------------------------------------------

    def number(self, depth: int) -> str:
        """A number of any kind."""
        r, d = self.r, depth - 1
        kind = r.randrange(12)
        if d < 0 or kind < 3:
            return r.choice([*self.floats, *self.floats, *self.ints, "0.5", "2.0", "-1.5", "3"])
        if kind < 6:
            return f"({self.number(d)} {r.choice('+-*')} {self.number(d)})"
        if kind == 6:
            return f"({self.number(d)} / {r.choice(['2', '0.7', self.number(0)])})"
        if kind == 7 and self.of_numbers:  # the stand-in divides slices as NumPy does
            op = r.choice(["//", "%"])
            return f"({self.number(d)} {op} {r.choice(['2', '0.75', '-3', self.number(0)])})"
        if kind == 8:
            return f"({self.number(d)} if {self.condition(d)} else {self.number(d)})"
        if kind == 9:
            if self.of_numbers:
                called = r.choice(["abs", "math.fabs", "round", "float", "-"])
                return f"{called}({self.number(d)})"
            return f"{r.choice(['abs', 'float', '-'])}({self.number(d)})"
        if kind == 10:
            return f"{r.choice(['min', 'max'])}({self.number(d)}, {self.number(d)})"
        return f"g({self.number(d)})" if r.random() < 0.6 else f"({self.number(d)}) ** 2"

    def whole(self, depth: int) -> str:
        """An integer of Python's, mostly."""
        r, d = self.r, depth - 1
        kind = r.randrange(6)
        if d < 0 or kind < 2:
            return r.choice([*self.ints, "0", "1", "2", "5", "-3"])
        if kind == 2:
            return f"int({self.number(d)})"
        if kind == 3:
            return f"({self.whole(d)} {r.choice(['+', '-', '*', '//', '%'])} {r.randrange(1, 5)})"
        if kind == 4:
            return f"({self.whole(d)} {r.choice('&|^')} {self.whole(d)})"
        return f"({self.whole(d)} if {self.condition(d)} else {self.whole(d)})"

    def condition(self, depth: int) -> str:
        """A question."""
        r, d = self.r, depth - 1
        if d < 0 or r.random() < 0.6:
            op = r.choice(["<", ">", "<=", ">=", "==", "!="])
            return f"{self.number(d)} {op} {self.number(d)}"
        if r.random() < 0.3:
            return f"not ({self.condition(d)})"
        return f"({self.condition(d)} {r.choice(['and', 'or'])} {self.condition(d)})"
