"""A small library in the style of model libraries, as text: programs are appended to it."""

PREAMBLE = """
import abc, inspect, logging, os, warnings
from collections import OrderedDict, UserDict
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Callable, ClassVar, Generic, NamedTuple, Optional, Protocol, TypeVar, Union, cast, runtime_checkable

logger = logging.getLogger("program")


class Config:
    model_type = "base"
    attribute_map = {"width": "hidden_size"}

    def __init__(self, hidden_size=4, layers=2, activation="relu", dropout=0.0, **kwargs):
        self.hidden_size = hidden_size
        self.layers = layers
        self.activation = activation
        self.dropout = dropout
        self.output_scores = kwargs.pop("output_scores", False)
        for key, value in kwargs.items():
            setattr(self, key, value)

    def __setattr__(self, key, value):
        if key in super().__getattribute__("attribute_map"):
            key = super().__getattribute__("attribute_map")[key]
        super().__setattr__(key, value)

    def __getattr__(self, key):
        mapped = type(self).attribute_map.get(key)
        if mapped is None:
            raise AttributeError(f"{type(self).__name__!r} has no {key!r}")
        return getattr(self, mapped)

    @property
    def use_scores(self):
        return self.output_scores and self.layers > 0

    @use_scores.setter
    def use_scores(self, value):
        self.output_scores = value

    def to_dict(self):
        return {key: value for key, value in self.__dict__.items() if not key.startswith("_")}

    def copy_with(self, **changes):
        made = type(self)(**self.to_dict())
        made.__dict__.update(changes)
        return made


class ModelOutput(OrderedDict):
    def __post_init__(self):
        for each in fields(self):
            value = getattr(self, each.name)
            if value is not None:
                self[each.name] = value

    def __getitem__(self, key):
        if isinstance(key, str):
            return dict(self.items())[key]
        return self.to_tuple()[key]

    def __setattr__(self, name, value):
        if name in self.keys() and value is not None:
            super().__setitem__(name, value)
        super().__setattr__(name, value)

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        super().__setattr__(key, value)

    def to_tuple(self):
        return tuple(self[key] for key in self.keys())


@dataclass
class LayerOutput(ModelOutput):
    hidden: torch.Tensor = None
    scores: Optional[torch.Tensor] = None
    extra: tuple = None


ACTIVATIONS = {}


def register(name, *aliases):
    def decorate(function):
        for one in (name, *aliases):
            ACTIVATIONS[one] = function
        return function

    return decorate


@register("relu", "rectified")
def relu(t):
    return torch.relu(t)


@register("scaled")
def scaled(t, by=2):
    return torch.relu(t) * by


ACTIVATIONS["silu"] = F.silu


def takes_known(function):
    signature = inspect.signature(function)

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        known = {key: value for key, value in kwargs.items() if key in signature.parameters}
        return function(*args, **known)

    return wrapper


def as_tuple_unless(flag):
    def decorate(function):
        @functools.wraps(function)
        def wrapper(self, *args, **kwargs):
            return_dict = kwargs.pop(flag, getattr(self.config, flag, True))
            output = function(self, *args, **kwargs)
            return output if return_dict else output.to_tuple()

        return wrapper

    return decorate


class Layer:
    def __init__(self, config, index=0):
        self.config = config
        self.index = index
        self.scale = 1.0 + index

    @property
    def activation(self):
        return ACTIVATIONS[self.config.activation]

    @functools.cached_property
    def factor(self):
        return self.scale * self.config.layers

    @as_tuple_unless("return_dict")
    def forward(self, hidden, mask=None, output_scores=None):
        output_scores = output_scores if output_scores is not None else self.config.output_scores
        logger.debug("layer %d", self.index)
        if logger.isEnabledFor(logging.DEBUG):
            logger.debug(f"{hidden.shape}")
        scores = hidden.softmax(-1)
        if mask is not None:
            scores = scores * mask
        hidden = self.activation(hidden * self.scale) + scores
        return LayerOutput(hidden=hidden, scores=scores if output_scores else None)

    __call__ = forward


"""
