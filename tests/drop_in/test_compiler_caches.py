"""The caches that PyTorch's compilers keep on disk: what one process compiled, the next one finds."""

import torch
from torch._functorch._aot_autograd.autograd_cache import AOTAutogradCachePickler

import stator
from tests.support.long import long_only
from tests.support.processes import fresh


def keys_of(compile, program, *arguments):
    """The graph modules that a backend gets, as compilers hash them for the keys of their caches."""
    keys = []

    def backend(graph_module, inputs):
        keys.append(AOTAutogradCachePickler(graph_module).get_hash(graph_module))
        return graph_module

    compiled = compile(program, backend=backend)
    for argument in arguments:
        compiled(argument)
    return keys


def test_equal_graphs_have_equal_keys():
    def program(x):
        return torch.relu(x) * x.shape[0]

    arguments = torch.ones(3, 4), torch.ones(5, 4)
    first = keys_of(stator.compile, program, *arguments)
    stator.reset()
    assert keys_of(stator.compile, program, *arguments) == first
    assert len(first) == 2
    assert len(set(first)) == 2


def test_other_graphs_have_other_keys():
    one = keys_of(stator.compile, lambda x: x + 1, torch.ones(2))
    assert one != keys_of(stator.compile, lambda x: x + 2, torch.ones(2))


CACHED = """
import sys, torch, stator
from torch._dynamo.utils import counters

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU())

def program(x, n):
    return (model(x) * x.shape[0]).sum() * n

compiled = stator.compile(program, backend="inductor")
for size, n in ((4, 2), (5, 3), (7, 5), (9, 11), (64, 1)):
    results = []
    for function in (program, compiled):
        x = torch.full((size, 8), 0.5, requires_grad=True)
        result = function(x, n)
        result.backward()
        results.append((result, x.grad))
    for expected, actual in zip(*results):
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)
print([counters["aot_autograd"][name] for name in ("autograd_cache_bypass", "autograd_cache_miss", "autograd_cache_hit")],
      counters["inductor"]["fxgraph_cache_hit"] > 0)
"""


@long_only
def test_the_next_process_finds_what_was_compiled(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    assert fresh(CACHED).strip() == "[0, 2, 0] False"
    assert fresh(CACHED).strip() == "[0, 0, 2] True"


INSTALLED = """
import torch, stator
from torch._dynamo.utils import counters
from torch._inductor.utils import fresh_cache

stator.install()

def hits_of(program):
    torch._dynamo.reset()
    counters.clear()
    torch.compile(program)(torch.ones(3))
    return counters["aot_autograd"]["autograd_cache_hit"], counters["inductor"]["fxgraph_cache_hit"]

def program(x):
    return x.sin() + 1

with fresh_cache():
    print(hits_of(program), hits_of(program), end=" ")
    saved, info = torch.compiler.save_cache_artifacts()
with fresh_cache():
    torch.compiler.load_cache_artifacts(saved)
    print(hits_of(program), sorted(info.artifacts), "_compile.compile_inner" in torch._dynamo.utils.compile_times())
"""


def test_under_install_caches_serve_and_artifacts_are_saved_and_loaded():
    expected = "(0, 0) (1, 1) (1, 1) ['aot_autograd', 'inductor'] True"
    assert fresh(INSTALLED).strip().splitlines()[-1] == expected
