"""Which cases of a test run in CI: each value of each parameter occurs; nothing else is lost."""

from types import SimpleNamespace

import pytest

from conftest import chosen, dealt


class Item:
    def __init__(self, test, *ids):
        self.nodeid = f"{test}[{'-'.join(ids)}]" if ids else test
        if ids:
            self.callspec = SimpleNamespace(_idlist=ids)


def product(test, first, second):
    return [Item(test, a, b) for a in first for b in second]


def test_each_value_occurs():
    items = product("t.py::f", "abcdefgh", "xyz")
    kept = chosen(items, "")
    assert {i.callspec._idlist[0] for i in kept} == {*"abcdefgh"}
    assert {i.callspec._idlist[1] for i in kept} == {*"xyz"}
    assert len(kept) < 12


def test_tests_without_parameters_or_with_one_lose_nothing():
    items = [Item("t.py::f"), Item("t.py::g"), *(Item("t.py::h", c) for c in "abcdef")]
    assert chosen(items, "") == {*items}


def test_the_choice_is_the_same_beside_other_tests_and_another_with_another_seed():
    items = product("t.py::f", "abcdefgh", "uvwxyz")
    kept = chosen(items, "")
    assert chosen([*product("t.py::g", "ab", "cd"), *items[::-1]], "") >= kept
    assert chosen(kept, "") == kept
    assert chosen(items, "other") != kept


@pytest.mark.parametrize("deal", [2, 5, 100])
def test_deals_leave_one_of_each(deal):
    items = [Item("t.py::g"), *(Item("t.py::h", c) for c in "abcdefghij")]
    kept = chosen(items, "", deal)
    assert len(kept) == 1 + -(-10 // deal)


def test_dealt_cases_are_spread():
    assert dealt(range(100)) == dealt(range(100))
    assert len({*dealt(range(100))}) in (34, 100)
    assert dealt([]) == []
