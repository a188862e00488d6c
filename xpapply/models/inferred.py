"""Layers inferred from keys and shapes of weights. Anything else is required from the caller."""

from __future__ import annotations

import bisect
import itertools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..errors import InputError
from ..limits import LIMITS
from ..mlp import check_names
from .layers import KINDS, Layer, activations, made

WRAPPERS = ("module", "model", "_orig_mod", "net", "network")
"""Prefixes of keys by DataParallel, Lightning, torch.compile and the like."""

_LEAVES = frozenset("weight bias running_mean running_var num_batches_tracked".split())
_BRANCHES = frozenset(
    "attn attention query key value qkv q k v skip shortcut downsample residual res resid branch "
    "gate gating lstm gru rnn emb embed embedding embeddings mixer expert experts mu logvar group "
    "gn instance".split()
)
"""Words in keys of layers that do not stand in one line, or are not what their shapes say."""


class SavedTensor(NamedTuple):
    """Weights as NumPy has them, with the dtype that they have in the file."""

    array: np.ndarray
    dtype: str


class Description(NamedTuple):
    """The description of a file of weights: by the caller, a JSON file or the file's metadata.

    Attributes
    ----------
    activation : str or sequence of str, or None
        Of the hidden layers.
    output_activation : str or None
        Of the last layer.
    layers : sequence, or None
        All layers, in their order.
    origin : str
        Where it is said; "" for the caller.
    """

    activation: str | Sequence[str] | None = None
    output_activation: str | None = None
    layers: Sequence[Any] | None = None
    origin: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether the description is empty."""
        return self.activation is self.output_activation is self.layers is None


def asked(activation: Any, output_activation: Any, layers: Any) -> Description:
    """A description by the caller."""
    if activation is not None:
        check_names("activation", activation, several=True)
    if output_activation is not None:
        check_names("output_activation", output_activation)
    if layers is not None and (isinstance(layers, str) or not isinstance(layers, Sequence)):
        raise InputError(
            f'layers= is a list of layers in their order, such as ["fc1", "relu", "fc2"]: '
            f"found {str(layers)[:80]}"
        )
    return Description(activation, output_activation, layers)


def described(x: Any, origin: str) -> Description:
    """A description that comes from JSON, every key of it checked."""
    if not isinstance(x, dict):
        raise InputError(f"{origin}: a JSON object was expected, found {type(x).__name__}")
    unknown = sorted(set(x) - {"activation", "output_activation", "layers"})
    if unknown:
        raise InputError(
            f"{origin}: unknown {', '.join(map(repr, unknown))}. Known are 'activation', "
            "'output_activation' and 'layers'; with activation= or layers= given it is not read"
        )
    named = x.get("activation")
    texts = named if isinstance(named, list) else [named]
    if not all(e is None or isinstance(e, str) for e in (*texts, x.get("output_activation"))):
        raise InputError(f"{origin}: activations are names, such as 'relu'")
    if not isinstance(x.get("layers", []), list):
        raise InputError(f"{origin}: 'layers' is a list")
    return Description(named, x.get("output_activation"), x.get("layers"), origin)


class _Flow(NamedTuple):
    """The data flow from one layer to the next.

    Attributes
    ----------
    width : int
        How many numbers, or channels.
    places : int or None
        Spatial axes after the channels; None: not known yet.
    """

    width: int
    places: int | None = None


class _Unit(NamedTuple):
    """The weights of one layer, and what they are for sure."""

    name: str
    kind: str
    weights: Mapping[str, np.ndarray]

    @property
    def pattern(self) -> str:
        """The name without its numbers: names with the same one are in natural order."""
        return re.sub(r"\d+", "#", self.name)

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(int(n) for n in re.findall(r"\d{1,9}", self.name))

    def after(self, flow: _Flow | None, grouped: bool = True) -> _Flow | None:
        """The flow after a unit (None before it: the first one); None: it does not fit.

        `grouped`: a convolution may have groups.
        """
        w = self.weights.get("weight", self.weights.get("running_mean"))
        assert w is not None
        size = w.shape[0] if w.ndim else 0
        if self.kind == "linear":
            n, m = w.shape
            flattened = (
                flow is not None and bool(flow.places and flow.width) and m % flow.width == 0
            )
            fits = flow is None or flattened or (not flow.places and m == flow.width)
            return _Flow(n, 0) if fits else None
        if self.kind == "conv":
            places = w.ndim - 2
            if flow is None:
                return _Flow(size, places)
            groups = self.groups(flow)
            fits = flow.places in (None, places) and 0 < groups <= (size if grouped else 1)
            fits = fits and size % groups == 0
            return _Flow(size, places) if fits else None
        if self.kind == "prelu" and size == 1:
            return flow
        if self.kind == "layer_norm":  # of features; of channels it may be a group_norm
            fits = flow is None or (not flow.places and flow.width == size)
            return _Flow(size, 0) if fits else None
        return _Flow(size) if flow is None else flow if flow.width == size else None

    def groups(self, flow: _Flow | None) -> int:
        """The groups of a convolution for this flow; 0: there is no such number."""
        m = self.weights["weight"].shape[1]
        return 1 if flow is None else (flow.width // m if m and flow.width % m == 0 else 0)


def layers_of(
    tensors: Mapping[str, SavedTensor], said: Description, json_name: str
) -> tuple[list[Layer], str]:
    """The layers of a file of weights, and the dtype of their result.

    Raises
    ------
    InputError
        For what keys and shapes do not tell, with what to give instead.
    """
    if not tensors:
        raise InputError("it has no weights")
    units = _units({k: t.array for k, t in tensors.items()}, json_name)
    used = [tensors[k] for k in tensors if not k.endswith("num_batches_tracked")]
    dtype = _dtype_of(used)
    origin = "" if said.is_empty or not said.origin else f" (from {said.origin})"
    try:
        if said.layers is not None:
            if said.activation is not None or said.output_activation is not None:
                raise InputError("activations stand in the list of layers: give that alone")
            return _listed(units, said.layers), dtype
        return _stacked(units, said, json_name), dtype
    except InputError as error:
        raise InputError(f"{error}{origin}") from None


def listing(shapes: Mapping[str, Any]) -> str:
    """Keys and shapes, for errors."""
    shown = [f"{k} {tuple(getattr(x, 'shape', ()))}" for k, x in list(shapes.items())[:30]]
    more = f", and {len(shapes) - 30} more" if len(shapes) > 30 else ""
    return f"{', '.join(shown)}{more}"


def _names(names: Iterable[str]) -> str:
    shown = list(names)
    return ", ".join(shown[:30]) + f", and {len(shown) - 30} more" * (len(shown) > 30)


def unwrapped(names: Iterable[str]) -> str:
    """The common prefix of all names by wrappers: "module.", "model.net." or ""."""
    every, found = list(names), ""
    while every:
        first, _, rest = every[0].partition(".")
        if first not in WRAPPERS or not rest or not all(k.startswith(f"{first}.") for k in every):
            break
        found += f"{first}."
        every = [k[len(first) + 1 :] for k in every]
    return found


def _dtype_of(tensors: Sequence[SavedTensor]) -> str:
    names = {t.dtype for t in tensors}
    wrong = sorted(n for n in names if n not in ("float16", "bfloat16", "float32", "float64"))
    if wrong:
        raise InputError(
            f"weights of dtype {', '.join(wrong)}: float16, bfloat16, float32 and float64 are "
            "read. Quantised networks run where they were made, or as ONNX files"
        )
    if len(names) == 1:
        return names.pop()
    return str(np.result_type(*(np.dtype("float32" if n == "bfloat16" else n) for n in names)).name)


def _natural(name: str) -> list[Any]:
    return [(int(p), "") if p.isdigit() else (-1, p) for p in re.split(r"(\d{1,9})", name)]


def _units(arrays: Mapping[str, np.ndarray], json_name: str) -> list[_Unit]:
    """The weights by layer, in natural order."""
    groups: dict[str, dict[str, np.ndarray]] = {}
    for key, x in arrays.items():
        name, _, leaf = key.rpartition(".")
        groups.setdefault(name, {})[leaf] = x
    if len(groups) > LIMITS.inferred_entries:
        raise InputError(
            f"{len(groups):,} layers: at most {LIMITS.inferred_entries:,} are put together"
        )
    found, unclear = [], []
    for name in sorted(groups, key=_natural):
        own = groups[name]  # the weight first
        of = {k: own[k] for k in sorted(own, reverse=True) if k != "num_batches_tracked"}
        kind = _kind(of) if set(groups[name]) <= _LEAVES else ""
        if not kind:
            unclear += [f"{name}.{k}".strip(".") for k in groups[name]]
        found.append(_Unit(name, kind, of))
    if unclear:
        shown = {k: arrays[k] for k in unclear}
        raise InputError(
            f"weights that are not those of Linear, Conv, BatchNorm, LayerNorm or PReLU: "
            f"{listing(shown)}. {_ways(json_name, lists=False)}"
        )
    return found


def _kind(of: Mapping[str, np.ndarray]) -> str:
    """The kind of weights, or a candidate for a list of layers; "": unknown."""
    names, shapes = set(of), {k: x.shape for k, x in of.items()}
    if {"running_mean", "running_var"} <= names:
        return "batch_norm"
    if "weight" not in names or not names <= {"weight", "bias"}:
        return ""
    ndim = len(shapes["weight"])
    if ndim == 1:
        return "layer_norm" if "bias" in names else "prelu"
    return {2: "linear", 3: "conv", 4: "conv", 5: "conv"}.get(ndim, "")


def _ways(json_name: str, lists: bool = True) -> str:
    own = "Give module=, the class of the network or an instance of it"
    if not lists:
        return own
    return f"{own}; or layers=, the list of its layers, or the same in {json_name}"


# --- a list of layers ---------------------------------------------------------------------------


def _listed(units: Sequence[_Unit], entries: Sequence[Any]) -> list[Layer]:
    """The layers that a list names: keys of the file, layers without weights, parameters."""
    if len(entries) > LIMITS.inferred_entries:
        raise InputError(f"a list of {len(entries):,} layers: at most {LIMITS.inferred_entries:,}")
    by_name = {u.name: u for u in units}
    wrapped = unwrapped(by_name)
    found, used = [], set()
    for k, entry in enumerate(entries):
        if isinstance(entry, str) and wrapped + entry in by_name:
            entry = wrapped + entry
        given = (
            {"layer" if entry in by_name else "type": entry} if isinstance(entry, str) else entry
        )
        if not isinstance(given, Mapping) or not {"layer", "type"} & set(given):
            raise InputError(
                f"layers[{k}] is {str(entry)[:80]!r}: a name was expected, or an object with "
                "'layer' (of the file) or 'type', and parameters"
            )
        name, kind = given.get("layer", ""), given.get("type", "")
        if not isinstance(name, str) or not isinstance(kind, str):
            raise InputError(f"layers[{k}]: 'layer' and 'type' are names")
        rest = {str(key): x for key, x in given.items() if key not in ("layer", "type")}
        weights: Mapping[str, np.ndarray] = {}
        if "layer" in given:
            name = wrapped + name if wrapped + name in by_name else name
            if name not in by_name:
                raise InputError(
                    f"layers[{k}]: the file has no layer {name!r}. It has {_names(by_name)}"
                )
            weights, kind = by_name[name].weights, kind or by_name[name].kind
            used.add(name)
        elif kind in KINDS and any(not w.endswith("?") for w in KINDS[kind].weights):
            raise InputError(
                f"layers[{k}]: a layer {kind!r} has weights: say which, as 'layer'. The file has "
                f"{_names(by_name)}"
            )
        found.append(made(kind, rest, name, weights))
    left = [n for n in by_name if n not in used]
    if left:
        raise InputError(f"layers= leaves out {_names(left)}, of which the file has weights")
    return found


# --- a stack of layers --------------------------------------------------------------------------


def _stacked(units: Sequence[_Unit], said: Description, json_name: str) -> list[Layer]:
    """Linear layers with activations between them, and norms where it is clear where they stand."""
    shapes = {f"{u.name}.{k}".strip("."): x for u in units for k, x in u.weights.items()}
    if any(u.kind == "conv" for u in units):
        raise InputError(
            "convolutions: stride, padding and pools are not in the file, which has "
            f"{listing(shapes)}. {_ways(json_name)}{_suggested(_order(units))}"
        )
    odd = [u.name for u in units if _BRANCHES & set(re.split(r"[._\d]+", u.name.lower()))]
    odd += [u.name for u in units if u.kind == "prelu"]
    if odd:
        raise InputError(
            f"what is done with {_names(odd)} is not clear from keys and shapes: "
            f"{listing(shapes)}. {_ways(json_name)}"
        )
    order = _order(units)
    if order is None:
        raise InputError(
            f"the order of the layers is not clear from keys and shapes: {listing(shapes)}. "
            f"{_ways(json_name)}{_suggested(None)}"
        )
    hidden = sum(u.kind == "linear" for u in order) - 1
    if hidden < 0:
        raise InputError(f"no Linear layer is among them: {listing(shapes)}. {_ways(json_name)}")
    names = said.activation
    if names is None and hidden:
        raise InputError(
            f"{hidden + 1} layers, {listing(shapes)}, and nothing that says what is between them. "
            'Give activation="relu" (or what it was trained with; "identity" for none), or '
            f'{{"activation": "relu"}} in {json_name}, or module='
        )
    each = [names or "identity"] * hidden if isinstance(names, (str, type(None))) else list(names)
    if len(each) != hidden:
        raise InputError(f"{len(each)} activations for {hidden} hidden layers")
    last, known = said.output_activation or "identity", activations()
    made_of: dict[str, Layer] = {}
    for name in {*each, last}:
        if name in KINDS:
            raise InputError(f"{name!r} is not an activation. Known are {', '.join(known)}")
        made_of[name] = made(name, {})
    found = _with_activations(order, [made_of[name] for name in each], json_name)
    return found if last == "identity" else [*found, made_of[last]]


def _with_activations(order: list[_Unit], each: list[Layer], json_name: str) -> list[Layer]:
    """The activations at the gaps that numbers of a Sequential leave between layers."""
    found: list[Layer] = []
    places = [i for i, u in enumerate(order) if u.kind == "linear"]
    some = any(_gap(a, b) for a, b in itertools.pairwise(order))
    for i, u in enumerate(order):
        between = _between(order, places, i)
        layer = made(u.kind, {}, u.name, u.weights)
        if between is None:  # before the first Linear, or at or after the last
            gap = _gap(u, order[i + 1]) if i + 1 < len(order) else 0
            if gap:
                raise _unclear_place(order, json_name)
            found.append(layer)
            continue
        here, own = between
        gaps = [_gap(a, b) for a, b in itertools.pairwise(own)]
        if len(own) > 3 or (len(own) == 2 and gaps == [0] and some):
            raise _unclear_place(order, json_name)
        if len(own) == 3 and (None in gaps or bool(gaps[0]) == bool(gaps[1])):
            raise _unclear_place(order, json_name)
        after = own[0] if len(own) == 2 or gaps[0] else own[1]
        found.append(layer)
        if u is after and each[here].kind != "identity":
            found.append(each[here])
    return found


def _between(order: list[_Unit], places: list[int], i: int) -> tuple[int, list[_Unit]] | None:
    """The pair of Linear layers around a unit."""
    here = bisect.bisect_right(places, i) - 1
    if here < 0 or here + 1 == len(places):
        return None
    end = min(places[here + 1], places[here] + 3)  # more than that is not clear anyway
    return here, order[places[here] : end + 1]


def _gap(a: _Unit, b: _Unit) -> int | None:
    """The number of layers without weights between two of one Sequential; None for others."""
    if a.pattern != b.pattern or not a.numbers or a.numbers[:-1] != b.numbers[:-1]:
        return None
    if not a.pattern.endswith("#") or (len(a.pattern) > 1 and a.pattern[-2] != "."):
        return None
    return b.numbers[-1] - a.numbers[-1] - 1


def _unclear_place(order: list[_Unit], json_name: str) -> InputError:
    return InputError(
        f"where the activations stand between {_names(u.name for u in order)} is not clear "
        f"from the keys. {_ways(json_name)}{_suggested(order)}"
    )


def _suggested(order: Sequence[_Unit] | None) -> str:
    """A list of layers to begin with, where their order is known, for the end of an error."""
    if order is None:
        return (
            ". Their order is not known, as not just one fits their widths: the list has their "
            'names in the order of the network, and the activations between them, such as "relu"'
        )
    maps = any(u.kind == "conv" for u in order)
    more = ", with its own activations, strides, paddings and pools" if maps else ""
    return f"{more}, such as layers={_example(order)}"


def _example(order: Sequence[_Unit]) -> str:
    """A list of layers to begin with, of those in their order."""
    found: list[Any] = []
    if len(order) > 30:
        return "[...]"
    flow: _Flow | None = None
    for k, u in enumerate(order):
        if u.kind == "conv":
            groups = u.groups(flow)
            more = {"groups": groups} if groups > 1 else {}
            found += [{"layer": u.name, "stride": 1, "padding": 0, **more}]
        else:
            if u.kind == "linear" and flow is not None and flow.places:
                found += ["flatten"]
            found += [u.name]
        flow = u.after(flow)
        following = order[k + 1].kind if k + 1 < len(order) else None
        if u.kind == "prelu" or following in (None, "batch_norm", "layer_norm", "prelu"):
            continue
        if any(o.kind in ("linear", "conv") for o in order[: k + 1]):  # no norm at the start
            found += ["relu"]
    return json.dumps(found)


def _order(units: Sequence[_Unit]) -> list[_Unit] | None:
    """The one order in which each takes what the one before gives; None if there are more, or none.

    Those whose names differ by their numbers alone are in the order of these. Convolutions have
    groups where there is no order without.
    """
    orders, found = _counted(units, False)
    if not orders and any(u.kind == "conv" for u in units):
        orders, found = _counted(units, True)
    return found if orders == 1 else None


def _counted(units: Sequence[_Unit], grouped: bool) -> tuple[int, list[_Unit]]:
    """The number of orders that fit, two for more or uncounted, and the first one."""
    chains: dict[str, list[_Unit]] = {}
    for u in sorted(units, key=lambda u: u.numbers):
        chains.setdefault(u.pattern, []).append(u)
    rows = list(chains.values())
    whole, none = tuple(map(len, rows)), (0,) * len(rows)
    # from the end: how many orders there are of what is left, two at most, and which comes next
    known: dict[tuple[tuple[int, ...], _Flow | None], tuple[int, int]] = {}
    # an explicit stack: files may have thousands of layers
    stack: list[tuple[tuple[int, ...], _Flow | None]] = [(none, None)]
    while stack:
        if len(known) > LIMITS.inferred_states:
            return 2, []
        state = at, flow = stack[-1]
        if state in known:
            stack.pop()
            continue
        if at == whole:
            known[state] = 1, -1
            stack.pop()
            continue
        nexts = []
        for c, k in enumerate(at):
            given = rows[c][k].after(flow, grouped) if k < whole[c] else None
            if given is not None:
                nexts.append((c, ((*at[:c], k + 1, *at[c + 1 :]), given)))
        missing = [s for _, s in nexts if s not in known]
        if missing:
            stack += missing
            continue
        counts = [(known[s][0], c) for c, s in nexts if known[s][0]]
        total = sum(n for n, _ in counts)
        known[state] = min(2, total), counts[0][1] if counts else -1
        stack.pop()
    at, flow, found = none, None, []
    orders = known[at, flow][0]
    while orders and at != whole:
        c = known[at, flow][1]
        unit = rows[c][at[c]]
        found.append(unit)
        at, flow = (*at[:c], at[c] + 1, *at[c + 1 :]), unit.after(flow, grouped)
    return orders, found
