"""``%load_ext xpapply`` in IPython."""

import numpy as np
import pytest

from xpapply.loop.originals import Replaced

pytest.importorskip("IPython")

X = np.random.default_rng(0).random((2000, 4))


@pytest.fixture
def shell(monkeypatch, tmp_path):
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)  # IPython warns where it is not this Python's
    config = Config()
    config.HistoryManager.enabled = False
    InteractiveShell.clear_instance()
    made = InteractiveShell.instance(config=config)
    yield made
    made.run_line_magic("unload_ext", "xpapply")
    InteractiveShell.clear_instance()


def test_loaded_and_unloaded(shell, tmp_path, capsys):
    shell.run_line_magic("load_ext", "xpapply")
    assert type(np.apply_along_axis) is Replaced
    shell.user_ns["x"] = X
    shell.run_cell("import numpy as np; y = np.apply_along_axis(lambda v: hash(v[0]), 1, x)")
    report = shell.run_line_magic("xpapply_report", "")
    assert [row.slices for row in report.rows] == [2000]
    path = tmp_path / "out.txt"
    assert shell.run_line_magic("xpapply_report", str(path)) is None
    assert "the hash of a value" in path.read_text()
    shell.run_line_magic("reload_ext", "xpapply")
    assert type(np.apply_along_axis) is Replaced
    shell.run_line_magic("unload_ext", "xpapply")
    assert type(np.apply_along_axis) is not Replaced
    shell.run_line_magic("xpapply_report", "")
    assert "%load_ext xpapply" in capsys.readouterr().out
