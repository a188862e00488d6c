"""Files that are damaged or made to do harm: a clear error, soon, with little memory.

150 of them; all 2,000 with ``XPAPPLY_PROFILE=deep``.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import hostile_files
import pytest

pytest.importorskip("torch")
pytest.importorskip("safetensors")
pytest.importorskip("onnx")

COUNT = 2000 if os.environ.get("XPAPPLY_PROFILE") == "deep" else 350
SECONDS, MEMORY = 2.0, 200 << 20


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    """What came of each file: (from what, what was done, result, seconds, bytes)."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "valid").mkdir()
    valid = hostile_files.originals(folder / "valid")
    marker = folder / "marker"
    files, about = [], {}
    for k, (suffix, of, what, data) in enumerate(hostile_files.cases(valid, marker, COUNT)):
        path = f"{k}.{suffix}"
        (folder / path).write_bytes(data)
        files.append((path, suffix, of))
        about[path] = (of, what)
    (folder / "manifest.json").write_text(json.dumps(files))
    script = Path(hostile_files.__file__)
    ran = subprocess.run(
        [sys.executable, str(script), str(folder), str(folder / "manifest.json")],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(script.parents[1]), *sys.path])},
    )
    found = [json.loads(line) for line in ran.stdout.splitlines()]
    next_one = files[len(found)][0] if len(found) < len(files) else ""
    assert ran.returncode == 0, f"at {next_one} {about.get(next_one)}: {ran.stderr[-2000:]}"
    assert len(found) == len(files)
    assert not marker.exists(), "code of a file ran"
    results = [(path, *about[path], *rest) for path, *rest in found]
    print(Counter(r[3].partition(" ")[0] for r in results))
    print("slowest", max(r[4] for r in results), "largest", max(r[5] for r in results))
    return results


def test_made_to_do_harm_none_loads(read):
    loaded = [r for r in read if not r[1] and not r[3].startswith("refused")]
    assert loaded == []


def test_damaged_ones_load_as_they_were_or_not_at_all(read):
    """Saved plans and files of torch have checksums, safetensors and ONNX files have none."""
    wrong = [
        r
        for r in read
        if r[1] and not r[1].endswith(("safetensors", "onnx")) and r[2] != "lies"
        if not r[3].startswith(("refused", "same"))
    ]
    assert wrong == []


def test_no_other_error(read):
    assert [r for r in read if r[3].startswith(("raised", "other,"))] == []


def test_errors_say_something(read):
    short = {r[3] for r in read if r[3].startswith("refused") and len(r[3]) < 30}
    assert short == set()


def test_soon_and_with_little_memory(read):
    assert [r for r in read if r[4] > SECONDS] == []
    if sys.platform == "linux":
        assert [r for r in read if r[5] > MEMORY] == []
