"""Makes a configuration of what Python has: rows, functions, and keys that the program knows."""

from __future__ import annotations

import difflib
import functools
import json
import math
import os
import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ._binary import binary
from .wire import plain, type_of


def ask(*args: str, environment: Mapping[str, str] | None = None) -> str:
    """Return what the program prints. Raises ValueError with its one line."""
    reads, writes = os.pipe()  # the program stops at its end
    try:
        done = subprocess.run(
            [binary(), *args], stdin=reads, capture_output=True, encoding="utf-8", check=False, env=environment
        )
    finally:
        os.close(reads)
        os.close(writes)
    if done.returncode:
        raise ValueError(done.stderr.strip().removeprefix("trinity: ") or f"trinity {args[0]} failed")
    return done.stdout


@functools.cache
def algorithms() -> dict[str, str]:
    """Return the algorithm types of the program, by the names of their classes here: DrGRPO and DR_GRPO are dr_grpo."""
    return {_bare(name): name for name in json.loads(ask("list", "--json", "algorithm"))["algorithm"]}


def algorithm(name: str) -> str | None:
    """Return the algorithm type that a class is for."""
    return algorithms().get(_bare(name)) if name[:1].isupper() else None


def _bare(name: str) -> str:
    return name.replace("_", "").lower()


@functools.cache
def explain(kind: str, name: str) -> str:
    return str(json.loads(ask("explain", "--json", kind, name).split("\n")[0])["doc"])


def reads_a_dataset(algorithm: str) -> bool:
    """Report whether an algorithm trains on a dataset itself, without rollouts: its description says so."""
    return "on a dataset of" in explain("algorithm", algorithm)


@functools.cache
def key_of(name: str, arguments: tuple[str, ...] = ()) -> str:
    """Return the key of a configuration that a keyword argument sets: of those with this last part, the one at the top.

    Raises TypeError if there is none, or if several are as near to the top. arguments may have been meant, too.
    """
    try:
        lines = ask("explain", "--json", name).strip().split("\n")
    except ValueError as error:
        if "unknown plug-in" not in str(error):
            raise TypeError(f"{name}: {error}") from None
        lines = []
    keys = [found["key"] for found in map(json.loads, lines) if "key" in found]
    keys = [key for key in keys if not re.search(r"[*<]", key) and key.split(".")[-1] == name.split(".")[-1]]
    if not keys:
        meant = near(name, (*arguments, *_keys())) or ": `trinity schema` has all"
        raise TypeError(f"{name} is no argument and no key of a configuration{meant}")
    depth = min(key.count(".") for key in keys)
    nearest = [key for key in keys if key.count(".") == depth]
    if len(nearest) > 1:
        raise TypeError(f"{name} may be {' or '.join(nearest)}: set it with config={{…}}")
    return str(nearest[0])


@functools.cache
def _keys() -> tuple[str, ...]:
    """Return the last parts of all keys of a configuration."""
    kinds = json.loads(ask("schema"))["$defs"].values()
    return tuple({key for kind in kinds for key in kind.get("properties", {})})


def near(name: str, known: Iterable[str]) -> str:
    """Return which of the known names was probably meant; "" if none."""
    found = difflib.get_close_matches(name, list(known), 1, 0.75)
    return f" (did you mean {found[0]}?)" if found else ""


def check(config: Mapping[str, Any], at: str = "") -> None:
    """Raise TypeError, with the key, if a value is none of a configuration."""
    for key, value in config.items():
        if isinstance(value, Mapping):
            check(value, f"{at}{key}.")
        elif callable(value) and not hasattr(value, "tolist"):
            name = getattr(value, "__name__", type(value).__name__)
            raise TypeError(
                f"{at}{key} is the function {name}: a configuration names functions. Give reward, workflow, tools, environment, "
                f"loss, advantage, operator, kl_loss_fn, kl_penalty_fn, entropy_loss_fn and selector_type as arguments, and the name of "
                f"another, such as my.module.{name}"
            )
        else:
            try:
                text(value)
            except (TypeError, ValueError) as error:
                raise TypeError(f"{at}{key}: {error}") from None


def nested(key: str, value: Any) -> dict[str, Any]:
    """Return {"a": {"b": value}} for a.b."""
    for part in reversed(key.split(".")):
        value = {part: value}
    return dict(value)


def merge(below: dict[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration that another lies over. Lists are replaced as a whole."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        both = isinstance(old, dict) and isinstance(value, Mapping)
        merged[key] = merge(old, value) if both else value  # type: ignore[arg-type]
    return merged


# Ends of lines of Unicode, as JSON escapes them: YAML takes them for some.
_ENDS = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}


def text(value: Any) -> str:
    """Return a value as JSON. Raises TypeError or ValueError for what is none."""
    made = json.dumps(value, ensure_ascii=False, default=_value, allow_nan=False).translate(_ENDS)
    try:
        made.encode()
    except UnicodeEncodeError as error:
        lone = ascii(made[error.start])[1:-1]
        raise ValueError(f"it has {lone}, half of a character: text that was decoded wrongly") from None
    return made


def yaml(config: Mapping[str, Any], indent: str = "") -> str:
    """Return a configuration as YAML. Scalars and lists are JSON, which YAML reads."""
    lines = []
    for key, value in config.items():
        name = key if re.fullmatch(r"[A-Za-z_][\w-]*", str(key)) else text(str(key))
        if isinstance(value, Mapping) and value:
            lines.append(f"{indent}{name}:\n{yaml(value, indent + '  ')}")
        elif isinstance(value, (list, tuple)) and value and all(isinstance(v, Mapping) and v for v in value):
            lines.append(f"{indent}{name}:\n")
            lines += [f"{indent}  -{yaml(item, indent + '    ')[len(indent) + 3 :]}" for item in value]
        else:
            lines.append(f"{indent}{name}: {text(value)}\n")
    return "".join(lines)


def dataset(rows: Any, folder: Path, name: str) -> str:
    """Return the path or the hub name of a dataset. Rows of this process become a file of the folder."""
    if isinstance(rows, (str, os.PathLike)):
        return place(rows)
    path = folder / f"{name}.jsonl"
    path.write_text(lines(rows), encoding="utf-8")
    return str(path)


def place(given: str | os.PathLike[str]) -> str:
    """Return a path as one of any folder, or a hub name as it is."""
    given = os.fspath(given)
    return os.path.abspath(given) if os.path.exists(given) else given


def lines(rows: Any) -> str:
    """Return the rows of a dataset as lines of JSON."""
    out = []
    for number, row in enumerate(_rows(rows)):
        if not isinstance(row, Mapping):
            raise TypeError(f"row {number} of the dataset is {type_of(row)}: want a dict")
        try:
            out.append(text(dict(row)) + "\n")
        except (TypeError, ValueError) as error:
            raise TypeError(f"row {number} of the dataset{_wrong(row) or f': {error}'}") from None
    if not out:
        raise ValueError("the dataset has no rows")
    return "".join(out)


def _wrong(row: Mapping[Any, Any]) -> str:
    """Return which column of a row is no JSON, and why; "" if all are."""
    for column, value in row.items():
        try:
            text(value)
        except (TypeError, ValueError) as error:
            lacks = isinstance(value, float)
            return f", column {column}: {f'{value} is no value: want a finite number, or None' if lacks else error}"
    return ""


def _rows(rows: Any) -> Iterable[Any]:
    """Return the rows of a DataFrame of pandas, a table of pyarrow, a datasets.Dataset, or any iterable of dicts."""
    for convert in ("to_pylist", "to_dicts"):  # pyarrow, polars
        if hasattr(rows, convert):
            return list(getattr(rows, convert)())
    if hasattr(rows, "to_dict") and hasattr(rows, "columns"):  # pandas; NaN in a column of numbers is no value
        return [{k: None if _is_missing(v) else v for k, v in row.items()} for row in rows.to_dict("records")]
    if isinstance(rows, Mapping) or not hasattr(rows, "__iter__"):
        raise TypeError(f"the dataset is {type_of(rows)}: want a path, a hub name, or rows as dicts")
    return list(rows)


def _is_missing(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value) or type(value).__name__ in ("NaTType", "NAType")


def _value(value: Any) -> Any:
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return value.isoformat() if hasattr(value, "isoformat") else plain(value)
