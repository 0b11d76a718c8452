"""Where pip, or a tool like it, has put the program."""

from __future__ import annotations

import importlib.metadata
import os
import sysconfig
from collections.abc import Iterator
from pathlib import Path

_DISTRIBUTION = "trinity-go"
_NAME = "trinity.exe" if os.name == "nt" else "trinity"
_REPAIR = f"install it with: pip install --force-reinstall --no-deps {_DISTRIBUTION}"


class NotInstalled(FileNotFoundError):
    """The program is not where this distribution has installed it, or another package has replaced it."""


def binary() -> str:
    """Return the path of the program.

    It is looked for where the distribution's RECORD has it, beside the interpreter, in the scheme of the user, and in
    the folder `bin` of `pip install --target`. TRINITY_BINARY names another program. Raises NotInstalled.
    """
    if named := os.environ.get("TRINITY_BINARY"):
        if not os.path.isfile(named):
            raise NotInstalled(f"TRINITY_BINARY: there is no file {named}")
        return os.path.abspath(named)
    size = _size()
    seen, others = [], []
    for path in _places():
        if not path.is_file():
            seen.append(str(path.parent))
        elif size is None or path.stat().st_size == size:
            return str(path)
        else:
            others.append(str(path))
    if others:
        raise NotInstalled(
            f"{others[0]} is not the program of {_DISTRIBUTION}: another package has replaced it; {_REPAIR}"
        )
    raise NotInstalled(f"there is no {_NAME} in {', '.join(dict.fromkeys(seen))}: {_REPAIR}")


def _record() -> importlib.metadata.PackagePath | None:
    """Return the program's line of the distribution's RECORD."""
    try:
        files = importlib.metadata.files(_DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    return next((f for f in files if f.name == _NAME), None)


def _size() -> int | None:
    """Return how many bytes the program had when it was installed."""
    entry = _record()
    return entry.size if entry else None


def _places() -> Iterator[Path]:
    entry = _record()
    if entry:
        yield Path(os.path.normpath(entry.locate()))
    user = sysconfig.get_preferred_scheme("user")
    for scripts in (sysconfig.get_path("scripts"), sysconfig.get_path("scripts", scheme=user)):
        yield Path(scripts, _NAME)
    yield Path(__file__).parents[1] / "bin" / _NAME
