"""Networks by name, each with its initialisation."""

import difflib
import re
from collections.abc import Callable
from functools import partial

import torch
from torch import nn

from dpgap import _check
from dpgap._seeds import stream
from dpgap.errors import InvalidInput
from dpgap.models.cnn import cifar_cnn, mnist_cnn
from dpgap.models.mlp import logistic, mlp
from dpgap.models.wide_resnet import initialise_wide_resnet, wrn_16_4

Make = Callable[[tuple[int, ...], int], nn.Module]
Initialise = Callable[[nn.Module, torch.Generator], None]


def _initialise_xavier(model: nn.Module, generator: torch.Generator) -> None:
    """Every weight Xavier normal, every bias 0.01."""
    with torch.no_grad():
        for value in model.parameters():
            if value.ndim > 1:
                nn.init.xavier_normal_(value, generator=generator)
            else:
                value.fill_(0.01)


MODELS: dict[str, tuple[Make, Initialise]] = {
    "mnist-cnn": (mnist_cnn, _initialise_xavier),
    "cifar-cnn": (cifar_cnn, _initialise_xavier),
    "wrn-16-4": (wrn_16_4, initialise_wide_resnet),
    "mlp": (mlp, _initialise_xavier),
    "logistic": (logistic, _initialise_xavier),
}
"""Every network by its name, with its initialisation; ``cnn`` is one of the first two, by image size."""

CNN_OF_HEIGHT = {28: "mnist-cnn", 32: "cifar-cnn"}
IMAGE_MODELS = ("mnist-cnn", "cifar-cnn", "wrn-16-4")


def build_model(name: str, input_shape: tuple[int, ...], num_classes: int, seed: int) -> nn.Module:
    """The network called ``name`` for records of ``input_shape``, with the weights that ``seed`` gives.

    ``mlp-64-32`` is an ``mlp`` with 64 and then 32 hidden units.

    **Guarantees**: the weights are a function of the arguments alone; torch's global generator is neither
    read nor moved. They are public (theta_0 of the privacy contract), so give a seed that is not secret.

    >>> build_model("logistic", (2,), 3, seed=0)[1]
    Linear(in_features=2, out_features=3, bias=True)
    >>> build_model("resnet", (3, 32, 32), 10, seed=0)
    Traceback (most recent call last):
    dpgap.errors.InvalidInput: model must be one of cnn, mnist-cnn, ... got 'resnet'. ...
    """
    _check.count(num_classes=num_classes, at_least=2, hint="A classifier tells at least two classes apart.")
    name = _by_shape(name, input_shape)
    if name in IMAGE_MODELS and len(input_shape) != 3:
        raise InvalidInput(
            f"input_shape must be (channels, height, width) for {name}, got {input_shape!r}. "
            "Write 'mlp' or 'logistic' for records that are no images."
        )
    make, initialise = _of_widths(name) if name.startswith("mlp-") else MODELS[name]
    with torch.device("meta"):
        model = make(input_shape, num_classes)
    model.to_empty(device="cpu")
    initialise(model, torch.Generator().manual_seed(int(stream(seed, "initialisation").integers(2**63))))
    return model


def _of_widths(name: str) -> tuple[Make, Initialise]:
    return partial(mlp, hidden=tuple(map(int, name.split("-")[1:]))), _initialise_xavier


def _by_shape(name: str, input_shape: tuple[int, ...]) -> str:
    """The full name: ``cnn`` is resolved by the image's size, and what is not a name is refused."""
    if name == "cnn":
        if len(input_shape) == 3 and input_shape[1] in CNN_OF_HEIGHT:
            return CNN_OF_HEIGHT[input_shape[1]]
        raise InvalidInput(
            f"model 'cnn' is for images 28 or 32 pixels high, got input_shape={input_shape!r}. "
            "Write 'mlp', 'logistic' or the full name of a network."
        )
    if name not in MODELS and not re.fullmatch(r"mlp(-[1-9]\d*)+", name):
        names = ["cnn", *MODELS, "mlp-64-32 (with any widths)"]
        near = difflib.get_close_matches(name, names, n=2, cutoff=0.4)
        hint = f"Did you mean {' or '.join(near)}?" if near else "Any nn.Module of your own will do as well."
        raise InvalidInput(f"model must be one of {', '.join(names)}, got {name!r}. {hint}")
    return name
