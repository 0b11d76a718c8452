"""How the ranks divide the work between them."""

from functools import cache, cached_property
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Replicate

from .sequence import Parts

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

    def data(self, strategy: str, tensor: int) -> DeviceMesh:
        """Returns the mesh of a strategy: each rank has a shard of the weights, or a copy. All ranks must call it."""
        if tensor > 1:
            return self.grid(tensor)["shards"]
        return self._copies if strategy == DDP else self._shards

    @cache  # noqa: B019 (a process has one layout)
    def grid(self, tensor: int) -> DeviceMesh:
        """Returns the mesh on which so many neighbours divide each matrix, and all others its parts. All ranks must call
        it."""
        return init_device_mesh(self.device.type, (self.world // tensor, tensor), mesh_dim_names=("shards", "tensor"))

    @cache  # noqa: B019 (a process has one layout)
    def parts(self, tensor: int, sequence: int) -> Parts | None:
        """Returns the ranks that hold the parts of this rank's row; None if it holds the whole row. Of a layout of rows ×
        parts × tensor, tensor neighbours follow one another. All ranks must call it."""
        if sequence == 1:
            return None
        shape = self.world // (sequence * tensor), sequence, tensor
        mesh = init_device_mesh(self.device.type, shape, mesh_dim_names=("rows", "parts", "tensor"))
        return Parts(mesh["parts"].get_group(), sequence, mesh["parts"].get_local_rank())

    def owns(self, tensor: torch.Tensor, neighbours: int) -> bool:
        """Reports whether this rank's part of a tensor counts in a sum over all ranks: of equal copies one does. neighbours
        are the ranks that divide each matrix."""
        if not isinstance(tensor, DTensor):
            return self.rank == 0
        mesh, placements = tensor.device_mesh, tensor.placements
        if neighbours > 1 and "tensor" not in (mesh.mesh_dim_names or ()) and self.rank % neighbours:
            return False
        return not any(p == Replicate() and mesh.get_local_rank(dim) > 0 for dim, p in enumerate(placements))
