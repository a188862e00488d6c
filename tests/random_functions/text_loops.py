"""Random Python functions with loops that choose texts, as source text."""

from __future__ import annotations

from .loops import Program

_TEXTS = ["low", "high", "", "middling", "a", "up", "down"]
_HEAD = """from collections import Counter

NAMES = ("low", "high", "a", "middling")
LEVELS = {"low": 1, "high": 5, "": -2, "a": 0, "middling": 3, "up": 7, "down": 8}
SOME = {"low": 1.5, "high": 2.5}
SAID = {0: "zero", 1: "one", -1: "less"}
BACK = {"low": "wol", "high": "hgih", "up": "down", "down": "up"}
"""


class TextProgram(Program):
    """Draws one program."""

    def __init__(self, r, ndim=1, whole=False):
        super().__init__(r, ndim, whole)
        self.labels: list[str] = []

    def draw(self) -> str:
        return _HEAD + super().draw()

    def _apart(self, make):
        kept, self.labels = self.labels, []
        found = make()
        self.labels = kept
        return found

    def helper(self) -> list[str]:
        return self._apart(super().helper)

    def recursive(self) -> list[str]:
        return self._apart(super().recursive)

    def text(self, depth: int = 1) -> str:
        if depth <= 0 or self.chance(0.4):
            return self.r.choice([*self.labels[-3:] * 2, repr(self.r.choice(_TEXTS))])
        a, b, n = self.text(depth - 1), self.text(depth - 1), self.small()
        if self.chance(0.4):
            return self.composed(a, b, n)
        return self.pick(
            f"({a} if {Program.condition(self, 0)} else {b})", f"NAMES[{n} % 4]",
            f"'abca'[{n} % 4]", f"SAID.get({n} % 3, {a})", f"SAID[{n} % 2]", f"BACK.get({a}, {b})",
            f"('x', {b!s}, 'high')[{n} % 3]" if b.startswith("'") else a, f"NAMES[{n}]",
        )  # fmt: skip

    def formatted(self, a: str, n: str) -> str:
        """A text or a number in a format."""
        fill = self.pick("", ">9", "<7", "^8", "*>6", "=0", "0", "08", "+", " 7", "3")
        x = Program.number(self, 1)
        if self.chance(0.3):
            return f"f'{{{n}:{fill}{self.pick('', 'd', 'x', 'b', '#o', ',', ',d')}}}'"
        if self.chance(0.3):
            return self.pick(f"'%5d|%-4d' % ({n}, {n})", f"'%.2f%%' % ({x},)", f"'%s' % ({a},)",
                             f"'{{:.1f}}{{}}'.format({x}, {a})", f"format({x}, '.3f')", f"bin({n})",
                             f"hex({n})", f"format({a}, '{self.pick('>6', '.2', '<4')}')"
                             )  # fmt: skip
        return f"f'{{{x}:{fill}.{self.r.randrange(5)}{self.pick('f', 'f', '%')}}}'"

    def composed(self, a: str, b: str, n: str) -> str:
        """A text that is put together."""
        m, c = self.small(), self.r.choice("ab-")
        if self.chance(0.2):
            return self.formatted(a, n)
        if self.chance(0.3):
            return self.pick(
                f"{a}.strip()", f"{a}.lstrip({c!r})", f"{a}.rstrip({b})", f"{a}.title()",
                f"{a}.capitalize()", f"{a}.swapcase()", f"{a}.zfill({m})", f"{a}.center({m})",
                f"{a}.ljust(abs({n}) % 9, {c!r})", f"{a}.rjust(abs({n}) % 9)",
                f"{a}.partition({c!r})[2]", f"{a}.removeprefix({b})", f"{a}.removesuffix({c!r})",
            )  # fmt: skip
        some = self.pick(
            f"'ab'[{n} % 2] for _ in range(abs({m}) % 7)", f"{a} for _ in range(abs({n}) % 4)",
            f"chr(97 + abs({n}) % 26) for _ in range(3)",
        )  # fmt: skip
        return self.pick(
            f"({a} + {b})", f"({a} + {b} + {c!r})", f"''.join({some})", f"{c!r}.join([{some}])",
            f"{a}[{n}:]", f"{a}[abs({n}) % 3:{m}]", f"{a}[::-1]", f"({a} * (abs({n}) % 3))",
            f"str({n})", f"f'{{{n}}}{c}{{{a}}}'", f"{a}.replace({c!r}, {b})", f"{a}.upper()",
            f"{a}.split({c!r})[0]", f"{a}[{n}]", f"''.join(sorted({a}))",
            f"''.join([{a}, {b}])", f"''.join(reversed([{a}, {b}]))", f"str({n} > {m})",
        )  # fmt: skip

    def condition(self, depth: int = 2) -> str:
        if depth <= 0 or self.chance(0.7):
            return super().condition(depth)
        a, b = self.text(), self.text()
        return self.pick(
            f"{a} == {b}", f"{a} != {b}", f"{a} < {b}", f"{a} in ('low', 'up', 'b')",
            f"{a} not in NAMES", f"{a} in SOME", f"{a} in {b}", f"{a} >= {b}",
            f"{a}.startswith({b})", f"{a}.endswith({b})", f"bool({a})",
            f"{a} in 'highest'", f"not {a}",
        )  # fmt: skip

    def number(self, depth: int = 2) -> str:
        if depth <= 0 or self.chance(0.85):
            return super().number(depth)
        a, b = self.text(), self.text()
        if self.chance(0.5):
            return self.pick(
                f"{a}.count({b})", f"{a}.find({b})", f"len(set({a}))", f"len({{{a}, {b}}})",
                f"sum(1 for c in {a} if c == 'a')", f"Counter({a})['a']", f"ord({a}[0])",
                f"{{{a}: 3, {b}: 4}}.get({self.text()}, 0)", f"[{a}, {b}].index({b})",
                f"max(len(w) for w in {a}.split('a'))", f"int(str({self.small()}))",
                f"sum(x == y for x, y in zip({a}, {b}))", f"{a}.rfind({b})", f"{a}.isalpha()",
                f"{a}.isdigit() + 2 * {a}.isupper() + 4 * {a}.islower()", f"{a}.rindex('a')",
                f"float('{{:.2f}}'.format({Program.number(self, 1)}))",
                f"bin({self.small()}).count('1')",
            )  # fmt: skip
        return self.pick(f"LEVELS[{a}]", f"SOME.get({a}, 0.5)", f"len({a})", f"SOME[{a}]",
                         f"LEVELS.get({a}, 9)")  # fmt: skip

    def statement(self, depth: int) -> None:
        if self.chance(0.75):
            super().statement(depth)
            return
        if self.labels and self.chance(0.3):
            name = self.r.choice(self.labels)
            more = self.text()
            self.line(self.pick(f"{name} += {more}", f"{name} = {name} + {more}",
                                f"{name} = {more} + {name}"))  # fmt: skip
        elif not self.labels or self.chance(0.3):
            name = self.name("s")
            self.line(f"{name} = {self.text()}")
            self.labels.append(name)
        else:
            self.line(f"{self.r.choice(self.labels)} = {self.text()}")

    def returned(self) -> str:
        if self.chance(0.4):
            return super().returned()
        a = self.text()
        return self.pick(a, a, f"{a}, {self.number(1)}", f"{a}, {self.text()}", f"[{a}, {a}]")
