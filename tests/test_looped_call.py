"""The plain loop of vectorize: at which index it raises, however the arrays lie in memory."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xpapply


@st.composite
def laid_out(draw):
    """An array of different integers, in any memory order."""
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    x = np.arange(np.prod(shape)).reshape(shape).transpose(draw(st.permutations(range(len(shape)))))
    x = np.array(x, order=draw(st.sampled_from("CF")))
    x = x[..., :: draw(st.sampled_from([1, -1]))]
    return x[:: draw(st.sampled_from([1, 2, -1]))]


@given(laid_out(), st.data())
def test_the_note_names_the_index(x, data):
    shape = data.draw(st.sampled_from([x.shape, x.shape[-1:], ()]))
    y = np.ones(shape, order=data.draw(st.sampled_from("CF")))
    bad = data.draw(st.sampled_from(x.ravel().tolist()))
    otypes, swapped = data.draw(st.sampled_from([None, "d"])), data.draw(st.booleans())

    def f(*given):
        if given[swapped] == bad:
            raise KeyError(bad)
        return given[0]

    operands = (y, x) if swapped else (x, y)
    with xpapply.options(engine="loop"), pytest.raises(KeyError) as info:
        xpapply.vectorize(f, otypes=otypes)(*operands)
    index = tuple(map(int, np.argwhere(x == bad)[0]))
    assert info.value.__notes__ == [f"raised at the index {index} of the loop dimensions"]
