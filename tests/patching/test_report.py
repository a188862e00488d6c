"""What the report says, as text and data."""

import os
import re
import stat

import numpy as np
import pytest
from in_threads import in_threads

import xpapply
from xpapply.limits import LIMITS
from xpapply.patching import Report, Row, along_axis
from xpapply.patching import report as report_module
from xpapply.patching.report import ESTIMATE

X = np.random.default_rng(0).random((20_000, 8))


def by_hash(v):
    return hash(v.max()) % 7


@pytest.fixture
def report(patched, monkeypatch):
    monkeypatch.setattr(along_axis, "_seconds_of_call", lambda *_: 1.0)
    np.apply_along_axis(np.median, 1, X)
    for _ in range(3):
        np.apply_along_axis(by_hash, 1, X[:2000])
    np.vectorize(lambda a: a if a > 0.5 else 0.0)(X)
    np.apply_along_axis(by_hash, 0, X[:3])
    return patched.report


def test_rows(report):
    rows = {row.name: row for row in report.rows}
    median, looped = rows["median"], rows["by_hash"]
    assert (median.loop, median.place, median.calls) == ("numpy.apply_along_axis", "", 1)
    assert median.slices == len(X)
    assert set(median.engines) <= {"numpy", "cpu"}
    assert median.saved > 0
    assert (looped.calls, looped.slices, looped.engines) == (4, 6008, {"loop": 4})
    assert re.fullmatch(r"test_report\.py:\d+", looped.place)
    assert all("the hash of a value" in why for why in looped.reasons)
    assert looped.saved == 0
    (numbers,) = (row for row in report.rows if row.loop == "numpy.vectorize")
    assert numbers.slices == X.size
    assert report.saved == pytest.approx(median.saved + numbers.saved)


def test_rows_begin_with_what_matters_most(report):
    each = [max(row.saved, row.seconds) for row in report.rows]
    assert each == sorted(each, reverse=True)


def test_the_time_saved_is_that_of_the_loop_less_what_it_took(patched, monkeypatch):
    monkeypatch.setattr(along_axis, "_seconds_of_call", lambda *_: 10.0)
    np.apply_along_axis(np.median, 1, X)
    (row,) = patched.report.rows
    loop = len(X) * (10.0 + along_axis._around_call())
    assert row.saved == pytest.approx(loop - row.seconds)


def test_a_report_of_the_time_since(patched):
    np.apply_along_axis(by_hash, 1, X[:500])
    with xpapply.patch() as inner:
        np.apply_along_axis(by_hash, 1, X[:700])
    np.apply_along_axis(by_hash, 1, X[:900])
    assert [row.slices for row in inner.report.rows] == [700]
    assert [row.slices for row in patched.report.rows] == [2100]


def test_to_dict_is_plain(report):
    import json

    again = json.loads(json.dumps(report.to_dict()))
    assert again["saved"] == report.saved
    assert len(again["rows"]) == len(report.rows)
    assert again["left"]


def test_text(report):
    text = str(report)
    assert repr(report) == text
    first, head, *_ = text.splitlines()
    assert first.startswith("xpapply: 6 calls of 3 functions, 2 of them at once; about ")
    assert head.split() == "function called by calls slices time saved ran by".split()
    assert "by_hash (test_report.py:" in text
    assert "    loop: the hash of a value" in text
    assert "left: " not in text
    assert text.endswith(ESTIMATE)


def test_what_is_left_is_named_where_it_was_called(report):
    np.ma.apply_along_axis(np.ma.median, 1, np.ma.masked_greater(X[:50], 0.9))
    assert "left: numpy.ma.apply_along_axis" in str(report)


def test_text_without_calls():
    with xpapply.patch() as patched:
        pass
    assert str(patched.report).startswith("xpapply: no call of numpy.apply_along_axis")


def made_of(rows):
    """A report of these rows."""
    found = Report({}, ["this & <that>"])
    found._after = dict(enumerate(rows))
    return found


def test_text_of_many_functions_is_short():
    rows = [Row(f"f{k}", "", "numpy.vectorize", 1, 5, 1.0, {"loop": 1}) for k in range(50)]
    text = str(made_of(rows))
    assert len(text.splitlines()) < 20
    assert "and 38 functions more" in text


def test_text_moves_no_cursor():
    row = Row("a\x1b[2Jb\nc", "", "numpy.vectorize", 1, 5, 1.0, {"loop": 1}, {"\x1b[1mwhy\r": 1})
    lines = str(made_of([row])).splitlines()
    assert all(line.isprintable() for line in lines)
    assert not any(line.startswith("c") for line in lines)


def test_files_are_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "out.txt"
    path.write_text("before")
    path.chmod(0o640)
    report = made_of([])
    monkeypatch.setattr(report_module, "table", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        report.save(path)
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["out.txt"]
    monkeypatch.undo()
    report.save(path)
    assert path.read_text() == f"{report}\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    with pytest.raises(OSError):  # noqa: PT011
        report.save(tmp_path / "missing" / "out.txt")


def test_ever_new_functions_go_to_one_row(monkeypatch, patched):
    monkeypatch.setattr(LIMITS, "patched_functions", 3)
    for k in range(6):
        np.apply_along_axis(eval(f"lambda v: v.sum() + {k}"), 1, X[:50])
    names = [row.name for row in patched.report.rows]
    assert names.count("other functions") == 1
    assert sum(row.calls for row in patched.report.rows) == 6


def test_reasons_are_not_without_end(patched):
    for k in range(50):
        np.apply_along_axis(len, 1, type(f"Own{k}", (np.ndarray,), {})((2, 2)))
    (row,) = patched.report.rows
    assert len(row.reasons) == 21
    assert row.reasons["other reasons"] == 30


def test_what_gains_nothing_goes_to_the_loop(patched, monkeypatch):
    monkeypatch.setattr(along_axis, "_seconds_of_call", lambda *_: 0.0)
    monkeypatch.setattr(along_axis, "_around_call", lambda: 0.0)
    for _ in range(3):
        np.apply_along_axis(np.median, 1, X)
    (row,) = patched.report.rows
    assert row.engines.pop("loop") == 1
    assert sum(row.engines.values()) == 2
    assert [*row.reasons] == ["planned anew for each call it takes longer than its loop"]


def test_functions_are_not_kept_alive(patched):
    import gc
    import weakref

    class Callable:
        def __call__(self, v):
            return v.sum()

    f = Callable()
    g = lambda v: v.sum()  # noqa: E731
    gone = weakref.ref(f), weakref.ref(g)
    for each in (f, g):
        np.apply_along_axis(each, 1, X[:500])
    del f, g, each
    gc.collect()
    assert [ref() for ref in gone] == [None, None]


def test_calls_that_fell_back_are_counted_when_somebody_asks(patched):
    """They wait, also for more than are kept at a time, and in several threads."""
    calls = 10 * LIMITS.patched_kept + 3

    def some():
        for _ in range(calls):
            np.apply_along_axis(by_hash, 1, X[:3])

    in_threads(some, times=4)
    (row,) = patched.report.rows
    assert (row.calls, row.slices, row.engines) == (4 * calls, 12 * calls, {"loop": 4 * calls})
    assert row.seconds > 0
    np.apply_along_axis(by_hash, 1, X[:3])
    assert patched.report.rows[0].calls == 4 * calls + 1


def test_a_reason_names_a_line_of_the_function_of_groups():
    pd = pytest.importorskip("pandas", "3")
    frame = pd.DataFrame({"k": np.arange(3000) // 9, "x": np.arange(3000.0)})
    with xpapply.patch() as patched:
        frame.groupby("k")["x"].agg(lambda v: v.max() - v.min())
    (row,) = patched.report.rows
    (reason,) = row.reasons
    assert reason.count("test_report.py:") == 1
    assert "lambda v: v.max() - v.min()" in reason
