"""Makes instances of classes of users: what they take, and what a configuration gives them."""

from __future__ import annotations

import inspect
import json
import sys
import threading
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, TypeVar

from . import names
from .describe import check_arguments, defaults
from .wire import Told, kind_of, loaded, reason_of

T = TypeVar("T")


def make(name: str, target: Any, args: Mapping[str, Any]) -> Any:
    """Return an instance of a class, with the arguments of a configuration over its default_args. Raises Told if it takes
    others."""
    check_arguments(name, target, args)
    return target(**(defaults(target) | dict(args)))


def modules_of(target: Any) -> list[ModuleType]:
    """Return the modules in which a function, or a class and its bases, are written."""
    owners = target.__mro__ if inspect.isclass(target) else [target]
    return [sys.modules[o.__module__] for o in owners if getattr(o, "__module__", None) in sys.modules]


def library_of(target: Any) -> str:
    """Return the library whose arrays a function or a class of users computes with: the one that its modules import."""
    for library in ("torch", "numpy"):
        for module in modules_of(target):
            for value in vars(module).values():
                owner = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
                if isinstance(owner, str) and owner.partition(".")[0] == library:
                    return library
    return ""


class Kept:
    """Keeps what is made for a name and its arguments, for each run that asks, as long as the process lives. What could
    not be made is not tried again: its reason is told again, since an exception that is raised anew keeps all its frames."""

    def __init__(self) -> None:
        self._made: dict[
            tuple[names.Asker, str], tuple[threading.Lock, list[Any]]
        ] = {}  # a list of none or one, which is a Told if it failed
        self._lock = threading.Lock()

    def get(self, make: Callable[[str, Mapping[str, Any]], T], name: str, args: Mapping[str, Any], of: int = 0) -> T:
        """Return what make has returned for the name, the arguments and the number of an instance, or raise what it has
        raised."""
        key = names.asker.get(), json.dumps([make.__module__, make.__qualname__, name, args, of], sort_keys=True)
        with self._lock:
            lock, made = self._made.setdefault(key, (threading.Lock(), []))
        with lock:
            if not made:
                try:
                    made.append(make(name, args))
                except Exception as error:
                    key_of = error.key if isinstance(error, Told) else ""
                    made.append(Told(reason_of(error), key_of, kind_of(error)))
                    raise
        loaded()
        if isinstance(made[0], Told):
            raise Told(str(made[0]), made[0].key, made[0].kind)
        result: T = made[0]
        return result

    def forget(self) -> None:
        """Keep nothing of it for the run that asks."""
        with self._lock:
            self._made = {key: made for key, made in self._made.items() if key[0] is not names.asker.get()}

    def all(self) -> list[Any]:
        """Return all that was made for the run that asks."""
        with self._lock:
            own = [made for key, (_, made) in self._made.items() if key[0] is names.asker.get()]
        return [one for made in own for one in made if not isinstance(one, Told)]


kept = Kept()
