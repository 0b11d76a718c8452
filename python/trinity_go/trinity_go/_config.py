"""Makes a configuration of what Python has: rows, functions, and keys that the program knows."""

from __future__ import annotations

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
from .wire import plain


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
    return str(json.loads(ask("explain", "--json", kind, name).splitlines()[0])["doc"])


def reads_a_dataset(algorithm: str) -> bool:
    """Report whether an algorithm trains on a dataset itself, without rollouts: its description says so."""
    return "on a dataset of" in explain("algorithm", algorithm)


@functools.cache
def key_of(name: str) -> str:
    """Return the key of a configuration that a keyword argument sets: of those with this last part, the one at the top.

    Raises TypeError if there is none, or if several are as near to the top.
    """
    try:
        lines = ask("explain", "--json", name).splitlines()
    except ValueError:
        lines = []
    keys = [found["key"] for found in map(json.loads, lines) if "key" in found]
    keys = [key for key in keys if not re.search(r"[*<]", key) and key.split(".")[-1] == name.split(".")[-1]]
    if not keys:
        raise TypeError(f"{name} is no argument and no key of a configuration: `trinity schema` has all")
    depth = min(key.count(".") for key in keys)
    nearest = [key for key in keys if key.count(".") == depth]
    if len(nearest) > 1:
        raise TypeError(f"{name} may be {' or '.join(nearest)}: set it with config={{…}}")
    return str(nearest[0])


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


def settings(config: Mapping[str, Any], at: str = "") -> list[str]:
    """Return a configuration as key=value of a command line."""
    out: list[str] = []
    for key, value in config.items():
        if isinstance(value, Mapping) and value:
            out += settings(value, f"{at}{key}.")
        else:
            out.append(f"{at}{key}={text(value)}")
    return out


def text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=plain, allow_nan=False)


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
    """Return the path or the hub name of a dataset. Rows of this process become a file of the run's folder."""
    if isinstance(rows, (str, os.PathLike)):
        given = os.fspath(rows)
        return os.path.abspath(given) if os.path.exists(given) else str(given)
    path = folder / f"{name}.jsonl"
    folder.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    count = 0
    with part.open("w", encoding="utf-8") as out:
        for row in _rows(rows):
            if not isinstance(row, Mapping):
                raise TypeError(f"row {count} of the dataset is a {type(row).__name__}: want a dict")
            try:
                out.write(json.dumps(dict(row), ensure_ascii=False, default=_value, allow_nan=False) + "\n")
            except (TypeError, ValueError) as error:
                raise TypeError(f"row {count} of the dataset: {error}") from None
            count += 1
    if not count:
        raise ValueError("the dataset has no rows")
    os.replace(part, path)
    return str(path)


def _rows(rows: Any) -> Iterable[Any]:
    """Return the rows of a DataFrame of pandas, a table of pyarrow, a datasets.Dataset, or any iterable of dicts."""
    for convert in ("to_pylist", "to_dicts"):  # pyarrow, polars
        if hasattr(rows, convert):
            return list(getattr(rows, convert)())
    if hasattr(rows, "to_dict") and hasattr(rows, "columns"):  # pandas; NaN in a column of numbers is no value
        return [{k: None if _is_missing(v) else v for k, v in row.items()} for row in rows.to_dict("records")]
    if isinstance(rows, Mapping) or not hasattr(rows, "__iter__"):
        raise TypeError(f"the dataset is a {type(rows).__name__}: want a path, a hub name, or rows as dicts")
    return list(rows)


def _is_missing(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value) or type(value).__name__ in ("NaTType", "NAType")


def _value(value: Any) -> Any:
    return value.isoformat() if hasattr(value, "isoformat") else plain(value)
