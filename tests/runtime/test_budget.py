"""Seconds that something may take before something else is made or tried."""

import copy
import math
import pickle

import pytest

from xpapply.runtime.budget import Budget, Quick


def test_it_holds_less_than_what_is_left():
    budget = Budget(1.0)
    budget.spend(0.25)
    assert budget.holds(0.5)
    assert not budget.holds(0.75)  # which would leave nothing
    assert not budget.holds(math.inf)
    assert budget.spent == 0.25


def test_what_it_does_not_hold_ends_it():
    budget = Budget(1.0)
    assert budget.spend(0.5)
    assert not budget.is_over
    assert not budget.spend(0.5)
    assert budget.is_over
    assert not budget.holds(0.0)


def test_calls_that_cost_the_same_end_at_the_same_count():
    counts = []
    for _ in range(2):
        budget, count = Budget(10e-3), 0
        while budget.spend(30e-6):
            count += 1
        counts.append(count)
    assert counts == [333, 333]


def test_of_no_seconds_nothing_is_left():
    budget = Budget(0.0)
    assert budget.is_over
    assert not budget.holds(0.0)
    assert not Budget(math.inf).is_over


def test_an_end_is_for_good():
    budget = Budget(10.0)
    budget.spend(1.0)
    budget.end()
    budget.spent = 0.5  # another thread, which had read it before
    assert budget.is_over
    assert not budget.holds(0.0)


def test_more_may_be_given_later():
    budget = Budget(1.0)
    budget.spend(1.5)
    budget.limit += 1.0
    assert budget.holds(0.25)  # what was taken too much counts
    assert not budget.holds(0.75)


def test_after_each_try_in_vain_it_is_twice_as_much():
    budget, limits = Budget(0.5), []
    for seconds in (0.5, 0.5, 2.0):
        budget.spend(100.0)
        budget = budget.again(seconds)
        limits.append(budget.limit)
        assert budget.spent == 0.0
    assert limits == [1.0, 2.0, 16.0]
    assert Budget(0.5, 20.0).again(0.5).limit == 20.0


@pytest.mark.parametrize("of", [copy.copy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_are_spent_by_themselves(of):
    budget = Budget(1.0, 4.0)
    budget.spend(1.0)
    other = of(budget)
    other.spend(3.0)
    assert (other.is_over, budget.is_over) == (True, False)
    assert (budget.spent, budget.limit, other.times) == (1.0, 4.0, 4.0)


def test_loops_serve_until_they_have_taken_more_than_that():
    quick = Quick(1.0, 0.5)
    assert not quick.serves(1)  # nobody knows what a slice takes
    quick.seconds = 0.1
    assert quick.serves(5)
    assert not quick.serves(6)
    quick.spent = 1.0
    assert quick.serves(5)
    quick.spent = 1.1
    assert not quick.serves(1)


def test_loops_are_timed(monkeypatch):
    clock = iter([0.0, 8.0, 10.0, 14.0, 20.0, 26.0])
    monkeypatch.setattr("time.perf_counter", lambda: next(clock))
    quick = Quick(100.0, 5.0)
    assert quick.timed(4, max, 1, 3) == 3
    quick.timed(4, max, 1, 3)
    quick.timed(4, max, 1, 3)
    assert (quick.seconds, quick.slices, quick.spent) == (1.0, 5.0, 18.0)
