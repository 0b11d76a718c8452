"""A rollout with tools: the model calls functions, or the methods of an environment, until it answers without a call."""

from __future__ import annotations

import asyncio
import enum
import inspect
import json
import logging
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Union

from . import names
from .wire import Told, plain, type_of

if TYPE_CHECKING:
    from .rollouts import Model, Task

_log = logging.getLogger("trinity_go.tools")
PLAY = "trinity_go.tools.play"  # what a configuration calls the rollout
_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def schema(function: Callable[..., Any]) -> dict[str, Any]:
    """Return what a model is told of a function: its name, its docstring, and the types of its parameters."""
    about, described = _docstring(function)
    try:
        hints = typing.get_type_hints(function)
    except Exception:  # a name that only type checkers know
        hints = {}
    properties, required = {}, []
    try:
        takes = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # of C
        raise Told(f"the tool {_name(function)} does not say what it takes: give a function that calls it") from None
    for p in takes:
        if p.kind is p.VAR_KEYWORD or p.kind is p.VAR_POSITIONAL:
            continue
        if p.kind is p.POSITIONAL_ONLY:
            raise Told(f"the tool {_name(function)} takes {p.name} by its place alone: a model names its arguments")
        properties[p.name] = _type(hints.get(p.name, Any)) | (
            {"description": described[p.name]} if p.name in described else {}
        )
        if p.default is p.empty:
            required.append(p.name)
    parameters = {"type": "object", "properties": properties, "required": required}
    return {"type": "function", "function": {"name": _name(function), "description": about, "parameters": parameters}}


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _type(hint: Any) -> dict[str, Any]:
    """Return the JSON schema of a type; {} is anything."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if hint in _PLAIN:
        return {"type": _PLAIN[hint]}
    if origin is Literal:
        return {"enum": list(args)}
    if origin in (Union, types.UnionType):
        kinds = [_type(a) for a in args if a is not type(None)]
        return kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
    if origin is typing.Annotated:
        texts = [a for a in args[1:] if isinstance(a, str)]
        return _type(args[0]) | ({"description": texts[0]} if texts else {})
    if hint in (list, tuple, set) or origin in (list, tuple, set, Sequence):
        return {"type": "array"} | ({"items": _type(args[0])} if args else {})
    if hint is dict or origin in (dict, Mapping):
        return {"type": "object"}
    if inspect.isclass(hint) and issubclass(hint, enum.Enum):
        return {"enum": [member.value for member in hint]}
    return {}


def _docstring(function: Any) -> tuple[str, dict[str, str]]:
    """Return the text of a docstring before its sections, and what it says of the parameters: `Args:` or `:param x:`."""
    text = inspect.getdoc(function) or ""
    found = {
        name: " ".join(said.split()) for name, said in re.findall(r":param (\w+):((?:.|\n)*?)(?=\n:|\n\n|\Z)", text)
    }
    about = re.split(r"\n\s*(?::param|:return|Args:|Arguments:|Parameters|Returns?:|Raises:|Examples?:)", text)[0]
    args = re.search(r"^(?:Args|Arguments):\n((?:[ \t]+.*\n?|\n)+)", text, re.MULTILINE)
    if args:
        for name, said in re.findall(
            r"^\s+(\w+)(?: ?\([^)]*\))?: ((?:.|\n)*?)(?=\n\s+\w+(?: ?\([^)]*\))?: |\n\S|\Z)", args[1], re.MULTILINE
        ):
            found[name] = " ".join(said.split())
    return " ".join(about.split()), found


def methods(environment: Any) -> list[Callable[..., Any]]:
    """Return the public methods of an environment or of its class, which are tools."""
    of = environment if inspect.isclass(environment) else type(environment)
    own = [n for n in dir(of) if not n.startswith("_") and n not in ("reset", "get_reward")]
    return [getattr(environment, n) for n in own if _is_method(inspect.getattr_static(of, n))]


def _is_method(member: Any) -> bool:
    """Report whether a member of a class is a method: no property, no class, and none of a base that Python has in C."""
    return isinstance(member, (types.FunctionType, staticmethod, classmethod)) or hasattr(member, "__wrapped__")


def by_name(functions: Sequence[Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
    """Return tools by the names that the model calls. Raises Told if two have one name."""
    found: dict[str, Callable[..., Any]] = {}
    for function in functions:
        if found.setdefault(_name(function), function) is not function:
            raise Told(
                f"two tools have the name {_name(function)}, by which the model calls them: name one differently"
            )
        schema(function)
    return found


def check(tools: Sequence[str] = (), environment: str = "", **_: Any) -> None:
    """Raise Told unless there are such tools, and an environment that can be made."""
    functions: list[Any] = []
    if not isinstance(tools, (list, tuple)):
        raise Told(f"tools is {type_of(tools)}: want a list of names", "args.tools")
    for name in tools:
        functions.append(names.find(name))
        if not callable(functions[-1]):
            raise Told(f"the tool {name} is {type_of(functions[-1])}, and no function", "args.tools")
    if environment:
        world = names.find(environment)
        try:
            inspect.signature(world).bind()
        except (TypeError, ValueError) as error:
            raise Told(
                f"the environment {environment} is made without arguments: {error}", "args.environment"
            ) from None
        functions += methods(world) if inspect.isclass(world) else []
    by_name(functions)


def play(
    task: Task,
    model: Model,
    tools: Sequence[str] = (),
    environment: str = "",
    max_turns: int = 8,
    examples: Sequence[Mapping[str, Any]] = (),
) -> Any:
    """Let the model answer a task with tools, the names of functions, and with the methods of an environment, the name of
    a class.

    The class has reset(**row), which may return a text that follows the question, and get_reward(). Without an
    environment the reward is that of the task's reward function. examples are messages before the question.
    """
    functions = [names.find(name) for name in tools]
    world: Any = names.find(environment)() if environment else None
    seen = _now(world.reset(**task.row)) if hasattr(world, "reset") else None
    if world is not None:
        functions += methods(world)
    question = "\n".join(text for text in (task.prompt, seen) if text)
    if not question:
        raise Told("there is no question: set prompt_key, or return a text from reset")
    system = task.format_args.system_prompt
    messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
    messages += [*map(dict, examples), {"role": "user", "content": question}]
    offered = by_name(functions)
    told = {"tools": [schema(function) for function in functions]} if functions else {}
    for _ in range(max_turns):
        said = _reply(model, messages, told)
        messages.append(said)
        for call in said.get("tool_calls") or []:
            text = _call(offered, call["function"])
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": text})
        if not said.get("tool_calls"):
            break
    return _now(world.get_reward()) if hasattr(world, "get_reward") else None


def _reply(model: Model, messages: list[dict[str, Any]], told: dict[str, Any]) -> dict[str, Any]:
    """Return the model's message, with the calls that it makes."""
    said = model._ask("/chat/completions", model._body(told, logprobs=False) | {"messages": messages})["choices"][0][
        "message"
    ]
    message = {"role": "assistant", "content": said.get("content") or ""}
    return message | ({"tool_calls": said["tool_calls"]} if said.get("tool_calls") else {})


def _call(offered: Mapping[str, Callable[..., Any]], call: Mapping[str, Any]) -> str:
    """Return what a tool answers, or the error that the model may learn from."""
    function = offered.get(call["name"])
    if function is None:
        return f"error: there is no tool {call['name']}: there is {', '.join(offered)}"
    try:
        given = json.loads(call["arguments"] or "{}")
        bound = inspect.signature(function).bind(**given)
    except (TypeError, ValueError) as error:
        return f"error: {error}"
    try:
        result = _now(function(*bound.args, **bound.kwargs))
    except Exception as error:
        _log.info("%s(%s): %r", call["name"], call["arguments"], error)
        return f"error: {error}"
    return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False, default=plain)


def _now(result: Any) -> Any:
    """Return the result of a function, which may be a coroutine."""
    return asyncio.run(_await(result)) if inspect.isawaitable(result) else result


async def _await(later: Any) -> Any:
    return await later
