"""Complex numbers in typed functions: Python's and NumPy's, in each way of running them."""

import cmath
import math

import numpy as np
import pytest
from typed_parity import marked

from xpapply.backends.cpu import typed as backend
from xpapply.errors import TraceError, UnsupportedError
from xpapply.frontends.python.source.typed import Expected, Input, typed
from xpapply.functions.guards import Guards
from xpapply.ir.typed import Array

pytestmark = pytest.mark.skipif(backend.why_not() is not None, reason=str(backend.why_not()))
RNG = np.random.default_rng(5)


def slices(dtype, n=12):
    x = RNG.normal(size=(n, 5))
    if np.dtype(dtype).kind == "c":
        x = x + 1j * RNG.normal(size=x.shape)
    x = x.astype(dtype)
    x[3, 2], x[5, 1], x[6, 0], x[7] = np.nan, np.inf, -0.0, 0
    return x


def mandelbrot(v):
    c, z = complex(v[0], v[1]), 0j
    for n in range(20):
        if abs(z) > 2:
            return n
        z = z * z + c
    return 20


def squares(v):
    c, z, n = complex(v[0], v[1]), 0j, 0
    while z.real * z.real + z.imag * z.imag <= 4.0 and n < 20:
        z = z**2 + c
        n += 1
    return n, z.real


def fourier(v):
    out = np.zeros(len(v), complex)
    for k in range(len(v)):
        s = 0j
        for j in range(len(v)):
            s += v[j] * cmath.exp(-2j * math.pi * k * j / len(v))
        out[k] = s
    return out


def spectrum(v):
    out = np.empty(len(v), dtype=complex)
    for k in range(len(v)):
        s = 0
        for j, x in enumerate(v):
            s = s + x * np.exp(-2j * np.pi * k * j / len(v))
        out[k] = s
    return np.abs(out)


def durand_kerner(v):
    r = np.array([(0.4 + 0.9j) ** k for k in range(3)])
    for _ in range(4):
        for i in range(3):
            z, q = r[i], 1.0 + 0j
            p = ((z + v[0]) * z + v[1]) * z + v[2]
            for j in range(3):
                if j != i:
                    q = q * (r[i] - r[j])
            r[i] = r[i] - p / q
    return r


def filtered(v):
    pole, y, out = -0.3 + 0.4j, 0j, np.empty(len(v))
    for i in range(len(v)):
        y = pole * y + v[i]
        out[i] = y.real
    return out


def of_python(v):
    z, w, s = complex(v[0], v[1]), complex(float(v[2]), float(v[3])), 0j
    for k in range(3):
        s = s + z / w - w / (z + 1) + z**3 + w**-2 + z**k
        z = z.conjugate() * 1.5
    return s


def of_numpy(v):
    z, w, s = np.complex128(complex(v[0], v[1])), np.complex64(v[2] + v[3] * 1j), 0
    for _ in range(3):
        s = s + z / w - w / (z + 1) + z**3 + w**2 - abs(w) + np.abs(z) + np.angle(z)
        z = z.conj() * 1.5
    return s, w * 2, np.sqrt(z), w == z, w != 0


def powers(v):
    s, e = 0j, complex(0.3, v[0])
    for x in v:
        z = complex(x, 0.25)
        s += z**0.5 + z ** (1 - 2j) + 1j**x + 2.718281828 ** (1j * x) + z**e - z**-1.5
    return s


def by_cmath(v):
    a = 0j
    for x in v:
        a = cmath.sqrt(a + x) + cmath.exp(1j * x)
        r, p = cmath.polar(a)
        a = cmath.rect(r, p + 0.1)
    return a, cmath.phase(a), cmath.isnan(a), cmath.sqrt(-0.0 * a.real)


def kept(v):
    r = [complex(v[0], 1.0)]
    for k in range(1, 4):
        r.append(r[-1] * 1j + complex(v[k], 0.5))
    r[0] = r[1]
    s = 0j
    for z in r:
        s += z
    r.append(s)
    r.pop(0)
    return r


def parts(v):
    z = np.exp(1j * v)
    a, s = z.real, 0.0
    for k in range(len(v)):
        s += a[k] * z.imag[k]
    return s, z.sum(), z.imag


def halves(v):
    s = v[0] * 0
    for z in v:
        if z.imag > 0:
            s += z
        elif z:
            s -= z * z
    return s


def twice(z, n):
    return z if n == 0 else twice(z * z + 0.1j, n - 1)


def again(v):
    return twice(complex(v[0], 0.2), 4)


REAL = [mandelbrot, squares, fourier, of_python, of_numpy, powers, by_cmath, kept, again]
ANY = [spectrum, durand_kerner, parts]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("f", [*REAL, *ANY, filtered], ids=lambda f: f.__name__)
def test_of_real_slices(f, dtype):
    assert marked(f, slices(dtype)) <= 4


@pytest.mark.parametrize("dtype", ["complex128", "complex64"])
@pytest.mark.parametrize("f", [*ANY, filtered, halves], ids=lambda f: f.__name__)
def test_of_complex_slices(f, dtype):
    assert marked(f, slices(dtype)) <= 1


def compiled(f, x, expected):
    guards = Guards()
    guards.start(f)
    kind = Array(x.dtype.name, 1)
    return backend.Compiled(typed(f, [Input(0)], {}, [kind], [expected], guards))


@pytest.mark.parametrize("dtype", ["complex128", "complex64", "float64"])
@pytest.mark.parametrize("f", [mandelbrot, halves, filtered], ids=lambda f: f.__name__)
def test_side_by_side(f, dtype):
    x = slices(dtype, 45)
    if f is mandelbrot:
        x = x.real.copy()
    elif dtype == "float64":
        return
    with np.errstate(all="ignore"):
        real = [f(v) for v in x]
    made = compiled(f, x, Expected(np.asarray(real[0]).dtype.name, np.shape(real[0])))
    wants = np.array(real)
    out = np.zeros_like(wants)
    marks = made.run([x], [out], 1, form=backend.LANES)
    done = marks == 0
    assert done.sum() >= 32
    np.testing.assert_array_equal(out[done], wants[done])


def test_lengths_of_slots_and_elements_are_those_of_both_parts():
    """Neighbours of what is written stay as they are."""

    def f(v):
        w = np.zeros(3, np.complex64)
        w[1] = 1 + 2j
        t = np.ones((2, 2), complex)
        t[0, 1] = v[0]
        return w[0].imag + w[2].real + t[1, 0].imag + t[0, 0].imag + t[0, 1].real

    x = slices("float64")
    assert marked(f, x) == 0


@pytest.mark.parametrize(
    ("f", "why"),
    [
        (lambda v: max([np.complex128(v[0]), np.complex128(v[1])]), "of complex numbers"),
        (lambda v: [complex(v[0]), 1.0][int(v[0] > 0)], "several types"),
    ],
)
def test_refused(f, why):
    with pytest.raises(TraceError, match=why):
        marked(f, slices("float64"))


def test_what_numpys_loops_do_to_complex_numbers_is_for_one_slice():
    def f(v):
        s = 0j
        for x in v:
            s = s + np.exp(1j * x)
        return s

    x = slices("float64")
    made = compiled(f, x, Expected("complex128", ()))
    with pytest.raises(UnsupportedError, match="complex numbers, line"):
        made.run([x], [np.zeros(len(x), complex)], 1, form=backend.LANES)
