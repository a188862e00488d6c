"""Work that several threads draw from: context, errors, threads within threads."""

import threading
import time

import numpy as np
import pytest

import xpapply
from xpapply import config
from xpapply.runtime import threads


@pytest.fixture(params=[False, True], ids=["long", "short"])
def short(request):
    """Whether the caller is one of the threads."""
    return request.param


def test_all_pieces_are_done_once_with_the_context_of_the_caller(short):
    done, seen = [], set()

    def work(pieces):
        for piece in pieces:
            done.append(piece)
            seen.add((np.geterr()["under"], config.current().precision))
            if not short:
                assert threading.current_thread() is not threading.main_thread()

    with np.errstate(under="raise"), xpapply.options(precision="medium"):
        threads.in_threads(work, iter(range(100)), 3, short)
    assert sorted(done) == list(range(100))
    assert seen == {("raise", "medium")}
    threads.check()  # nothing is stopped here


def test_of_short_work_the_caller_does_its_share_and_waits_for_nobody_who_has_not_begun():
    """Threads take their time to wake: here all of them are at something else."""
    held, at = threading.Event(), threading.Barrier(3)

    def hold():
        at.wait(60)
        held.wait(60)

    others = [threads.pool(2).submit(hold) for _ in range(2)]
    done = []

    def work(pieces):
        done.extend((piece, threading.current_thread()) for piece in pieces)

    try:
        at.wait(60)
        threads.in_threads(work, iter(range(20)), 2, short=True)
        assert done == [(k, threading.current_thread()) for k in range(20)]
    finally:
        held.set()
        for other in others:
            other.result(60)
    assert len(done) == 20  # the thread that comes too late does nothing


def test_threads_within_threads_wait_for_nobody(short):
    """All threads of the pool are at work already: further work stays where it is."""
    done = []

    def inner(pieces):
        done.extend(pieces)

    def work(pieces):
        for piece in pieces:
            threads.in_threads(inner, iter([piece, piece]), 2, short)

    finished = threading.Thread(
        target=threads.in_threads, args=(work, iter(range(20)), 2, short), daemon=True
    )
    finished.start()
    finished.join(60)
    assert not finished.is_alive()
    assert sorted(done) == sorted([*range(20), *range(20)])


@pytest.mark.parametrize("which", [0, 1])
def test_an_error_in_one_thread_ends_the_others(which, short):
    """Whichever of them has it: the caller does not wait for the first one's work."""
    turns, both = [], threading.Barrier(2)

    def work(pieces):
        turn = next(pieces)
        both.wait(60)
        if turn == which:
            raise ValueError("of one piece")
        for _ in pieces:
            turns.append(turn)
            time.sleep(0.01)
            threads.check()

    with pytest.raises(ValueError, match="of one piece"):
        threads.in_threads(work, iter(range(10_000)), 2, short)
    ended = len(turns)
    assert ended < 1000
    time.sleep(0.05)
    assert len(turns) == ended  # nothing runs on
    threads.check()  # and nothing is stopped but that


@pytest.mark.parametrize("which", [0, 1])
def test_what_is_not_begun_when_one_raises_is_not_done(which, short):
    done, ended, both = [], [], threading.Barrier(2)

    def work(pieces):
        turn = next(pieces)
        both.wait(60)
        if turn == which:
            raise ValueError("of one piece")
        for piece in pieces:  # without a look at whether it is wanted
            done.append(piece)
            time.sleep(0.01)
        time.sleep(0.1)
        ended.append(turn)

    with pytest.raises(ValueError, match="of one piece"):
        threads.in_threads(work, iter(range(1000)), 2, short)
    assert len(done) < 500
    assert len(ended) == 1  # nothing runs on


def test_what_is_raised_is_what_went_wrong(short):
    """Not that another thread was told to stop, though it may be done with that before."""
    both = threading.Barrier(2)

    def work(pieces):
        turn = next(pieces)
        both.wait(60)
        if turn == 0:
            try:
                raise ValueError("of one piece")
            finally:
                both.wait(60)
        both.wait(60)
        while True:
            threads.check()

    for _ in range(50):
        with pytest.raises(ValueError, match="of one piece"):
            threads.in_threads(work, iter(range(2)), 2, short)


def test_a_long_piece_ends_at_its_next_call_when_another_raises(short):
    calls, both = [], threading.Barrier(2)

    def work(pieces):
        turn = next(pieces)
        both.wait(60)
        if turn == 0:
            raise ValueError("of one piece")
        for _ in range(1000):
            threads.check()
            calls.append(1)
            time.sleep(0.01)

    with pytest.raises(ValueError, match="of one piece"):
        threads.in_threads(work, iter(range(2)), 2, short)
    assert len(calls) < 500
