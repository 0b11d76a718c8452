"""Bases and registries of Trinity-RFT's algorithm types, selectors and parts of algorithms, where no trinity-rft is installed."""

from __future__ import annotations

from typing import Any

from .registry import registries


class AlgorithmType:
    """The base of algorithm types: what a subclass leaves out is that of an algorithm without critic and reference."""

    use_critic = False
    use_reference = False
    compute_advantage_in_trainer = False
    can_balance_batch = True
    schema = "experience"

    @classmethod
    def default_config(cls) -> dict[str, Any]:
        """Return the parts of the algorithm, by the keys of the section algorithm."""
        raise NotImplementedError

    @classmethod
    def check_config(cls, config: Any) -> None:
        """Nothing here calls it."""


class BaseSelector:
    """The base of selectors: a subclass chooses the rows of each batch."""

    def __init__(self, data_source: Any, config: Any) -> None:
        self.data_source, self.config = data_source, config

    def get_indices(self, batch_size: int, return_extra_info: bool = False) -> list[int]:
        """Return the rows of the next batch."""
        raise NotImplementedError

    def feedback(self, indices: list[int], values: list[float]) -> None:
        """Learn from the mean rewards of rows."""

    def state_dict(self) -> dict[str, Any]:
        """Return what a resumed run needs, in values of JSON."""
        raise NotImplementedError

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from what state_dict has returned."""
        raise NotImplementedError


class SampleStrategy:
    """The base of sample strategies, which no run here asks."""


_REGISTRIES: dict[str, dict[str, Any]] = {
    "trinity.algorithm.advantage_fn": {"ADVANTAGE_FN": registries["advantage"]},
    "trinity.algorithm.policy_loss_fn": {"POLICY_LOSS_FN": registries["loss"]},
    "trinity.algorithm.kl_fn": {"KL_FN": registries["kl"]},
    "trinity.algorithm.entropy_loss_fn": {"ENTROPY_LOSS_FN": registries["entropy"]},
    "trinity.algorithm.sample_strategy": {
        "SAMPLE_STRATEGY": registries["sample strategy"],
        "SampleStrategy": SampleStrategy,
    },
    "trinity.algorithm.algorithm": {"AlgorithmType": AlgorithmType},
}

OFFERED: dict[str, dict[str, Any]] = {
    **_REGISTRIES,
    "trinity.algorithm": {"ALGORITHM_TYPE": registries["algorithm"]}
    | {name: value for names in _REGISTRIES.values() for name, value in names.items()},
    "trinity.buffer.operators": {"EXPERIENCE_OPERATORS": registries["operator"]},
    "trinity.buffer.selector": {"SELECTORS": registries["selector"], "BaseSelector": BaseSelector},
    "trinity.buffer.selector.selector": {"BaseSelector": BaseSelector},
}
