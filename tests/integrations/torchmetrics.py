"""torchmetrics: compiled updates, metrics inside of compiled functions, functional metrics."""

from __future__ import annotations

import torch
from torchmetrics import MeanMetric, MeanSquaredError, Metric, MetricCollection
from torchmetrics.classification import BinaryAUROC, MulticlassAccuracy, MulticlassF1Score
from torchmetrics.functional import pairwise_cosine_similarity
from torchmetrics.functional.classification import multiclass_accuracy

from tests.integrations.scenario import Run, scenario


def batch(size: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(size, 3).softmax(-1), torch.randint(3, (size,))


@scenario("a metric is updated, computed and reset in a compiled function", backend="eager")
def in_a_function(run: Run) -> None:
    metric = MulticlassAccuracy(3, validate_args=False)

    def evaluate(probabilities: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        metric.update(probabilities * 2, targets)
        return metric.compute() + 1

    compiled = torch.compile(evaluate, backend=run.backend)
    for size in (8, 8, 5):
        pair = batch(size)
        run.call(lambda pair=pair: compiled(*pair))
        run.keep([metric.update_count, metric.metric_state])
    metric.reset()
    run.call(lambda: compiled(*batch()))


def compiled_metric(run: Run, metric: Metric, update: tuple[torch.Tensor, ...]) -> None:
    compiled = torch.compile(metric, backend=run.backend)
    for _ in range(3):
        run.call(lambda: compiled(*update))
    run.keep(metric.compute())
    metric.reset()
    run.call(lambda: compiled(*update))
    run.keep(metric.compute())


@scenario("a compiled metric is called: accuracy", backend="eager")
def accuracy(run: Run) -> None:
    compiled_metric(run, MulticlassAccuracy(3), batch())


@scenario("a compiled metric is called: mean")
def mean(run: Run) -> None:
    compiled_metric(run, MeanMetric(), (torch.randn(4),))


@scenario("a compiled metric is called: squared error")
def squared_error(run: Run) -> None:
    compiled_metric(run, MeanSquaredError(), (torch.randn(4), torch.randn(4)))


@scenario("a metric that keeps lists", backend="eager")
def lists(run: Run) -> None:
    metric = BinaryAUROC()
    update = torch.compile(metric.update, backend=run.backend)
    compute = torch.compile(metric.compute, backend=run.backend)
    for size in (8, 8, 5):
        pair = torch.rand(size), torch.randint(2, (size,))
        run.call(lambda pair=pair: update(*pair))
    run.call(compute)


@scenario("a collection with groups", backend="eager")
def collection(run: Run) -> None:
    metrics = MetricCollection([MulticlassAccuracy(3), MulticlassF1Score(3)])
    compiled = torch.compile(metrics, backend=run.backend)
    for _ in range(3):
        pair = batch()
        run.call(lambda pair=pair: compiled(*pair))
    run.keep(metrics.compute())


@scenario("functional metrics in a training step")
def functional(run: Run) -> None:
    weight = torch.randn(3, 3, requires_grad=True)

    def step(x: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        logits = x @ weight
        loss = torch.nn.functional.cross_entropy(logits, targets)
        accuracy = multiclass_accuracy(logits, targets, 3, validate_args=False)
        return loss, accuracy, pairwise_cosine_similarity(logits)

    compiled = torch.compile(step, backend=run.backend)
    for size in (8, 8, 6):
        pair = batch(size)

        def call(pair: tuple[torch.Tensor, torch.Tensor] = pair) -> list[torch.Tensor]:
            weight.grad = None
            results = compiled(*pair)
            results[0].backward()
            return [*results, weight.grad]

        run.call(call)
