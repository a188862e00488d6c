"""Random Python functions with loops and decisions, as source text.

Values are numbers of any type, so what a program does with them may raise, warn or overflow: that
is wanted, in some slices. Loops are bounded, and products of two names are kept small, or integers
would grow for ever.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from .library_calls import IDIOMS, IDIOMS_OF_PYTHON, NUMBERS, OF_ARRAYS, OF_PYTHON

HEAD = (
    "import bisect\nimport heapq\nimport math\nimport operator\nimport statistics\n"
    "from collections import Counter, defaultdict, deque\n"
    "from functools import cache\n"
    "from itertools import *\n\n"
    "import numpy as np\n"
    + """

def runs(v, t):
    n = 0
    for x in v:
        if x > t:
            n += 1
        elif n:
            yield n
            n = 0
    if n:
        yield n


@cache
def halved(x):
    return x * 0.5 - 1


def even(n):
    return True if n <= 0 else odd(n - 1)


def odd(n):
    return False if n <= 0 else even(n - 1)


"""
)
CONSTANTS = {
    "K": "3", "R": "0.75", "G": "np.float32(1.5)", "J": "np.int8(7)",
    "TAB": "np.array([1.5, -2.0])",
    "W": "(2, 0.5, 3)", "EMPTY": "None",
}  # fmt: skip
ONE_OF_MATH = (
    "sqrt exp log log2 log10 log1p expm1 sin cos tan atan asin acos sinh cosh tanh asinh erf erfc "
    "fabs radians degrees cbrt exp2 floor ceil trunc isnan isinf isfinite"
).split()
TWO_OF_MATH = "pow atan2 fmod copysign".split()
ONE_OF_NUMPY = (
    "sqrt exp log log2 log10 log1p expm1 sin cos tan arctan arcsin arccos sinh cosh tanh arcsinh "
    "abs fabs sign square negative floor ceil rint trunc cbrt exp2 isnan isinf isfinite"
).split()
TWO_OF_NUMPY = "maximum minimum hypot arctan2 copysign fmod logaddexp power float_power".split()
SCALARS = (
    "float32 float32 float64 float64 float16 int64 int32 int16 int8 uint8 uint16 uint32 uint64 "
    "bool_"
).split()
EXTREMES = (
    "1e300 1e-300 1e38 1e39 -1e300 2**31 2**31-1 2**53+1 2**62 127 128 255 256 -129 "
    "float('nan') float('inf') -0.0 math.pi"
).split()


_CAUGHT = (
    "ZeroDivisionError", "ValueError", "Exception", "(IndexError, OverflowError)",
    "ArithmeticError", "LookupError", "IndexError", "(ZeroDivisionError, ValueError)",
    "AssertionError",
)  # fmt: skip
_CLASSES = "float", "int", "(int, np.integer)", "np.floating", "bool", "(np.ndarray, np.float32)"
_SAID = 'all="ignore"', 'divide="ignore", invalid="ignore"', 'over="ignore"', 'divide="warn"'


class Program:
    """Draws one program.

    Parameters
    ----------
    r : random.Random
        What decides.
    ndim : int
        Axes of a slice.
    whole : bool
        Whether its elements are integers or truth values.
    """

    def __init__(self, r: random.Random, ndim: int = 1, whole: bool = False) -> None:
        self.r, self.ndim, self.whole = r, ndim, whole
        self.lines: list[str] = []
        self.level = 1
        self.count = 0
        self.loops: list[str] = []
        self.numbers: list[str] = []
        self.ints: list[str] = []
        self.vectors = ["v"] if ndim == 1 else []
        self.own: list[str] = []
        self.tables: list[str] = [] if ndim == 1 else ["v"]
        self.lists: list[str] = []
        self.helpers: list[tuple[str, int]] = []
        self.again: list[str] = []
        self.length = "len(v)"

    # --- writing --------------------------------------------------------------------------

    def line(self, text: str) -> None:
        self.lines.append("    " * self.level + text)

    def name(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def chance(self, share: float) -> bool:
        return self.r.random() < share

    def pick(self, *makers: Any) -> Any:
        """One of several: texts, or functions that write one."""
        found = self.r.choice(makers)
        return found() if callable(found) else found

    def draw(self) -> str:
        """The source of a module; its function is ``f``."""
        r = self.r
        used = [f"{k} = {x}" for k, x in CONSTANTS.items()]
        helpers: list[str] = []
        for _ in range(r.choice([0, 0, 1, 1, 2])):
            helpers += self.helper()
        for _ in range(r.choice([0, 0, 0, 1])):
            helpers += self.recursive()
        self.lines, self.level = [], 1
        given = ["v"]
        if self.ndim == 1 and self.chance(0.2):
            self.own.append("v")
        if self.chance(0.3):
            given.append(f"k={self.pick('2', '1.5', 'True', 'np.float32(0.5)', 'np.int64(3)')}")
            self.numbers.append("k")
        for _ in range(r.choice([1, 1, 2])):
            value = self.pick("0", "0.0", "1", self.number, self.literal)
            self.line(f"{self.new_number()} = {value}")
        if self.chance(0.4):
            self.make()
        for _ in range(r.choice([1, 2, 2, 3, 4])):
            self.statement(2)
        self.line(f"return {self.returned()}")
        body = [f"def f({', '.join(given)}):", *self.lines]
        return HEAD + "\n".join([*used, "", *helpers, *body]) + "\n"

    def helper(self) -> list[str]:
        """A function that others call."""
        name, count = f"h{len(self.helpers)}", self.r.choice([1, 2, 2])
        kept = self.__dict__.copy()
        self.lines, self.level, self.loops, self.length = [], 1, [], "3"
        self.numbers, self.ints, self.vectors, self.own = ["a", "b", "c"][:count], [], [], []
        self.tables, self.lists = [], []
        head = ["a", "b=2", "*", "c=1.5"] if self.chance(0.5) else ["a", "b=0.5", "c=J"]
        self.numbers = ["a", "b", "c"]
        for _ in range(self.r.choice([0, 1, 1, 2])):
            self.statement(1)
        self.line(f"return {self.number()}")
        found = [f"def {name}({', '.join(head)}):", *self.lines, ""]
        helpers = [*self.helpers, (name, count)]
        used = self.count
        self.__dict__.update(kept)
        self.helpers, self.count = helpers, used
        return found

    def recursive(self) -> list[str]:
        """A function that calls itself, up to a few times."""
        name = f"rec{len(self.again)}"
        kept = self.__dict__.copy()
        self.lines, self.level, self.loops, self.length = [], 1, [], "3"
        self.numbers, self.ints, self.vectors, self.own = ["a", "b"], ["n"], [], []
        self.tables, self.lists, self.helpers = [], [], []
        self.line(f"if n <= 0 {self.pick('', f'or {self.condition(1)}')}:")
        self.line(f"    return {self.number(1)}")
        if self.chance(0.4):
            self.statement(1)
        one = f"{name}({self.number(1)}, n - 1{self.pick('', f', {self.number(0)}')})"
        two = f"{name}({self.number(0)}, n - 2)"
        if self.chance(0.3):
            self.line(f"if {self.condition(1)}:")
            self.line(f"    return {two}")
        self.line(f"b = {one}" if self.chance(0.3) else f"a = {one} + a")
        self.line("return " + self.pick(
            "a", "b - a", self.number(1), one, f"{one} + {two}", f"{self.number(0)} - {one}",
            f"max({two}, a)",
        ))  # fmt: skip
        found = [f"def {name}(a, n, b={self.literal()}):", *self.lines, ""]
        again, used = [*self.again, name], self.count
        self.__dict__.update(kept)
        self.again, self.count = again, used
        return found

    def new_number(self) -> str:
        name = self.name("x")
        self.numbers.append(name)
        return name

    # --- expressions ------------------------------------------------------------------------

    def literal(self) -> str:
        if self.chance(0.08):
            return f"({self.r.choice(EXTREMES)})"
        return self.pick(
            str(self.r.randrange(-3, 10)),
            str(self.r.randrange(5)),
            f"{self.r.choice([0.5, 1.0, 2.0, 0.1, -1.5, 0.0, 3.25])}",
            self.r.choice(["True", "False", "K", "R", "G", "J", "W[1]", "TAB[0]"]),
        )

    def element(self) -> str:
        """An element of something."""
        some: list[str] = []
        some += [f"{x}[{self.index(x)}]" for x in self.vectors[-3:]]
        some += [f"{x}[{self.index(x)}]" for x in self.lists[-2:]]
        some += [f"{x}[{self.index(x)}, {self.index(x + '[0]')}]" for x in self.tables[-2:]]
        return self.r.choice(some) if some else self.literal()

    def index(self, x: str) -> str:
        if self.loops and self.chance(0.6):
            i = self.r.choice(self.loops)
            return self.pick(i, f"{i} - 1", f"{i} // 2", *[f"{i} % len({x})"] * 3)
        if self.chance(0.05):
            return self.pick(self.small, f"-{self.small()}")
        return self.pick("0", "-1", "0", f"{self.small()} % len({x})", f"len({x}) - 1")

    def small(self) -> str:
        """A small integer that is not negative."""
        some = [str(self.r.randrange(5)), self.length, self.length]
        some += self.loops[-2:]
        some += [f"{x} % {self.r.randrange(1, 6)}" for x in self.ints[-2:]]
        return self.r.choice(some)

    def library(self) -> str:
        """An array, or a number, of a library's function."""
        x, y, n = self.many(), self.many(), self.small()
        e = self.number(0)
        made = self.r.choice(OF_ARRAYS).format(x=x, y=y, n=n, e=e)
        if self.chance(0.5):
            return f"({made})[{self.pick('0', '-1', f'{n} % 4')}]"
        return f"np.{self.r.choice(['sum', 'max', 'mean', 'median', 'std', 'argmax'])}({made})"

    def integer(self, depth: int = 2) -> str:
        """An integer, if all is well."""
        if depth <= 0 or self.chance(0.3):
            some = [str(self.r.randrange(-2, 8)), self.small(), *self.ints[-3:], *self.loops]
            if self.whole and self.vectors:
                some.append(self.element())
            return self.r.choice(some)
        a = self.integer(depth - 1)
        b = self.integer(depth - 1)
        return self.pick(
            f"({a} {self.r.choice('+-&|^')} {b})",
            f"({a} {self.r.choice(['*', '//', '%', '&'])} {self.r.choice('12357')})",
            f"({a} {self.r.choice(['<<', '>>'])} {self.r.choice(['1', '2', '5', f'({b} & 7)'])})",
            f"({a} {self.r.choice(['//', '%'])} ({b}))",
            f"{self.r.choice(['-', '~', '+'])}{a}",
            f"int({self.number(depth - 1)})",
            f"abs({a})",
            f"round({self.number(depth - 1)})",
            f"math.floor({self.number(depth - 1)})",
            f"({a} ** {self.r.choice('0123')} % 1000)",
            f"(2 ** ({b} & 15))",
            f"math.gcd({a}, {b})",
            f"np.{self.r.choice(['int8', 'int32', 'uint8', 'int64', 'uint64'])}({a})",
            f"({self.condition(depth - 1)})",
            f"(({a} * {b}) & 1023)",
        )

    def number(self, depth: int = 2) -> str:
        """A number."""
        if depth <= 0 or self.chance(0.25):
            some: list[Any] = [self.literal, self.element, self.element]
            some += self.numbers[-4:] * 2
            some += self.loops[-2:] + self.ints[-2:]
            return self.pick(*some)
        a, b = self.number(depth - 1), self.number(depth - 1)
        makers: list[Callable[[], str]] = [
            lambda: f"({a} {self.r.choice('+-')} {b})",
            lambda: f"({a} {self.r.choice('+-')} {b})",
            lambda: f"({a} * {self.pick(self.literal, '0.5', self.element)})",
            lambda: f"({a} / {self.pick(b, '2', '0.3', f'({b} + 10)')})",
            lambda: f"({a} {self.r.choice(['//', '%'])} {self.pick(b, '3', '0.7', '-2')})",
            lambda: f"({a} ** {self.pick('2', '2', '0.5', '-1', '3', '1.5', f'({b} % 3)')})",
            lambda: f"{self.r.choice('-+')}{a}",
            lambda: f"abs({a})",
            lambda: f"{self.r.choice(['min', 'max'])}({a}, {b})",
            lambda: f"{self.r.choice(['min', 'max'])}({a}, {b}, {self.literal()})",
            lambda: f"({a} if {self.condition(depth - 1)} else {b})",
            lambda: f"({a} {self.r.choice(['and', 'or'])} {b})",
            lambda: f"{self.r.choice(['int', 'float', 'float', 'bool', 'round'])}({a})",
            lambda: f"divmod({a}, {self.pick(b, '3', '0.7')})[{self.r.randrange(2)}]",
            lambda: f"math.{self.r.choice(ONE_OF_MATH)}({a})",
            lambda: f"math.{self.r.choice(ONE_OF_MATH)}(abs({a}) % 1)",
            lambda: f"math.{self.r.choice(TWO_OF_MATH)}({a}, {b})",
            lambda: f"np.{self.r.choice(ONE_OF_NUMPY)}({a})",
            lambda: f"np.{self.r.choice(TWO_OF_NUMPY)}({a}, {b})",
            lambda: f"np.{self.r.choice(SCALARS)}({a})",
            lambda: f"np.where({self.condition(depth - 1)}, {a}, {self.pick(b, a)})",
            lambda: self.integer(depth),
            lambda: self.condition(depth - 1),
            lambda: self.of_many(depth - 1),
            self.library,
            lambda: self.r.choice(NUMBERS + OF_PYTHON).format(
                x=self.many(), y=self.many(), n=self.small(), e=self.number(0)
            ),
            lambda: self.call(depth - 1),
            lambda: self.call(depth - 1),
            lambda: f"({a}).{self.r.choice(['real', 'item()', 'conjugate()'])}",
        ]
        return self.r.choice(makers)()

    def call(self, depth: int) -> str:
        if self.again and self.chance(0.5):
            name = self.r.choice(self.again)
            n = self.pick(f"{self.small()} % 5", "3", "4")
            return f"{name}({self.number(depth)}, {n}{self.pick('', f', {self.literal()}')})"
        if not self.helpers:
            return f"(1 - {self.number(depth)})"
        name, _ = self.r.choice(self.helpers)
        a, b = self.number(depth), self.number(depth)
        return self.pick(
            f"{name}({a})", f"{name}({a}, {b})", f"{name}(b={a}, a={b})", f"{name}({a}, c={b})"
        )

    def many(self) -> str:
        """Something of one axis to go through."""
        some = [*self.vectors, *self.vectors, *self.lists]
        if not some:
            some = ["v[0]"] if self.tables else ["[1, 2.5]"]
        x = self.r.choice(some)
        if x not in self.lists and self.chance(0.3):
            return f"{x}[{self.slice()}]"
        return x

    def slice(self) -> str:
        n = self.small()
        step = self.r.choice(["", "", ":2", ":-1", ":-2"])
        return self.pick(
            f"{n}:{step}", f":{n}{step}", f"-{n}:{step}", f":-1{step}", f"::{step[1:]}"
        )

    def of_many(self, depth: int) -> str:
        x = self.many()
        y = self.name("y")
        self.numbers.append(y)
        e, c = self.number(depth), self.condition(depth)
        self.numbers.remove(y)
        inside = f"{e} for {y} in {x}{self.pick('', '', f' if {c}')}"
        values = self.pick(x, inside, f"[{inside}]", f"({inside})")
        over = self.pick(inside, f"{c} for {y} in {x}", f"({x})")
        if self.chance(0.15):
            return self.pick(f"any({inside})", f"all({inside})")
        if self.chance(0.25):
            return self.by_key(depth, values)
        return self.pick(
            f"sum({values})", f"sum({values})", f"max({values})", f"min({values})",
            f"any({over})", f"all({over})", f"len([{inside}])",
            f"sorted({values})[{self.pick('0', '-1')}]",
            f"len(list({values}))", f"sum(({self.pick(values, '0.5, 1, 2')}), {self.literal()})",
        )  # fmt: skip

    def by_key(self, depth: int, values: str) -> str:
        """A choice by a function that is defined for it."""
        z = self.name("z")
        self.numbers.append(z)
        key = f"key=lambda {z}: {self.pick(self.number, self.condition)}"
        self.numbers.remove(z)
        of = self.r.choice(["min", "max"])
        values = f"({values})"
        reverse = self.pick("", ", reverse=True", f", reverse={self.condition(1)}")
        n = self.small()
        return self.pick(
            f"{of}({values}, {key})", f"{of}({values}, default={self.literal()})",
            f"sorted({values}, {key}{reverse})[{self.pick('0', '-1')}]",
            f"sorted({values}{reverse})[0]", f"{of}(range({n}), {key}, default=0)",
            f"sorted(range({n}), {key}{reverse})[-1]",
            f"{of}({self.number(0)}, {self.number(0)}, {key})",
        )  # fmt: skip

    def condition(self, depth: int = 2) -> str:
        a, b = self.number(depth - 1), self.number(depth - 1)
        compared = self.r.choice(["<", "<=", ">", ">=", "==", "!="])
        plain = f"{a} {compared} {self.pick(b, '0', '0', self.literal)}"
        if depth <= 0 or self.chance(0.5):
            return plain
        c = self.condition(depth - 1)
        return self.pick(
            f"({plain} {self.r.choice(['and', 'or'])} {c})",
            f"not ({plain})",
            f"{self.literal()} {self.r.choice(['<', '<='])} {a} "
            f"{self.r.choice(['<', '>', '!='])} {b}",
            f"{self.small()} < {self.integer()} <= {self.small()}",
            f"{a} {self.r.choice(['in', 'not in'])} ({b}, {self.literal()})",
            f"math.isnan({a})",
            f"np.isfinite({a})",
            f"bool({a})",
            f"isinstance({a}, {self.r.choice(_CLASSES)})",
            f"{a}",
        )

    # --- statements ---------------------------------------------------------------------------

    def block(self, depth: int, most: int = 2) -> None:
        """Indented statements; names that begin here may have no value afterwards."""
        self.level += 1
        kept = {k: list(x) for k, x in self.__dict__.items() if type(x) is list and k != "lines"}
        begin = len(self.lines)
        for _ in range(self.r.randrange(1, most + 1)):
            self.statement(depth)
        if self.loops and self.chance(0.12):
            self.line(self.pick("break", "continue"))
        if self.lines[begin:] == []:
            self.line("pass")
        keep_new = self.chance(0.04)
        if not keep_new:
            self.__dict__.update(kept)
        self.level -= 1

    def statement(self, depth: int) -> None:
        simple: list[Callable[[], None]] = [
            self.assign, self.assign, self.augment, self.augment, self.count_up, self.swap,
            self.write, self.listed, self.make, self.idiom,
        ]  # fmt: skip
        if depth <= 0:
            self.r.choice(simple)()
            return
        compound: list[Callable[[int], None]] = [
            self.loop, self.loop, self.loop, self.decide, self.decide, self.while_loop,
            self.attempt, self.attempt, self.quietly, self.match, self.define,
        ]  # fmt: skip
        if self.chance(0.55):
            self.r.choice(compound)(depth - 1)
        else:
            self.r.choice(simple)()

    def assign(self) -> None:
        value = self.number()
        if self.numbers and self.chance(0.6):
            name = self.r.choice(self.numbers)
            if name.startswith("y"):
                name = self.new_number()
        else:
            name = self.new_number()
        self.line(f"{name} = {value}")

    def augment(self) -> None:
        if not self.numbers:
            return self.assign()
        name = self.r.choice(self.numbers)
        op = self.r.choice(
            ["+", "+", "+", "-", "*", "/", "//", "%", "**", "|", "&", "^", "<<", ">>"]
        )
        if op in ("+", "-", "/", "//", "%"):
            value = self.number()
        elif op == "*":
            value = self.pick(self.literal, self.element, "0.5", "-1")
        elif op == "**":
            value = self.pick("2", "0.5", "1", "-1")
        elif self.ints:
            name = self.r.choice(self.ints)
            value = self.pick("1", "3", f"({self.integer()} & 7)")
        else:
            op, value = "+", self.number()
        if op == "**" and value == "2" and self.loops:
            value = "1"
        self.line(f"{name} {op}= {value}")
        return None

    def count_up(self) -> None:
        if not self.ints or self.chance(0.2):
            name = self.name("n")
            self.line(f"{name} = {self.pick('0', '1', self.integer)}")
            self.ints.append(name)
            return
        name = self.r.choice(self.ints)
        self.line(f"{name} {self.pick('+=', '+=', '-=')} {self.pick('1', '1', self.integer)}")

    def swap(self) -> None:
        if len(self.numbers) < 2:
            return self.assign()
        a, b = self.r.sample(self.numbers, 2)
        values = self.pick(f"{b}, {a}", f"{b}, {a} + {self.number(1)}", f"{self.number(1)}, {a}",
                           f"divmod({a}, {self.number(1)})")  # fmt: skip
        self.line(f"{a}, {b} = {values}")
        return None

    def make(self) -> None:
        """An array or a list of its own."""
        n, r = self.small(), self.r
        dtype = self.pick(
            "", "", f", np.{r.choice(SCALARS)}", f", dtype=np.{r.choice(SCALARS)}", ", int"
        )
        like = self.r.choice(self.vectors) if self.vectors else "TAB"
        if self.chance(0.2):
            name = self.name("t")
            self.line(
                f"{name} = np.{self.pick('zeros', 'ones')}"
                f"(({n} + 1, {self.pick('2', self.length)}){dtype})"
            )
            self.tables.append(name)
            return
        if self.chance(0.35):
            name = self.name("l")
            y = self.name("y")
            self.numbers.append(y)
            e, c = self.number(), self.condition()
            self.numbers.remove(y)
            inside = f"{e} for {y} in {self.many()}"
            self.line(f"{name} = " + self.pick(
                "[]", "[]", f"[{self.literal()}] * {self.small()}", f"[{inside}]",
                f"[{inside} if {c}]",
                f"[{self.number()}, {self.number()}]", f"list({self.many()})",
                f"sorted({self.many()})",
                f"[{y} * {self.pick('1', 'z')} for {y} in {self.many()} "
                f"for z in range({self.small()})]",
            ))  # fmt: skip
            self.lists.append(name)
            return
        name = self.name("w")
        self.line(f"{name} = " + self.pick(
            f"np.zeros({n}{dtype})", f"np.ones({n}{dtype})", f"np.zeros({self.length}{dtype})",
            f"np.zeros_like({like}{dtype})", f"np.full({n}, {self.number(1)}{dtype})",
            f"np.full_like({like}, {self.number(1)})", f"{like}.copy()", f"np.array({like})",
            f"np.array([{self.number(1)}, {self.number(1)}])", f"{like}[{self.slice()}].copy()",
            f"np.array([{self.number(1)} for _ in range({n})])",
        ))  # fmt: skip
        self.vectors.append(name)
        self.own.append(name)

    def write(self) -> None:
        tables = [t for t in self.tables if t != "v"]
        if tables and self.chance(0.4):
            x = self.r.choice(tables)
            at = f"{self.index(x)}, {self.index(x + '[0]')}"
            self.line(f"{x}[{at}] {self.pick('=', '+=', '-=')} {self.number()}")
            return
        some = [*self.own, *self.lists]
        if not some:
            return self.make()
        x = self.r.choice(some)
        if x in self.own and self.chance(0.25):
            self.line(self.pick(
                f"{x}[{self.slice()}] = {self.number(1)}", f"{x}[1:] = {x}[:-1]",
                f"{x}[{x} {self.r.choice('<>')} {self.literal()}] = {self.number(1)}",
                f"{x}[:] = {x}[::-1]", f"{x} {self.r.choice('+-*')}= {self.literal()}",
                f"{x}.fill({self.literal()})",
                f"{x}[{self.slice()}] = {self.pick(*self.vectors)}",
            ))  # fmt: skip
            return None
        at = self.index(x)
        self.line(f"{x}[{at}] {self.pick('=', '=', '+=', '*=')} {self.number()}")
        return None

    def listed(self) -> None:
        """Something with a list."""
        if not self.lists:
            return self.make()
        x = self.r.choice(self.lists)
        if self.chance(0.3):
            name = self.new_number()
            self.line(f"if {x}:")
            self.line(f"    {name} = {x}.pop()")
            self.line("else:")
            self.line(f"    {name} = {self.literal()}")
        elif self.chance(0.1):
            name = self.name("l")
            self.line(f"{name} = {x}")
            self.lists.append(name)
        elif self.chance(0.1):
            self.line(f"{x}.clear()")
        else:
            self.line(f"{x}.append({self.number()})")
        return None

    def loop(self, depth: int) -> None:
        r = self.r
        i, y = self.name("i"), self.name("e")
        x, n = self.many(), self.small()
        kept = list(self.loops), list(self.numbers)
        if self.tables and self.chance(0.3):
            row = self.name("r")
            self.line(f"for {row} in {r.choice(self.tables)}:")
            self.vectors.append(row)
            self.loops.append("0")
            self.block(depth)
            self.vectors.remove(row)
            self.loops, self.numbers = kept
            return
        what = r.randrange(8)
        if what < 2:
            self.line(f"for {y} in {x}:")
        elif what < 4:
            few = self.pick(
                n, f"1, {n}", f"{n}, -1, -1", f"0, {n}, 2", f"{self.integer(1)} % 4, {n}"
            )
            self.line(f"for {i} in range({few}):")
        elif what == 4:
            start = self.pick("", "", ", 1", ", start=2")
            self.line(f"for {i}, {y} in enumerate({x}{start}):")
        elif what == 5:
            other = self.pick(self.many, self.many, f"range({n})", "W")
            self.line(f"for {y}, {i} in zip({x}, {other}):")
            what = 0
        elif what == 6:
            self.line(f"for {y} in reversed({x}):")
        else:
            self.line(
                f"for {i}, {y} in {self.pick('enumerate', 'zip')}"
                f"(range({n}), {self.pick('1', '3', '0')}):"
                      if self.chance(0.02) else f"for {i} in reversed(range({n})):")  # fmt: skip
            what = 2
        if what in (2, 3, 4, 7):
            self.loops.append(i)
        else:
            self.loops.append("0")
        if what not in (2, 3):
            self.numbers.append(y)
        self.block(depth, 3)
        if self.chance(0.85):
            self.loops, self.numbers = kept[0], self.numbers
            if y in self.numbers and self.chance(0.9):
                self.numbers.remove(y)
        self.loops = kept[0]
        if self.chance(0.12):
            self.line("else:")
            self.block(0, 1)

    def while_loop(self, depth: int) -> None:
        w = self.name("w_")
        self.line(f"{w} = 0")
        self.line(f"while {self.pick(self.condition, 'True', f'{w} < 3', f'{w} < {self.length}')}:")
        self.level += 1
        self.line(f"{w} += 1")
        self.line(f"if {w} > {self.r.randrange(1, 7)}:")
        self.line("    break")
        self.level -= 1
        kept = list(self.loops)
        self.loops.append(w)
        self.block(depth)
        self.loops = kept
        if self.chance(0.1):
            self.line("else:")
            self.block(0, 1)

    def decide(self, depth: int) -> None:
        self.line(f"if {self.condition()}:")
        self.block(depth)
        if self.level > 0 and self.chance(0.08):
            self.line(f"    return {self.returned()}")
        while self.chance(0.25):
            self.line(f"elif {self.condition()}:")
            self.block(depth)
        if self.chance(0.4):
            self.line("else:")
            self.block(depth)

    def match(self, depth: int) -> None:
        """A match statement."""
        two = self.chance(0.4)
        a, b = self.integer(1), self.pick(self.integer(1), f"bool({self.condition(1)})")
        self.line(f"match {a}, {b}:" if two else f"match {self.pick(a, b, self.number)}:")
        self.level += 1
        for _ in range(self.r.choice([1, 2, 3])):
            some, name = [str(self.r.randrange(4)) for _ in range(3)], self.name("q")
            one = self.pick(
                some[0], "True", "None", f"{some[0]} | {some[1]}", "_", name, "int()", "float()",
                f"({some[0]} | {some[1]}) as {name}", f"-{some[2]}", "1.5",
            )  # fmt: skip
            case = f"{one}, {self.pick(some[1], '_', 'False')}" if two else one
            kept = list(self.numbers)
            guarded = one in ("_", name) or self.chance(0.3)
            if name in case:
                self.numbers.append(name)
            self.line(f"case {case}{f' if {self.condition(1)}' if guarded else ''}:")
            self.block(depth)
            self.numbers = kept
        self.level -= 1

    def define(self, depth: int) -> None:
        """A function of its own, and calls of it."""
        g, a = self.name("g"), self.name("p")
        if self.chance(0.4):
            self.numbers.append(a)
            self.line(f"{g} = lambda {a}, b=2: {self.number(2)} + b")
            self.numbers.remove(a)
        else:
            outer = [x for x in self.numbers if x.startswith("x")][-2:]
            kept = {
                k: list(x) for k, x in self.__dict__.items() if type(x) is list and k != "lines"
            }
            self.line(f"def {g}({a}, b={self.number(0)}):")
            self.level += 1
            written = self.r.sample(outer, self.r.randrange(len(outer) + 1))
            if written:
                self.line(f"nonlocal {', '.join(written)}")
            self.numbers, self.ints = [a, *written], []
            self.own, self.lists, self.loops = [], [], []
            for x in written:
                self.line(f"{x} {self.pick('+=', '-=', '=')} {self.number(1)}")
            self.statement(min(depth, 1))
            self.line(f"return {self.number(1)}")
            self.level -= 1
            self.__dict__.update(kept)
        x = self.new_number()
        b = self.number(1)
        self.line(f"{x} = {g}({self.pick(b, f'*({b}, 1)', f'{b}, b={self.number(0)}')})")
        if self.chance(0.5):
            c = self.r.choice(self.numbers)
            self.line(f"{x} = {c} + {g}({self.number(0)}) - {c}")

    def attempt(self, depth: int) -> None:
        self.line("try:")
        self.fallible(depth)
        if self.chance(0.1):
            self.line("finally:")
            self.block(0, 1)
            return
        for _ in range(self.r.choice([1, 1, 2])):
            name = self.pick("", "", " as error")
            self.line(f"except {self.pick(*_CAUGHT)}{name}:")
            self.block(0, 1)
            if self.chance(0.06):
                self.line(f"    {self.pick('raise', 'return -3', 'raise IndexError from None')}")
        if self.chance(0.08):
            self.line("except:")
            self.block(0, 1)
        if self.chance(0.2):
            self.line("else:")
            self.block(0, 1)
        if self.chance(0.2):
            self.line("finally:")
            self.block(0, 1)

    def fallible(self, depth: int) -> None:
        """Statements that may raise."""
        n = self.new_number() if self.chance(0.3) and self.numbers else None
        self.block(min(depth, 1), 3)
        self.level += 1
        for _ in range(self.r.choice([0, 1, 1])):
            a = n or (self.r.choice(self.numbers) if self.numbers else "x")
            self.line(self.pick(
                f"{a} = 1 / float({self.number(1)})", f"{a} = math.log({self.number(1)})",
                f"{a} = int({self.number(1)})", f"{a} = {self.element()}",
                f"{a} = {self.integer(1)} // {self.integer(1)}",
                f"{a} = float({self.number(1)}) ** -1",
                f"assert {self.condition(1)}", f"{a} = math.exp({self.number(1)})",
            ))  # fmt: skip
        if self.chance(0.3):
            self.line(f"if {self.condition(1)}:")
            self.line("    " + self.pick(
                "raise ValueError", 'raise ValueError("no")', "raise IndexError(1, 2)",
                "raise ZeroDivisionError()", "return 7", *["break", "continue"] * bool(self.loops),
            ))  # fmt: skip
        self.level -= 1
        if n is not None:
            self.numbers.remove(n)

    def quietly(self, depth: int) -> None:
        self.line(f"with np.errstate({self.pick(*_SAID)}):")
        self.block(depth)

    # --- what people write -----------------------------------------------------------------------

    def idiom(self) -> None:
        if not self.vectors:
            return self.assign()
        x = self.r.choice(self.vectors)
        a, b = self.new_number(), self.new_number()
        n, i, y = self.name("n"), self.name("i"), self.name("e")
        t = self.pick("0", "0.5", "1", "-1")
        lines = self.r.choice(_IDIOMS + IDIOMS + IDIOMS_OF_PYTHON).format(
            x=x, a=a, b=b, n=n, i=i, y=y, t=t, l=self.name("l"), w=self.name("w"),
            begin=self.pick("0", "0.0", "None", f"{x}[0]", "1"),
        ).strip("\n").split("\n")  # fmt: skip
        self.line(f"{a} = {b} = 0")
        for line in lines:
            self.line(line)
        return None

    def returned(self) -> str:
        """What a program gives."""
        if self.chance(0.12) and self.own:
            return self.r.choice(self.own)
        if self.chance(0.08) and self.lists:
            return self.r.choice(self.lists)
        some = [*self.numbers[-4:], *self.numbers[-4:], *self.ints]
        a, b = self.pick(*some, self.number), self.pick(*some, self.number)
        return self.pick(
            a, a, a, f"{a}, {b}", f"({a}, {b}, {self.number(1)})", f"[{a}, {b}]", self.number
        )


_IDIOMS = [
    """
{n} = "none"
for {y} in {x}:
    {n} = "up" if {y} > {t} else "down" if {y} < 0 else {n}
    if {n} == "up":
        {a} += {y}
    elif {n} in ("none", "flat"):
        {b} += 1
{b} += {x}.dtype == np.float64 or {x}.dtype.kind == "i"
""",
    """
{a} = {b} = 0
for {y} in {x}:
    {b} = {b} + 1 if {y} > {t} else 0
    {a} = max({a}, {b})
""",
    """
{a} = {begin}
{b} = None
for {i}, {y} in enumerate({x}):
    if {a} is None or {y} > {a}:
        {a} = {y}
        {b} = {i}
{b} = -1 if {b} is None else {b}
""",
    """
{b} = 0.0
{w} = np.zeros_like({x})
for {i} in range(len({x})):
    {b} = 0.7 * {b} + 0.3 * {x}[{i}]
    {w}[{i}] = {b}
{a} = {w}[-1]
""",
    """
{b} = 0
for {i} in range(len({x})):
    if {x}[{i}] > {t}:
        {a} = {i}
        break
else:
    {a} = -1
""",
    """
{w} = {x}.copy()
for {i} in range(len({w})):
    for j in range(len({w}) - 1 - {i}):
        if {w}[j] > {w}[j + 1]:
            {w}[j], {w}[j + 1] = {w}[j + 1], {w}[j]
{a} = {w}[len({w}) // 2]
{b} = {w}[0]
""",
    """
{l} = []
for {y} in {x}:
    while {l} and {l}[-1] > {y}:
        {l}.pop()
    {l}.append({y})
{a} = len({l})
{b} = {l}[0]
""",
    """
{a}, {b} = 0, 1
for {y} in {x}:
    if {y} > {t}:
        {a}, {b} = {b}, {a} + {b}
""",
    """
{w} = np.zeros(4, dtype=int)
for {y} in {x}:
    if {y} == {y}:
        {w}[min(3, int(abs({y})))] += 1
{a} = {w}[0]
{b} = {w}[3]
""",
    """
{a} = {b} = 0.0
for {i}, {y} in enumerate({x}, 1):
    d = {y} - {a}
    {a} += d / {i}
    {b} += d * ({y} - {a})
""",
    """
{b} = sorted({x})
{a} = {b}[len({b}) // 2]
{b} = {b}[0]
""",
    """
{n} = 17
{a} = 0
for {y} in {x}:
    {n} = ({n} * 31 + int({y})) % 1000003
    {a} ^= {n}
{b} = {a} & 255
""",
    """
{w} = np.zeros((2, len({x}) + 1))
for {i} in range(len({x})):
    {w}[{i} % 2, {i} + 1] = max({w}[0, {i}], {w}[1, {i}]) + {x}[{i}]
{a} = {w}[1, -1]
{b} = {w}[0, 0]
""",
    """
{a} = {x}[0]
for {y} in {x}[1:]:
    {a} = {y} if {y} < {a} else {a}
{b} = {a}
""",
    """
lo, hi = 0.0, 10.0
for _ in range(20):
    mid = 0.5 * (lo + hi)
    if mid * mid > abs({x}[0]):
        hi = mid
    else:
        lo = mid
{a}, {b} = lo, hi
""",
    """
{a} = {b} = 0
for {y} in {x}:
    try:
        {a} += math.log({y})
    except ValueError:
        {b} += 1
""",
    """
{a} = 0
for p, q in zip({x}, {x}[1:]):
    {a} += abs(q - p)
{b} = {a} / len({x})
""",
    """
{n} = int(abs({x}[0])) % 1000 if {x}[0] == {x}[0] and abs({x}[0]) < 1e9 else 7
{a} = 0
while {n} > 1 and {a} < 30:
    {n} = {n} // 2 if {n} % 2 == 0 else 3 * {n} + 1
    {a} += 1
{b} = {n}
""",
]
