"""The sequences of a request, and the row of them that a rank computes."""

from dataclasses import dataclass

import numpy as np
import torch

from . import attention
from .tree import Tree
from .wire import Arrays


@dataclass
class Pack:
    """One row of sequences, on this rank. FSDP does not look into it, so it keeps its number types."""

    ids: torch.Tensor  # [1, T]
    positions: torch.Tensor  # [1, T], from 0 in each sequence
    row: attention.Row
    lengths: tuple[int, ...]  # of the sequences
    paths: torch.Tensor | None  # [sum of lengths] rows of their tokens; None if these are 0, 1, 2, …
    rows: torch.Tensor  # [M] places of the states that predict
    targets: torch.Tensor  # [M, K] tokens after these places, or others in their place; below 0 is none


def upload(arrays: list[np.ndarray], device: torch.device) -> list[torch.Tensor]:
    """Returns arrays of one type on a device, after one transfer that the host does not wait for."""
    flat = torch.from_numpy(np.concatenate([a.reshape(-1) for a in arrays]))
    if device.type == "cuda":
        flat = flat.pin_memory()
    parts = flat.to(device, non_blocking=True).split([a.size for a in arrays])
    return [part.view(a.shape) for part, a in zip(parts, arrays, strict=True)]


class Batch:
    """The sequences of a request, and where each rank's scored tokens lie in its flat arrays."""

    def __init__(self, arrays: Arrays) -> None:
        self.arrays = arrays
        self.targets = arrays.get("targets", arrays["tokens"][:, None])  # [N, K]
        self.lengths = arrays["lengths"].astype(np.int64)
        self.starts = np.cumsum(self.lengths) - self.lengths
        self.scored = arrays["mask"].astype(bool)

    def sequences(self, rank: int) -> list[int]:
        return [int(i) for i in np.nonzero(self.arrays["rank"] == rank)[0]]

    def places(self, rank: int) -> np.ndarray:
        """Returns the flat places of the rank's scored tokens."""
        parts = [self.starts[i] + np.nonzero(self.scored[self._span(i)])[0] for i in self.sequences(rank)]
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)

    def _span(self, i: int) -> slice:
        return slice(self.starts[i], self.starts[i] + self.lengths[i])

    def of_sequence(self, places: np.ndarray) -> np.ndarray:
        """Returns the numbers of the sequences in which places lie."""
        return np.searchsorted(self.starts, places, side="right") - 1

    def pack(self, rank: int, device: torch.device, share: bool = True) -> Pack:
        """Returns the rank's row, in which sequences may share stems. A rank without scored tokens gets one token, because
        all must join each collective."""
        sequences, places = self.sequences(rank), self.places(rank)
        if len(places):
            tokens = [self.arrays["tokens"][self._span(i)] for i in sequences]
            tree = Tree(tokens, share)
            row_of = np.zeros(len(self.scored), np.int64)
            for i, path in zip(sequences, tree.paths, strict=True):
                row_of[self._span(i)] = path
            rows, targets = row_of[places - 1], self.targets[places].astype(np.int64)
        else:
            tokens = [np.zeros(1, np.int32)]
            tree, rows = Tree(tokens), np.zeros(1, np.int64)
            targets = np.zeros((1, self.targets.shape[1]), np.int64)
        ids, positions = tree.gather(tokens), tree.gather([np.arange(len(t)) for t in tokens])
        paths = [np.concatenate(tree.paths)] if tree.shared else []
        arrays = [ids[None], positions[None], rows, targets, *paths, *attention.numbers(tree)]
        first, second, third, fourth, *others = upload(arrays, device)
        moved = others.pop(0) if paths else None
        lengths = tuple(len(t) for t in tokens)
        return Pack(first, second, attention.Row(tree, *others), lengths, moved, third, fourth)
