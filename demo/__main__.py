"""`make demo`: a model of transformers, captured by Stator and by torch._dynamo beside it."""

from __future__ import annotations

import torch

import stator
from bench import models, systems
from bench.measure import Repeats, measure
from bench.programs import Program
from bench.tables import aligned, seconds


def main() -> None:
    torch.manual_seed(0)
    model, inputs = models.llama(use_cache=True)
    model.eval()
    parameters = sum(parameter.numel() for parameter in model.parameters())
    print(f"{type(model).__name__} of transformers, with a cache, small: {parameters:,} random parameters\n")

    report = stator.explain(model)(*inputs)
    print(f"  captured   {report.graph_count} graph(s), {report.node_count} nodes, {len(report.guards)} guards")
    for broken in report.breaks:
        print(f"  break      {broken}")

    compiled = stator.compile(model)
    difference = (compiled(*inputs).logits - model(*inputs).logits).abs().max().item()
    print(f"  result     {'equal to the uncompiled one' if difference == 0 else f'differs by {difference:g}'}")
    print(f"  gradients  {'equal' if _gradients(compiled, inputs) == _gradients(model, inputs) else 'DIFFERENT'}")
    print(f"  state      {'shared' if compiled.state_dict().keys() == model.state_dict().keys() else 'DIFFERENT'}\n")

    program = Program("model", lambda: (model, inputs))
    figures = measure(program, systems.both(), repeats=Repeats(3))
    ours, theirs = figures["stator"], figures["torch._dynamo"]
    rows = [["", "torch._dynamo", "stator", "times less"]]
    for words, what in (("capture", "capture"), ("cached call", "cached"), ("first result", "first_result")):
        before, now = getattr(theirs, what), getattr(ours, what)
        rows.append([words, seconds(before), seconds(now), f"{before / now:.1f}"])
    rows.append(["nodes of the graph", str(theirs.node_count), str(ours.node_count), ""])
    print(aligned(rows))
    print(
        "\ncapture and cached call: with a backend that does no work; first result: with `eager`.\n"
        "More programs: make bench. The graph and its guards: print(stator.explain(model)(*inputs))."
    )


def _gradients(model: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> list[list[float]]:
    model.zero_grad()
    model(*inputs).logits.square().sum().backward()
    return [parameter.grad.flatten().tolist() for parameter in model.parameters() if parameter.grad is not None]


if __name__ == "__main__":
    main()
