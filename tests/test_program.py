"""Programs of library calls: which buffer a value lies in."""

from hypothesis import given
from hypothesis import strategies as st

from xpapply.lowering.program import plan_buffers


@st.composite
def programs(draw):
    """Steps that each read earlier values and make one or two new ones."""
    steps, made = [], []
    for _ in range(draw(st.integers(1, 12))):
        reads = draw(st.lists(st.sampled_from(made), max_size=3)) if made else []
        results = list(range(len(made), len(made) + draw(st.integers(1, 2))))
        made += results
        steps.append((reads, results))
    return steps, [made[-1]]


@given(program=programs(), kinds=st.lists(st.sampled_from("ab"), min_size=24, max_size=24))
def test_no_buffer_is_written_to_while_it_is_needed(program, kinds):
    steps, ends = program

    def replaceable(step, result):  # every other step can be done in place
        return steps[step][0] if step % 2 else []

    buffers, of = plan_buffers(steps, kinds.__getitem__, replaceable, ends)
    assert all(of[b] == kinds[i] for i, b in buffers.items())
    memory = {}
    for step, (reads, results) in enumerate(steps):
        assert all(memory[buffers[a]] == a for a in reads)
        for i in results:
            there = memory.get(buffers[i])
            if there in reads:  # in the place of an operand, of one only
                assert there in replaceable(step, i)
            memory[buffers[i]] = i
        assert len({buffers[i] for i in results}) == len(results)
    assert all(memory[buffers[i]] == i for i in ends)


def test_buffers_are_used_again():
    chain = [([i - 1] if i else [], [i]) for i in range(10)]

    def in_place(step, result):
        return chain[step][0]

    assert plan_buffers(chain, lambda i: "", lambda *_: [], [9])[1] == ["", ""]
    assert plan_buffers(chain, lambda i: "", in_place, [9])[1] == [""]
