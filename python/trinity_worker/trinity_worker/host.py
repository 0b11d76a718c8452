"""Tensors whose memory lies on the host while nobody uses them."""

from collections.abc import Iterable

import torch
from torch.distributed.tensor import DTensor


def local(tensor: torch.Tensor) -> torch.Tensor:
    """Returns this rank's part of a tensor that may be sharded."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


class HostMemory:
    """Takes the memory of tensors to the host and gives it back.

    It empties their storages and fills them again, so that the tensors stay the same objects: FSDP and optimizers keep
    views of them. On a CPU it does the same, to no use but that it is tested.
    """

    def __init__(self) -> None:
        self.kept: list[tuple[torch.UntypedStorage, torch.Tensor]] = []

    @torch.no_grad()
    def take(self, tensors: Iterable[torch.Tensor]) -> None:
        storages = {s.data_ptr(): s for s in (local(t).untyped_storage() for t in tensors)}
        gpu = any(s.device.type == "cuda" for s in storages.values())
        if gpu:
            torch.cuda.synchronize()  # other streams may still read
        for storage in storages.values():
            if storage.nbytes() and storage.resizable():  # a file that is mapped into memory is not
                host = torch.empty(storage.nbytes(), dtype=torch.uint8, pin_memory=gpu)
                host.copy_(_bytes(storage))
                storage.resize_(0)
                self.kept.append((storage, host))
        if gpu:
            torch.cuda.empty_cache()  # a sampler on the same GPU may be another process

    @torch.no_grad()
    def give_back(self) -> None:
        for storage, host in self.kept:
            storage.resize_(host.nbytes)
            _bytes(storage).copy_(host)
        self.kept = []


def _bytes(storage: torch.UntypedStorage) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
