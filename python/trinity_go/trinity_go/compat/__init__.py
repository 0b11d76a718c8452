"""The names that code written for Trinity-RFT imports, in workers of a run only.

A name of `OFFERED` comes from here. Another one below `trinity` comes from the files of an installed trinity-rft, which
are imported as they are.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import logging
import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from .registry import Registry, registries


class RewardFn:
    """The base of Trinity-RFT's reward functions: a subclass scores a reply in __call__, with a dict of parts."""

    def __init__(self, **kwargs: Any) -> None:
        pass

    def __call__(self, **kwargs: Any) -> dict[str, float]:
        raise NotImplementedError


def get_logger(name: str | None = None, level: int | None = None, in_ray_actor: bool = False) -> logging.Logger:
    """Return a logger whose records go to plugins.log."""
    logger = logging.getLogger(f"trinity.{name}" if name else "trinity")
    if level is not None:
        logger.setLevel(level)
    return logger


REWARD_FUNCTIONS = registries["reward"]

# The names of each module. A module that is a package has an entry for each of its folders, too.
OFFERED: dict[str, dict[str, Any]] = {
    "trinity": {},
    "trinity.common": {},
    "trinity.common.rewards": {"RewardFn": RewardFn, "REWARD_FUNCTIONS": REWARD_FUNCTIONS},
    "trinity.common.rewards.reward_fn": {"RewardFn": RewardFn, "REWARD_FUNCTIONS": REWARD_FUNCTIONS},
    "trinity.utils": {},
    "trinity.utils.log": {"get_logger": get_logger},
    "trinity.utils.registry": {"Registry": Registry},
}


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the offered modules before all others."""

    def __init__(self, original: str) -> None:
        self.original = original  # the folder of an installed package `trinity`; "" without one

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in OFFERED:
            return None
        is_package = any(other.startswith(name + ".") for other in OFFERED)
        spec = importlib.machinery.ModuleSpec(name, self, is_package=is_package)
        if is_package and self.original:
            spec.submodule_search_locations = [os.path.join(self.original, *name.split(".")[1:])]
        return spec

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__.update(OFFERED[module.__name__])


def install() -> None:
    """Offer the names to every import that follows."""
    installed = importlib.machinery.PathFinder.find_spec("trinity")
    sys.meta_path.insert(0, _Finder(os.path.dirname(installed.origin) if installed and installed.origin else ""))
