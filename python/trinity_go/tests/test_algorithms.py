"""Algorithm types of users."""

from __future__ import annotations

from typing import Any

import pytest

from trinity_go import algorithms
from trinity_go.wire import Told


class AlgorithmType:
    __module__ = "trinity.algorithm"

    @classmethod
    def check_config(cls, config: Any) -> None:
        pass


class Mine(AlgorithmType):
    use_critic, use_reference, schema = False, True, "experience"

    @classmethod
    def default_config(cls) -> dict[str, Any]:
        return {
            "repeat_times": 4,
            "advantage_fn": "grpo",
            "policy_loss_fn": "my.Loss",
            "policy_loss_fn_args": {"clip": 0.2},
        }


class Checking(Mine):
    @classmethod
    def check_config(cls, config: Any) -> None:
        pass


class Key(Mine):
    @classmethod
    def default_config(cls) -> dict[str, Any]:
        return {"learning_rate": 1}


class Value(Mine):
    @classmethod
    def default_config(cls) -> dict[str, Any]:
        return {"advantage_fn": None}


class Rows(Mine):
    schema = "rows"


class NoConfig:
    pass


def test_described() -> None:
    said = algorithms.describe(f"{__name__}.Mine", {})["algorithm"]
    assert said == {
        "schema": "experience", "use_critic": False, "checks": False, "config": Mine.default_config(),
    }  # fmt: skip
    assert algorithms.describe(f"{__name__}.Checking", {})["algorithm"]["checks"]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        (
            "Key",
            "default_config of NAME sets learning_rate: an algorithm type has repeat_times, loss_agg_mode, advantage_fn, ",
        ),
        ("Value", "default_config of NAME sets advantage_fn to None"),
        ("Rows", "schema of NAME is 'rows': want one of experience, sft, dpo, kto, cpt"),
        ("NoConfig", "NAME has no class method default_config, which names the parts of an algorithm"),
    ],
)
def test_refused(name: str, says: str) -> None:
    with pytest.raises(Told) as told:
        algorithms.describe(f"{__name__}.{name}", {})
    assert str(told.value).startswith(says.replace("NAME", f"{__name__}.{name}"))
