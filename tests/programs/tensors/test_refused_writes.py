"""In-place operations that PyTorch refuses, or allows only for some memory: shared elements, overlaps, leaves, views."""

import torch

from tests.support.corpus import Corpus

corpus = Corpus()
core, later_effects = corpus.core, corpus.later_effects


def attempt(action):
    """The message of the error, without what depends on addresses."""
    try:
        action()
    except RuntimeError as error:
        return str(error).splitlines()[0]
    return "allowed"


@later_effects
def elements_of_an_expanded_tensor(x):
    y = x[0].clone().expand(3, 4)
    return y + 1, attempt(lambda: y.add_(1)), y * 2


@later_effects
def elements_of_overlapping_windows(x):
    y = x.reshape(12).clone().unfold(0, 3, 1)
    return y + 1, attempt(lambda: y.mul_(2)), y * 2


@core
def windows_that_do_not_overlap(x):
    y = x.reshape(12).clone().unfold(0, 3, 3)
    y.mul_(2)
    return y + 1


@core
def one_element_expanded_once(x):
    y = x[0].clone().expand(1, 4)
    y.add_(1)
    return y * 2


@later_effects
def neighbouring_rows(x):
    y = x.clone()
    z = y * 2
    return attempt(lambda: y[1:].add_(y[:-1])), y + z


@later_effects
def shifted_columns(x):
    y = x.clone()
    z = y * 2
    return attempt(lambda: torch.add(y[:, :3], 1, out=y[:, 1:])), y + z


@later_effects
def interleaved_rows(x):
    y = x.reshape(6, 2).clone()
    return attempt(lambda: y[::2].add_(y[1::2])), y + 1


@core
def separate_rows(x):
    y = x.clone()
    y[0].add_(y[1])
    y[2].copy_(y[0])
    return y + 1


@core
def the_same_elements(x):
    y = x.clone()
    y[1:].mul_(y[1:])
    y.add_(y)
    return y + 1


@core
def items_assigned_from_neighbours(x):
    y = x.clone()
    y[0] = y[1]
    y[:, 0] = y[:, 1] + 1
    return y * 2


@later_effects
def a_transposed_tensor_onto_itself(x):
    y = x[:, :3].clone()
    return attempt(lambda: y.t().add_(y)), y + 1


@later_effects
def a_leaf(w):
    y = w * 2
    return y, attempt(lambda: w.add_(1)), w + y


@later_effects
def a_view_of_a_leaf(w):
    y = w * 2
    return y, attempt(lambda: w[0].add_(1)), w + y


@later_effects
def a_leaf_without_recording(w):
    y = w * 2
    with torch.no_grad():
        w.mul_(3)
        w[0].add_(1)
    return w + y.detach()


@core
def a_detached_leaf(w):
    y = (w * 2).detach()
    y.add_(1)
    return w + y


@later_effects
def one_of_several_views(w):
    y = w * 2
    first, second = y.chunk(2, dim=1)
    return attempt(lambda: first.add_(1)), second + 1, y * 3


@later_effects
def a_row_of_an_iteration(w):
    y = w * 2
    messages = [attempt(lambda row=row: row.add_(1)) for row in y]
    return messages, y + 1


@core
def a_row_of_an_iteration_without_gradients(x):
    y = x.clone()
    total = y.sum()
    for row in y:
        total = total + row.sum()
    return total


@later_effects
def rows_written_while_iterating(x):
    y = x.clone()
    for row in y:
        row.add_(1)
    return y * 2


@core
def a_view_that_autograd_tracks(w):
    y = w * 2
    y[0].add_(1)
    y.t()[1].mul_(3)
    return y.sum()


@later_effects
def a_view_made_without_gradients(w):
    y = w * 2
    with torch.no_grad():
        view = y[0]
    return attempt(lambda: view.add_(1)), y + 1


@core
def detached_without_gradients(w):
    with torch.no_grad():
        table = (w * 2).view(-1)
        detached, data = table.detach(), table.data
    detached += w.reshape(-1)
    detached *= 2
    data = data[:1]
    return detached * 3, data, table


@later_effects
def a_view_of_what_was_detached_without_gradients(w):
    with torch.no_grad():
        view = (w * 2).detach()[:1]
    return attempt(lambda: view.mul_(w[:1]))


@later_effects
def an_output_of_another_size(x):
    y = x.new_empty(0)
    torch.add(x, 1, out=y)
    return y * 2, y.shape


test_programs = corpus.test()
