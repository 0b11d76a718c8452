"""Finds modules below `trinity`: those that are offered here, and those of an installed trinity-rft."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from ..wire import Told

# The version of trinity-rft that has what is lacking here.
VERSION = "0.6.0"

# The packages of which no module is offered here.
PACKAGES = ("trinity.algorithm", "trinity.buffer")


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the offered modules before all others."""

    def __init__(self, offered: Mapping[str, Mapping[str, Any]], moved: Mapping[str, str]) -> None:
        self.offered, self.moved = offered, moved
        spec = importlib.machinery.PathFinder.find_spec("trinity")
        # The folder of an installed package `trinity`; "" without one.
        self.original = os.path.dirname(spec.origin) if spec is not None and spec.origin else ""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name in self.moved and self.file_of(name) is None:
            return importlib.machinery.ModuleSpec(name, _Moved(self.moved[name]))
        if name not in self.offered:
            known = not name.startswith("trinity.") or name.startswith("trinity.plugins")
            if not known and self.file_of(name) is None:
                raise ModuleNotFoundError(self.lacking(name), name=name)
            return None
        is_package = name in PACKAGES or any(other.startswith(name + ".") for other in self.offered)
        spec = importlib.machinery.ModuleSpec(name, self, is_package=is_package)
        if is_package and self.original and name.partition(".")[0] == "trinity":
            spec.submodule_search_locations = [os.path.join(self.original, *name.split(".")[1:])]
        return spec

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__.update(self.offered[module.__name__])
        if module.__name__ != "trinity" and module.__name__.startswith("trinity."):
            module.__dict__["__getattr__"] = _Rest(self, module.__name__)

    def file_of(self, name: str) -> str | None:
        """Return the file of a module in an installed trinity-rft; None without it."""
        if not self.original:
            return None
        path = os.path.join(self.original, *name.split(".")[1:])
        return next((f for f in (path + ".py", os.path.join(path, "__init__.py")) if os.path.isfile(f)), None) or (
            path if os.path.isdir(path) else None
        )

    def lacking(self, name: str) -> str:
        if self.original:
            return f"no module named {name!r} in {self.original}"
        return f"no module named {name!r} in {sys.executable}: pip install --no-deps trinity-rft=={VERSION} has the modules that are lacking here"


class _Moved(importlib.abc.Loader):
    """Gives a module that other versions know by another name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return importlib.import_module(self.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


class _Rest:
    """Looks names up that an offered module lacks, in the file of the same module of an installed trinity-rft."""

    def __init__(self, finder: Finder, module: str) -> None:
        self.finder, self.module = finder, module
        self.original: ModuleType | None = None

    def __call__(self, name: str) -> Any:
        path = None if name.startswith("__") else self.finder.file_of(self.module)
        if path is None or not path.endswith(".py"):
            raise AttributeError(f"module {self.module!r} has no attribute {name!r}")
        if self.original is None:
            spec = importlib.util.spec_from_file_location(f"{self.module}@trinity-rft", path)
            assert spec is not None and spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            module.__package__ = self.module if path.endswith("__init__.py") else self.module.rpartition(".")[0]
            sys.modules[spec.name] = module  # dataclasses look for it
            try:
                spec.loader.exec_module(module)
            except ImportError as error:
                raise AttributeError(
                    f"module {self.module!r} has no attribute {name!r}, and the file of trinity-rft needs {error.name}"
                ) from error
            self.original = module
        try:
            return getattr(self.original, name)
        except AttributeError:
            raise AttributeError(f"module {self.module!r} has no attribute {name!r}") from None


def install(finder: Finder) -> None:
    """Offer the names to every import that follows."""
    if any(isinstance(f, Finder) for f in sys.meta_path):
        raise Told("the names of Trinity-RFT are offered already")
    sys.meta_path.insert(0, finder)
