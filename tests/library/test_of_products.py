"""Products of small matrices, and what LAPACK solves by them, have the bits of the BLAS at hand.

Of its kernels for other processors too, where this one can run them: OpenBLAS is told which.
"""

import os
import platform
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("scipy.linalg")

from scipy import linalg

from xpapply.library.solvers import of_products
from xpapply.library.solvers.odes import implicit


def same(a, b):
    return np.array_equal(np.ravel(a), np.ravel(b))


def of_matrices(rng, n):
    a, b = rng.normal(size=(2, n, n))
    x = rng.normal(size=n)
    places = [(i, j) for i in range(n) for j in range(n)]
    found = [of_products.of_square(a[i], b[:, j], i, j, n) for i, j in places]
    assert same(found, a @ b)
    assert same(of_products.times(a, x), a @ x)
    assert same(of_products.times(a.T, x), a.T @ x)
    assert of_products.inner(a[0], x) == np.dot(a[0], x)
    assert of_products.length(x) == np.linalg.norm(x)


def of_lapack(rng, n):
    lapack, blas = linalg.lapack, linalg.blas
    a, b = rng.normal(size=(2, n, n))
    square = a @ a.T + n * np.eye(n)
    x, factors = b[0].copy(), square.copy()
    want = lapack.dpotrf(square)[0]
    if n <= 10:
        assert of_products.factored(factors, 0, n)
        assert same(np.triu(factors.T), np.triu(want))
    factors = np.ascontiguousarray(want.T)
    of_products.solved_below(factors, x, n)
    assert same(x, lapack.dtrtrs(want, b[0], trans=1)[0])
    x = b[0].copy()
    of_products.solved_above(factors, x, n)
    assert same(x, lapack.dtrtrs(want, b[0])[0])
    assert of_products.long_length(x) == blas.dnrm2(x)
    if n > 10:
        return
    whole = np.zeros((2 * n, 2 * n))
    whole[:n, :n], whole[n:, :n] = factors, b.T
    of_products.all_solved_below(whole, n)
    assert same(whole[n:, :n].T, lapack.dtrtrs(want, b, trans=1)[0])


BY_ONE = "1" in (os.environ.get("OPENBLAS_NUM_THREADS"), str(os.cpu_count()))
"""Whether BLAS has one thread, with which SciPy solves complex equations in another order."""


def of_factors(rng, n):
    a, b, c, d = rng.normal(size=(4, n, n))
    want, order = linalg.lu_factor(a)
    x, swaps = b[0].copy(), np.zeros(n, int)
    implicit.factored(a, swaps)
    implicit.solved(a, swaps, x)
    assert same(a, want)
    assert same(x, linalg.lu_solve((want, order), b[0]))
    if n > 3 or (BY_ONE and not implicit.are_known()):
        return
    want, order = linalg.lu_factor(b + 1j * c)
    x, y = d[0].copy(), d[1 % n].copy()
    solved = linalg.lu_solve((want, order), x + 1j * y)
    implicit.complex_factored(b, c, swaps)
    implicit.complex_solved(b, c, swaps, x, y)
    assert same(b + 1j * c, want)
    assert same(x + 1j * y, solved)


def check():
    """All of them, of the sizes that solvers have."""
    assert of_products.are_known()
    assert of_products.are_sixteen_known()
    rng = np.random.default_rng(0)
    most_rows = 9 if of_products._IS_FUSED else 15
    for check, most, count in (
        (of_matrices, most_rows, 10),
        (of_lapack, 20, 20),
        (of_factors, 5, 100),
    ):
        for n in range(1, most + 1):
            for _ in range(count):
                check(rng, n)


def test_on_this_processor():
    if not of_products.are_known():
        pytest.skip("of another BLAS, or a processor without fused multiplications")
    check()


@pytest.mark.parametrize(
    ("core", "needs"), [("Haswell", "AVX2"), ("Zen", "AVX2"), ("SkylakeX", "AVX512F")]
)
def test_with_the_kernels_of(core, needs):
    from numpy._core._multiarray_umath import __cpu_features__ as features

    blas = np.show_config("dicts")["Build Dependencies"]["blas"]
    known = "openblas" in blas["name"] and "DYNAMIC_ARCH" in blas["openblas configuration"]
    if not known or not features.get(needs) or platform.system() != "Linux":
        pytest.skip(f"no OpenBLAS with these kernels, or no {needs}")
    code = "import sys; sys.path.insert(0, sys.argv[1]); import test_of_products as t; t.check()"
    subprocess.run(
        [sys.executable, "-c", code, os.path.dirname(__file__)],
        env={**os.environ, "OPENBLAS_CORETYPE": core},
        check=True,
        timeout=120,
    )
