"""Imports the modules of plugin_dirs, whose classes register themselves under names."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import os
import sys
import threading
from collections.abc import Sequence
from types import ModuleType

PACKAGE = "trinity.plugins"  # these modules import one another as trinity.plugins.X


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the package of the modules, which lie in several folders."""

    def __init__(self, folders: Sequence[str]) -> None:
        self.folders = list(folders)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != PACKAGE:
            return None
        spec = importlib.machinery.ModuleSpec(name, self, is_package=True)
        spec.submodule_search_locations = self.folders
        return spec

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        pass


_finder = _Finder([])
_lock = threading.RLock()
_failed: dict[str, BaseException] | None = None  # by file; None until the modules are imported
tried: set[str] = set()  # files whose import has run, also those that failed


def install(folders: Sequence[str]) -> None:
    """Offer the modules of these folders to every import that follows."""
    global _failed
    _finder.folders, _failed = list(folders), None
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    sys.path.extend(folder for folder in folders if folder not in sys.path)


def folders() -> list[str]:
    """Return the folders."""
    return list(_finder.folders)


def load() -> dict[str, BaseException]:
    """Import the modules once. Return what went wrong, by file or folder."""
    global _failed
    with _lock:
        if _failed is None:
            _failed = {}
            for folder in _finder.folders:
                _load(folder, _failed)
        return _failed


def _load(folder: str, failed: dict[str, BaseException]) -> None:
    try:
        files = sorted(name for name in os.listdir(folder) if name.endswith(".py") and not name.startswith("__"))
    except OSError as error:
        failed[folder] = ImportError(error.strerror)
        return
    for file in files:
        path = os.path.join(folder, file)
        if not file[:-3].isidentifier():
            failed[path] = ImportError("the file's name is no name of a module")
            continue
        tried.add(path)
        try:
            module = importlib.import_module(f"{PACKAGE}.{file[:-3]}")
        except BaseException as error:  # whatever one of them raises, the others count
            failed[path] = error
            continue
        if not os.path.samefile(str(module.__file__), path):
            failed[path] = ImportError(f"{module.__file__} has the same name")
