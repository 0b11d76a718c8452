"""The base of Trinity-RFT's reward functions."""

from __future__ import annotations

from typing import Any


class RewardFn:
    """Scores a reply in __call__, with a dict of parts."""

    def __init__(self, **kwargs: Any) -> None:
        pass

    def __call__(self, **kwargs: Any) -> dict[str, float]:
        raise NotImplementedError(f"{type(self).__name__} has no __call__")
