"""Random Python functions with loops over complex numbers, as source text."""

from __future__ import annotations

from .loops import Program

_OF_NUMPY = "exp log sqrt sin cos tan sinh cosh tanh conj square reciprocal negative conjugate"
_OF_CMATH = "exp sqrt"


class ComplexProgram(Program):
    """Draws one program, in which complex and real numbers meet.

    Parameters
    ----------
    r, ndim, whole
        As of `Program`.
    given : bool
        Whether elements of the slice are complex.
    """

    def __init__(self, r, ndim=1, whole=False, given=False):
        super().__init__(r, ndim, whole)
        self.given = given
        self.pairs: list[str] = []
        self.rows: list[str] = ["v"] if given else []
        self.heaps: list[str] = []
        if given:
            self.vectors, self.tables = ["u"], []

    def draw(self) -> str:
        source = "import cmath\n" + super().draw()
        if self.given:
            head, _, body = source.partition("\ndef f(v")
            line, _, body = body.partition("\n")
            source = f"{head}\ndef f(v{line}\n    u = v.real\n{body}"
        return source

    def _apart(self, make):
        """What a function has that knows no names of others."""
        kept = self.pairs, self.rows, self.heaps
        self.pairs, self.rows, self.heaps = [], [], []
        found = make()
        self.pairs, self.rows, self.heaps = kept
        return found

    def helper(self) -> list[str]:
        return self._apart(super().helper)

    def recursive(self) -> list[str]:
        return self._apart(super().recursive)

    def number(self, depth: int = 2) -> str:
        if self.chance(0.75):
            return super().number(depth)
        z = self.complex(depth - 1)
        return self.pick(
            f"abs({z})", f"({z}).real", f"({z}).imag", f"np.abs({z})", f"np.angle({z})",
            f"cmath.phase({z})", f"np.real({z})", f"np.imag({z})", f"cmath.polar({z})[0]",
        )  # fmt: skip

    def condition(self, depth: int = 2) -> str:
        if self.chance(0.8):
            return super().condition(depth)
        a, b = self.complex(depth - 1), self.complex(depth - 1)
        return self.pick(
            f"{a} == {b}", f"{a} != {b}", f"{a} == {self.literal()}", f"bool({a})",
            f"np.isnan({a})", f"cmath.isfinite({a})", f"np.isfinite({a})", f"cmath.isnan({a})",
            f"{a} in ({b}, 1, 0.5j)", f"isinstance({a}, {self.pick('complex', 'np.complex64')})",
        )  # fmt: skip

    def one(self) -> str:
        """A complex number that there is."""
        i = self.r.choice(self.loops) if self.loops else str(self.r.randrange(4))
        some = [f"{x}[{i} % len({x})]" for x in [*self.rows, *self.heaps[-1:]]]
        some += self.pairs[-3:] * 2
        some.append(f"{self.r.choice(['1j', '(2-1j)', '-0.5j', '(-0.0+0j)', '0j', '(1.5+0.5j)'])}")
        return self.r.choice(some)

    def complex(self, depth: int = 2) -> str:
        if depth <= 0 or self.chance(0.3):
            return self.one()
        a, b, x = self.complex(depth - 1), self.complex(depth - 1), Program.number(self, 1)
        operand = self.pick(b, b, x)
        power = self.pick("2", "2", "3", "-1", "0", "1", "-2", "2.0", "0.5", "1j", "5")
        return self.pick(
            f"({a} {self.r.choice('+-*')} {operand})", f"({a} {self.r.choice('+-*')} {operand})",
            f"({x} {self.r.choice('+-*/')} {a})", f"({a} / {operand})", f"({a} * {b})",
            f"({a} ** {power})", f"({a} ** {power})", f"({a} ** {operand})", f"(1.5 ** {a})",
            f"{self.r.choice('-+')}{a}", f"({a}).conjugate()",
            f"complex({x}, {Program.number(self, 1)})", f"complex({x})", f"complex({a}, {operand})",
            f"np.{self.r.choice(_OF_NUMPY.split())}({a})",
            f"np.{self.r.choice(['add', 'subtract', 'multiply', 'true_divide'])}({a}, {operand})",
            f"cmath.{self.r.choice(_OF_CMATH.split())}({a})",
            f"cmath.rect({x}, {Program.number(self, 0)})",
            f"np.complex128({a})", f"np.complex64({operand})",
            f"({a} if {Program.condition(self, 1)} else {b})",
            f"np.where({Program.condition(self, 1)}, {a}, {operand})",
        )  # fmt: skip

    def statement(self, depth: int) -> None:
        if self.chance(0.7):
            super().statement(depth)
            return
        kind = self.r.randrange(6)
        if kind == 0 or not self.pairs:
            z = self.name("z")
            self.line(f"{z} = {self.complex()}")
            self.pairs.append(z)
        elif kind == 1 or (kind == 2 and not self.loops):
            z = self.r.choice(self.pairs)
            op = self.r.choice("+-*/")
            self.line(f"{z} {op}= {self.pick(self.complex, self.literal)}")
        elif kind == 2:
            z = self.r.choice(self.pairs)
            self.line(f"{z} = {z} * {self.pick('0.5j', '(0.3+0.4j)', z)} + {self.complex(1)}")
        elif kind == 3:
            q = self.name("q")
            n = self.pick(self.length, "3", "2")
            self.line(f"{q} = " + self.pick(
                f"np.zeros({n}, complex)", f"np.ones({n}, np.complex64)",
                f"np.full({n}, {self.complex(1)})", f"np.array([{self.one()}, {self.one()}])",
                f"np.empty({n}, dtype=np.complex128)\n{'    ' * self.level}{q}[:] = {self.one()}",
                *[f"{r} {self.r.choice('+-*')} {self.one()}" for r in self.rows],
                *[f"np.exp({r})" for r in self.rows], *[f"{r}.copy()" for r in self.rows],
            ))  # fmt: skip
            self.rows.append(q)
        elif kind == 4 and self.rows:
            q = self.r.choice(self.rows)
            at = f"{self.r.choice(self.loops) if self.loops else '1'} % len({q})"
            self.line(f"{q}[{at}] {self.pick('=', '+=', '*=')} {self.complex()}")
        elif self.heaps and self.chance(0.6):
            self.line(f"{self.r.choice(self.heaps)}.append({self.complex(1)})")
        else:
            h, y = self.name("h"), self.name("y")
            self.line(f"{h} = [{self.complex(1)} for {y} in range({self.pick('1', '3')})]")
            self.heaps.append(h)

    def returned(self) -> str:
        if self.chance(0.4):
            return super().returned()
        z = self.complex(1)
        some = [*self.rows[-2:], *self.heaps[-1:], *[f"{r}.sum()" for r in self.rows[-1:]]]
        return self.pick(z, z, *some, f"{z}, {self.number(1)}", f"[{z}, {self.complex(0)}]",
                         *[f"{r}.{self.pick('real', 'imag')}" for r in self.rows[-1:]])  # fmt: skip
