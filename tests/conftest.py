"""For all tests. The rooms that need no PyTorch are tested in environments without it as well."""

import importlib.util

if importlib.util.find_spec("torch") is not None:
    import torch

    # The tensors are tiny: more threads than workers would only wait for each other.
    torch.set_num_threads(1)
