"""Guards of objects that a run makes and drops: the next may stand where one has stood."""

from xpapply.functions.guards import Guards


class Own:
    """An object with attributes."""


def f(v):
    return v


def test_an_object_where_one_was_that_is_gone_changes_nothing():
    guards, places = Guards(), []
    guards.start(f)
    for _ in range(8):
        x = Own()
        x.a = 1
        places.append(id(x))
        guards.names(x)
        del x
    assert len(set(places)) < len(places)  # one stood where another had been
    guards.settle()
    assert guards(f)


def test_the_one_that_stands_there_now_is_looked_at():
    guards, places = Guards(), set()
    guards.start(f)
    x = Own()
    while id(x) not in places:
        guards.names(x)
        places.add(id(x))
        x = None
        x = Own()
    guards.names(x)
    guards.settle()
    assert guards(f)
    x.later = 1
    assert not guards(f)
