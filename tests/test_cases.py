"""Which cases of a test run in CI: each value of each parameter occurs; nothing else is lost."""

from types import SimpleNamespace

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import conftest
from conftest import chosen, values_of


class Item:
    """As pytest's, of a test with the parameters `ids`, each of a `parametrize` of its own."""

    def __init__(self, test, *ids, marks=(), together=False):
        self.nodeid = f"{test}[{'-'.join(ids)}]" if ids else test
        names = [f"p{k}" for k in range(len(ids))]
        self._marks = [pytest.mark.parametrize(n, []) for n in names]
        if together:
            self._marks = [pytest.mark.parametrize(",".join(names), [])]
        self._marks = [m.mark for m in (*self._marks, *marks)]
        if ids:
            self.callspec = SimpleNamespace(params=dict(zip(names, ids, strict=True)))

    def iter_markers(self, name):
        return [m for m in self._marks if m.name == name]

    def get_closest_marker(self, name):
        return next(iter(self.iter_markers(name)), None)


def product(test, first, second, **how):
    return [Item(test, a, b, **how) for a in first for b in second]


def test_each_value_occurs():
    kept = chosen(product("t.py::f", "abcdefgh", "xyz"), "")
    assert {i.callspec.params["p0"] for i in kept} == {*"abcdefgh"}
    assert {i.callspec.params["p1"] for i in kept} == {*"xyz"}
    assert len(kept) < 12


def test_tests_without_parameters_or_with_one_lose_nothing():
    items = [Item("t.py::f"), Item("t.py::g"), *(Item("t.py::h", c) for c in "abcdef")]
    assert chosen(items, "") == {*items}


def test_parameters_that_are_named_together_are_one():
    items = product("t.py::f", "abcd", "xyz", together=True)
    assert chosen(items, "") == {*items}
    assert len(values_of(items[0])) == 1


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


def test_marks_say_how_many():
    items = [Item("t.py::h", c, marks=[pytest.mark.one_in(3)]) for c in "abcdefghij"]
    assert len(chosen(items, "")) == 4
    assert len(chosen(items, "", 5)) == 2
    items = product("t.py::f", "abcd", "xyz", marks=[pytest.mark.every_case])
    assert chosen(items, "", 5) == {*items}


def test_what_does_not_go_together_is_no_case():
    mark = pytest.mark.no_such_case(lambda p1, p0: p0 == "a" and p1 == "y")
    items = product("t.py::f", "ab", "xyz", marks=[mark])
    left = [item.nodeid for item in items if conftest._exists(item)]
    assert left == ["t.py::f[a-x]", "t.py::f[a-z]", "t.py::f[b-x]", "t.py::f[b-y]", "t.py::f[b-z]"]
    items = [item for item in items if conftest._exists(item)]
    assert {v for item in chosen(items, "") for v in item.callspec.params.values()} == {*"abxyz"}


@pytest.mark.parametrize(("seconds", "most"), [(-1.0, conftest.FEW_EXAMPLES), (600.0, 20)])
def test_random_examples_end_when_they_have_taken_long(monkeypatch, seconds, most):
    monkeypatch.setattr(conftest, "LONG", seconds)
    seen = []

    @settings(max_examples=20, phases=[Phase.generate], database=None)
    @given(st.integers())
    def test(k):
        seen.append(k)

    conftest._shorten(SimpleNamespace(obj=test))
    test()
    assert len(seen) == most


def test_what_fails_is_run_again_however_long_it_took(monkeypatch):
    monkeypatch.setattr(conftest, "LONG", -1.0)
    seen = []

    @settings(max_examples=20, database=None)
    @given(st.integers(10, 99))
    def test(k):
        seen.append(k)
        assert k < 10

    conftest._shorten(SimpleNamespace(obj=test))
    with pytest.raises(AssertionError):
        test()
    assert len(seen) > 1  # made smaller, and shown
    assert seen[-1] == 10


def test_pairs_have_each_value_of_both(pairs, request):
    found = pairs("abcde", "xyz")
    if request.config.option.cases == "all" or conftest.DEEP:
        assert len(found) == 15
    else:
        assert len(found) == 5
    assert {a for a, _ in found} == {*"abcde"}
    assert {b for _, b in found} == {*"xyz"}
