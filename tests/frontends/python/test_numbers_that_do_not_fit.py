"""Numbers that go into arrays of integers which cannot hold them: some raise, some are cut.

NumPy asks a number that is put where one element is for its int, which raises; what it makes an
array of first is cast. Rare slices have such numbers.
"""

import random
import warnings

import numpy as np
import pytest

import xpapply

WRITES = """
y[2] = S; y[1:3] = S; y[...] = S; y[::2] = S; y[-1:] = S; y[None, 2] = S; y[2, ...] = S
y[2, None] = S; y[True] = S; y[np.int64(2)] = S; y[np.array(2)] = S; y[(2,)] = S
y[[1, 2]] = S; y[np.array([1, 2])] = S; y[v[:6] > 0] = S; y[y > 5] = S; y[np.argmax(v[:6])] = S
y[[2]] = [S]; y[1:3] = [S, S]; y[1:3] = (S, 1); y[[1, 2]] = [S, 2]; y[y == 0] = [S] * 6
y[y == 0] = (S,); y[2] = np.array(S); y[2:3] = np.array([S])
y.flat[2] = S; y.flat[1:3] = S; y.flat[[1, 2]] = S; y.fill(S); y.put(2, S)
np.put(y, 2, S); np.put(y, [1, 2], S); np.place(y, y == 0, S); np.putmask(y, y == 0, S)
np.copyto(y, S, casting="unsafe"); np.fill_diagonal(y.reshape(2, 3), S)
np.put_along_axis(y, np.array([2]), S, 0); np.add.at(y, [1], S)
y += S; y[2] += S; y[1:3] += S; np.add(y, S, out=y, casting="unsafe"); y[1:3][0] = S
t = y.reshape(2, 3); t[1] = S; t[1, 1] = S; t[:, 1] = S; t.T[1] = S
t = y.reshape(2, 3); t[[0, 1], 1] = S
t = y.reshape(2, 3); t[0, [1, 2]] = S
"""
VALUES = """
np.full(6, S, y.dtype); np.full_like(y, S); np.array([S, 1], y.dtype); np.array(S, y.dtype)
np.asarray([S], dtype=y.dtype); np.array([[S, 1], [2, S]], y.dtype); np.array((S, S), y.dtype)
y.dtype.type(S); np.asarray(S).astype(y.dtype); np.repeat(S, 3).astype(y.dtype)
np.fromiter([S, 1], y.dtype); np.linspace(0, S, 3, dtype=y.dtype); np.resize([S], 3).astype(y.dtype)
np.clip(y, S, None); y.clip(0, S); np.where(y > 0, y, S); np.select([y > 0], [y], S)
np.append(y, S); np.insert(y, 1, S); np.pad(y, 1, constant_values=S); np.ediff1d(y, to_end=S)
np.ediff1d(y, to_begin=S); np.diff(y, append=S); np.diff(y, prepend=S); np.nan_to_num(y, nan=S)
np.sum(y, initial=S); np.prod(y, initial=S); np.max(y, initial=S); np.min(y, initial=S)
np.array(y.max(initial=S)); np.array(y.sum(initial=S)); np.maximum.reduce(y, initial=S)
np.add.reduce(y, initial=S); np.trapezoid(y, dx=S); np.maximum(y, S); np.concatenate([y, [S]])
np.stack([y[0], S]); np.hstack([y, S]); np.choose(y, [S, 1]); np.gcd(y, S); np.fmod(y, S)
y + S; S - y; y // S; y & S; S & y; y == S; y < S; S < y; sum([S], y[0]); max(y[0], S)
np.searchsorted(y, S); np.isin(y, S); np.digitize(y, [S]); np.interp(S, [0, 1], [2, 3])
"""


def lines(text):
    for group in text.strip().split("\n"):
        if group.startswith("t ="):
            first, *others = group.split("; ")
            yield from (f"{first}; {other}" for other in others)
        else:
            yield from group.split("; ")


LINES = [*lines(WRITES), *(f"y = {x}" for x in lines(VALUES))]
NUMBERS = {
    "int64": "v.sum() int(v.sum()) len(v)*v[0] v.sum()*1.5 float(v.sum()) -v.sum()".split(),
    "float64": "v.sum() float(v.sum()) v[0]*2".split(),
}
RARE = {
    "int64": (40_000, -7, 300, 3 * 10**9, 10**18, -(10**18)),
    "float64": (4e4, -7.5, 300, 3e9, np.nan, 1e19),
}


def made(line, dtype):
    names = {"np": np}
    source = f"def f(v):\n    y = np.zeros(6, np.{dtype})\n    {line}\n    return y\n"
    exec(source, names)
    return names["f"], source


def outcome(apply, f, x):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return apply(f, -1, x)
        except xpapply.UnsupportedError:
            return None
        except Exception as error:
            return f"{type(error).__name__}: {error}"


@pytest.mark.one_in(3)
@pytest.mark.parametrize("line", LINES)
def test_they_do_what_numpy_does(line):
    r = random.Random(line)
    for given in NUMBERS:
        x = np.random.default_rng(0).integers(0, 3, (60, 8)).astype(given)
        for number in NUMBERS[given]:
            dtype = r.choice(["int8", "int16", "uint8", "int32", "uint64", "int64", "bool"])
            f, source = made(line.replace("S", number), dtype)
            for rare in RARE[given]:
                arr = x.copy()
                arr[50, 0] = rare
                want = outcome(np.apply_along_axis, f, arr)
                with xpapply.options(engine="numpy"):
                    got = outcome(xpapply.apply_along_axis, f, arr)
                if got is None:  # no way but the loop
                    continue
                told = f"{source}\n{given} {rare}\nwant {want}\ngot {got}"
                if isinstance(want, str) or isinstance(got, str):
                    assert isinstance(want, str), told
                    assert want == got, told
                    continue
                assert got.dtype == want.dtype, told
                np.testing.assert_array_equal(got, want, err_msg=told)
