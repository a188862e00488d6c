"""Text to machine code: what runs here, and what other CPUs would run."""

import ctypes
import gc
import os
import platform
import re
import subprocess
import sys
import threading
from dataclasses import replace

import numpy as np
import pytest
from in_threads import in_threads

from conftest import library
from xpapply.backends.cpu import compiler, host, machine_code, object_file
from xpapply.codegen.llvm.registers import INDEX, POINTER, Type
from xpapply.codegen.llvm.target import TARGETS
from xpapply.codegen.llvm.writer import Writer

library("llvmlite")
pytestmark = pytest.mark.optimised


def triad(target, name="triad"):
    """``z[i] = a * x[i] + z[i]`` for whole vectors of float32, and the rest one by one."""
    w = Writer(target)
    vector, number = w.vector("float"), Type("float")

    def body(x, z, a, n):
        whole = n & -vector.lanes

        def step(kind):
            def work(i):
                there = w.offset(z, i, "float")
                one = w.load(w.offset(x, i, "float"), kind)
                w.store(w.fma(w.load(a, number), one, w.load(there, kind)), there)

            return work

        w.loop(whole, step(vector), step=vector.lanes)
        w.loop(n, step(number), start=whole)

    parameters = [("x", POINTER), ("z", POINTER), ("a", POINTER), ("n", INDEX)]
    w.kernel(name, parameters, body, noalias=["z"])
    return w.text()


def run(function, x, z, a):
    a = np.array([a], np.float32)
    function(x.ctypes.data, z.ctypes.data, a.ctypes.data, x.size)


def here():
    """The CPUs that this machine can stand for, the best one first."""
    best = compiler.host().name
    names = ["NEON"] if best == "NEON" else ["AVX-512", "AVX2", "SSE2"]
    return [compiler.host(name) for name in names[names.index(best) :]]


@pytest.mark.parametrize(
    ("name", "instruction", "register"),
    [
        ("AVX-512", "vfmadd", "zmm"),
        ("AVX2", "vfmadd", "ymm"),
        ("SSE2", "mulps", "xmm"),
        ("NEON", "fmla", r"v\d+\.4s"),
    ],
)
def test_vectors_become_instructions(name, instruction, register):
    text = compiler.assembly(triad(TARGETS[name]), TARGETS[name])
    lines = [line for line in text.splitlines() if re.search(rf"\t{instruction}\w*\t", line)]
    assert any(re.search(register, line) for line in lines), text
    assert set(re.findall(r"\t(?:callq?|bl)\t(\S+)", text)) <= {"triad.body", "triad.body@PLT"}
    assert compiler.object_code(triad(TARGETS[name]), TARGETS[name])


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 70, 1000])
def test_every_target_of_this_machine_computes(n):
    rng = np.random.default_rng(n)
    x, z = rng.normal(size=(2, n)).astype(np.float32)
    for target in here():
        found = z.copy()
        run(compiler.compile(triad(target), "triad", target=target), x, found, 3.0)
        np.testing.assert_allclose(found, np.float32(3) * x + z, rtol=1e-5, atol=1e-5)


def test_arguments_are_64_bits():
    text = """define void @sum(ptr %a) {
      %one = load i64, ptr %a
      %q = getelementptr i64, ptr %a, i64 1
      %two = load i64, ptr %q
      %r = getelementptr i64, ptr %a, i64 2
      %to = load ptr, ptr %r
      %sum = add i64 %one, %two
      store i64 %sum, ptr %to
      ret void
    }"""
    function = compiler.compile(text, "sum")
    out = np.zeros(1, np.int64)
    for call in (function.call, function.call_with_gil):
        call(compiler.packed(-(1 << 62), 5, out.ctypes.data))
        assert out[0] == -(1 << 62) + 5
    function(1 << 40, -1, out.ctypes.data)
    assert out[0] == (1 << 40) - 1
    arguments = np.array([2, 3, out.ctypes.data])
    function.call(arguments.ctypes.data)
    assert out[0] == 5


STORE = """define void @{name}(ptr %a) {{
  %p = load ptr, ptr %a
  store i64 {number}, ptr %p
  ret void
}}
"""


def test_several_kernels_in_a_text():
    text = STORE.format(name="one", number=1) + STORE.format(name="two", number=2)
    one = compiler.compile(text, "one")
    two = one.beside("two")
    del one
    gc.collect()
    out = np.zeros(1, np.int64)
    two(out.ctypes.data)
    assert out[0] == 2
    with pytest.raises(compiler.CompilerError, match="no kernel 'three'"):
        two.beside("three")


def test_the_call_alone_keeps_the_code():
    call = compiler.compile(STORE.format(name="only", number=7), "only").call
    gc.collect()
    out = np.zeros(1, np.int64)
    call(compiler.packed(out.ctypes.data))
    assert out[0] == 7


def test_the_same_key_is_compiled_once():
    text = STORE.format(name="k", number=11)
    assert compiler.load("a key of its own", "k") is None
    found = compiler.compile(text, "k", "a key of its own")
    assert compiler.load("a key of its own", "k") is found
    assert compiler.compile("", "k", "a key of its own") is found


def test_what_llvm_refuses_is_a_refusal():
    for text in ("define void @k(", "define void @k(ptr %a) { ret i64 1 }", "nonsense"):
        with pytest.raises(compiler.CompilerError, match="LLVM does not compile a kernel"):
            compiler.compile(text, "k")


CALL = """declare {kind} @llvm.exp.{suffix}({kind})
define void @k(ptr %a) {{
  %x = load {kind}, ptr %a
  %y = call {kind} @llvm.exp.{suffix}({kind} %x)
  store {kind} %y, ptr %a
  ret void
}}
"""


@pytest.mark.parametrize("triple", ["", "arm64-apple-macosx14"])
@pytest.mark.parametrize("name", list(TARGETS))
def test_a_hidden_call_is_found(name, triple):
    target = replace(TARGETS[name], triple=triple, cpu="apple-m1") if triple else TARGETS[name]
    text = CALL.format(kind="<8 x float>", suffix="v8f32")
    with pytest.raises(compiler.CompilerError, match=r"would call expf: a bug"):
        compiler.object_code(text, target)


def test_memset_is_a_call_too():
    text = """declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
    define void @k(ptr %a) {
      %n = load i64, ptr %a
      call void @llvm.memset.p0.i64(ptr %a, i8 1, i64 %n, i1 false)
      ret void
    }"""
    for target in TARGETS.values():
        with pytest.raises(compiler.CompilerError, match="would call memset"):
            compiler.object_code(text, target)


PARTS = """@table = private constant [4 x i64] [i64 10, i64 20, i64 30, i64 40]
@wide = private constant <8 x i64> <i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7, i64 8>
@seen = {linkage} constant [2 x i64] [i64 5, i64 6]
define {linkage} i64 @inner(i64 %x) noinline {{
  %y = mul i64 %x, 3
  ret i64 %y
}}
define void @k(ptr %a) {{
  %to = load ptr, ptr %a
  %q = getelementptr i64, ptr %a, i64 1
  %n = load i64, ptr %q
  switch i64 %n, label %end [
    i64 0, label %zero
    i64 1, label %one
    i64 2, label %two
    i64 3, label %three
  ]
zero: br label %end
one: br label %end
two: br label %end
three: br label %end
end:
  %jump = phi i64 [ 7, %0 ], [ 1000, %zero ], [ 40, %one ], [ 1, %two ], [ 99, %three ]
  %i = and i64 %n, 3
  %p = getelementptr [4 x i64], ptr @table, i64 0, i64 %i
  %t = load i64, ptr %p
  %j = and i64 %n, 1
  %r = getelementptr [2 x i64], ptr @seen, i64 0, i64 %j
  %s = load i64, ptr %r
  %u = call i64 @inner(i64 %jump)
  %v = add i64 %t, %s
  %w = add i64 %u, %v
  store i64 %w, ptr %to
  %eight = load <8 x i64>, ptr @wide, align 64
  %more = add <8 x i64> %eight, <i64 1, i64 10, i64 4, i64 5, i64 6, i64 7, i64 8, i64 9>
  %next = getelementptr i64, ptr %to, i64 1
  store <8 x i64> %more, ptr %next, align 8
  ret void
}}
"""


def by_llvm(text, target):
    """Loaded by LLVM, as where there is no way of our own."""
    return machine_code.Function(
        machine_code.ByLLVM(compiler.object_code(text, target), target), "k"
    )


@pytest.mark.parametrize("linkage", ["internal", ""])
@pytest.mark.parametrize(
    "way", [by_llvm, lambda text, target: compiler.compile(text, "k", "", target)]
)
def test_the_parts_of_a_module_find_each_other(way, linkage):
    for target in here():
        function = way(PARTS.format(linkage=linkage), target)
        out = np.zeros(9, np.int64)
        for n, jump in enumerate((1000, 40, 1, 99, 7)):
            function(out.ctypes.data, n)
            assert out[0] == 3 * jump + 10 * (n % 4 + 1) + 5 + n % 2
            assert out[1:].tolist() == [2, 12, 7, 9, 11, 13, 15, 17]


OWN = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="LLVM loads code elsewhere"
)


@OWN
@pytest.mark.parametrize("name", ["AVX-512", "AVX2", "SSE2"])
def test_kernels_need_no_llvm_to_be_loaded(name):
    code = compiler.object_code(PARTS.format(linkage="internal"), TARGETS[name])
    names, _, body = object_file.linked(code).partition(b"\n")
    words = names.decode().split()
    assert set(words[::2]) == {"k", "inner"}
    assert all(0 <= int(start) < len(body) for start in words[1::2])


@pytest.mark.parametrize(
    "text",
    [
        PARTS.format(linkage=""),  # finds by a table what another module could replace
        "@v = internal global i64 5\n"
        "define void @k(ptr %a) {\n %x = load i64, ptr @v\n %y = add i64 %x, 1\n"
        " store i64 %y, ptr @v\n ret void\n}",
        "@f = internal constant [2 x ptr] [ptr @k, ptr @k]\n"
        "define void @k(ptr %a) {\n %i = load i64, ptr %a\n"
        " %p = getelementptr ptr, ptr @f, i64 %i\n %x = load ptr, ptr %p\n"
        " store ptr %x, ptr %a\n ret void\n}",
    ],
)
def test_what_llvm_has_to_load(text):
    assert object_file.linked(compiler.object_code(text, TARGETS["AVX2"])) is None


def test_what_is_for_other_systems_is_left_to_llvm():
    text = PARTS.format(linkage="internal")
    assert object_file.linked(compiler.object_code(text, TARGETS["NEON"])) is None
    target = replace(TARGETS["NEON"], triple="arm64-apple-macosx14", cpu="apple-m1")
    assert object_file.linked(compiler.object_code(text, target)) is None


@OWN
def test_a_system_that_runs_no_made_code(monkeypatch):
    class Libc:
        def __init__(self, *args, **kwargs):
            ctypes.set_errno(13)
            self.mprotect = type("f", (), {"__call__": lambda self, *args: -1})()

    monkeypatch.setattr(ctypes, "CDLL", Libc)
    with pytest.raises(compiler.CompilerError, match=r"does not let a program run code .*Perm"):
        compiler.compile(STORE.format(name="k", number=77), "k")


@OWN
def test_code_cannot_be_written_to():
    code = "from xpapply.backends.cpu import compiler\nimport ctypes\n"
    code += "f = compiler.compile('define void @k(ptr %a) { ret void }', 'k')\n"
    code += "f(1)\nprint(1, flush=True)\nctypes.c_char.from_address(f.address).value = 0"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.stdout == "1\n"
    assert ran.returncode < 0


def test_other_files_are_no_machine_code():
    with pytest.raises(ValueError, match="neither ELF nor Mach-O"):
        object_file.calls(b"MZ")


def test_threads_compile_at_once():
    out, errors = np.zeros(8, np.int64), []

    def work(k):
        try:
            for _ in range(5):
                function = compiler.compile(STORE.format(name="k", number=k % 4), "k")
                function(out[k:].ctypes.data)
        except BaseException as error:
            errors.append(error)

    in_threads(work, range(8))
    assert not errors
    assert out.tolist() == [0, 1, 2, 3, 0, 1, 2, 3]


def compiled(number):
    return compiler.compile(STORE.format(name="k", number=number), "k")


def test_another_thread_compiles():
    started, go_on = threading.Event(), threading.Event()

    def make():
        started.set()
        go_on.wait()
        return threading.current_thread(), compiled(41)

    wait = compiler.begun(make)
    started.wait()
    go_on.set()
    thread, function = wait()
    assert thread is not threading.current_thread()
    out = np.zeros(1, np.int64)
    function(out.ctypes.data)
    assert out[0] == 41
    assert wait()[1] is function


def test_who_waits_hears_what_went_wrong():
    wait = compiler.begun(lambda: compiler.compile("nonsense", "k"))
    for _ in range(2):
        with pytest.raises(compiler.CompilerError, match="does not compile"):
            wait()


def test_where_no_thread_starts_any_more_the_caller_compiles(monkeypatch):
    class Ended:
        def submit(self, *given):
            raise RuntimeError("cannot schedule new futures after shutdown")

    monkeypatch.setattr(compiler.threads, "pool", lambda count: Ended())
    assert compiler.begun(threading.current_thread)() is threading.current_thread()


def test_compiling_is_deferred_and_begins_after_a_quarter(monkeypatch):
    begun = []
    monkeypatch.setattr(compiler, "begun", lambda make: begun.append(make) or make)
    deferred = compiler.Deferred(8.0, lambda: "made")
    assert deferred.spend(1.0)
    assert not deferred.is_begun
    assert deferred.spend(1.0)
    assert deferred.is_begun
    assert deferred.spend(5.0)
    assert len(begun) == 1
    assert not deferred.spend(1.0)  # it would take as long as compiling
    deferred.spent = 0.0  # another thread, which had read it before
    assert not deferred.holds(0.0)
    assert deferred.made() == "made"


def test_nobody_waits_for_what_is_compiled():
    deferred = compiler.Deferred(8.0, lambda: "made")
    assert deferred.made() == "made"
    assert deferred.is_over
    assert not deferred.spend(0.0)


def test_a_process_that_ends_waits_for_the_other_thread():
    code = f"""
import sys
from xpapply.backends.cpu import compiler
for k in range(3):
    compiler.begun(lambda k=k: compiler.compile({STORE!r}.format(name="k", number=k), "k"))
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (found.returncode, found.stderr) == (0, b"")


FORKS = f"""
import os, signal, threading, traceback, warnings
import numpy as np
from xpapply.backends.cpu import compiler

warnings.simplefilter("ignore")  # Python's own about forks with threads

def compiled(number):
    return compiler.compile({STORE!r}.format(name="k", number=number), "k")

def in_child():
    out = np.zeros(2, np.int64)
    before(out.ctypes.data)
    given[-1]()  # another thread of the parent is at it
    compiler.begun(lambda: compiled(22))()(out[1:].ctypes.data)
    assert out.tolist() == [21, 22]

before = compiled(21)
stop, given = threading.Event(), [lambda: before]

def busy():
    k = 100
    while not stop.is_set():
        wait = compiler.begun(lambda k=k: compiled(k))
        given.append(wait)
        compiled(k + 1000)
        wait()
        k += 1

thread = threading.Thread(target=busy)
thread.start()
status = [0]
for _ in range(5):
    child = os.fork()
    if not child:
        signal.alarm(60)  # ends a child that hangs
        try:
            in_child()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    status.append(os.waitpid(child, 0)[1])
stop.set()
thread.join()
assert not any(status), status
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_child_compiles_and_runs_what_its_parent_compiled():
    # in a process of its own: JAX, if an earlier test loaded it, warns of each fork
    found = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, check=False)
    assert (found.returncode, found.stderr) == (0, b"")


def test_a_lesser_cpu_can_be_asked_for(monkeypatch):
    best, least = here()[0], here()[-1]
    assert compiler.host() == compiler.host(best.name) == best
    monkeypatch.setenv("XPAPPLY_CPU", least.name)
    assert compiler.host.__wrapped__() == least
    other = "AVX-512" if best.name == "NEON" else "NEON"
    with pytest.raises(ValueError, match=f"this CPU does not have '{other}': use one of "):
        compiler.host(other)


def test_where_only_llvm_knows_the_cpu():
    code = "from xpapply.backends.cpu import compiler, host\n"
    code += "host._from_linux = lambda: ''\n"
    code += "compiler.compile('define void @k(ptr %a) { ret void }', 'k')(1)\n"
    code += "print(compiler.host().name, compiler.versions()[:6])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.stderr == ""
    assert ran.stdout.split()[0] == compiler.host().name


@OWN
def test_a_cpu_that_llvm_sees_otherwise(monkeypatch):
    monkeypatch.setattr(host, "_from_llvm", lambda: "sse2 avx")
    if compiler.host().name != "SSE2":
        with pytest.raises(compiler.CompilerError, match="set XPAPPLY_CPU to a lesser one"):
            compiler.compile(STORE.format(name="k", number=78), "k")


@pytest.mark.parametrize(
    ("put", "reason"),
    [
        ("sys.modules['llvmlite'] = None", "llvmlite is not installed: pip install"),
        ("import llvmlite; llvmlite.__version__ = '0.44.0'", "llvmlite 0.44.0 is too old: pip"),
        ("import platform; platform.machine = lambda: 's390x'", "64-bit Python on s390x"),
        ("sys.byteorder = 'big'", "kernels are compiled for 64-bit x86 and ARM CPUs"),
        (
            "import os\n"
            "from xpapply.backends.cpu import host\n"
            "host._from_linux = lambda: ''\n"
            "import llvmlite.binding as b\n"
            "def no(): raise OSError(13, 'SELinux')\n"
            "b.check_jit_execution = no",
            "does not let a program run code that it has made",
        ),
    ],
)
def test_why_not(put, reason):
    code = (
        f"import sys\n{put}\n"
        "from xpapply.backends.cpu import compiler\n"
        "print(compiler.why_not())\n"
        "try:\n    compiler.host()\n"
        "except compiler.CompilerError as error:\n    print(error)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.stderr == ""
    first, second = ran.stdout.splitlines()
    assert reason in first
    assert first == second
