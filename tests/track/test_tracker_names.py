"""Names of modules, and the lookup of a module by name."""

import gc

import pytest
import torch
from torch import nn

import stator
from tests.track.watching import Block, Net, lines, watch

X = torch.ones(3, 4)


def paths_of(program, *modules) -> list[str]:
    """The path inside of each call of these modules, in order."""
    paths = []
    handles = [each.register_forward_pre_hook(lambda *_: paths.append(tracker.path)) for each in modules]
    with stator.ModuleTracker() as tracker:
        program()
    for handle in handles:
        handle.remove()
    return paths


def test_names_are_those_of_the_state_dict():
    model = Net()
    leaves = {name.rpartition(".")[0] for name in model.state_dict()}
    seen = watch(lambda: model(X))
    names = {name for each in seen for name in each.parents}
    assert {f"Net.{name}" for name in leaves} <= names
    assert names - {f"Net.{name}" for name in leaves} == {
        "Global",
        "Net",
        "Net.layers.0",
        "Net.layers.1",
        "Net.tail",
        "Net.tail.1",
    }


def test_path_and_calls():
    model = Net(blocks=1)
    recorded = []
    model.layers[0].second.register_forward_pre_hook(lambda *_: recorded.append((tracker.path, tracker.calls)))
    with stator.ModuleTracker() as tracker:
        assert (tracker.path, tracker.calls, tracker.parents) == ("Global", (), {"Global"})
        model(X)
    assert recorded == [("Net.layers.0.second", ("Net", "Net.layers.0", "Net.layers.0.second"))]
    assert (tracker.path, tracker.calls, tracker.parents) == ("Global", (), {"Global"})


def test_parents_is_a_set_of_ones_own():
    with stator.ModuleTracker() as tracker:
        tracker.parents.add("mine")
        assert type(tracker.parents) is set and tracker.parents == {"Global"}


def test_a_second_model_of_a_class():
    first, second = Block(), Block()
    assert paths_of(lambda: (first(X), second(X), first(X), second(X)), first, second) == [
        "Block",
        "Block#2",
        "Block",
        "Block#2",
    ]
    assert paths_of(lambda: (second(X), first(X)), first.second, second.second) == ["Block.second", "Block#2.second"]


def test_a_name_stays_while_its_model_lives_and_is_free_afterwards():
    first, second = Block(), Block()
    with stator.ModuleTracker() as tracker:
        first(X), second(X)
        del first
        gc.collect()
        assert list(tracker.modules) == ["Block#2", "Block#2.first", "Block#2.second"]
        second(X)
        third = Block()
        third(X)
        assert tracker.modules["Block"] is third and tracker.modules["Block#2"] is second


def test_names_stay_from_one_context_of_a_tracker_to_the_next():
    first, second, tracker = Block(), Block(), stator.ModuleTracker()
    with tracker:
        first(X), second(X)
    with tracker:
        second(X)
        assert tracker.modules["Block#2"] is second
    with stator.ModuleTracker() as other:
        second(X)
        assert other.modules["Block"] is second


def test_a_submodule_called_by_itself():
    model = Net()
    # Known from the model's call, as in torch's tracker.
    assert paths_of(lambda: (model(X), model.head(X)), model.head) == ["Net.head"] * 2
    # A root until the model comes; from then on one or the other, by who calls.
    assert paths_of(lambda: (model.head(X), model(X), model.head(X)), model.head) == ["Linear", "Net.head", "Linear"]


class Shares(nn.Module):
    def __init__(self):
        super().__init__()
        shared = nn.Linear(4, 4)
        self.encoder, self.decoder = nn.Sequential(shared, nn.ReLU()), nn.Sequential(shared)

    def forward(self, x):
        return self.decoder(self.encoder(x))


def test_a_shared_submodule_goes_by_the_path_in_use():
    model = Shares()
    seen = watch(lambda: model(X).sum().backward())
    assert lines(seen, "addmm", "mm") == "\n".join(
        [
            "> addmm: Shares Shares.encoder Shares.encoder.0",
            "> addmm: Shares Shares.decoder Shares.decoder.0",
            "< mm: Shares Shares.decoder Shares.decoder.0",
            "< mm: Shares Shares.decoder Shares.decoder.0",
            "< mm: Shares Shares.encoder Shares.encoder.0",
        ]
    )


def test_all_names_of_a_shared_submodule_the_one_in_use_first():
    model, recorded = Shares(), []
    shared = model.encoder[0]
    shared.register_forward_pre_hook(lambda *_: recorded.append(tracker.names(shared)))
    with stator.ModuleTracker() as tracker:
        model(X)
        assert tracker.modules["Shares.encoder.0"] is tracker.modules["Shares.decoder.0"] is shared
    assert recorded == [("Shares.encoder.0", "Shares.decoder.0"), ("Shares.decoder.0", "Shares.encoder.0")]


def test_registered_twice_in_one_module():
    layer = nn.Linear(4, 4)
    model = nn.Sequential(layer, layer)
    assert paths_of(lambda: model(X), layer) == ["Sequential.0"] * 2
    with stator.ModuleTracker() as tracker:
        model(X)
        assert tracker.names(layer) == ("Sequential.0", "Sequential.1")


def test_a_submodule_called_from_another_branch():
    class Borrows(nn.Module):
        def __init__(self, owner):
            super().__init__()
            self.owner = [owner]  # not registered

        def forward(self, x):
            return self.owner[0].head(x)

    class Owner(nn.Module):
        def __init__(self):
            super().__init__()
            self.head, self.part = nn.Linear(4, 4), Borrows(self)

        def forward(self, x):
            return self.part(x)

    model = Owner()
    assert lines(watch(lambda: model(X)), "addmm") == "> addmm: Owner Owner.head Owner.part"


def test_modules_made_and_registered_while_running():
    class Grows(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList()

        def forward(self, x):
            self.layers.append(nn.Linear(4, 4))
            for layer in self.layers:
                x = layer(nn.Identity()(x))
            return x

    model = Grows()
    for _ in range(2):
        seen = watch(lambda: (model(X), model(X)))
    assert [line.split()[-1] for line in lines(seen, "addmm").splitlines()] == [
        f"Grows.layers.{i}" for i in (*range(3), *range(4))
    ]


def test_modules_that_come_and_go_take_one_name():
    class Makes(nn.Module):
        def forward(self, x):
            layer = nn.Linear(4, 4)
            names.append(lines(watch(lambda: None)))  # another tracker, in between
            return layer(x)

    names, model, paths = [], Makes(), set()
    with stator.ModuleTracker(on_enter=lambda name, module, is_bw: paths.add(name)) as tracker:
        for _ in range(300):
            model(X)
        assert list(tracker.modules) == ["Makes"]
    assert paths == {"Makes", "Linear"}


def test_a_submodule_that_is_replaced():
    model = Net()

    def program():
        model(X)
        model.head = nn.Linear(4, 3)
        model(X)

    assert lines(watch(program), "addmm").splitlines()[-1] == "> addmm: Net Net.head"
    with stator.ModuleTracker() as tracker:
        model(X)
        assert tracker.modules["Net.head"] is model.head


def test_the_mapping():
    model = Net(blocks=1)
    with stator.ModuleTracker() as tracker:
        assert dict(tracker.modules) == {}
        model(X)
        expected = {f"Net.{name}".rstrip("."): module for name, module in model.named_modules()}
        assert dict(tracker.modules) == expected and len(tracker.modules) == len(expected)
        assert (
            "Net.nothing" not in tracker.modules
            and "Other" not in tracker.modules
            and "Net.head.x" not in tracker.modules
        )
        with pytest.raises(KeyError, match=r"Net\.nothing"):
            tracker.modules["Net.nothing"]
    assert tracker.modules["Net.head"] is model.head
    assert repr(tracker.modules).startswith("<modules Net, Net.layers, Net.layers.0")


def test_modules_registered_in_themselves():
    class Loops(nn.Module):
        def __init__(self):
            super().__init__()
            self.child = nn.Linear(4, 4)
            self.child.parent = self

        def forward(self, x):
            return self.child(x)

    model = Loops()
    assert lines(watch(lambda: model(X)), "addmm") == "> addmm: Loops Loops.child"
    with stator.ModuleTracker() as tracker:
        model(X)
        assert list(tracker.modules) == ["Loops", "Loops.child"]


def test_depth():
    class Nest(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return self.inner(x)

    model = nn.Linear(4, 4)
    for _ in range(80):
        model = Nest(model)
    (addmm,) = [each for each in watch(lambda: model(X)) if each.operation == "addmm"]
    assert len(addmm.parents) == 82 and "Nest" + ".inner" * 80 in addmm.parents


def test_repr():
    model, recorded = nn.ReLU(), []
    model.register_forward_pre_hook(lambda *_: recorded.append(repr(tracker)))
    tracker = stator.ModuleTracker()
    assert repr(tracker) == "<ModuleTracker, not entered>"
    with tracker:
        model(X)
    assert recorded == ["<ModuleTracker in forward at ReLU>"]
