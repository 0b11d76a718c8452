"""Algorithm types of users: classes with the attributes and the default_config of Trinity-RFT's AlgorithmType."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import names
from .wire import Told, type_of

PARTS = ("advantage_fn", "policy_loss_fn", "kl_penalty_fn", "kl_loss_fn", "entropy_loss_fn", "sample_strategy")
SCHEMAS = ("experience", "sft", "dpo", "kto", "cpt")


def describe(name: str, args: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a configuration may say of an algorithm type. Raises Told if it is none."""
    target = names.find(name, "algorithm")
    if not callable(getattr(target, "default_config", None)):
        raise Told(f"{name} has no class method default_config, which names the parts of an algorithm")
    config = target.default_config()
    if not isinstance(config, Mapping):
        raise Told(f"default_config of {name} returned {type_of(config)}: want a dict")
    allowed = ["repeat_times", "loss_agg_mode", *PARTS, *(part + "_args" for part in PARTS)]
    unknown = [key for key in config if key not in allowed]
    if unknown:
        raise Told(f"default_config of {name} sets {unknown[0]}: an algorithm type has {', '.join(allowed)}")
    for key, value in config.items():
        if not isinstance(value, Mapping if key.endswith("_args") else int if key == "repeat_times" else str):
            raise Told(f"default_config of {name} sets {key} to {value!r}")
    schema = getattr(target, "schema", "experience")
    if schema not in SCHEMAS:
        raise Told(f"schema of {name} is {schema!r}: want one of {', '.join(SCHEMAS)}")
    return {
        "algorithm": {
            "schema": schema,
            "use_critic": bool(getattr(target, "use_critic", False)),
            "checks": any("check_config" in vars(c) for c in target.__mro__ if c.__name__ != "AlgorithmType"),
            "config": dict(config),
        }
    }
