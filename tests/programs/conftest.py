import pathlib
import sys

import pytest
import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))

# The tensors are tiny: more threads than workers would only wait for each other.
torch.set_num_threads(1)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "core: captured whole, from the first day")
    config.addinivalue_line("markers", "later_effects: changes things from outside or breaks; results must be right")
    config.addinivalue_line("markers", "slow: takes seconds")
