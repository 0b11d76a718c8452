"""torch.compile, where it works."""

import sys
from collections.abc import Callable
from functools import cache, wraps
from typing import Any

import torch

# A compiled product of bfloat16 numbers is rounded where PyTorch's own operations round it, so that log-probabilities
# with and without a graph agree.
OPTIONS: Any = {"emulate_precision_casts": True}
# A layer is compiled for all layers of one form: with and without a graph, and again for each other model.
LARGEST_CACHE = 256


@cache
def works(device: torch.device) -> bool:
    """Reports whether this machine compiles a function and its gradient. If it does not, the worker says so once."""
    try:
        torch._dynamo.config.cache_size_limit = LARGEST_CACHE
        torch._dynamo.config.suppress_errors = True  # what does not compile is computed as it is
        x = torch.ones(4, 8, device=device, requires_grad=True)
        with torch._dynamo.config.patch(suppress_errors=False):
            torch.compile(_probe, options=OPTIONS)(x).backward()
        return True
    except Exception as e:  # of a compiler that is missing, or does not work
        line = next((text for text in str(e).splitlines() if text.strip()), "")
        print(
            f"torch.compile does not work here, so nothing is compiled: {type(e).__name__}: {line}",
            file=sys.stderr,
            flush=True,
        )
        return False


def _probe(x: torch.Tensor) -> torch.Tensor:
    return (x * x.pow(2).mean(-1, keepdim=True).rsqrt()).sum()


@cache
def of(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the compiled form of a function."""
    return torch.compile(function, options=OPTIONS)


def layers(decoder: Any) -> None:
    """Has the layers of a decoder computed by compiled code. All layers of one form share it, and rows of all lengths."""
    for layer in decoder.layers:
        layer.forward = _with_any_length(torch.compile(layer.forward, options=OPTIONS))


def _with_any_length(forward: Callable[..., Any]) -> Callable[..., Any]:
    """Tells the compiler that the length of the row changes, before it learns it from a second compilation."""

    @wraps(forward)
    def call(states: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        for tensor in (states, *(kwargs.get("position_embeddings") or ())):
            torch._dynamo.maybe_mark_dynamic(tensor, 1)
        return forward(states, *args, **kwargs)

    return call
