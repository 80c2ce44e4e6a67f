"""Models of libraries: captured in one graph, correct in eval and training, with the same nodes as torch._dynamo's
graphs."""

import pytest
import torch

from bench.models import BY_LIBRARY, installed
from tests.models.comparing import same_model
from tests.models.more_models import BROKEN, RANDOM_LAYERS, WHOLE, all_outputs
from tests.support.engine import (
    DYNAMO_WRITES_THE_SAME_GRAPHS,
    captured_by_dynamo,
    captured_graphs,
    describe,
    graph_difference,
)


def cases(by_library: dict) -> list:
    """One case for each model, skipped where its library is not installed."""
    return [
        pytest.param(
            make, id=name, marks=() if installed(library) else pytest.mark.skip(reason=f"{library} is not installed")
        )
        for library, models in by_library.items()
        for name, make in models.items()
    ]


@pytest.mark.parametrize("make", [*cases(BY_LIBRARY), *cases(WHOLE)])
def test_eval(make) -> None:
    assert len(same_model(make, training=False, backend="eager").captures) == 1


def whole_in_training() -> list:
    return [case for case in [*cases(BY_LIBRARY), *cases(WHOLE)] if case.id not in RANDOM_LAYERS]


@pytest.mark.parametrize("make", whole_in_training())
def test_training(make) -> None:
    assert len(same_model(make, training=True, backend="eager").captures) == 1


@pytest.mark.parametrize("make", cases(BY_LIBRARY))
def test_training_with_aot_eager(make) -> None:
    assert len(same_model(make, training=True, backend="aot_eager").captures) == 1


@pytest.mark.skipif(not DYNAMO_WRITES_THE_SAME_GRAPHS, reason="about graphs of later versions of torch._dynamo")
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("make", cases(BY_LIBRARY))
def test_graph_is_that_of_dynamo(make, training: bool) -> None:
    """Placeholders, targets, order and outputs: there is no difference except unused nodes."""

    def nodes(capture) -> list:
        torch.manual_seed(0)
        model, inputs = make()
        model.train(training)
        graphs = capture(model, *inputs)
        assert graphs is not None and len(graphs) == 1
        return describe(graphs[0], live_only=True)

    difference = graph_difference(nodes(captured_by_dynamo), nodes(captured_graphs))
    assert difference is None, difference


@pytest.mark.parametrize("make", cases(BROKEN))
@pytest.mark.parametrize("training", [False, True])
def test_in_pieces(make, training: bool) -> None:
    make, most = make
    # Mamba computes in another way where it is compiled.
    report = same_model(make, training=training, backend="eager", fullgraph=False, is_exact=False)
    assert len(report.breaks) <= most


@pytest.mark.parametrize("make", [case for case in cases(WHOLE) if case.id in RANDOM_LAYERS])
def test_training_with_random_layers(make) -> None:
    same_model(make, training=True, backend="eager", fullgraph=False)


@pytest.mark.skipif(not installed("transformers"), reason="transformers is not installed")
@pytest.mark.parametrize("training", [False, True])
def test_hooks_installed_by_the_first_call(training: bool) -> None:
    """The lock that is taken while the hooks are installed breaks the graph; afterwards the model is captured in one graph."""
    report = same_model(all_outputs, training, backend="eager", fullgraph=False)
    assert report.breaks and all("a lock that existed" in one.reason for one in report.breaks)
    assert report.captures[-1].nodes > 20


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "make",
    [case for case in cases(BY_LIBRARY) if case.id in ("BertModel", "GPT2LMHeadModel", "LlamaForCausalLM", "ViTModel")],
)
def test_training_with_checkpointing(make, backend: str) -> None:
    """Each layer is a part of the graph that is computed again in the backward pass."""

    def checkpointed():
        model, inputs = make()
        model.config.use_cache = False
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        return model, inputs

    assert len(same_model(checkpointed, training=True, backend=backend).captures) == 1
