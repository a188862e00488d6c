"""Another process, in which modules are missing, and what it makes of pickles."""

import pickle
import subprocess
import sys
from typing import Any

_CHILD = """
import pickle, sys
missing, jobs = pickle.load(sys.stdin.buffer)
for name in missing:
    sys.modules[name] = None  # as if it were not installed
done = {}
for name, (sent, args, kwargs) in jobs.items():
    try:
        done[name] = pickle.loads(sent)(*args, **kwargs)
    except Exception as error:
        done[name] = f"{type(error).__name__}: {error}"
loaded = {m.partition(".")[0] for m, x in sys.modules.items() if x is not None}
assert not loaded & set(missing), loaded & set(missing)
sys.stdout.buffer.write(pickle.dumps(done))
"""


def results(jobs: dict[Any, tuple[bytes, tuple, dict]], missing: list[str]) -> dict[Any, Any]:
    """What pickled callables give in another process where some modules are missing.

    `jobs`: the pickle of a callable, its arguments and keywords. What it raises is told as a text.
    """
    done = subprocess.run(
        [sys.executable, "-c", _CHILD],
        input=pickle.dumps((missing, jobs)),
        capture_output=True,
        check=False,
    )
    assert not done.returncode, done.stderr.decode()
    return pickle.loads(done.stdout)
