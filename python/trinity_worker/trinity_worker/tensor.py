"""Tensor parallel: neighbouring ranks divide the matrices of each layer and the vocabulary (Shoeybi et al. 2019)."""

from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from .host import local

LAYER: dict[str, Any] = {
    "self_attn.q_proj": ColwiseParallel(), "self_attn.k_proj": ColwiseParallel(), "self_attn.v_proj": ColwiseParallel(),
    "self_attn.o_proj": RowwiseParallel(),
    "mlp.gate_proj": ColwiseParallel(), "mlp.up_proj": ColwiseParallel(), "mlp.down_proj": RowwiseParallel(),
}  # fmt: skip
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj")
# Norms of single heads: each rank has the gradient of its heads alone.
OF_HEADS = (".q_norm.", ".k_norm.")


def misfit(decoder: Any) -> str:
    """Returns why neighbours cannot divide a model, which is not of Llama's form; else nothing."""
    for i, layer in enumerate(decoder.layers):
        attention: Any = getattr(layer, "self_attn", None)
        if not all(isinstance(getattr(attention, name, None), nn.Linear) for name in PROJECTIONS):
            return f"layer {i} has no attention with {', '.join(PROJECTIONS)}"
        if own := [name for name, _ in attention.named_parameters(recurse=False)]:
            return f"the attention of layer {i} has {', '.join(own)} for all heads"
        for name in ("q_norm", "k_norm"):
            weight = getattr(getattr(attention, name, None), "weight", None)
            if weight is not None and weight.numel() != attention.head_dim:
                return f"{name} of layer {i} is over all heads"
    return ""


def divide(decoder: Any, head: nn.Linear | None, mesh: DeviceMesh) -> None:
    """Divides a model of Llama's form over the ranks of a mesh. head is its vocabulary projection, if it has one."""
    tied = head is not None and head.weight is decoder.embed_tokens.weight
    for layer in decoder.layers:
        parallelize_module(layer, mesh, LAYER, src_data_rank=None)
    embedding: dict[str, Any] = {"embed_tokens": RowwiseParallel(input_layouts=Replicate())}
    parallelize_module(decoder, mesh, embedding, src_data_rank=None)
    if tied:
        head.weight = decoder.embed_tokens.weight  # type: ignore[union-attr]
    elif head is not None:
        head.weight = nn.Parameter(distribute_tensor(head.weight.detach(), mesh, [Shard(0)], src_data_rank=None))


def complete(parameters: dict[str, nn.Parameter], mesh: DeviceMesh) -> None:
    """Gives each gradient the form of its weight, once all have been added up. Of the norms of heads each rank has the
    part of its heads, and of an embedding it may have the whole."""
    for name, parameter in parameters.items():
        grad = parameter.grad
        assert grad is not None
        if any(part in name for part in OF_HEADS):
            dist.all_reduce(local(grad), group=mesh.get_group())
        if isinstance(grad, DTensor) and isinstance(parameter, DTensor) and grad.placements != parameter.placements:
            parameter.grad = grad.redistribute(placements=parameter.placements)


class Vocabulary:
    """The part of the vocabulary on this rank, and sums over all parts."""

    def __init__(self, weight: torch.Tensor) -> None:
        """weight [V, D] is the vocabulary projection, whole or divided over ranks."""
        self.group: Any = None
        self.weight, place = weight, 0
        if isinstance(weight, DTensor):
            self.weight, place = weight.to_local(), weight.device_mesh.get_local_rank()
            self.group = weight.device_mesh.get_group()
        self.size = self.weight.shape[0]
        self.first = place * self.size

    def total(self, x: torch.Tensor) -> torch.Tensor:
        if self.group:
            dist.all_reduce(x, group=self.group)
        return x

    def log_softmax(self, z: torch.Tensor) -> torch.Tensor:
        """Returns the log-probabilities of this rank's part, from its logits [rows, size]."""
        if not self.group:
            return torch.log_softmax(z, -1)
        most = z.amax(-1)
        dist.all_reduce(most, dist.ReduceOp.MAX, group=self.group)
        z = z - most[:, None]
        return z - self.total(z.exp().sum(-1)).log()[:, None]

    def places(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the columns of tokens in this part, and which are in it: both [rows, K], as ids are. The others have any
        column. An id below 0 is in no part."""
        at = ids - self.first
        mine = (at >= 0) & (at < self.size) & (ids >= 0)
        return at.clamp(0, self.size - 1), mine
