"""``python -m xpapply script.py``: as Python itself would run it, but patched."""

import os
import signal
import subprocess
import sys
import textwrap
import time
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

WORK = """
import numpy as np
x = np.random.default_rng(0).random((20_000, 4))
y = np.apply_along_axis(np.median, 1, x)
"""


def run(*python, cwd, **how):
    env = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"} | how
    return subprocess.run(
        [sys.executable, *map(str, python)],
        capture_output=True,
        text=True,
        env=env,
        cwd=cwd,
        check=False,
        timeout=120,
    )


@pytest.fixture
def write(tmp_path):
    def write(code, name="script.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(textwrap.dedent(code))
        return name

    return write


ASKS = """
import sys, __main__
print(sys.argv, sys.path[0], __name__, __main__.__dict__ is globals(), __file__)
print(sorted(k for k in globals() if k not in ("__annotations__",)))
print(__spec__ and __spec__.name, __package__, type(__builtins__), __doc__, __cached__)
print(type(__loader__).__name__)
"""


@pytest.mark.parametrize("args", [(), ("a", "-q", "--report", "-m", "b c"), ("--", "-h")])
def test_scripts_see_what_they_would_see(write, tmp_path, args):
    script = write(ASKS, "sub/script.py")
    own = run(script, *args, cwd=tmp_path)
    ours = run("-m", "xpapply", "-q", script, *args, cwd=tmp_path)
    assert ours.stdout == own.stdout
    assert own.stdout
    assert (ours.stderr, ours.returncode) == ("", 0)


@pytest.mark.parametrize("name", ["pkg.mod", "pkg"])
def test_modules_see_what_they_would_see(write, tmp_path, name):
    write("", "pkg/__init__.py")
    write(ASKS, "pkg/mod.py")
    write(ASKS, "pkg/__main__.py")
    own = run("-m", name, "a", "-q", cwd=tmp_path)
    ours = run("-m", "xpapply", "-q", "-m", name, "a", "-q", cwd=tmp_path)
    assert own.stdout
    assert ours.stdout == own.stdout
    assert (ours.stderr, ours.returncode) == ("", 0)


@pytest.mark.parametrize("archive", [False, True])
def test_folders_and_archives(write, tmp_path, archive):
    write(ASKS, "app/__main__.py")
    target = "app"
    if archive:
        target = "app.zip"
        with zipfile.ZipFile(tmp_path / target, "w") as file:
            file.write(tmp_path / "app/__main__.py", "__main__.py")
    own = run(target, "a", cwd=tmp_path)
    ours = run("-m", "xpapply", "-q", target, "a", cwd=tmp_path)
    assert own.stdout
    assert ours.stdout == own.stdout


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("", 0),
        ("sys.exit()", 0),
        ("sys.exit(3)", 3),
        ("sys.exit('no')", 1),
        ("raise SystemExit(5)", 5),
        ("1 / 0", 1),
        ("import os; os._exit(7)", 7),
    ],
)
def test_exit_codes(write, tmp_path, end, code):
    script = write(f"import sys\nprint('here')\n{end}\n")
    own, ours = run(script, cwd=tmp_path), run("-m", "xpapply", "-q", script, cwd=tmp_path)
    assert ours.returncode == own.returncode == code
    assert (ours.stdout, ours.stderr) == (own.stdout, own.stderr)


@pytest.mark.parametrize(
    "code",
    [
        "def f():\n    1 / 0\n\nf()\n",
        "def f(:\n",
        "try:\n    1 / 0\nexcept ZeroDivisionError:\n    raise ValueError('x')\n",
        "import sys\nsys.excepthook = lambda t, e, b: print(t, b.tb_frame.f_code.co_filename)\n1/0",
    ],
)
@pytest.mark.parametrize("as_module", [False, True])
def test_tracebacks_have_no_lines_of_ours(write, tmp_path, code, as_module):
    write(code)
    if as_module:
        own, ours = ("-m", "script"), ("-m", "xpapply", "-q", "-m", "script")
    else:
        own, ours = ("script.py",), ("-m", "xpapply", "-q", "script.py")
    own, ours = run(*own, cwd=tmp_path), run(*ours, cwd=tmp_path)
    if as_module:  # which Python shows with its own lines
        lines = [x for x in own.stderr.splitlines() if "frozen runpy" not in x]
        assert [x for x in ours.stderr.splitlines() if "frozen runpy" not in x] == lines
    else:
        assert ours.stderr == own.stderr
    assert "xpapply" not in ours.stderr
    assert ours.stdout.replace("<frozen runpy>", "") == own.stdout.replace(
        "<frozen runpy>", ""
    ) or (as_module)


def test_what_is_not_there(tmp_path):
    ours = run("-m", "xpapply", "missing.py", cwd=tmp_path)
    assert ours.returncode == 2
    assert "can't open file 'missing.py'" in ours.stderr
    own, ours = (
        run("-m", "missing", cwd=tmp_path),
        run("-m", "xpapply", "-m", "missing", cwd=tmp_path),
    )
    assert ours.returncode == own.returncode == 1
    assert "No module named missing" in ours.stderr
    for wrong in (["-m"], ["-q"], ["--nonsense"], ["--report"]):
        assert run("-m", "xpapply", *wrong, cwd=tmp_path).returncode == 2


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_ctrl_c(write, tmp_path):
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        pytest.skip("jobs that a shell starts behind itself ignore it, and so do their children")
    script = write("import time\nprint('on', flush=True)\ntime.sleep(60)\n")
    found = []
    for how in ((), ("-m", "xpapply", "-q")):
        process = subprocess.Popen(
            [sys.executable, *how, script],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )
        assert process.stdout.readline() == "on\n"
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        found.append((process.returncode, errors))
    assert found[0] == found[1]
    assert found[0][0] == -signal.SIGINT


def test_the_report_comes_last(write, tmp_path):
    script = write(
        WORK
        + "import atexit, threading, time\n"
        + "atexit.register(print, 'end')\n"
        + "def later():\n    time.sleep(0.2)\n    np.apply_along_axis(np.ptp, 1, x)\n"
        + "threading.Thread(target=later).start()\n"
    )
    ours = run("-m", "xpapply", script, cwd=tmp_path)
    assert ours.stdout == "end\n"
    assert "2 calls of 2 functions, 2 of them at once" in ours.stderr
    assert "median" in ours.stderr
    assert "ptp" in ours.stderr
    assert run("-m", "xpapply", "-q", script, cwd=tmp_path).stderr == ""


def test_the_report_in_a_file(write, tmp_path):
    script = write(WORK + "import os; os.chdir('/')\n1 / 0\n")
    ours = run("-m", "xpapply", "-q", "--report", "out.txt", script, cwd=tmp_path)
    assert ours.returncode == 1
    assert "median" in (tmp_path / "out.txt").read_text()
    ours = run("-m", "xpapply", "--report", "missing/out.txt", script, cwd=tmp_path)
    assert ours.returncode == 2
    assert "there is no folder" in ours.stderr


def test_warnings_are_the_programs_own(write, tmp_path):
    script = write(WORK + "np.apply_along_axis(lambda v: hash(v.max()), 1, x)\n")
    ours = run("-W", "error", "-m", "xpapply", script, cwd=tmp_path)
    assert ours.returncode == 0
    assert "the hash of a value" in ours.stderr


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("as_module", [False, True])
def test_child_processes(write, tmp_path, method, as_module):
    import multiprocessing

    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {method} here")
    write(
        f"""
        import multiprocessing, sys
        import numpy as np

        def work(n):
            return type(np.apply_along_axis).__name__, n * n, __name__, sys.argv[1:]

        if __name__ == "__main__":
            with multiprocessing.get_context({method!r}).Pool(1) as pool:
                print(pool.map(work, [3]))
        """
    )
    how = ("-m", "script") if as_module else ("script.py",)
    ours = run("-m", "xpapply", "-q", *how, "a", cwd=tmp_path)
    name = "__main__" if method == "fork" else "__mp_main__"
    assert ours.stderr == ""
    assert ours.stdout == f"[('Replaced', 9, '{name}', ['a'])]\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_forked_processes_show_no_report(write, tmp_path):
    script = write(WORK + "import os, sys\nif not os.fork():\n    sys.exit()\nos.wait()\n")
    ours = run("-m", "xpapply", script, cwd=tmp_path)
    assert ours.stderr.count("xpapply: 1 calls of 1 functions") == 1


def test_a_command_wins_over_a_file(tmp_path):
    pytest.importorskip("click")
    (tmp_path / "doctor").write_text("1 / 0")
    assert "a network runs, and is right" in run("-m", "xpapply", "doctor", cwd=tmp_path).stdout


def test_no_arguments_print_the_versions(capsys):
    from xpapply.cli import installed, start

    assert start.main([]) is None
    assert capsys.readouterr().out == installed.report() + "\n"
