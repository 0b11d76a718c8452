"""How the ranks divide the work between them."""

from functools import cached_property
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Replicate

FSDP2, DDP = "fsdp2", "ddp"
STRATEGIES = (FSDP2, DDP)


class Layout:
    """The ranks, the device of this one, and the meshes over which models are spread. control is a group on the CPU."""

    def __init__(self, device: torch.device, control: Any) -> None:
        self.device, self.control = device, control
        self.rank, self.world = dist.get_rank(), dist.get_world_size()

    @cached_property
    def _shards(self) -> DeviceMesh:
        return init_device_mesh(self.device.type, (self.world,), mesh_dim_names=("shards",))

    @cached_property
    def _copies(self) -> DeviceMesh:
        return init_device_mesh(self.device.type, (self.world, 1), mesh_dim_names=("copies", "shards"))

    def data(self, strategy: str) -> DeviceMesh:
        """Returns the mesh of a strategy: each rank has a shard of the weights, or a copy. All ranks must call it."""
        return self._copies if strategy == DDP else self._shards

    def owns(self, tensor: torch.Tensor) -> bool:
        """Reports whether this rank's part of a tensor counts in a sum over all ranks: of equal copies one does."""
        if not isinstance(tensor, DTensor):
            return self.rank == 0
        mesh, placements = tensor.device_mesh, tensor.placements
        return not any(p == Replicate() and mesh.get_local_rank(dim) > 0 for dim, p in enumerate(placements))
