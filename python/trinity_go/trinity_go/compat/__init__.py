"""The names that code written for Trinity-RFT imports, in workers of a run only.

A name of `OFFERED` comes from here. Another one below `trinity` comes from the files of an installed trinity-rft, which
are imported as they are.
"""

from __future__ import annotations

import importlib.util
from typing import Any

from . import config, experience, kinds, models, stepwise, utils, verl, workflows
from .finder import Finder
from .finder import install as _install
from .registry import Registry, registries
from .rewards import RewardFn
from .utils import get_logger
from .workflows import REWARD_FUNCTIONS, WORKFLOWS


class _Registry(Registry):
    """The registry of a kind by its name, which files of Trinity-RFT make; another one for other names."""

    def __new__(cls, name: str, default_mapping: dict[str, str] | None = None) -> Any:
        return next((r for r in registries.values() if r.name == name), None) or super().__new__(cls)


def _names(module: Any, *names: str) -> dict[str, Any]:
    return {name: getattr(module, name) for name in names}


# At both places, because older versions of Trinity-RFT have all of them at the first.
_WORKFLOWS = _names(
    workflows, "AsyncMathWorkflow", "AsyncSimpleWorkflow", "BaseSimpleWorkflow", "MathWorkflow", "MultiTurnWorkflow", "SimpleWorkflow",
    "Task", "Workflow", "WORKFLOWS",
)  # fmt: skip
_REWARDS = {"RewardFn": RewardFn, "REWARD_FUNCTIONS": REWARD_FUNCTIONS}

# The names of each module. A module that is a package has an entry for each of its folders, too.
OFFERED: dict[str, dict[str, Any]] = {
    "trinity": {"__version__": "0.6.0"},
    "trinity.common": {},
    "trinity.common.config": _names(config, "FormatConfig", "GenerationConfig", "InferenceModelConfig", "OperatorConfig")
    | {name: type(name, (config.Section,), {"__doc__": config.Section.__doc__}) for name in config.SECTIONS},
    "trinity.common.experience": _names(
        experience, "CustomField", "EID", "Experience", "gather_action_masks", "gather_attention_masks", "gather_multi_modal_inputs",
        "gather_response_attrs", "gather_token_ids", "group_by", "split_dpo_experience_to_single_turn",
    ),
    "trinity.common.models": {},
    "trinity.common.models.model": _names(models, "ModelWrapper"),
    "trinity.common.rewards": _REWARDS,
    "trinity.common.rewards.reward_fn": _REWARDS,
    "trinity.common.workflows": _WORKFLOWS,
    "trinity.common.workflows.step_wise_workflow": _names(
        stepwise, "AsyncRewardPropagationWorkflow", "AsyncStepWiseRewardWorkflow", "RewardPropagationWorkflow", "StepWiseRewardWorkflow"
    ),
    "trinity.common.workflows.workflow": _WORKFLOWS,
    "trinity.algorithm": {},
    "trinity.buffer": _names(utils, "get_buffer_reader"),
    "trinity.utils": {},
    "trinity.utils.annotations": {"Deprecated": utils.deprecated, "Experimental": utils.experimental},
    "trinity.utils.log": {"get_logger": get_logger},
    "trinity.utils.metrics": _names(utils, "aggregate_metrics"),
    "trinity.utils.registry": {"Registry": _Registry},
    "trinity.utils.timer": _names(utils, "Timer"),
}  # fmt: skip

# Modules of older versions, which the newest has at another place.
MOVED = {"trinity.utils.eval_utils": "trinity.common.rewards.eval_utils"}


def install() -> None:
    """Offer the names to every import that follows."""
    offered = dict(OFFERED)
    if importlib.util.find_spec("verl") is None:
        offered["verl"] = {"DataProto": verl.DataProto}
        offered["verl.protocol"] = {"DataProto": verl.DataProto}
    finder = Finder(offered, MOVED)
    if not finder.original:
        offered |= kinds.OFFERED
    _install(finder)


__all__ = ["MOVED", "OFFERED", "REWARD_FUNCTIONS", "WORKFLOWS", "RewardFn", "install"]
