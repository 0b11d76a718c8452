"""Says what a class or a function of users is: its kind, its arguments, and which files its import has run."""

from __future__ import annotations

import difflib
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from . import names, plugin_dirs
from .wire import Told, a_word

# What a check of a kind gets: the name, and the arguments of the configuration. It raises Told if they are wrong.
Check = Callable[[str, Mapping[str, Any]], dict[str, Any]]

# The kinds by the names of their base classes, in Trinity-RFT and here.
BASES = {
    "Workflow": "workflow",
    "RewardFn": "reward",
    "ExperienceOperator": "operator",
    "ExperienceOperatorV1": "operator",
    "AdvantageFn": "advantage",
    "GroupAdvantage": "advantage",
    "PolicyLossFn": "loss",
    "KLFn": "kl",
    "EntropyLossFn": "entropy",
    "BaseSelector": "selector",
    "AlgorithmType": "algorithm",
    "SampleStrategy": "sample strategy",
}

# What the keys of a configuration name, by kind.
KEYS = {
    "workflow": "default_workflow_type names a workflow",
    "reward": "default_reward_fn_type names a reward function",
    "operator": "operators names operators",
    "advantage": "advantage_fn names an advantage function",
    "loss": "policy_loss_fn names a policy loss",
    "kl": "kl_loss_fn and kl_penalty_fn name a KL function",
    "entropy": "entropy_loss_fn names an entropy loss",
    "selector": "selector_type names a selector",
    "algorithm": "algorithm_type names an algorithm",
}


def describe(question: Mapping[str, Any], checks: Mapping[str, Check]) -> dict[str, Any]:
    """Answer {"kind": …, "name": …, "args": {…}}, with the check of the kind. An empty kind is whatever it is; without
    args nothing is checked."""
    kind, name = question["kind"], question["name"]
    target = names.find(name, kind)
    base = base_of(target)
    if base is not None and kind and BASES[base] != kind:
        raise Told(f"{name} is {a_word(base)}, and {KEYS[kind]}")
    kind = kind or (BASES[base] if base else "")
    own = checks[kind](name, question["args"]) if kind in checks and question["args"] is not None else {}
    return {"is": about(target) | {"kind": kind} | own | {"files": files(), "failed": names.failures()}}


def base_of(target: Any) -> str | None:
    """Return the name of the base that says of which kind a class is, None if it has none. A class of users may have the
    same name."""
    return next((base for base in _offered_bases(target) if base in BASES), None)


def has_base(target: Any, *bases: str) -> bool:
    """Report whether a class has one of these bases of Trinity-RFT."""
    return any(base in bases for base in _offered_bases(target))


def _offered_bases(target: Any) -> list[str]:
    return [base.__name__ for base in getattr(target, "__mro__", ()) if _is_offered(base)]


def _is_offered(base: type) -> bool:
    """Report whether a class is one of Trinity-RFT's, or stands in for it."""
    module = f"{base.__module__}."
    return module.startswith(("trinity.", "trinity_go.")) and not module.startswith(f"{plugin_dirs.PACKAGE}.")


def about(target: Any) -> dict[str, Any]:
    """Return what a class or a function says of itself."""
    is_class = inspect.isclass(target)
    said: dict[str, Any] = {
        "doc": inspect.getdoc(target) or "",
        "signature": str(signature(target)),
        "is_class": is_class,
        "is_async": bool(getattr(target, "is_async", False)) or inspect.iscoroutinefunction(target),
        "arguments": arguments(target),
    }
    for name in ("can_repeat", "can_reset", "compute_in_trainer"):
        value = getattr(target, name, None)
        if callable(value):  # a class method of advantages
            value = _asked(value)
        if isinstance(value, bool):
            said[name] = value
    keys = getattr(target, "select_keys", None)
    keys = _asked(keys) if callable(keys) else keys
    if isinstance(keys, (list, tuple)):
        said["select_keys"] = [str(key) for key in keys]
    return said


def _asked(method: Callable[[], Any]) -> Any:
    try:
        return method()
    except Exception:  # it is no class method
        return None


def signature(target: Any) -> inspect.Signature:
    """Return the parameters of a function, or of the constructor of a class."""
    try:
        return inspect.signature(target)
    except (TypeError, ValueError):
        return inspect.Signature([inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD)])


def parameters(target: Any) -> tuple[dict[str, inspect.Parameter], bool]:
    """Return the parameters that have names, and whether the target takes any other name, too."""
    takes = signature(target).parameters.values()
    named = {p.name: p for p in takes if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    return named, any(p.kind is p.VAR_KEYWORD for p in takes)


def needs_places(target: Any) -> bool:
    """Report whether a target takes a parameter by its place alone."""
    return any(p.kind is p.POSITIONAL_ONLY and p.default is p.empty for p in signature(target).parameters.values())


def defaults(target: Any) -> dict[str, Any]:
    """Return the default_args of a class of Trinity-RFT, which a configuration's come before."""
    args = _asked(target.default_args) if callable(getattr(target, "default_args", None)) else None
    return dict(args) if isinstance(args, Mapping) else {}


def arguments(target: Any) -> list[dict[str, Any]]:
    """Return the arguments with the texts of their types and defaults. One without a default has none."""
    given, out = defaults(target), []
    parameters = signature(target).parameters
    for p in parameters.values():
        if p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL):
            continue
        said = {"name": p.name, "type": "" if p.annotation is p.empty else inspect.formatannotation(p.annotation)}
        if p.name in given or p.default is not p.empty:
            said["default"] = repr(given.get(p.name, p.default))
        out.append(said)
    out += [{"name": n, "type": type(v).__name__, "default": repr(v)} for n, v in given.items() if n not in parameters]
    return out


def check_names(name: str, target: Any, args: Mapping[str, Any], own: Iterable[str] = ()) -> list[str]:
    """Check the names of a configuration's arguments against those that a class or a function takes, and return the latter.
    own are the names that the run gives."""
    own = set(own)
    takes, takes_all = parameters(target)
    offered = [n for n in takes if n not in own]
    for given in args:
        if given in own:
            raise Told(f"{given} of {name} is what the run gives it", f"args.{given}")
        if given not in offered and not takes_all:
            raise Told(f"{name} has no argument {given}{meant(given, offered)}", f"args.{given}")
    return offered


def check_arguments(name: str, target: Any, args: Mapping[str, Any], own: Iterable[str] = ()) -> None:
    """Check the arguments of a configuration as check_names does, and that none is missing."""
    have, takes = {*args, *defaults(target)}, parameters(target)[0]
    for needed in check_names(name, target, args, own):
        if takes[needed].default is inspect.Parameter.empty and needed not in have:
            raise Told(f"{name} lacks its argument {needed}", "args")


def meant(given: str, offered: Iterable[str]) -> str:
    """Return what an unknown name probably means, or which there are."""
    offered = list(offered)
    near = difflib.get_close_matches(given, offered, 1)
    return f' (did you mean "{near[0]}"?)' if near else f": it has {', '.join(offered) or 'none'}"


def files() -> list[str]:
    """Return the files of users that have been imported: those that pip has not installed."""
    library = os.path.dirname(os.__file__)
    found = set()
    modules = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    for path in [*modules, *plugin_dirs.tried]:
        if not isinstance(path, str) or not path.endswith(".py") or not os.path.isfile(path):
            continue
        path = os.path.abspath(path)
        parts = path.split(os.sep)
        if not path.startswith(library + os.sep) and "site-packages" not in parts and "dist-packages" not in parts:
            found.add(path)
    return sorted(found)


def registered() -> list[dict[str, Any]]:
    """Return what each class says of itself that the modules of plugin_dirs have registered, with its kind and name."""
    from .compat.registry import registries

    plugin_dirs.load()
    return [
        about(registry.modules[name]) | {"kind": kind, "name": name}
        for kind, registry in registries.items()
        for name in registry.names()
    ]
