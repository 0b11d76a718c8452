"""The proof that this worker can pack a model: a row of two sequences gives the logits of each alone, as transformers has them.

Models of new families pass arguments and carry state in ways that a packed row may not know. Nothing else would tell. Before
the ranks shard a model, it has no values: rank 0 reads those of its first layers, in float32, and drops them after the proof.
They lie on a GPU if there is one, because kernels of other packages for layers with state do not run on a CPU.
"""

from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from . import attention, loading
from .batch import Batch
from .layout import Layout
from .shallow import free, in_float32
from .wire import BadRequest

LENGTHS = (16, 9)
TOLERANCE = 1e-4  # of the largest logit
DRAWS = 3  # a router may choose another expert at a tie, so a fault must show with each of so many pairs
NAMES = ("first", "second")


def require(network: Any, layout: Layout) -> None:
    """Refuses a network that no rank has sharded or given values yet. Rank 0 proves it, and all ranks must call it."""
    fault = ""
    if layout.rank == 0:
        fault = _fault(network, layout.device)
        free(layout.device)
    refused = torch.tensor(bool(fault))
    dist.broadcast(refused, 0, group=layout.control)
    if refused:
        raise BadRequest(fault)


@torch.no_grad()
def _fault(network: Any, device: torch.device) -> str:
    """Returns why the network cannot be packed, or nothing."""
    name = f"model {network.spec.path} ({network.inner.config.model_type})"
    try:
        small = in_float32(network)
        loading.fill(small, small.inner, small.spec.path, "", device)
        for seed in range(DRAWS):
            fault = _compare(small, device, np.random.default_rng(seed))
            if not fault:
                return ""
    except Exception as e:  # of the model's own code
        return f"{name}: this worker cannot pack it: {' '.join(str(e).split())} ({type(e).__name__})"
    return f"{name}: {fault}: this worker cannot pack it"


def _compare(network: Any, device: torch.device, r: np.random.Generator) -> str:
    """Returns where a row of two sequences differs from each alone, or nothing."""
    tokens = r.integers(0, network.inner.config.vocab_size, sum(LENGTHS), np.int32)
    mask = np.ones(len(tokens), np.uint8)
    mask[[0, LENGTHS[0]]] = 0
    batch = Batch(
        {"tokens": tokens, "lengths": np.array(LENGTHS), "mask": mask, "rank": np.zeros(2, np.int32)}, network.shares
    )
    (states,) = network(batch.pack(0, device), None)
    row = network.finished(states).split([n - 1 for n in LENGTHS])
    alone = _alone(network, [torch.from_numpy(s).long().to(device) for s in np.split(tokens, LENGTHS[:1])])
    largest = max(float(a.abs().max()) for a in alone)
    for which, got, want in zip(NAMES, row, alone, strict=True):
        differences = (got - want).abs().amax(-1)
        most = float(differences.max())
        if not most <= TOLERANCE * largest:  # also if it is not a number
            place = f"token {int(differences.argmax()) + 1} of the {which}"
            what = "states" if network.spec.head else "logits"
            return f"a row of two sequences gives other {what} than each alone ({most:.2g} of {largest:.2g} at {place})"
    return ""


def _alone(network: Any, sequences: list[torch.Tensor]) -> list[torch.Tensor]:
    """Returns the logits that predict the tokens of each sequence, from transformers' own code."""
    network.apart.lengths = ()
    network.lm.set_attn_implementation("eager")
    try:
        if network.spec.head:
            return [network.finished(network.decoder(s[None], use_cache=False)[0][0, :-1]) for s in sequences]
        return [network.lm(s[None], use_cache=False).logits[0, :-1].float() for s in sequences]
    finally:
        network.lm.set_attn_implementation(attention.NAME)
