"""The proof that this worker can pack a model: a row of two sequences gives the logits of each alone, as transformers has them.

Models of new families pass arguments and carry state in ways that a packed row may not know. Nothing else would tell. Before
the ranks shard a model, it has no values: rank 0 reads those of its first layers, in float32, and drops them after the proof.
They lie on a GPU if there is one, because kernels of other packages for layers with state do not run on a CPU.
"""

import io
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from . import images, loading
from .batch import Batch
from .layout import Layout
from .shallow import free, in_float32
from .wire import BadRequest

LENGTHS = (16, 9)
TOLERANCE = 1e-4  # of the largest logit
DRAWS = 3  # a router may choose another expert at a tie, so a fault must show with each of so many pairs
NAMES = ("first", "second")
ALLOCATOR = "DefaultCPUAllocator"  # which raises a RuntimeError


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
    except BadRequest as e:
        return str(e)
    except (MemoryError, RuntimeError) as e:
        if not isinstance(e, MemoryError | torch.OutOfMemoryError) and ALLOCATOR not in str(e):
            return _failed(name, e)
        return f"{name}: there is no memory for the proof that this worker can pack it: {_line(e)} (OutOfMemoryError)"
    except Exception as e:  # of the model's own code
        return _failed(name, e)
    return f"{name}: {fault}: this worker cannot pack it"


def _failed(name: str, e: Exception) -> str:
    return f"{name}: this worker cannot pack it: {_line(e)} ({type(e).__name__})"


def _line(e: Exception) -> str:
    return " ".join(str(e).split())


def _compare(network: Any, device: torch.device, r: np.random.Generator) -> str:
    """Returns where a row of two sequences differs from each alone, or nothing."""
    size = network.config.vocab_size
    sequences, pictures, arrays = [r.integers(0, size, n, np.int32) for n in LENGTHS], [], {}
    if network.eye:
        sequences, pictures, arrays = _with_pictures(network.eye, sequences, r)
    lengths = [len(s) for s in sequences]
    mask = np.ones(sum(lengths), np.uint8)
    mask[[0, lengths[0]]] = 0
    arrays |= {
        "tokens": np.concatenate(sequences),
        "lengths": np.array(lengths),
        "mask": mask,
        "rank": np.zeros(2, np.int32),
    }
    (states,) = network(Batch(arrays, network.shares, network.eye).pack(0, device), None)
    row = network.finished(states).split([n - 1 for n in lengths])
    alone = _alone(network, [torch.from_numpy(s).long().to(device) for s in sequences], pictures)
    largest = max(float(a.abs().max()) for a in alone)
    for which, got, want in zip(NAMES, row, alone, strict=True):
        differences = (got - want).abs().amax(-1)
        most = float(differences.max())
        if not most <= TOLERANCE * largest:  # also if it is not a number
            place = f"token {int(differences.argmax()) + 1} of the {which}"
            what = "states" if network.spec.head else "logits"
            return f"a row of two sequences gives other {what} than each alone ({most:.2g} of {largest:.2g} at {place})"
    return ""


def _with_pictures(eye: images.Eye, sequences: list[np.ndarray], r: np.random.Generator) -> tuple[Any, ...]:
    """Puts an image after the first token of each sequence. Returns the sequences, the images, and the arrays that a request
    has of them."""
    from PIL import Image

    unit = eye.patch * getattr(eye.processor, "merge_size", 1)
    files, pictures, longer = [], [], []
    for tokens, sides in zip(sequences, ((2, 4), (4, 2)), strict=True):
        file = io.BytesIO()
        Image.fromarray(r.integers(0, 256, (sides[0] * unit, sides[1] * unit, 3), np.uint8)).save(file, "PNG")
        files.append(file.getvalue())
        pictures.append(eye.read(files[-1]))
        text = np.where(tokens == eye.placeholder, 0 if eye.placeholder else 1, tokens).astype(np.int32)
        places = np.full(eye.tokens(pictures[-1].grid), eye.placeholder, np.int32)
        longer.append(np.concatenate([text[:1], places, text[1:]]))
    arrays = {
        "images": np.frombuffer(b"".join(files), np.uint8),
        "image_bytes": np.array([len(f) for f in files], np.int32),
        "image_grids": np.array([p.grid for p in pictures], np.int32),
        "spans": np.array([(i, i, 1, eye.tokens(p.grid)) for i, p in enumerate(pictures)], np.int32),
    }
    return longer, pictures, arrays


def _alone(network: Any, sequences: list[torch.Tensor], pictures: list[Any]) -> list[torch.Tensor]:
    """Returns the logits that predict the tokens of each sequence, from transformers' own code."""
    network.apart.lengths = ()
    network.lm.set_attn_implementation("eager")
    try:
        if network.spec.head:
            return [network.finished(network.decoder(s[None], use_cache=False)[0][0, :-1]) for s in sequences]
        if not network.eye:
            return [network.lm(s[None], use_cache=False).logits[0, :-1].float() for s in sequences]
        return [_one(network, s[None], p) for s, p in zip(sequences, pictures, strict=True)]
    finally:
        network.lm.set_attn_implementation(network.packed)


def _one(network: Any, ids: torch.Tensor, picture: images.Picture) -> torch.Tensor:
    values = {k: v.to(ids.device) for k, v in picture.values.items()}
    if network.eye.index is not None:
        values["mm_token_type_ids"] = (ids == network.eye.placeholder).int()
    logits = network.lm(ids, attention_mask=torch.ones_like(ids), use_cache=False, **values).logits
    return logits[0, :-1].float()
