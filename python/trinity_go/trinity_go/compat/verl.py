"""The batch of veRL, which advantages name and read, where veRL is not installed."""

from __future__ import annotations

from typing import Any


class DataProto:
    """Tensors by name in batch, other values in non_tensor_batch, and meta_info."""

    def __init__(
        self, batch: Any = None, non_tensor_batch: dict[str, Any] | None = None, meta_info: dict[str, Any] | None = None
    ) -> None:
        self.batch = {} if batch is None else batch
        self.non_tensor_batch, self.meta_info = non_tensor_batch or {}, meta_info or {}

    def __len__(self) -> int:
        return next((len(v) for v in [*self.batch.values(), *self.non_tensor_batch.values()]), 0)
