"""For the tests that take samples from PyTorch's operator database."""

from torch.testing._internal import common_utils
from torch.testing._internal.opinfo import core

# Whoever takes samples is looked for among the callers, in case it is a `unittest.TestCase`. No test here is one, and
# `inspect.stack` takes most of a test's time.
for module in (common_utils, core):
    module.extract_test_fn = lambda: None
