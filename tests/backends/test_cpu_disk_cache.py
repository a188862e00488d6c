"""Machine code on disk: used by other processes, and by nobody when anything about it is wrong."""

import gc
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from conftest import library
from xpapply.backends.cpu import compiler, disk_cache
from xpapply.limits import LIMITS

pytestmark = pytest.mark.optimised
POSIX = pytest.mark.skipif(os.name == "nt", reason="Windows has no owner and mode of a file")
TEXT = """define void @k(ptr %a) {{
  %p = load ptr, ptr %a
  store i64 {number}, ptr %p
  ret void
}}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder of the cache, which is not yet there."""
    monkeypatch.setenv("XPAPPLY_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "kernels"


def the_file(folder):
    (found,) = folder.glob("*.code")
    return found


def test_what_is_written_is_read(folder):
    assert disk_cache.read("key") is None
    disk_cache.write("key", b"code")
    assert disk_cache.read("key") == b"code"
    assert disk_cache.read("another key") is None
    disk_cache.write("key", b"newer")
    assert disk_cache.read("key") == b"newer"
    assert len(list(folder.iterdir())) == 1


@POSIX
def test_nobody_else_can_look_into_the_folder(folder):
    disk_cache.write("key", b"code")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert the_file(folder).stat().st_mode & 0o777 == 0o600


@POSIX
@pytest.mark.parametrize("mode", [0o755, 0o770, 0o707])
def test_a_folder_that_others_can_enter_is_not_used(folder, mode):
    disk_cache.write("key", b"code")
    folder.chmod(mode)
    assert disk_cache.read("key") is None
    disk_cache.write("other", b"code")
    assert len(list(folder.iterdir())) == 1


@POSIX
def test_a_folder_of_somebody_else_is_not_used(folder, monkeypatch):
    disk_cache.write("key", b"code")
    own = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    assert disk_cache.read("key") is None
    disk_cache.write("other", b"code")
    assert len(list(folder.iterdir())) == 1


@POSIX
def test_a_link_to_a_folder_is_not_used(folder, tmp_path):
    (tmp_path / "elsewhere").mkdir(0o700)
    folder.parent.mkdir()
    folder.symlink_to(tmp_path / "elsewhere")
    disk_cache.write("key", b"code")
    assert disk_cache.read("key") is None
    assert not list((tmp_path / "elsewhere").iterdir())


@POSIX
def test_a_file_that_others_can_write_to_is_not_used(folder):
    disk_cache.write("key", b"code")
    the_file(folder).chmod(0o620)
    assert disk_cache.read("key") is None
    disk_cache.write("key", b"code")
    assert disk_cache.read("key") == b"code"


@POSIX
@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_what_is_no_file_is_not_used(folder, kind, tmp_path):
    disk_cache.write("key", b"code")
    path = the_file(folder)
    path.rename(tmp_path / "moved")
    if kind == "link":
        path.symlink_to(tmp_path / "moved")
    elif kind == "pipe":
        os.mkfifo(path, 0o600)
    else:
        path.mkdir()
    assert disk_cache.read("key") is None  # and it does not wait
    disk_cache.write("key", b"code")
    assert disk_cache.read("key") == (None if kind == "folder" else b"code")
    assert not list(folder.glob("*.tmp"))


def damages():
    whole = disk_cache._HEADER.size + len(b"machine code")
    for size in (0, 1, 8, disk_cache._HEADER.size - 1, disk_cache._HEADER.size, whole - 1):
        yield pytest.param(lambda data, size=size: data[:size], id=f"{size} bytes")
    for at in (0, 7, 8, 40, 72, 79, 80, whole - 1):
        yield pytest.param(
            lambda data, at=at: data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :],
            id=f"byte {at}",
        )
    yield pytest.param(lambda data: data + b"\0", id="longer")
    yield pytest.param(lambda data: b"\x7fELF" + data, id="another file")


@pytest.mark.parametrize("damage", list(damages()))
def test_a_damaged_file_is_replaced(folder, damage):
    disk_cache.write("key", b"machine code")
    path = the_file(folder)
    path.write_bytes(damage(path.read_bytes()))
    assert disk_cache.read("key") is None
    disk_cache.write("key", b"machine code")
    assert disk_cache.read("key") == b"machine code"


def test_the_file_of_another_key_is_not_used(folder):
    disk_cache.write("key", b"code")
    path = the_file(folder)
    disk_cache.write("other", b"not it")
    (other,) = set(folder.iterdir()) - {path}
    other.replace(path)
    assert disk_cache.read("key") is None


def unwritable(function):
    """Calls of the system fail as on a file system that is read-only, or full."""

    def call(*args, **kwargs):
        raise OSError(30, "Read-only file system")

    return call


@pytest.mark.parametrize("name", ["makedirs", "mkdir", "replace", "open"])
def test_nothing_can_be_written(folder, monkeypatch, name):
    monkeypatch.setattr(os, name, unwritable(getattr(os, name)))
    disk_cache.write("key", b"code")
    monkeypatch.undo()
    assert not folder.exists() or not list(folder.iterdir())


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root can write everywhere")
def test_a_folder_without_write_access(folder):
    disk_cache.write("key", b"code")
    folder.chmod(0o500)
    disk_cache.write("other", b"code")
    assert disk_cache.read("key") == b"code"
    assert disk_cache.read("other") is None


def test_what_was_used_longest_ago_goes_first(folder, monkeypatch):
    monkeypatch.setattr(LIMITS, "disk_cache", 10_000)
    monkeypatch.setattr(LIMITS, "disk_cache_looks", 1)
    now = time.time()
    for k in range(9):
        disk_cache.write(f"key {k}", bytes(1000))
        os.utime(disk_cache._place(str(folder), f"key {k}")[0], (now - 100 + k, now - 100 + k))
    assert disk_cache.read("key 1") is not None  # used just now
    disk_cache.write("new", bytes(1000))
    there = [k for k in range(9) if disk_cache.read(f"key {k}") is not None]
    assert there == [1, 5, 6, 7, 8]
    assert disk_cache.read("new") is not None


def test_there_are_not_too_many(folder, monkeypatch):
    monkeypatch.setattr(LIMITS, "disk_cache_files", 8)
    monkeypatch.setattr(LIMITS, "disk_cache_looks", 1)
    for k in range(9):
        disk_cache.write(f"key {k}", b"code")
        os.utime(disk_cache._place(str(folder), f"key {k}")[0], (1000 + k, 1000 + k))
    assert [k for k in range(9) if disk_cache.read(f"key {k}") is not None] == [3, 4, 5, 6, 7, 8]


def test_most_writes_look_at_no_other_file(folder, monkeypatch):
    looked = []
    monkeypatch.setattr(disk_cache, "_shrink", looked.append)
    for k in range(200):
        disk_cache.write(f"key {k}", b"code")
    assert len(looked) < 50


def test_unfinished_files_go_when_nobody_writes_them_any_more(folder, monkeypatch):
    monkeypatch.setattr(LIMITS, "disk_cache_looks", 1)
    disk_cache.write("key", b"code")
    old, new = folder / "old.tmp", folder / "new.tmp"
    for path in (old, new):
        path.write_bytes(b"")
    os.utime(old, (1, 1))
    disk_cache.write("other", b"code")
    assert not old.exists()
    assert new.exists()


def test_where_it_is(monkeypatch):
    for name in ("XPAPPLY_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("HOME", os.path.abspath("/home/ada"))
    home = os.path.expanduser("~")
    assert disk_cache.folder() == os.path.join(home, ".cache", "xpapply", "kernels")
    monkeypatch.setenv("XDG_CACHE_HOME", os.path.abspath("/scratch/ada"))
    assert disk_cache.folder() == os.path.abspath("/scratch/ada/xpapply/kernels")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # to be ignored, the specification says
    assert disk_cache.folder() == os.path.join(home, ".cache", "xpapply", "kernels")
    monkeypatch.setattr(sys, "platform", "darwin")
    assert disk_cache.folder() == os.path.join(home, "Library/Caches", "xpapply", "kernels")
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    assert disk_cache.folder() is None
    monkeypatch.setenv("LOCALAPPDATA", os.path.abspath("/local"))
    assert disk_cache.folder() == os.path.abspath("/local/xpapply/kernels")
    monkeypatch.setenv("XPAPPLY_CACHE_DIR", os.path.join("~", "mine"))
    assert disk_cache.folder() == os.path.join(home, "mine", "kernels")
    monkeypatch.setenv("XPAPPLY_CACHE_DIR", "")
    assert disk_cache.folder() is None


def test_it_can_be_switched_off(folder, monkeypatch):
    disk_cache.write("key", b"code")
    monkeypatch.setenv("XPAPPLY_CACHE_DIR", "")
    assert disk_cache.read("key") is None
    disk_cache.write("other", b"code")
    assert len(list(folder.iterdir())) == 1


# ---------------------------------------------------------------------- kernels

WRITER = """
import sys
from xpapply.backends.cpu import disk_cache
for k in range(60):
    key = str(k % 7)
    disk_cache.write(key, key.encode() * 20_000)
    found = disk_cache.read(key)
    assert found in (None, key.encode() * 20_000), (key, found and len(found))
print("done")
"""


def test_many_processes_write_the_same(folder):
    code = "from xpapply.limits import LIMITS\nLIMITS.disk_cache_looks = 1\n"
    code += "LIMITS.disk_cache = 90_000\n" + WRITER
    ran = [
        subprocess.Popen([sys.executable, "-c", code], stdout=-1, stderr=-1, text=True)
        for _ in range(4)
    ]
    for process in ran:
        out, errors = process.communicate()
        assert (out, errors) == ("done\n", "")
    assert not list(folder.glob("*.tmp"))
    assert disk_cache.folder() == str(folder)


def number_of(function):
    out = np.zeros(1, np.int64)
    function(out.ctypes.data)
    return out[0]


@pytest.fixture
def forgets():
    library("llvmlite")

    def forget():
        gc.collect()
        compiler._alive.clear()

    return forget


def test_a_kernel_is_loaded_by_its_key(folder, forgets):
    text = TEXT.format(number=31)
    assert compiler.load("a key", "k") is None
    assert number_of(compiler.compile(text, "k", "a key")) == 31
    forgets()
    assert number_of(compiler.load("a key", "k")) == 31
    forgets()
    assert compiler.load("a key", "another name") is None
    assert compiler.load("another key", "k") is None
    the_file(folder).unlink()
    assert compiler.load("a key", "k") is None


def test_code_without_the_kernel_is_compiled_anew(folder, forgets):
    text = TEXT.format(number=32)
    compiler.compile(text, "k", "a key")
    code = compiler.object_code(text.replace("@k", "@j"), compiler.host())
    disk_cache.write(compiler._entry("a key\0k", compiler.host()), code)
    forgets()
    assert compiler.load("a key", "k") is None
    assert number_of(compiler.compile(text, "k", "a key")) == 32
    forgets()
    assert number_of(compiler.load("a key", "k")) == 32


def test_each_cpu_has_its_own(folder, forgets):
    if compiler.host().name in ("NEON", "SSE2"):
        pytest.skip("there is no lesser CPU of this kind")
    compiler.compile(TEXT.format(number=33), "k", "a key")
    forgets()
    assert compiler.load("a key", "k", compiler.host("SSE2")) is None
    assert compiler.load("a key", "k") is not None


def test_another_state_of_the_package_has_its_own(folder, forgets, monkeypatch):
    compiler.compile(TEXT.format(number=34), "k", "a key")
    forgets()
    was = compiler.versions()
    monkeypatch.setattr(compiler, "versions", lambda: was + " ")
    assert compiler.load("a key", "k") is None
    assert "compiler.py" in was
    assert "writer.py" in was


ANOTHER = """
import sys
import numpy as np
from xpapply.backends.cpu import compiler
assert compiler.why_not() is None
out = np.zeros(1, np.int64)
compiler.load("a key", "k")(out.ctypes.data)
print(out[0], compiler.host().name, "llvmlite.binding" in sys.modules)
"""


def elsewhere(code):
    """What another process prints."""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.stderr == ""
    return ran.stdout.split()


def test_another_process_loads_it(folder, forgets):
    name = compiler.host().name
    compiler.compile(TEXT.format(number=35), "k", "a key")
    assert elsewhere(ANOTHER)[:2] == ["35", name]


@pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="LLVM loads code elsewhere"
)
def test_what_is_on_disk_needs_no_llvm(folder, forgets):
    name = compiler.host().name
    compiler.compile(TEXT.format(number=37), "k", "a key")
    assert elsewhere(ANOTHER) == ["37", name, "False"]
    more = f"compiler.compile({TEXT.format(number=38)!r}, 'k')(out.ctypes.data)\nprint(out[0])"
    assert elsewhere(ANOTHER + more) == ["37", name, "False", "38"]
    hidden = "import sys\nsys.modules['llvmlite'] = None\n"
    hidden += "from xpapply.backends.cpu import compiler\nprint(compiler.why_not())"
    assert "not installed:" in " ".join(elsewhere(hidden))


def test_loading_takes_less_than_5_ms(folder, forgets):
    compiler.compile(TEXT.format(number=36), "k", "a key")
    seconds = []
    for _ in range(9):
        forgets()
        start = time.thread_time()
        assert compiler.load("a key", "k") is not None
        seconds.append(time.thread_time() - start)
    assert min(seconds) < 5e-3
    assert Path(folder).exists()


LOADED_SOON = """
import sys
from xpapply.backends.cpu import for_gpus
from xpapply.runtime import threads
assert "llvmlite.binding" not in sys.modules
for_gpus.soon()
threads.pool(1).submit(int).result()
print("llvmlite.binding" in sys.modules)
"""


def test_llvm_is_loaded_soon_where_nothing_is_on_disk(folder):
    """While a first function is read, unless its kernel may be on disk."""
    for is_there in (True, False):
        assert disk_cache.is_empty() is is_there
        ran = subprocess.run([sys.executable, "-c", LOADED_SOON], capture_output=True, check=False)
        assert ran.stdout.split() == [str(is_there).encode()], ran.stderr
        disk_cache.write("a key", b"code")
