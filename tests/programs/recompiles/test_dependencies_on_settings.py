"""Settings of PyTorch and Python, modules, caches and the process that a program depends on: each change is noticed."""

from tests.programs.recompiles.dependencies import Dependencies

case = Dependencies()

case(
    "environ",
    "import os\nos.environ['Q_TEST'] = '1'\n",
    "return x+1, os.environ.get('Q_TEST'), 'Q_TEST' in os.environ, os.getenv('Q_NOT', 'd')",
    "os.environ['Q_TEST'] = '2'",
    "os.environ['Q_NOT'] = '2'",
    "os.environ.pop('Q_TEST', 0), os.environ.pop('Q_NOT', 0)",
)
case(
    "math",
    # (Each change is made twice, for the compiled and for the uncompiled program.)
    "import math\npi, sqrt = math.pi, math.sqrt\n",
    "return x*math.pi, math.sqrt(4)",
    "math.pi = 3",
    "math.pi = pi; math.sqrt = lambda v: 9",
    "math.sqrt = sqrt",
)
case("builtins", "import builtins\n", "return x+1, len([1,2]), max(1,2)", "max = lambda *a: 'm'")
case(
    "import",
    "import sys, types\nsys.modules['qmod'] = types.ModuleType('qmod'); sys.modules['qmod'].v = 1\n",
    "import qmod\n    from qmod import v\n    return x*v, qmod.v",
    "sys.modules['qmod'].v = 2",
    "m2 = types.ModuleType('qmod'); m2.v = 3; sys.modules['qmod'] = m2",
    "m2.v = 8",
)
case(
    "contextvar",
    "import contextvars\n_v = contextvars.ContextVar('v', default=1)\n",
    "return x*_v.get()",
    "_v.set(2)",
    "_v.set(3)",
)
case(
    "threadlocal",
    "import threading\nl = threading.local(); l.a = 1\n",
    "return x*l.a, getattr(l, 'b', 0)",
    "l.a = 2",
    "l.b = 3",
)
case(
    "lru",
    "import functools\nstate = [1]\n@functools.lru_cache\ndef g(a): return a*state[0]\n",
    "return x*g(2), g(3)",
    "state[0] = 5",
    "g.cache_clear()",
)
case(
    "logging",
    "import logging\nlog = logging.getLogger('q.t'); log.setLevel(logging.ERROR)\n",
    "return x+1, log.isEnabledFor(logging.INFO), log.level, log.getEffectiveLevel()",
    "log.setLevel(logging.DEBUG)",
    "logging.disable(logging.CRITICAL)",
    "logging.disable(logging.NOTSET)",
)
for name, get, sets in [
    (
        "dd",
        "torch.get_default_dtype()",
        ["torch.set_default_dtype(torch.float64)", "torch.set_default_dtype(torch.float32)"],
    ),
    ("threads", "torch.get_num_threads()", ["torch.set_num_threads(1)"]),
    (
        "det",
        "torch.are_deterministic_algorithms_enabled()",
        ["torch.use_deterministic_algorithms(True)", "torch.use_deterministic_algorithms(False)"],
    ),
    (
        "prec",
        "torch.get_float32_matmul_precision()",
        ["torch.set_float32_matmul_precision('high')", "torch.set_float32_matmul_precision('highest')"],
    ),
    (
        "mkldnn",
        "torch.backends.mkldnn.enabled",
        ["torch.backends.mkldnn.set_flags(False)", "torch.backends.mkldnn.set_flags(True)"],
    ),
    (
        "tf32",
        "torch.backends.cuda.matmul.allow_tf32",
        ["torch.backends.cuda.matmul.allow_tf32=True", "torch.backends.cuda.matmul.allow_tf32=False"],
    ),
    (
        "cudnn",
        "torch.backends.cudnn.enabled",
        ["torch._C._set_cudnn_enabled(False)", "torch._C._set_cudnn_enabled(True)"],
    ),
    (
        "bench",
        "torch.backends.cudnn.benchmark",
        ["torch._C._set_cudnn_benchmark(True)", "torch._C._set_cudnn_benchmark(False)"],
    ),
    (
        "sdp",
        "torch.backends.cuda.flash_sdp_enabled()",
        ["torch.backends.cuda.enable_flash_sdp(False)", "torch.backends.cuda.enable_flash_sdp(True)"],
    ),
    ("gradmode", "torch.is_grad_enabled()", ["torch._C._set_grad_enabled(False)", "torch._C._set_grad_enabled(True)"]),
    ("seed", "torch.initial_seed()", ["torch.manual_seed(5)", "torch.manual_seed(6)"]),
    (
        "anomaly",
        "torch.is_anomaly_enabled()",
        ["torch.autograd.set_detect_anomaly(True)", "torch.autograd.set_detect_anomaly(False)"],
    ),
    (
        "autocast",
        "torch.is_autocast_enabled('cpu')",
        ["torch.set_autocast_enabled('cpu', True)", "torch.set_autocast_enabled('cpu', False)"],
    ),
    (
        "acdtype",
        "torch.get_autocast_dtype('cpu')",
        ["torch.set_autocast_dtype('cpu', torch.float16)", "torch.set_autocast_dtype('cpu', torch.bfloat16)"],
    ),
    (
        "defdev",
        "str(torch.get_default_device())",
        ["torch.set_default_device('meta')", "torch.set_default_device('cpu')", "torch.set_default_device(None)"],
    ),
    (
        "threadname",
        "__import__('threading').current_thread().name",
        ["__import__('threading').current_thread().name='zz'"],
    ),
    ("reclimit", "__import__('sys').getrecursionlimit()", ["__import__('sys').setrecursionlimit(1234)"]),
    ("warn", "len(__import__('warnings').filters)", ["__import__('warnings').simplefilter('ignore')"]),
    ("modattr", "__import__('torch').myattr if hasattr(torch,'myattr') else 0", ["torch.myattr=3", "torch.myattr=4"]),
]:
    case("state " + name, "", f"return x+1, {get}", *sets)
case(
    "re",
    "import re\nv = 'a1'; p = re.compile(r'\\d')\n",
    "return x+1, bool(re.match('a', v)), p.sub('z', v), p.findall(v)",
    "v = 'b22'",
    "p = re.compile('b')",
)
case("json", "import json\nd = {'a': [1, 2]}\n", "return x+1, json.dumps(d)", "d['a'].append(3)")
case(
    "hasattrmod",
    "m = nn.Linear(2,2)\n",
    "return m(x), hasattr(m, 'extra'), getattr(m, 'bias') is None, m.training, m.in_features",
    "m.extra = 1",
    "m.bias = None",
    "m.eval()",
    "m.in_features = 9",
    "m.weight = nn.Parameter(torch.zeros(2,2))",
    "m.weight.requires_grad_(False)",
    "m.double(); m.float()",
)
case(
    "moditer",
    "m = nn.Sequential(nn.Linear(2,2), nn.ReLU())\n",
    "return m(x), len(m), [type(q).__name__ for q in m], len(list(m.parameters())), [n for n, _ in m.named_modules()]",
    "m.append(nn.Tanh())",
    "m[1] = nn.Sigmoid()",
    "del m[0]",
    "m.register_parameter('w', None)",
    "m.insert(0, nn.Linear(2,2))",
)
case(
    "state dict",
    "m = nn.Linear(2,2)\n",
    "sd = m.state_dict()\n    return x+sd['bias'], list(sd)",
    "m.register_buffer('b', torch.ones(2))",
    "m.bias.data.fill_(3)",
)
case(
    "random",
    "import random\nrandom.seed(1)\n",
    "return x*random.random(), random.randint(0, 100)",
    "random.seed(3)",
    stateful=True,
)
case(
    "time", "import time\nclass Fake:\n    t = 1\ntime_ = Fake()\n", "return x*time_.t, time.time() > 0", "time_.t = 4"
)

test_changes_are_noticed = case.test()
