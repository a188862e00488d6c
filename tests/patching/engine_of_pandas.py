"""A plugin of pytest: pandas' own tests of engines take ours, however small their tables are."""

import json
import os
import sys

import pytest
from thresholds import always_plan

import xpapply
from xpapply.planning.python import python_functions

counted = {"engine": 0, "at once": 0}


def pytest_configure():
    """Not when it is imported: pytest imports each file when it looks for doctests."""
    always_plan(pytest.MonkeyPatch())
    python_functions._sooner_in_loop = lambda *_: None


def pytest_collection_finish(session):
    own = xpapply.__pandas_udf__

    class Counted(own):
        @staticmethod
        def map(*given, **named):
            counted["engine"] += 1
            return own.map(*given, **named)

        @staticmethod
        def apply(*given, **named):
            counted["engine"] += 1
            return own.apply(*given, **named)

    from xpapply.pandas.applied import OfPandas

    at_once = OfPandas.at_once

    def counting(self, *given):
        counted["at once"] += 1
        return at_once(self, *given)

    OfPandas.at_once = counting
    # pytest loads it by a name of its own where pandas lies in a folder that is a package, and
    # tests may import it by the other one
    for module in (*session.config.pluginmanager.get_plugins(), *sys.modules.values()):
        engine = getattr(module, "__dict__", {}).get("MockEngineDecorator")
        if engine is not None:
            engine.__pandas_udf__ = Counted


def pytest_sessionfinish():
    with open(os.environ["LOOKED"], "w") as file:
        json.dump(counted, file)
