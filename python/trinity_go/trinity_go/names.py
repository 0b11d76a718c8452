"""Finds classes and functions of users by the names that a configuration has."""

from __future__ import annotations

import contextvars
import difflib
import importlib
import importlib.util
import os
import re
import sys
import threading
import zlib
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from . import plugin_dirs
from .wire import Told, a_word, cut, files_of, place_of

_lock = threading.RLock()
_files: dict[str, ModuleType] = {}


class Asker:
    """A run that asks this process, with the functions that only it has, by its names for them."""

    def __init__(self, functions: Mapping[str, Any]) -> None:
        self.functions = functions


_process = Asker({})  # the one that a worker belongs to
asker: contextvars.ContextVar[Asker] = contextvars.ContextVar("asker", default=_process)  # whose question is answered


def find(name: str, kind: str = "") -> Any:
    """Return what a name names: package.module.Name, path/to/file.py:Name, or a name that a class of a kind is registered
    under; any kind without one. A module is imported once.

    Raises Told, with the file and the line at which an import fails.
    """
    name = name.removeprefix("caller:")  # a function of the process that has started the run, or that this one imports
    if name in (given := asker.get().functions):
        return given[name]
    if name and not set(name) & set(".:"):
        return registered(name, kind)
    with _lock:  # an import that another thread has begun is waited for
        path, colon, attribute = name.rpartition(":")
        if colon and path.endswith(".py"):
            module = _of_file(path)
        else:
            module, path, attribute = _of_name(name)
    found: Any = module
    for part in attribute.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            others = [n for n, v in vars(module).items() if not n.startswith("_") and callable(v)]
            own = [n for n in others if getattr(vars(module)[n], "__module__", None) == module.__name__]
            near = difflib.get_close_matches(attribute, others, 1)
            there = sorted(own or others)
            there[20:] = [f"{len(there) - 20} more"] if len(there) > 20 else []
            all_own = ", ".join(there) or "no class and no function"
            hint = f"did you mean {near[0]}?" if near else f"it has {all_own}"
            raise Told(f"{path} has no {attribute}: {hint}") from None
    return found


def registered(name: str, kind: str = "") -> Any:
    """Return the class that modules of plugin_dirs, or those of an installed Trinity-RFT, have registered."""
    from .compat.registry import registries  # which imports nothing of users

    with _lock:
        failed = plugin_dirs.load()
    kinds = [kind] if kind else list(registries)
    found = {k: registries[k].modules[name] for k in kinds if name in registries[k].modules}
    known = [k for k in kinds if not found and name in registries[k].default_mapping]
    if len(found) > 1 or len(known) > 1:
        raise Told(f"{name} is the name of several: {', '.join([*found, *known])}")
    if found:
        return next(iter(found.values()))
    if known:
        return find(registries[known[0]].default_mapping[name])
    others = [k for k in registries if name in registries[k].modules]
    if others:
        raise Told(f"{name} is registered as {others[0]}, and not as {kind}")
    own = sorted({n for k in kinds for n in registries[k].names()})
    where = ", ".join(plugin_dirs.folders())
    if not where:
        raise Told(f"{name}: want package.module.{name} or file.py:{name}")
    said = f"no module in {where} registers {a_word(kind or 'class')} {name}"
    said += f": registered are {', '.join(own)}" if own else ""
    raise Told("; ".join([said, *(_failure(path, error) for path, error in failed.items())]))


def _of_name(name: str) -> tuple[ModuleType, str, str]:
    """Return the module of a dotted name, that module's name, and the attributes that follow."""
    parts = name.replace(":", ".").split(".")  # package.module:Name is the form of entry points
    if len(parts) < 2 or not all(parts):
        raise Told(f"{name}: want package.module.{parts[-1] or 'Name'} or file.py:{parts[-1] or 'Name'}")
    first: Told | None = None
    for n in range(len(parts) - 1, 0, -1):
        path = ".".join(parts[:n])
        try:
            module = importlib.import_module(path)
        except BaseException as error:
            first = first or Told(_failure(path, error))
            if not isinstance(error, ModuleNotFoundError) or not (path + ".").startswith(f"{error.name}."):
                plugin_dirs.tried.update(files_of(error))
                raise Told(_failure(name, error)) from error
            continue
        if first is not None and not hasattr(module, parts[n]):
            break  # it is no class of this module, but a module that is missing
        return module, path, ".".join(parts[n:])
    assert first is not None
    raise first


def _of_file(path: str) -> ModuleType:
    """Import a file that is in no package. Modules beside it are found, too."""
    places = [path] if os.path.isabs(path) else [os.path.join(folder, path) for folder in sys.path]
    full = next((os.path.abspath(p) for p in places if os.path.isfile(p)), "")
    if not full:
        raise Told(f"there is no file {path}" + ("" if os.path.isabs(path) else f" in {', '.join(sys.path[:2])}"))
    if full in _files:
        return _files[full]
    path = full
    stem = re.sub(r"\W", "_", Path(path).stem)
    name = f"{stem}_{zlib.crc32(path.encode()):08x}"  # no other module's name
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise Told(f"{path} is no file of Python")
    folder = os.path.dirname(path)
    if folder not in sys.path:
        sys.path.append(folder)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses and pickles look for it
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[spec.name]
        plugin_dirs.tried.add(path)
        raise Told(_failure(path, error)) from error
    _files[path] = module
    return module


def failures() -> list[str]:
    """Return a line for each module of plugin_dirs whose import failed."""
    with _lock:
        return [_failure(path, error) for path, error in plugin_dirs.load().items()] if plugin_dirs.folders() else []


def _failure(what: str, error: BaseException) -> str:
    """Return a line about an import that failed: what, where, and what to do."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        here = (
            ""
            if what == error.name or what.startswith(error.name + ".")
            else f": {place_of(error).partition(' in ')[0]}"
        )
        lacks = f"{what}{here}: no module named {error.name!r} in {sys.executable}"
        if error.name.startswith("trinity."):  # it says which version has it
            return f"{what}{here}: {error}"
        own = "" if here else "name its folder in python.path, "
        return f"{lacks}: {own}pip install it there, or set python.interpreter"
    if isinstance(error, SyntaxError):
        return f"{what}: {os.path.basename(error.filename or '')}:{error.lineno}: {error.msg}"
    said = f"{what}: {place_of(error).partition(' in ')[0]}: {type(error).__name__}: {cut(str(error))}"
    if "no known parent package" in said:
        return (
            f"{said}: name it by its package, package.module.Name, or trinity.plugins.module.Name in a plug-in folder"
        )
    if isinstance(error, ImportError) and (error.name or "").startswith("trinity."):  # a name that is not offered
        return f"{said.partition(' (')[0]}: pip install --no-deps trinity-rft has what this version does not offer"
    return said
