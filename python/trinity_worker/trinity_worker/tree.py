"""The rows of sequences that begin with the same tokens: such a stem is computed once."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

# Sequences share tokens only if they begin with so many in common: a shorter stem costs more than it saves.
SHORTEST_STEM = 16


@dataclass
class Branch:
    """The part of a sequence that no sequence before it in the row begins with."""

    begin: int  # its first row
    end: int
    path: np.ndarray  # rows of the whole sequence, up to end

    @property
    def stem(self) -> int:
        """The number of tokens that come before the branch."""
        return len(self.path) - (self.end - self.begin)


class Tree:
    """Packs sequences into one row. The rows of a branch are neighbours, and what continues a row follows it directly."""

    def __init__(self, sequences: list[np.ndarray], share: bool = True) -> None:
        """share says whether a stem has its rows once. Without it all sequences have their own, in the given order."""
        self.paths: list[np.ndarray] = [np.zeros(0, np.int64)] * len(sequences)  # of each sequence, in the given order
        self.branches: list[Branch] = []
        self.size = 0  # rows
        for family in _families(sequences) if share else [[i] for i in range(len(sequences))]:
            self._add(sequences, family)
        self.shared = self.size < sum(len(s) for s in sequences)

    def _add(self, sequences: list[np.ndarray], family: list[int]) -> None:
        """Appends the rows of sequences with one stem, in the order of their tokens."""
        before, path = np.zeros(0, np.int32), np.zeros(0, np.int64)
        for i in family:
            tokens = sequences[i]
            stem = common(before, tokens)
            begin, self.size = self.size, self.size + len(tokens) - stem
            path = np.concatenate([path[:stem], np.arange(begin, self.size)])
            if begin < self.size:
                self.branches.append(Branch(begin, self.size, path))
            self.paths[i], before = path, tokens

    def gather(self, columns: list[np.ndarray]) -> np.ndarray:
        """Returns the number of each row, from the numbers of each sequence's tokens."""
        rows = np.zeros(self.size, np.int64)
        for path, column in zip(self.paths, columns, strict=True):
            rows[path] = column
        return rows

    @cached_property
    def pieces(self) -> list[int]:
        """The lengths of the runs of rows that each path has whole or not at all."""
        cuts = {0, self.size, *(b.begin for b in self.branches)}
        cuts |= {int(b.path[b.stem - 1]) + 1 for b in self.branches if b.stem}
        return [int(n) for n in np.diff(sorted(cuts))]

    def pieces_of(self, branch: Branch) -> tuple[list[int], list[int]]:
        """Returns the numbers of the pieces of a branch, and of its path."""
        firsts = np.cumsum([0, *self.pieces[:-1]])
        of = np.searchsorted(firsts, branch.path, side="right") - 1
        path = [int(p) for p in of[np.flatnonzero(np.diff(of, prepend=-1))]]
        own = [p for p in path if firsts[p] >= branch.begin]
        return own, path


def common(a: np.ndarray, b: np.ndarray) -> int:
    """Returns the number of tokens with which both begin."""
    n = min(len(a), len(b))
    different = np.flatnonzero(a[:n] != b[:n])
    return int(different[0]) if len(different) else n


def _families(sequences: list[np.ndarray]) -> list[list[int]]:
    """Returns the numbers of the sequences that share a stem. Those of one family are in the order of their tokens."""
    families: dict[bytes | int, list[int]] = {}
    for i, tokens in enumerate(sequences):
        key = i if len(tokens) < SHORTEST_STEM else tokens[:SHORTEST_STEM].tobytes()
        families.setdefault(key, []).append(i)
    for family in families.values():
        # The bytes of big-endian numbers compare as the numbers do.
        family.sort(key=lambda i: sequences[i].astype(">i4").tobytes())
    return list(families.values())
