"""Functions that no engine runs on all slices: one for each thing that f may do.

Each stands alone, as a user would write it: a reason names its file and line, and what it
says is held against a form in `test_reasons.py`.
"""

import array
import asyncio
import contextlib
import copy
import ctypes
import datetime
import decimal
import fractions
import hashlib
import io
import itertools
import json
import logging
import operator
import os
import pickle
import queue
import random
import re
import string
import struct
import threading
import time
import types
import uuid
import zlib

import numpy as np
import torch
from scipy import (
    integrate,
    interpolate,
    linalg,
    ndimage,
    optimize,
    signal,
    sparse,
    spatial,
    stats,
)
from scipy.cluster import hierarchy
from scipy.sparse import linalg as sparse_linalg

SEEN: list[float] = []
COUNT = 0
LOCK = threading.Lock()
TABLE = {0: 1.0, 1: 2.0}
WORDS: set[float] = set()


class Point:
    def __init__(self, x, y):
        self.x, self.y = x, y

    def norm(self):
        return (self.x**2 + self.y**2) ** 0.5


class Keeps:
    last = 0.0

    def __call__(self, v):
        self.last = float(v[0])
        return v.sum()


def text_format(v):
    return len(f"{v[0]:.2f}")


def text_result(v):
    return "high" if str(v[0]) > "0" else "low"


def text_join(v):
    return len(",".join(str(x) for x in v))


def text_repr(v):
    return len(repr(v))


def hash_of_element(v):
    return hash(v[0]) % 7


def hash_of_bytes(v):
    return hashlib.sha256(v.tobytes()).digest()[0]


def crc(v):
    return zlib.crc32(v.tobytes()) % 1000


def set_of_elements(v):
    return len(set(v.tolist()))


def dict_of_elements(v):
    d = {}
    for x in v:
        d[int(x)] = d.get(int(x), 0) + 1
    return max(d.values())


def dict_lookup(v):
    return TABLE[int(v[0] > 0)]


def random_numpy(v):
    return v.sum() + np.random.normal()


def random_python(v):
    return v.sum() + random.random()


def random_generator(v):
    return np.random.default_rng().choice(v)


def random_shuffle(v):
    w = v.copy()
    np.random.shuffle(w)
    return w


def write_global(v):
    global COUNT
    COUNT += 1
    return v.sum()


def write_list(v):
    SEEN.append(v[0])
    return v.sum()


def write_slice(v):
    v[0] = 0.0
    return v.sum()


def prints(v):
    print("", end="")
    return v.sum()


def logs(v):
    logging.getLogger("quiet").debug("%s", v[0])
    return v.sum()


def reads_file(v):
    with open(os.devnull) as file:
        return v.sum() + len(file.read())


def reads_environment(v):
    return v.sum() + len(os.environ.get("HOME", ""))


def clock(v):
    return v.sum() + 0 * time.time()


def sleeps(v):
    time.sleep(0)
    return v.sum()


def new_uuid(v):
    return v.sum() + 0 * uuid.uuid4().int


def to_json(v):
    return len(json.dumps(v.tolist()))


def to_pickle(v):
    return len(pickle.dumps(v))


def regex(v):
    return len(re.findall("1", str(v[0])))


def template(v):
    return len(string.Template("$a").substitute(a=v[0]))


def decimals(v):
    return float(decimal.Decimal(float(v[0])).sqrt()) if v[0] > 0 else 0.0


def rationals(v):
    return float(fractions.Fraction(float(v[0])).limit_denominator(10))


def dates(v):
    return (datetime.date(2000, 1, 1) + datetime.timedelta(days=float(v[0]))).day


def timestamps(v):
    return datetime.datetime.fromtimestamp(abs(float(v[0]))).second


def memory(v):
    return memoryview(v).nbytes


def struct_pack(v):
    return struct.pack("d", v[0])[0]


def c_types(v):
    return (ctypes.c_double * 1)(v[0])[0]


def c_pointer(v):
    return v.ctypes.data_as(ctypes.POINTER(ctypes.c_double))[0]


def array_module(v):
    return array.array("d", v.tolist())[0]


def thread(v):
    out = []
    t = threading.Thread(target=lambda: out.append(v.sum()))
    t.start()
    t.join()
    return out[0]


def queues(v):
    q = queue.Queue()
    q.put(v.sum())
    return q.get()


def lock(v):
    with LOCK:
        return v.sum()


def coroutine(v):
    async def total():
        return v.sum()

    return asyncio.run(total())


def generator_object(v):
    def halves():
        for x in v:
            yield x / 2

    return sum(halves())


def instance(v):
    return Point(v[0], v[1]).norm()


def class_inside(v):
    class Pair:
        def __init__(self, a):
            self.a = a

    return Pair(v[0]).a


def recursion(v):
    def collatz(n):
        return 0 if n <= 1 else 1 + collatz(n // 2 if n % 2 == 0 else 3 * n + 1)

    return collatz(int(abs(v[0]) * 10) + 1)


def namespace(v):
    return types.SimpleNamespace(a=v[0]).a


def deep_copy(v):
    return copy.deepcopy(v).sum()


def text_io(v):
    file = io.StringIO()
    file.write(str(v[0]))
    return len(file.getvalue())


def redirect(v):
    with contextlib.redirect_stdout(io.StringIO()):
        print(v[0])
    return v.sum()


def evaluates(v):
    return eval("v.sum()", {"v": v})


def executes(v):
    scope = {"v": v}
    exec("y = v.sum()", scope)
    return scope["y"]


def identity_of(v):
    return id(v) * 0 + v.sum()


def imports(v):
    import statistics

    return statistics.harmonic_mean(np.abs(v).tolist())


def permutations(v):
    return max(a - b for a, b in itertools.permutations(v[:3].tolist(), 2))


def group_by(v):
    return len([k for k, _ in itertools.groupby((v > 0).tolist())])


def getter(v):
    return operator.itemgetter(int(abs(v[0])) % 3)(v.tolist())


def raises(v):
    if v[0] != np.inf:
        raise ValueError("mine")
    return v.sum()


def ones_by_slice(v):
    return np.ones(int((v > 0).sum())).sum()


def zeros_by_slice(v):
    return np.zeros((int((v > 0).sum()), 2)).size


def range_by_slice(v):
    return np.arange(int((v > 0).sum()) + 1).sum()


def linspace_by_slice(v):
    return np.linspace(0, 1, int((v > 0).sum()) + 2)[1]


def ragged(v):
    return v[v > 0]


def ragged_unique(v):
    return np.unique(np.round(v))


def nonzero(v):
    return np.flatnonzero(v > 0)


def eigenvalues(v):
    return np.linalg.eigvals(v[:4].reshape(2, 2))


def eigenvectors(v):
    return np.linalg.eig(v[:4].reshape(2, 2))[1]


def roots(v):
    return np.roots(v)


def singular(v):
    return np.linalg.matrix_rank(v[:4].reshape(2, 2))


def polynomial(v):
    return np.polydiv(v, v[:2])[1].sum()


def polynomial_class(v):
    return (np.polynomial.Polynomial(v) ** 2)(2.0)


def vectorized_inside(v):
    return np.vectorize(lambda t: hash(t) % 3)(v).sum()


def along_axis_inside(v):
    return np.apply_along_axis(lambda w: len(str(w[0])), 0, v)


def from_pyfunc(v):
    return np.frompyfunc(lambda a, b: a + b, 2, 1)(v, v).astype(float).sum()


def apply_over(v):
    return np.apply_over_axes(np.sum, v, 0)[0]


def from_iter(v):
    return np.fromiter((x for x in v), float).sum()


def from_buffer(v):
    return np.frombuffer(v.tobytes()).sum()


def from_text(v):
    return np.fromstring(" ".join(str(x) for x in v), sep=" ").sum()


def nditer(v):
    return sum(float(x) for x in np.nditer(v))


def record(v):
    r = np.zeros(1, [("a", float)])
    r["a"] = v[0]
    return r["a"][0]


def objects(v):
    return np.array([v[0], None], object)[0]


def masked(v):
    return np.ma.masked_less(v, 0).compressed().sum()


def matrix(v):
    return np.matrix(v[:4].reshape(2, 2)).I.sum()


def chararray(v):
    return np.char.add(v.astype(str), "a")[0]


def text_array(v):
    return len(v.astype(str)[0])


def print_array(v):
    return len(np.array2string(v))


def datetime_array(v):
    return v.astype("M8[D]").astype("M8[M]").astype(int).sum()


def save_text(v):
    np.savetxt(io.StringIO(), v)
    return v.sum()


def load_text(v):
    return np.loadtxt(io.StringIO(" ".join(str(x) for x in v))).sum()


def errstate(v):
    with np.errstate(all="raise"):
        return (v / (v - v[0])).sum() if v[0] == np.inf else v.sum()


def set_print_options(v):
    np.set_printoptions(precision=8)
    return v.sum()


def shares_memory(v):
    return np.shares_memory(v, v[::2])


def strides(v):
    return np.lib.stride_tricks.as_strided(v, (3, 2), (8, 8)).sum()


def einsum_path(v):
    return len(np.einsum_path("i,i", v, v)[0])


def piecewise(v):
    return np.piecewise(v, [v < 0], [lambda t: hash(t.tobytes()) * 0.0, 1.0])


def packbits(v):
    return np.packbits(v > 0)


def block(v):
    return np.block([[v], [v]]).sum()


def complex_roots(v):
    return np.emath.sqrt(v)


def random_permutation(v):
    return np.random.default_rng(0).permutation(v)


def boxes(v):
    return [v[0], [v[1], v[2]]][1]


def returns_none(v):
    v.sum()


def returns_dict(v):
    return {"a": v[0]}


def returns_instance(v):
    return Point(v[0], v[1])


def returns_tuple_of_shapes(v):
    return (v, v[:2])


# --- SciPy ----------------------------------------------------------------------------


def optimize_minimize(v):
    return optimize.minimize(lambda p: ((p - v[:2]) ** 2).sum(), [0.0, 0.0]).x


def optimize_root(v):
    return optimize.brentq(lambda t: t**3 - v[0], -50.0, 50.0)


def optimize_curve(v):
    return optimize.curve_fit(lambda t, a: a * t, np.arange(len(v)), v)[0]


def optimize_lp(v):
    return optimize.linprog(v, bounds=(0, 1)).fun


def integrate_quad(v):
    return integrate.quad(lambda t: t * v[0], 0, 1)[0]


def integrate_ode(v):
    return integrate.solve_ivp(lambda t, y: -y, (0, 1), v[:2]).y[:, -1]


def sparse_matrix(v):
    return sparse.csr_matrix(v.reshape(1, -1)).sum()


def sparse_solve(v):
    return sparse_linalg.spsolve(sparse.eye(len(v), format="csc") * 2, v)


def spatial_tree(v):
    return spatial.cKDTree(v.reshape(-1, 1)).query([0.0])[0]


def spatial_hull(v):
    return spatial.ConvexHull(v.reshape(-1, 2)).area


def cluster(v):
    return hierarchy.linkage(v.reshape(-1, 1))[-1, 2]


def spline(v):
    return interpolate.UnivariateSpline(np.arange(len(v)), v)(0.5)


def stats_fit(v):
    return stats.rayleigh.fit(np.abs(v) + 0.1)[0]


def stats_kde(v):
    return stats.gaussian_kde(v, weights=np.abs(v))(0.0)[0]


def stats_test(v):
    return stats.anderson(v).fit_result.params.loc


def wavelet(v):
    return signal.find_peaks_cwt(v, np.arange(1, 3)).size


def label(v):
    return ndimage.label(v > 0)[1]


def generic_filter(v):
    return ndimage.generic_filter(v, lambda w: hash(w.tobytes()) * 0.0, 3)


def schur(v):
    return linalg.schur(v[:4].reshape(2, 2))[0]


def expm(v):
    return linalg.expm(v[:4].reshape(2, 2))


# --- what had riddles for reasons -----------------------------------------------------------------


def changes_a_dict(v):
    TABLE[2] = v[0]
    return v.sum()


def adds_to_a_set(v):
    WORDS.add(v[0])
    return v.sum()


def class_in_it(v):
    class Low:
        value = v.min()

    return Low.value


def numbers_and_texts(v):
    return [v[0], "low"]


class Contexts:
    @staticmethod
    @contextlib.contextmanager
    def scaled():
        yield 2.0


def own_context(v):
    with Contexts.scaled() as by:
        return v.sum() * by


def unique_of_torch(v):
    return torch.from_numpy(v).unique().numel()
