"""What keys and shapes tell of layers, and what they do not."""

import json

import numpy as np
import pytest

from xpapply import MLP, InputError, load_model

pytest.importorskip("safetensors")
from safetensors.numpy import save_file


@pytest.fixture
def file(tmp_path):
    def write(metadata=None, **shapes):
        rng = np.random.default_rng(0)
        arrays = {k: rng.standard_normal(s).astype("f") for k, s in shapes.items()}
        arrays = {k: abs(x) if k.endswith("var") else x for k, x in arrays.items()}
        save_file(arrays, tmp_path / "net.safetensors", metadata)
        return tmp_path / "net.safetensors"

    return write


def named(**layers):
    """Keys of Linear layers: ``fc1=(out, in)``."""
    found = {}
    for name, shape in layers.items():
        name = name.replace("__", ".")
        found[f"{name}.weight"] = shape
        found[f"{name}.bias"] = shape[:1]
    return found


def order(model):
    return [layer.name or layer.kind for layer in model.layers]


@pytest.mark.parametrize(
    ("layers", "want"),
    [
        (named(fc1=(5, 7), fc2=(3, 5)), ["fc1", "relu", "fc2"]),
        (named(fc2=(5, 5), fc10=(3, 5), fc1=(5, 7)), ["fc1", "relu", "fc2", "relu", "fc10"]),
        (named(out=(3, 5), hidden=(5, 7)), ["hidden", "relu", "out"]),
        (
            named(layers__0=(5, 5), layers__1=(5, 5), head=(2, 5), first=(5, 3)),
            ["first", "relu", "layers.0", "relu", "layers.1", "relu", "head"],
        ),
        (named(a__1=(4, 4), a__0=(4, 4), a__2=(4, 4)), ["a.0", "relu", "a.1", "relu", "a.2"]),
        (named(only=(4, 4)), ["only"]),
    ],
)
def test_the_order_that_names_and_widths_tell(file, layers, want):
    assert order(load_model(file(**layers), activation="relu")) == want


@pytest.mark.parametrize(
    "layers",
    [
        named(a=(5, 5), b=(5, 5)),
        named(encoder__0=(3, 6), encoder__2=(2, 3), decoder__0=(3, 2), decoder__2=(6, 3)),
        named(fc1=(5, 7), fc2=(3, 6)),
        named(actor=(2, 5), critic=(1, 5), body=(5, 3)),
        named(fc1=(5, 7), fc2=(5, 5), other=(5, 5)),
    ],
)
def test_an_order_that_is_not_clear(file, layers):
    with pytest.raises(InputError, match="the order of the layers is not clear") as error:
        load_model(file(**layers), activation="relu")
    for key, shape in layers.items():
        assert f"{key} {shape}" in str(error.value)
    assert "module=" in str(error.value)


@pytest.mark.parametrize(
    "keys",
    [
        {"attn.in_proj_weight": (9, 3), "attn.in_proj_bias": (9,)},
        {"lstm.weight_ih_l0": (12, 3), "lstm.weight_hh_l0": (12, 3)},
        {"0.weight_g": (5, 1), "0.weight_v": (5, 3)},
        {"alpha": (3,)},
        {"0.weight": (3,), "0.running_mean": (3,)},
        {"0.weight": (2, 2, 2, 2, 2, 2)},
    ],
)
def test_weights_of_unknown_layers(file, keys):
    with pytest.raises(InputError, match="weights that are not those of Linear") as error:
        load_model(file(**keys), activation="relu")
    assert all(k in str(error.value) for k in keys)


@pytest.mark.parametrize("name", ["self_attn.q_proj", "block.skip", "embedding", "gate1", "gn"])
def test_layers_that_do_not_stand_in_one_line(file, name):
    with pytest.raises(InputError, match=f"what is done with {name} is not clear"):
        load_model(file(**{f"{name}.weight": (4, 4), "fc.weight": (2, 4)}), activation="relu")


def norm(name, n):
    names = ("weight", "bias", "running_mean", "running_var")
    return {f"{name}.{k}": (n,) for k in names}


@pytest.mark.parametrize(
    ("names", "want"),
    [
        (("0", "1", "3"), ["0", "1", "relu", "3"]),
        (("0", "2", "3"), ["0", "relu", "2", "3"]),
        (("0", "1", "4"), ["0", "1", "relu", "4"]),
        (("net.0", "net.1", "net.3"), ["net.0", "net.1", "relu", "net.3"]),
    ],
)
def test_gaps_of_a_sequential_have_the_activations(file, names, want):
    first, middle, last = names
    keys = {f"{first}.weight": (5, 7), **norm(middle, 5), f"{last}.weight": (3, 5)}
    assert order(load_model(file(**keys), activation="relu")) == want


@pytest.mark.parametrize(
    "names", [("0", "2", "4"), ("0", "1", "2"), ("fc1", "bn1", "fc2"), ("0", "bn", "1")]
)
def test_places_of_activations_that_are_not_clear(file, names):
    first, middle, last = names
    keys = {f"{first}.weight": (5, 7), **norm(middle, 5), f"{last}.weight": (3, 5)}
    with pytest.raises(InputError, match="where the activations stand") as error:
        load_model(file(**keys), activation="relu")
    given = json.loads(str(error.value).rpartition("layers=")[2])
    assert order(load_model(file(**keys), layers=given)) == [first, middle, "relu", last]


def conv(name, *shape):
    return {f"{name}.weight": shape, f"{name}.bias": shape[:1]}


SUGGESTED = {
    "an image": (
        {
            **norm("bn", 4),
            **conv("conv1", 4, 1, 3, 3),
            **conv("conv2", 6, 4, 3, 3),
            **named(fc1=(5, 96), out=(2, 5)),
        },
        (1, 8, 8),
        ["conv1", "bn", "relu", "conv2", "relu", "flatten", "fc1", "relu", "out"],
    ),
    "channels apart": (
        {
            **norm("begin", 3),
            **conv("wide", 6, 3, 3),
            **norm("n1", 6),
            **conv("apart", 12, 1, 3),
            **conv("last", 5, 12, 1),
        },
        (3, 9),
        ["begin", "wide", "n1", "relu", "apart", "relu", "last"],
    ),
    "one order": (
        {**norm("begin", 3), **conv("wide", 6, 3, 3), **conv("apart", 12, 2, 3)},
        (3, 9),
        ["begin", "wide", "relu", "apart"],
    ),
    "a network with a norm": (
        {**named(inp=(6, 7), hidden=(5, 6), out=(3, 5)), **norm("a_norm", 5)},
        (7,),
        ["inp", "relu", "hidden", "a_norm", "relu", "out"],
    ),
    "two alike": (named(inp=(5, 7), hidden=(5, 5), hidden_b=(5, 5), out=(3, 5)), (7,), None),
    "none fits": ({**conv("a", 4, 3, 3, 3), **conv("b", 4, 3, 3, 3)}, (3, 8, 8), None),
    "norms alike": (
        {
            **conv("conv1", 4, 1, 3, 3),
            **conv("conv2", 4, 4, 3, 3),
            **norm("bn1", 4),
            **norm("bn2", 4),
        },
        (1, 8, 8),
        None,
    ),
    "groups, maybe": (
        {**conv("conv", 4, 1, 3, 3), "norm.weight": (4,), "norm.bias": (4,)},
        (1, 8, 8),
        None,
    ),
    "nothing in them": ({**conv("a", 0, 1, 3, 3), **conv("b", 4, 0, 3, 3)}, (1, 8, 8), None),
}


@pytest.mark.parametrize("what", SUGGESTED)
def test_lists_that_are_suggested_fit(file, what):
    """Pasted, they load and run; where no order is known none is suggested."""
    keys, shape, want = SUGGESTED[what]
    path = file(**keys)
    with pytest.raises(InputError) as error:
        load_model(path, activation="relu")
    text, found, given = str(error.value).partition("such as layers=")
    if want is None:
        assert not found
        assert "order is not known" in text
        assert '["' not in text
        return
    model = load_model(path, layers=json.loads(given))
    assert order(model) == want
    assert np.isfinite(model(np.ones(shape, "f"))).all()


def test_groups_that_widths_tell(file):
    keys = {**conv("conv.0", 6, 3, 3), **conv("conv.1", 12, 2, 3)}
    with pytest.raises(InputError) as error:
        load_model(file(**keys))
    assert '"groups": 3' in str(error.value)


def test_a_norm_before_and_behind(file):
    keys = {**norm("0", 7), "1.weight": (5, 7), "3.weight": (3, 5), **norm("4", 3)}
    model = load_model(file(**keys), activation="relu", output_activation="softmax")
    assert order(model) == ["0", "1", "relu", "3", "4", "softmax"]


def test_activations_are_asked_for(file):
    path = file(**named(fc1=(5, 7), fc2=(3, 5)))
    with pytest.raises(InputError, match=r"Give activation=.relu.* in net.json"):
        load_model(path)
    with pytest.raises(InputError, match="did you mean 'relu'"):
        load_model(path, activation="rellu")
    with pytest.raises(InputError, match="'flatten' is not an activation"):
        load_model(path, activation="flatten")
    with pytest.raises(InputError, match="2 activations for 1 hidden layers"):
        load_model(path, activation=["relu", "tanh"])
    assert order(load_model(path, activation=["tanh"])) == ["fc1", "tanh", "fc2"]
    assert order(load_model(path, activation="identity")) == ["fc1", "fc2"]
    assert order(load_model(file(**named(fc=(5, 7))))) == ["fc"]


def test_activations_are_names(file):
    torch = pytest.importorskip("torch")
    path = file(**named(fc1=(5, 7), fc2=(3, 5)))
    weights = [np.ones((5, 7)), np.ones((3, 5))]
    for given, says in (
        (torch.tanh, r"found <built-in method tanh.*; give activation=\"tanh\"$"),
        (np.tanh, r"found <ufunc 'tanh'>; give activation=\"tanh\"$"),
        (torch.nn.ReLU(), r"give activation=\"relu\"$"),
        (
            torch.nn.LeakyReLU,
            r"give activation=\"leaky_relu\" \(leaky_relu has negative_slope=0.01",
        ),
        ([torch.nn.functional.silu], r"give activation=\[\"silu\"\]$"),
        (torch.nn.Identity(), r"give activation=\"identity\"$"),
        (lambda v: v, "known are identity, tanh, softmax"),
        (7, "found 7; known are"),
        (b"relu", "found b'relu'"),
    ):
        for call in (
            lambda x: load_model(path, activation=x),
            lambda x: MLP(weights, None, x),
        ):
            with pytest.raises(InputError, match=f"activation= is a name, such as .*{says}"):
                call(given)
    with pytest.raises(InputError, match=r"output_activation= is a name.*give output_activation="):
        load_model(path, activation="relu", output_activation=torch.softmax)
    for layers in ("relu", 7, {"layer": "fc1"}):
        with pytest.raises(InputError, match=r"net.safetensors: layers= is a list of layers"):
            load_model(path, layers=layers)
    for name in ("mean", "standardize", "prelu"):  # those are no functions of a number
        with pytest.raises(InputError, match="unknown activation"):
            MLP(weights, None, name)


def test_json_beside(file):
    path = file(**named(fc1=(5, 7), fc2=(3, 5)))
    beside = path.with_suffix(".json")
    beside.write_text('{"activation": "gelu", "output_activation": "softmax"}')
    assert order(load_model(path)) == ["fc1", "gelu", "fc2", "softmax"]
    assert order(load_model(path, activation="relu")) == ["fc1", "relu", "fc2"]
    for text, match in (
        ('{"activation": 7}', "activations are names"),
        ('{"activatoin": "relu"}', "net.json: unknown 'activatoin'"),
        ("[1]", "a JSON object was expected"),
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ('{"layers": "relu"}', "'layers' is a list"),
        ('{"layers": ["fc1", "relu", "fc2"], "activation": "relu"}', "give that alone"),
        ('{"layers": ["fc1", "relu"]}', "leaves out fc2.*from net.json"),
    ):
        beside.write_text(text)
        with pytest.raises(InputError, match=match):
            load_model(path)


def test_metadata(file):
    said = {"activation": "tanh", "format": "pt"}
    path = file(said, **named(fc1=(5, 7), fc2=(3, 5)))
    assert order(load_model(path)) == ["fc1", "tanh", "fc2"]
    path.with_suffix(".json").write_text('{"activation": "gelu"}')
    assert order(load_model(path)) == ["fc1", "gelu", "fc2"]


@pytest.mark.parametrize(
    ("layers", "match"),
    [
        (["fc1", "fc2", "fc3"], "unknown layer 'fc3'"),
        ([{"layer": "fc3"}], "the file has no layer 'fc3'. It has fc1, fc2"),
        ([7], "a name was expected"),
        ([{"size": 2}], "with 'layer'"),
        ([{"type": "linear"}], "has weights: say which"),
        ([{"type": 7}], "are names"),
        (["fc1", {"type": "max_pool"}, "fc2"], "needs the parameter 'size'"),
        (["fc1", {"type": "max_pool", "size": 0}], "an integer from 1"),
        (["fc1", {"type": "max_pool", "size": 2.5}], "size=2.5"),
        (["fc1", {"type": "max_pool", "size": True}], "an integer from 1"),
        (["fc1", {"type": "max_pool", "size": 2, "padd": 1}], "unknown parameter 'padd': it has"),
        (["fc1", {"type": "relu", "slope": 1}], "it has none"),
        (["fc1", {"type": "leaky_relu", "negative_slope": "x"}], "a number was expected"),
        (["fc1", {"type": "leaky_relu", "negative_slope": float("nan")}], "a number was expected"),
        (["fc1", {"type": "gelu", "approximate": "x"}], "'none' or 'tanh'"),
        ([{"layer": "fc1", "type": "conv"}, "fc2"], "do not fit each other"),
        ([{"layer": "fc1", "type": "batch_norm"}, "fc2"], "has the weights running_mean"),
        ([{"layer": "fc1", "stride": 2}, "fc2"], "unknown parameter 'stride'"),
    ],
)
def test_lists_of_layers_that_are_wrong(file, layers, match):
    with pytest.raises(InputError, match=match):
        load_model(file(**named(fc1=(5, 7), fc2=(3, 5))), layers=layers)


def test_parameters_of_activations(file):
    layers = ["fc", {"type": "leaky_relu", "negative_slope": 0.5}, {"type": "softmax", "axis": -1}]
    model = load_model(file(**named(fc=(5, 7))), layers=layers)
    assert (
        repr(model) == "Model(linear 7-5, leaky_relu negative_slope=0.5, softmax axis=-1; float32)"
    )
    y = model(np.ones(7, "f"))
    assert y.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("layers", "shape", "match"),
    [
        (["fc1", "fc2"], (8,), "takes 7 numbers, it gets shape \\(8,\\).*feature axis"),
        (["fc2", "fc1"], (5,), "'fc1' \\(linear 7-5\\) takes 7 numbers"),
        (["fc1", "fc2"], (7, 1), "A layer 'flatten' before it"),
        (["fc1", "fc2", "softmax"], (4, 7), "say along which axis"),
        (["fc1", {"type": "max_pool", "size": 2}, "fc2"], (7,), "takes \\(channels, places"),
        (["fc1", {"type": "reshape", "shape": [2, 2]}, "fc2"], (7,), "gets shape \\(5,\\)"),
    ],
)
def test_slices_that_do_not_fit(file, layers, shape, match):
    from xpapply.ir.graph import ShapeDtype

    model = load_model(file(**named(fc1=(5, 7), fc2=(3, 5))), layers=layers)
    with pytest.raises(InputError, match=match):
        model.lift(ShapeDtype(shape, "float32"))


def test_many_layers_are_ordered_soon(file):
    deep = load_model(file(**{f"{k}.weight": (3, 3) for k in range(2000)}), activation="relu")
    assert len(deep.layers) == 3999
    # as many orders as there can be: it gives up
    wild = {f"{c}{d}.{k}.weight": (3, 3) for c in "abcdef" for d in "xyzw" for k in range(20)}
    with pytest.raises(InputError, match="the order of the layers is not clear"):
        load_model(file(**wild), activation="relu")
