"""What a call says of a model that cannot run as it was given: the line to write."""

import re
from collections import OrderedDict

import numpy as np
import pytest

import xpapply

ARR = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
CALLS = [
    xpapply.apply_along_axis,
    xpapply.explain,
    lambda f, axis, arr: xpapply.lift(f, (4,)),
]


@pytest.fixture
def sklearn():
    return pytest.importorskip("sklearn")


def notes(error):
    return getattr(error, "__notes__", [])


# --- models that are no functions -----------------------------------------------------


class Session:
    """As `onnxruntime.InferenceSession`."""

    def get_inputs(self):
        raise AssertionError("only looked at")

    run = get_inputs


class Scaler:
    """As an estimator that has no `predict`."""

    def fit(self, x):
        raise AssertionError("only looked at")

    transform = fit


WEIGHTS = {"0.weight": np.ones((3, 4)), "0.bias": np.ones(3)}
LOAD = "load it into its module: net.load_state_dict(...); net.eval(), and pass net"


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("f", "says"),
    [
        (Scaler(), "class Scaler: write lambda v: model.transform(v.reshape(1, -1))[0]"),
        (
            Session(),
            "write lambda v: session.run(None, {session.get_inputs()[0].name: v[None]})[0][0]",
        ),
        (WEIGHTS, f"a dict of 2: {LOAD}"),
        (OrderedDict(WEIGHTS), f"OrderedDict of 2: {LOAD}"),
        ({"epoch": 3, "model_state_dict": WEIGHTS}, "net.load_state_dict(f['model_state_dict'])"),
    ],
)
def test_models_that_are_no_functions(call, f, says):
    with pytest.raises(TypeError, match=f"f is no function: found .*{re.escape(says)}"):
        call(f, 1, ARR)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("f", [{}, {"a": 1}, {"a": np.ones(2), "b": 1}, {0: np.ones(2)}])
def test_dicts_that_are_no_weights(call, f):
    with pytest.raises(TypeError, match=r"found a dict of \d$"):
        call(f, 1, ARR)


@pytest.mark.parametrize("call", CALLS)
def test_estimators_are_no_functions(sklearn, call):
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler()
    forest = RandomForestRegressor(2)
    for model, name in (
        (forest, "predict"),
        (scaler, "transform"),
        (make_pipeline(scaler, forest), "predict"),
    ):
        line = f"write lambda v: model.{name}(v.reshape(1, -1))[0]"
        with pytest.raises(TypeError, match=re.escape(line)):
            call(model, 1, ARR)
    forest.fit(ARR, ARR[:, 0])
    want = forest.predict(ARR)
    written = eval("lambda v: model.predict(v.reshape(1, -1))[0]", {"model": forest})
    np.testing.assert_allclose(xpapply.apply_along_axis(written, 1, ARR), want)


@pytest.mark.parametrize("call", CALLS)
def test_state_dicts_are_no_functions(torch, call):
    with pytest.raises(TypeError, match=re.escape(LOAD)):
        call(torch.nn.Linear(4, 3).state_dict(), 1, ARR)


# --- slices that a model does not take ------------------------------------------------


def test_nets_that_are_called_on_numpy_slices(torch):
    F = torch.nn.functional

    class Unsqueezes(torch.nn.Module):
        def forward(self, x):
            return x.unsqueeze(0)

    nets = [torch.nn.Linear(4, 3), torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU())]
    nets += [torch.nn.Conv1d(1, 1, 2), torch.nn.LSTM(4, 2), torch.nn.Softmax(0), Unsqueezes()]
    for net in nets:
        net.eval()
        for f in (lambda v, n=net: n(v), lambda v, n=net: n.forward(v) * 2):
            forward_alone = type(net) is Unsqueezes
            if forward_alone and f.__defaults__ and "forward" in f.__code__.co_names:
                continue  # no line of torch is on the way
            with pytest.raises((TypeError, AttributeError)) as caught:
                xpapply.apply_along_axis(f, 1, ARR)
            assert notes(caught.value) == [
                "raised at the slice arr[0, :]",
                "torch takes tensors, the slice is an array: "
                "pass the net itself as f, or net(torch.from_numpy(v))",
            ]
    for f in (lambda v: torch.relu(v), lambda v: F.softmax(v, 0)):
        with pytest.raises((TypeError, AttributeError)) as caught:
            xpapply.apply_along_axis(f, 1, ARR)
        assert notes(caught.value)[1].endswith("array: pass torch.from_numpy(v)")
    with pytest.raises(TypeError) as caught:
        xpapply.apply_along_axis(lambda v: np.sin(v, wrong=torch), 1, ARR)
    assert notes(caught.value) == ["raised at the slice arr[0, :]"]


def test_estimators_inside_f_that_get_a_slice(sklearn):
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression().fit(ARR, ARR[:, 0] > 0)
    for name in ("predict", "predict_proba", "decision_function"):
        f = eval(f"lambda v: model.{name}(v)", {"model": model})
        with pytest.raises(ValueError, match="got 1D array") as caught:
            xpapply.apply_along_axis(f, 1, ARR)
        line = f"a slice is one sample: write model.{name}(v.reshape(1, -1))[0]"
        assert notes(caught.value)[1:] == [line]
