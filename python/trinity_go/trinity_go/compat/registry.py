"""Registers classes by name, as `trinity.utils.registry` does: a registry for each kind of plug-in."""

from __future__ import annotations

import ast
import importlib
import importlib.machinery
import os
import sys
import threading
from collections.abc import Callable
from typing import Any, TypeVar, overload

T = TypeVar("T")
_reading = threading.Lock()


class Registry:
    """Classes by name. A name that none has registered may be of `default_mapping`, or a dotted one."""

    def __init__(self, name: str, default_mapping: dict[str, str] | None = None, original: str = "") -> None:
        """Make a registry. original is the module of Trinity-RFT that has this registry, whose names count, too, where
        it is installed."""
        self.name, self.modules = name, dict[str, Any]()
        self._mapping, self._original = dict(default_mapping or {}), original

    @property
    def default_mapping(self) -> dict[str, str]:
        """The dotted names of classes that are imported when somebody asks for them."""
        with _reading:  # threads that come meanwhile wait for the names
            if self._original:
                self._mapping = _mapping_of(self._original) | self._mapping
                self._original = ""
        return self._mapping

    def names(self) -> list[str]:
        """Return the names that modules have registered."""
        return sorted(self.modules)

    def get(self, module_key: str | None) -> Any:
        """Return the class of a name, None for None. Raises ValueError for a name that nobody has registered."""
        if module_key is None or module_key in self.modules:
            return self.modules.get(module_key) if module_key else None
        dotted = self.default_mapping.get(module_key, module_key)
        module, dot, name = dotted.rpartition(".")
        if not dot:
            raise ValueError(f"{self.name} has no {module_key}: registered are {', '.join(self.names()) or 'none'}")
        return getattr(importlib.import_module(module), name)

    @overload
    def register_module(
        self, module_name: str | None = None, module_cls: None = None, force: bool = False, lazy: bool = False
    ) -> Callable[[T], T]: ...

    @overload
    def register_module(self, module_name: str | None, module_cls: T, force: bool = False, lazy: bool = False) -> T: ...

    def register_module(
        self, module_name: str | None = None, module_cls: Any = None, force: bool = False, lazy: bool = False
    ) -> Any:
        """Register a class, or return a decorator that does. Its own name is the one without module_name."""

        def put(cls: Any) -> Any:
            name = cls.__name__ if module_name is None else module_name
            known = self.modules.get(name)
            if known is not None and not force and not _is_same(known, cls):
                raise KeyError(
                    f"{name} is already registered in {self.name}, as {known.__module__}.{known.__qualname__}"
                )
            self.modules[name] = cls
            if "_name" not in vars(cls):  # an AlgorithmType takes it once
                cls._name = name
            return cls

        return put if module_cls is None else put(module_cls)


def _is_same(one: Any, other: Any) -> bool:
    """Report whether two classes are of the same lines of a file, which two names have imported."""

    def place(cls: Any) -> tuple[Any, ...]:
        return getattr(sys.modules.get(cls.__module__), "__file__", cls), cls.__qualname__

    return one is other or place(one) == place(other)


def _mapping_of(original: str) -> dict[str, str]:
    """Return the default_mapping of an installed Trinity-RFT, whose file is read and not run."""
    spec = importlib.machinery.PathFinder.find_spec("trinity")
    if spec is None or not spec.origin:
        return {}
    path = os.path.join(os.path.dirname(spec.origin), *original.split(".")[1:], "__init__.py")
    try:
        with open(path, encoding="utf-8") as file:
            tree = ast.parse(file.read())
        given = [k.value for node in ast.walk(tree) if isinstance(node, ast.Call) for k in node.keywords
                 if k.arg == "default_mapping"]  # fmt: skip
        return dict(ast.literal_eval(given[0])) if given else {}
    except (OSError, SyntaxError, ValueError):
        return {}


# The registries by kind of plug-in. `kl` and `entropy` are losses, too.
registries: dict[str, Registry] = {
    "workflow": Registry(
        "workflows",
        {
            "simple_workflow": "trinity.common.workflows.workflow.SimpleWorkflow",
            "async_simple_workflow": "trinity.common.workflows.workflow.AsyncSimpleWorkflow",
            "math_workflow": "trinity.common.workflows.workflow.MathWorkflow",
            "async_math_workflow": "trinity.common.workflows.workflow.AsyncMathWorkflow",
        },
        "trinity.common.workflows",
    ),
    "reward": Registry("reward_functions", original="trinity.common.rewards"),
    "operator": Registry("experience_operators", original="trinity.buffer.operators"),
    "advantage": Registry("advantage_fn", original="trinity.algorithm.advantage_fn"),
    "loss": Registry("policy_loss_fn", original="trinity.algorithm.policy_loss_fn"),
    "kl": Registry("kl_fn", original="trinity.algorithm.kl_fn"),
    "entropy": Registry("entropy_loss_fn", original="trinity.algorithm.entropy_loss_fn"),
    "selector": Registry("selectors", original="trinity.buffer.selector"),
    "algorithm": Registry("algorithm", original="trinity.algorithm"),
    "sample strategy": Registry("sample_strategy", original="trinity.algorithm.sample_strategy"),
}
