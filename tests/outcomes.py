"""What a call gives or raises, and what it warns of: for tests that compare two ways."""

import warnings
from collections.abc import Callable
from typing import Any


def outcome(run: Callable[[], Any]) -> tuple[Any, set[tuple[type[Warning], str]]]:
    """What a call gives, or the class and text of what it raises; and its warnings."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            found = run()
        except Exception as error:
            found = type(error), str(error)
    return found, {(x.category, str(x.message)) for x in seen}
