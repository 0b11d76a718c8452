"""The sequences of a request, and the row of them that a rank computes."""

from dataclasses import dataclass

import numpy as np
import torch

from . import attention
from .images import ARRAYS, Eye, Given, Seen
from .sequence import Part, Parts, width
from .tree import Tree
from .wire import Arrays


@dataclass
class Pack:
    """One row of sequences, on this rank. FSDP does not look into it, so it keeps its number types."""

    ids: torch.Tensor  # [1, T]; of a row that several ranks hold, T tokens are this rank's
    positions: torch.Tensor  # [1, T], from 0 in each sequence; [3, 1, T] with images
    row: attention.Row
    lengths: tuple[int, ...]  # of the sequences
    paths: torch.Tensor | None  # [sum of lengths] rows of their tokens; None if these are 0, 1, 2, …
    rows: torch.Tensor  # [M] places of the states that predict
    targets: torch.Tensor  # [M, K] tokens after these places, or others in their place; below 0 is none
    seen: Seen | None = None  # the images of the row
    experts: torch.Tensor | None = None  # [T, routers · k] of the tokens; below 0 is none. None: routers choose


def upload(arrays: list[np.ndarray], device: torch.device) -> list[torch.Tensor]:
    """Returns arrays of one type on a device, after one transfer that the host does not wait for."""
    flat = torch.from_numpy(np.concatenate([a.reshape(-1) for a in arrays]))
    if device.type == "cuda":
        flat = flat.pin_memory()
    parts = flat.to(device, non_blocking=True).split([a.size for a in arrays])
    return [part.view(a.shape) for part, a in zip(parts, arrays, strict=True)]


class Batch:
    """The sequences of a request, and where each rank's scored tokens lie in its flat arrays."""

    def __init__(self, arrays: Arrays, share: bool = True, eye: Eye | None = None) -> None:
        """share says whether sequences may share the rows of their stems, and eye how the model reads images."""
        # Sequences with one stem may have other experts there.
        self.arrays, self.share = arrays, share and "experts" not in arrays
        self.targets = arrays.get("targets", arrays["tokens"][:, None])  # [N, K]
        self.lengths = arrays["lengths"].astype(np.int64)
        self.starts = np.cumsum(self.lengths) - self.lengths
        self.scored = arrays["mask"].astype(bool)
        self.trees: dict[int, tuple[Tree, np.ndarray]] = {}  # by row, and the row's place of each token
        self.given = Given(arrays, self.starts, eye) if eye is not None and ARRAYS[0] in arrays else None

    def sequences(self, rank: int) -> list[int]:
        return [int(i) for i in np.nonzero(self.arrays["rank"] == rank)[0]]

    def places(self, rank: int, part: int = 0, parts: int = 1) -> np.ndarray:
        """Returns the flat places of the scored tokens of the rank's row; with parts, those that a part predicts."""
        each = [self.starts[i] + np.nonzero(self.scored[self._span(i)])[0] for i in self.sequences(rank)]
        places = np.concatenate(each) if each else np.zeros(0, np.int64)
        if parts == 1 or not len(places):
            return places
        tree, row_of = self._tree(rank)
        return places[row_of[places - 1] // width(tree.size, parts) == part]

    def _tree(self, rank: int) -> tuple[Tree, np.ndarray]:
        if rank not in self.trees:
            sequences = self.sequences(rank)
            tree = Tree([self._key(i) for i in sequences] + self._blank(rank), self.share)
            row_of = np.zeros(len(self.scored), np.int64)
            for i, path in zip(sequences, tree.paths, strict=False):  # a blank image follows
                row_of[self._span(i)] = path
            self.trees[rank] = tree, row_of
        return self.trees[rank]

    def _key(self, i: int) -> np.ndarray:
        """Returns numbers by which sequences are compared: its tokens, and in place of placeholders those of features."""
        tokens = self.arrays["tokens"][self._span(i)]
        if self.given is None:
            return tokens
        features = self.given.features[self._span(i)]
        return np.where(features < 0, tokens, -1 - features).astype(np.int32)

    def _blank(self, rank: int) -> list[np.ndarray]:
        """Returns the key of a blank image, which follows the sequences of a row if only other rows have images: all ranks
        must join the collectives of the tower."""
        if self.given is None or len(self.places(rank)) and any(len(self.given.of(i)) for i in self.sequences(rank)):
            return []
        return [(-1 - self.given.blank).astype(np.int32)]

    def _span(self, i: int) -> slice:
        return slice(self.starts[i], self.starts[i] + self.lengths[i])

    def of_sequence(self, places: np.ndarray) -> np.ndarray:
        """Returns the numbers of the sequences in which places lie."""
        return np.searchsorted(self.starts, places, side="right") - 1

    def pack(self, rank: int, device: torch.device, parts: Parts | None = None) -> Pack:
        """Returns the rank's row, or its part. A row without scored tokens has one token, and a part without them predicts
        one, because all must join each collective."""
        sequences = self.sequences(rank) if len(self.places(rank)) else []
        tokens = [self.arrays["tokens"][self._span(i)] for i in sequences] or [np.zeros(1, np.int32)]
        if sequences:
            tree, row_of = self._tree(rank)
        else:
            tree, row_of = Tree(tokens + self._blank(rank)), np.zeros(0, np.int64)
        seen, positions = None, tree.gather([np.arange(len(path)) for path in tree.paths])[None]
        if self.given is not None:
            features = [self.given.features[self._span(i)] for i in sequences] or [np.full(1, -1)]
            if len(tree.paths) > len(tokens):
                features.append(self.given.blank)
                tokens.append(np.full(len(self.given.blank), self.given.eye.placeholder, np.int32))
            seen = self.given.seen(tree.gather(features), device)
            if self.given.eye.index is not None:
                columns = self.given.positions(sequences, tokens)
                positions = np.stack([tree.gather([c[axis] for c in columns])[None] for axis in range(3)])
        ids = tree.gather(tokens)
        part = None if parts is None else Part(parts, tree.size)
        places = self.places(rank) if parts is None else self.places(rank, parts.number, parts.ranks)
        rows, targets = row_of[places - 1], self.targets[places].astype(np.int64)
        if part is not None:
            ids, positions, rows = part.of(ids), part.of(positions[0])[None], rows - part.begin
        if not len(places):
            rows, targets = np.zeros(1, np.int64), np.zeros((1, self.targets.shape[1]), np.int64)
        paths = [np.concatenate(tree.paths)] if tree.shared else []
        arrays = [ids[None], positions, rows, targets, *paths, *attention.numbers(tree)]
        first, second, third, fourth, *others = upload(arrays, device)
        moved = others.pop(0) if paths else None
        lengths = tuple(len(t) for t in tokens)
        row = attention.Row(tree, *others)
        row.part = part
        experts = self._experts(rank, tree.size, device)
        return Pack(first, second, row, lengths, moved, third, fourth, seen, experts)

    def _experts(self, rank: int, size: int, device: torch.device) -> torch.Tensor | None:
        """Returns the experts of the rank's row, which has its sequences one after another."""
        experts = self.arrays.get("experts")
        if experts is None:
            return None
        parts = [experts[self._span(i)] for i in self.sequences(rank)] if len(self.places(rank)) else []
        rows = np.concatenate(parts) if parts else np.full((size, experts.shape[1]), -1)
        (moved,) = upload([rows.astype(np.int64)], device)
        return moved
