"""vectorize: a function of scalars, vectors or matrices, for whole arrays."""

from __future__ import annotations

import copy
import math
from collections.abc import Hashable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from time import perf_counter
from types import FunctionType
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from . import arrays, config, frontends, labelled
from .functions.cache import BoundedDict, cache_of, kept, prepared, unprepared
from .limits import LIMITS
from .loop import originals
from .loop.arguments import all_looped
from .loop.own_vectorize import OwnVectorize, tell
from .loop.results import Leaves
from .loop.signature import Dims, Signature, resolve
from .loop.vectorize import LoopedCall, OnError, looped_call, not_parameters, of_slices
from .planning import portable, straight
from .planning.portable import InputSpec, PortableFunction
from .planning.vectorized_call import GUFUNC, VectorizedCall
from .runtime.budget import Loops
from .slice_functions.arguments import signature

if TYPE_CHECKING:
    from .ir.graph import ShapeDtype
    from .loop.arguments import Arguments
    from .planning.plan import Plan


class vectorize(OwnVectorize):  # called as a function
    """Make a function of scalars or of core dims a function of whole arrays.

    A drop-in for `numpy.vectorize`, for arrays of every library.

    Parameters
    ----------
    pyfunc : callable
        Without `signature` a function of numbers. It gets Python's own, as from
        `numpy.vectorize`. With one it gets arrays of the core dims.
    otypes : str or list of dtypes, optional
        dtypes of the results. Otherwise those of the results for the first elements.
    doc : str, optional
        Docstring of the new function; that of `pyfunc` otherwise.
    excluded : set of str or int, optional
        Arguments, by name or position, that `pyfunc` gets as they are.
    cache : bool, optional
        Whether the first call, which tells how many results there are and their dtypes, is
        not repeated.
    signature : str, optional
        The core dims of arguments and results, such as ``"(m,n),(n)->(m)"``. A number fixes
        a size, ``?`` marks a dim that may be missing.
    on_error : {"raise", "fill", "warn"}, optional
        What to do where `pyfunc` raises: raise it, with a note that says at which index, or
        put `fill` there, silently or with a `RuntimeWarning` that says where.
    fill : number, optional
        What stands where nothing was computed (`where`, `on_error`). NaN by default,
        which only floating-point and complex results can hold.
    output_dims : str, tuple of str or list of tuples, optional
        Names of the results' core dims, where arguments are labelled arrays: of the one result,
        or a tuple for each. Those of the signature otherwise.

    Returns
    -------
    callable
        A call broadcasts its arguments and returns an array, or a tuple of them. Besides the
        arguments of `pyfunc` it takes the keywords of generalized ufuncs, unless `pyfunc` has
        parameters of these names: ``axis``, ``axes`` and ``keepdims`` say where the core dims
        are; ``out`` gets the results; ``where``, booleans of the loop dims, says for which
        slices `pyfunc` is called, and ``fill`` what stands elsewhere; ``dtype`` is that of the
        results.

    Raises
    ------
    TypeError, ValueError
        As `numpy.vectorize` does: arguments whose number or shapes do not fit, results of
        another shape than promised, size 0 without `otypes`.
    Exception
        What `pyfunc` raises, with a note that says at which index.

    Notes
    -----
    Functions of numbers give no floating-point warnings where they run on all elements at once:
    Python's numbers have none. (`numpy.vectorize` tells of some, by the processor's flags.)

    Pickled, it has beside `pyfunc` graphs of it for the kinds of slices that it was called with.
    They run in processes that lack the library or the module of `pyfunc`.

    See Also
    --------
    apply_along_axis : One array, one axis, any result.

    Examples
    --------
    >>> import numpy as np, xpapply
    >>> @xpapply.vectorize
    ... def positive_part(a, b):
    ...     return a - b if a > b else 0.0
    >>> positive_part([1.0, 5.0], 2.0)
    array([0., 3.])

    Functions of vectors; the dims before the core dims broadcast:

    >>> distance = xpapply.vectorize(lambda a, b: abs(a - b).max(), signature="(n),(n)->()")
    >>> distance(np.zeros((3, 1, 2)), np.eye(2)).shape
    (3, 2)
    >>> distance(np.zeros((2, 3)), np.ones((2, 3)), axis=0)
    array([1., 1., 1.])
    """

    def __init__(
        self,
        pyfunc: Any = np._NoValue,  # type: ignore[attr-defined]
        otypes: Any = None,
        doc: str | None = None,
        excluded: Iterable[int | str] | None = None,
        cache: bool = False,
        signature: str | None = None,
        *,
        on_error: str = "raise",
        fill: Any = None,
        output_dims: Any = None,
    ) -> None:
        if on_error not in ("raise", "fill", "warn"):
            raise ValueError(f"on_error={on_error!r}: use 'raise', 'fill' or 'warn'")
        pyfunc = frontends.as_function(pyfunc)
        if pyfunc is not np._NoValue and not callable(pyfunc):  # type: ignore[attr-defined]
            shown = arrays.describe(pyfunc) if hasattr(pyfunc, "shape") else repr(pyfunc)
            raise TypeError(
                f"pyfunc must be a function: found {shown}. As a decorator vectorize takes keyword "
                "arguments only, such as @vectorize(signature='(n)->()')"
            )
        super().__init__(pyfunc, otypes, doc, excluded, cache)
        self.signature = signature
        self._core = None if signature is None else Signature.parse(signature)
        self._on_error, self._fill = on_error, fill
        self._output_dims = _names_of_results(output_dims)
        self._fits = kept(BoundedDict())
        self._like: Any = None
        self._again: tuple[ref[Any], Any, Hashable, Loops] | None = None
        """The last function that ran in the loop, with which `otypes`, for what kinds of arguments
        without keywords, and what is remembered of that."""
        self._plain: tuple[Any, Any] = None, None
        """A function whose results are no containers, and the `otypes` for which that is known."""
        self._kinds: dict[Hashable, InputSpec] = {}
        """Kinds of calls: those for which graphs go to other processes."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs or self.excluded or self._core is not None or self._on_error != "raise":
            size = self._elements(args, kwargs)
        else:
            size = straight.elements(args)
        few = self._core is None and 0 < size <= LIMITS.few_elements
        if few and config.is_plain() and self._tells_enough():
            return self._straight(args, kwargs)
        again = self._again
        if again is not None and size and again[0]() is self.pyfunc and not kwargs:
            alike = straight.kinds(args) if self._core is None else self._alike(args)
            same = again[1] == self.otypes and again[2] == alike
            if same and again[3].hold(size):
                return self._straight(args, kwargs, again[3])
        if not size and (device := arrays.elsewhere(*args, *kwargs.values())) is not None:
            with device:
                return self(*args, **kwargs)
        if not callable(self.pyfunc):
            return originals.call_vectorize(self, *args, **kwargs)  # the decorator with keywords
        layout = None if kwargs else self._layout(args)
        ready = None if layout is None else prepared(self.pyfunc, layout)
        loops = ready if type(ready) is Loops else None
        if ready is not None and loops is None:
            asks = self._core is None and self.otypes is None
            found = ready(self.pyfunc, [*map(_as_array, args)], asks)
            if found is not None:
                if ready.kind is not self._like:
                    self._called_with(ready.kind)
                    self._like = ready.kind
                return found
            unprepared(self.pyfunc)
        if not size:
            return self._looked_at(args, kwargs, layout)[0]
        if loops is None:
            known, key = cache_of(self.pyfunc)[0].looped, self._how(args, kwargs)
            loops = known.get(key)
        if loops is not None and loops.hold(size):
            self._goes_on(args, kwargs, loops)
            return self._straight(args, kwargs, loops)
        began = perf_counter()
        found, call = self._looked_at(args, kwargs, layout)
        if call is not None and call.looped and self._tells_enough(call.leaves):
            looked = perf_counter() - began - call.in_loop
            most = call.looped and max(call.looped, LIMITS.few_elements)
            loops = Loops.after(looked, most, call.budget)
            cache_of(self.pyfunc)[0].looped[self._how(args, kwargs)] = loops
            if layout is not None and loops is not None:
                cache_of(self.pyfunc)[0].ready[layout] = loops
                self._goes_on(args, kwargs, loops)
        return found

    def _goes_on(self, args: tuple, kwargs: dict, loops: Loops) -> None:
        """Remember that the next call like this one is a plain loop."""
        if kwargs or self.excluded or self.cache:
            return
        otypes = self.otypes if isinstance(self.otypes, str | None) else list(self.otypes)
        with suppress(TypeError):  # an object that has no weak references
            self._again = ref(self.pyfunc), otypes, self._alike(args), loops

    def _alike(self, args: tuple) -> Hashable:
        """The key of calls that run alike: kinds of arguments, and core dims."""
        if self._core is None:
            return straight.kinds(args)
        dims = self._dims(args)
        return straight.kinds(args), None if dims is None else tuple(dims.sizes.known.items())

    def _elements(self, args: tuple, kwargs: dict) -> float:
        """The number of elements or slices of a call, as in `straight.elements`."""
        if self._on_error != "raise" or not _OWN.isdisjoint(kwargs):
            return 0
        if self._core is not None:
            found = None if kwargs or self.excluded else self._dims(args)
            return 0 if found is None else math.prod(found.loop)
        looped = [x for k, x in enumerate(args) if k not in self.excluded]
        return straight.elements(looped + [x for n, x in kwargs.items() if n not in self.excluded])

    def _dims(self, args: tuple) -> Dims | None:
        """The dims of plain arrays; None: of others, or if they do not fit."""
        assert self._core is not None
        if not _NDARRAY.issuperset(map(type, args)):
            return None
        shapes = tuple([x.shape for x in args])
        found: Dims | None = self._fits.get(shapes)
        if found is None:
            with suppress(TypeError, ValueError):
                found = self._fits[shapes] = resolve(self._core, shapes)
        return found

    def _tells_enough(self, leaves: Leaves | None = None) -> bool:
        """Whether NumPy's loop makes the results of `pyfunc`: no containers.

        `leaves`: of a call that has just ended.
        """
        f, otypes = self.pyfunc, self.otypes
        if otypes is None and self._core is None:
            return straight.is_function(f)
        if self._plain[0] is f and self._plain[1] is otypes:
            return True
        told = self._holds_objects if leaves is None else leaves.told_plain
        if told and straight.is_function(f):
            self._plain = f, otypes
        return self._plain[0] is f and self._plain[1] is otypes

    def _how(self, args: tuple, kwargs: dict) -> Hashable:
        """The key of how a call runs, beside its number of elements."""
        otypes = None if self.otypes is None else tuple(self.otypes)  # it may be a list
        named = (*kwargs, straight.kinds(kwargs.values())) if kwargs else None
        excluded = frozenset(self.excluded) if self.excluded else None
        alike = straight.kinds(args) if kwargs else self._alike(args)
        return alike, named, otypes, excluded, self.cache, self.signature

    def _straight(self, args: tuple, kwargs: dict, loops: Loops | None = None) -> Any:
        """NumPy's own call, or the loop over slices; its seconds are noted in `loops`."""
        began = perf_counter()
        if self._core is not None:
            dims = self._dims(args)
            assert dims is not None
            call = LoopedCall(self.pyfunc, all_looped(len(args)))
            found: Any = of_slices(call, args, dims.copy(), self.otypes)
            found = found[0] if len(found) == 1 else found
        else:
            try:
                if kwargs or self.excluded:
                    found = originals.call_vectorize(self, *args, **kwargs)
                else:  # as NumPy's own goes on
                    found = self._vectorize_call(self.pyfunc, args)  # type: ignore[attr-defined]
            except Exception as error:
                tell(error, lambda index: index)
                raise
        if loops is not None:
            loops.took(perf_counter() - began)
        return found

    def _looked_at(
        self, args: tuple, kwargs: dict, layout: Hashable
    ) -> tuple[Any, VectorizedCall | None]:
        """Results of a call of any kind, and the call, which knows what ran."""
        if labelled.given((*args, *kwargs.values())) is not None:
            found = self._of_labelled(self, args, kwargs)
            if found is not None:
                return found, None
        if (blockwise := self._blockwise(args, kwargs)) is not None:
            return blockwise(), None
        if (mixed := self._of_mixed(args, kwargs)) is not None:
            from .planning.application import announce

            announce(self.pyfunc, mixed.slices, mixed.loops_for, [])
            return self._straight(args, kwargs), mixed
        call, leaves = self._call(args, kwargs)
        found = call.results()
        if leaves is None or leaves.are_plain:
            if layout is not None:
                self._remember(layout, call)
            like = None if kwargs or self.excluded else [(x.shape, x.dtype) for x in call.operands]
            if like is None or like != self._like:
                self._called_with(call.kind)
                self._like = like
        return found if leaves is None else leaves.put_back(found), call

    def _remember(self, layout: Hashable, call: VectorizedCall) -> None:
        """Remember the run for calls like this one, as long as it exists."""
        known, ready = cache_of(self.pyfunc)[0].ready, call.ready
        if ready is None:
            known.pop(layout, None)
            return
        ready.kind = call.kind
        known[layout] = ready.traced.ready[layout] = ready

    def explain(self, *args: Any, **kwargs: Any) -> Plan:
        """The plan of a call with these arguments.

        Parameters
        ----------
        *args, **kwargs
            Those of the call. No result is computed; the function runs for the first slice, and
            if it decides by the data for some of those that decide otherwise.

        Returns
        -------
        Plan
            As of `xpapply.explain`: print it. Called with arrays it is the vectorized function.

        Raises
        ------
        InputError, TypeError, ValueError
            Where the call would raise them.

        Examples
        --------
        >>> import numpy as np, xpapply
        >>> weighted = xpapply.vectorize(lambda a, w: (a * w).sum(), signature="(n),(n)->()")
        >>> p = weighted.explain(np.ones((1000, 4)), np.ones(4))
        >>> p.vectorized, p.slices, p.out_shape, p.out_dtype
        (True, 1000, (1000,), 'float64')
        """
        if (device := arrays.elsewhere(*args, *kwargs.values())) is not None:
            with device:
                return self.explain(*args, **kwargs)
        if labelled.given((*args, *kwargs.values())) is not None:
            found: list[Any] = []

            def look(*args: Any, **kwargs: Any) -> None:
                found.append(self.explain(*args, **kwargs))
                raise labelled.Stop

            with suppress(labelled.Stop):
                self._of_labelled(look, args, kwargs)
            if found:
                return found[0]  # type: ignore[no-any-return]
        again = {k: v for k, v in kwargs.items() if k in GUFUNC}
        if (blockwise := self._blockwise(args, kwargs)) is not None:
            return blockwise.plan(partial(self, **again))  # type: ignore[no-any-return]
        call = self._of_mixed(args, kwargs) or self._call(args, kwargs)[0]
        return call.plan(partial(self, **again))  # type: ignore[no-any-return]

    def _call(self, args: tuple, kwargs: dict) -> tuple[VectorizedCall, Leaves | None]:
        """A call with its keywords understood, and what puts its results together again."""
        kwargs, how = self._keywords(args, kwargs)
        if self._core is not None and self.otypes is not None:
            wanted = len(self._core.outputs)
            if len(self.otypes) != wanted:
                raise ValueError(
                    f"otypes {self.otypes!r} are {len(self.otypes)}, the results of "
                    f"{self._core} {wanted}"
                )
        call, operands = looped_call(self.pyfunc, args, kwargs, self.excluded)
        leaves = self._leaves(operands)
        if leaves is not None:
            call = replace(call, arguments=replace(call.arguments, leaves=leaves))
        on_error = OnError(self._on_error, self._fill)
        made = VectorizedCall(call, self._core, operands, self.otypes, self.cache, on_error, **how)
        return made, None if "out" in how else leaves

    def _keywords(self, args: tuple, kwargs: dict) -> tuple[dict, dict]:
        """The keywords that are arguments of `pyfunc`, and those that say how it is looped."""
        kwargs, how = dict(kwargs), {}
        if kwargs:
            named = tuple(k for k in GUFUNC if k in kwargs)
            how = {k: kwargs.pop(k) for k in not_parameters(self.pyfunc, named, self._takes(args))}
        return kwargs, how

    def _of_mixed(self, args: tuple, kwargs: dict) -> VectorizedCall | None:
        """A call with lists whose elements only NumPy's own loop hands on; None: without any."""
        if self._core is not None or self._on_error != "raise":
            return None
        given = {**dict(enumerate(args)), **kwargs}
        objects = {
            k: np.asanyarray(x, dtype=object)
            for k, x in given.items()
            if k not in self.excluded and arrays.is_mixed(x)
        }
        if not objects or self._keywords(args, kwargs)[1]:
            return None
        args = tuple(objects.get(k, x) for k, x in enumerate(args))
        call, _ = self._call(args, {k: objects.get(k, x) for k, x in kwargs.items()})
        call.loops_for = "the elements of a list are of several types, or NumPy's scalars"
        return call

    def _blockwise(self, args: tuple, kwargs: dict) -> Any:
        """A call with arrays of dask among what is looped over; None: there are none."""
        if not any(arrays.library(x) == "dask" for x in (*args, *kwargs.values())):
            return None
        kwargs, how = self._keywords(args, kwargs)
        call, operands = looped_call(self.pyfunc, args, kwargs, self.excluded)
        if not any(arrays.library(x) == "dask" for x in operands):
            return None
        from .planning.chunked.blockwise_several import Blockwise

        return Blockwise(self, call, operands, how)

    def _of_labelled(self, call: Any, args: tuple, kwargs: dict) -> Any:
        """Call on the arrays inside labelled ones, and label the results.

        None where no argument that is looped over has labels: others `pyfunc` gets as they are.
        """
        kwargs, how = self._keywords(args, kwargs)
        given, operands = looped_call(self.pyfunc, args, kwargs, self.excluded)
        wing = labelled.given(operands)
        if wing is None:
            return None
        leaves = Leaves(len(self._core.outputs if self._core else self.otypes or " "))

        def run(*arrays: Any, **how: Any) -> Any:
            found = replace(given, f=partial(call, **how))(*arrays)
            return found if self._holds_objects else leaves.of(found)

        names = self._output_dims or _names_of_results(config.current().output_dims)
        return leaves.put_back(wing.looped(run, operands, how, self._core, names))

    def _takes(self, args: tuple) -> bool:
        """Whether `pyfunc` may have more looped arguments than these."""
        looped = len(args) - sum(type(k) is int and k < len(args) for k in self.excluded)
        return self._core is None or looped < len(self._core.inputs)

    # --- copies, and other processes --------------------------------------------------------

    def _expect(self, given: Arguments, slices: tuple[ShapeDtype, ...]) -> None:
        """Send graphs for such a call as well, which is only made in other processes."""
        self._called_with(portable.kind_of(given, slices))

    def _called_with(self, kind: InputSpec | None) -> None:
        """Remember a kind of call, and forget the oldest of many."""
        if kind is None:
            return
        self._kinds.pop(kind.key, None)
        self._kinds[kind.key] = kind
        if len(self._kinds) > LIMITS.sent_kinds:
            self._kinds.pop(next(iter(self._kinds)), None)

    def __copy__(self) -> Any:
        made = type(self).__new__(type(self))
        vars(made).update(vars(self), **_fresh(), _kinds=dict(self._kinds))
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        made = memo[id(self)] = type(self).__new__(type(self))
        fresh = _fresh()
        vars(made).update(copy.deepcopy({**vars(self), **dict.fromkeys(fresh)}, memo) | fresh)
        return made

    def __reduce_ex__(self, protocol: Any) -> Any:
        return portable.itself(self) or super().__reduce_ex__(protocol)

    def __getstate__(self) -> dict[str, Any]:
        state = {k: x for k, x in vars(self).items() if k not in _FRESH}
        if callable(self.pyfunc):
            kinds = tuple(self._kinds.values())
            state["pyfunc"] = portable.packed(self, self.pyfunc, kinds, self._core)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, **_fresh(), _like=None, _kinds={})
        if isinstance(self.pyfunc, PortableFunction):
            self._kinds = {kind.key: kind for kind, _ in self.pyfunc.graphs}
            self.pyfunc = self.pyfunc.function(self)

    def _layout(self, args: Sequence[Any]) -> Hashable:
        """A key of layout and options; None: no shortcut for such calls."""
        if self.excluded or self.cache or self._on_error != "raise":
            return None
        if type(self.pyfunc) is not FunctionType:
            return None
        how: list[Hashable]
        kinds = {*map(type, args)}
        if np.ndarray in kinds and kinds <= _HELD:
            how = [
                (x.shape, x.strides, x.dtype, x.flags.aligned)
                if type(x) is np.ndarray
                else (type(x), _as_array(x).dtype)
                for x in args
            ]
        elif len(found := {arrays.library(x) for x in args}) == 1 and found <= {"cupy", "torch"}:
            how = [*map(signature, args)]
        else:
            return None
        otypes = None if self.otypes is None else tuple(self.otypes)  # it may be a list
        return (self.signature, otypes, *how)

    @property
    def _holds_objects(self) -> bool:
        """Whether each result is stored as an object."""
        otypes: Any = self.otypes
        return bool(otypes) and len(otypes) == 1 and bool(np.dtype(otypes[0]).hasobject)

    def _leaves(self, operands: list[Any]) -> Leaves | None:
        """The function that takes results apart, where their number is known.

        It is remembered with the traces of `pyfunc`, which do not call it again.
        """
        if self._core is not None:
            count = len(self._core.outputs)
        elif self.otypes is not None:
            count = len(self.otypes)
        else:
            return None
        if self._holds_objects:
            return None
        known, method = cache_of(self.pyfunc)
        kinds = tuple((getattr(x, "ndim", 0), str(getattr(x, "dtype", ""))) for x in operands)
        key = (method, "leaves", str(self._core), count, kinds)
        found: Leaves | None = known.leaves.get(key)
        if found is None:
            found = known.leaves[key] = Leaves(count)
        return found


_OWN = frozenset(GUFUNC)
_NDARRAY = frozenset((np.ndarray,))
_HELD = frozenset((np.ndarray, float, int, bool))
"""What calls like those before may get: numbers of Python are arrays without an axis there."""
_FRESH = ("_fits", "_again", "_plain", "_ufunc", "_like", "_kinds")
"""Attributes that are not pickled."""


def _as_array(x: Any) -> Any:
    """A number as an array."""
    return np.asarray(x) if isinstance(x, (float, int)) else x


def _fresh() -> dict[str, Any]:
    return {"_fits": kept(BoundedDict()), "_again": None, "_plain": (None, None), "_ufunc": {}}


def _names_of_results(given: Any) -> tuple[tuple[Hashable, ...], ...]:
    """Names of each result's core dims; () if not given."""
    if not given:
        return ()
    if isinstance(given, (tuple, list)) and all(isinstance(d, (tuple, list)) for d in given):
        return tuple(map(config.dim_names, given))
    return (config.dim_names(given),)
