"""Fetches the files of a version of the weights and checks them, before anything of the model is touched.

A file arrives with its size and SHA-256, which the driver names. What the files hold is compared by name, type and
shape with the files that the model was started from.
"""

from __future__ import annotations

import fcntl
import hashlib
import http.client
import json
import os
import shutil
import stat
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

Tensors = dict[str, tuple[str, tuple[int, ...]]]
"""Type and shape of each tensor by its name."""

FLOATS = {"F32", "F16", "BF16"}
"""Types that a server converts to its own when it loads them."""


class Refused(ValueError):
    """The files are not a version of the model that the server has. Nothing has been touched."""


@dataclass
class Source:
    """Where the driver serves a version, and for how many seconds the transfer may go on."""

    url: str
    token: str
    seconds: float


def fetch(source: Source, files: list[dict[str, Any]], root: Path, digest: str) -> Path:
    """Return a directory below root with the files. Of several workers on a host, one downloads them."""
    deadline = time.monotonic() + source.seconds
    _own(root)
    with open(root / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        target = root / "version"
        if (target / ".digest").is_file() and (target / ".digest").read_text() == digest:
            return target
        shutil.rmtree(target, ignore_errors=True)
        for file in files:
            _download(source, file, target, deadline)
        (target / ".digest").write_text(digest)
    return target


def _own(root: Path) -> None:
    """Make a directory that no other user writes to. Its name can be guessed, so another user may have made it before."""
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    made = root.lstat()
    if not stat.S_ISDIR(made.st_mode) or made.st_uid != os.getuid() or made.st_mode & 0o077:
        raise Refused(
            f"{root} is no directory that belongs to this user alone: remove it, or set TMPDIR to another directory"
        )


def _download(source: Source, file: dict[str, Any], target: Path, deadline: float) -> None:
    name = PurePosixPath(file["name"])
    if name.is_absolute() or ".." in name.parts or not name.parts:
        raise Refused(f"the file name {file['name']!r} leads out of the version's directory")
    path = target.joinpath(*name.parts)
    path.parent.mkdir(parents=True, exist_ok=True)
    request = urllib.request.Request(
        f"{source.url}/{urllib.parse.quote(str(name))}", headers={"Authorization": f"Bearer {source.token}"}
    )
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # the driver is in the same network
    digest, size = hashlib.sha256(), 0
    try:
        with direct.open(request, timeout=max(1.0, deadline - time.monotonic())) as body, open(path, "wb") as out:
            while chunk := body.read(1 << 20):
                digest.update(chunk)
                size += len(chunk)
                out.write(chunk)
                if time.monotonic() > deadline:
                    raise Refused(
                        f"{name} of the version has {size} of {file['size']} bytes after {source.seconds:g} s"
                    )
    except (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError) as e:
        raise Refused(f"{name} of the version cannot be fetched from {source.url}: {str(e).strip()}") from e
    if size != file["size"]:
        raise Refused(f"{name} of the version has {size} bytes, and was published with {file['size']}")
    if digest.hexdigest() != file["sha256"]:
        raise Refused(f"{name} of the version arrived damaged: its sha256 is not the published one")


def read_tensors(files: Iterable[Path]) -> Tensors:
    """Return the tensors that safetensors files declare. The data of each must be in its file."""
    tensors: Tensors = {}
    for path in files:
        try:
            tensors |= _read_header(path)
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as e:
            raise e if isinstance(e, Refused) else Refused(f"{path.name} is no safetensors file: {e!r}") from e
    return tensors


def _read_header(path: Path) -> Tensors:
    size = path.stat().st_size
    with open(path, "rb") as f:
        length = int.from_bytes(f.read(8), "little")
        if length > size - 8:
            raise ValueError("its header is longer than the file")
        header: dict[str, Any] = json.loads(f.read(length))
    tensors = {name: (t["dtype"], tuple(t["shape"])) for name, t in header.items() if name != "__metadata__"}
    for name in tensors:
        if header[name]["data_offsets"][1] > size - 8 - length:
            raise Refused(f"{path.name} ends before the data of {name}")
    return tensors


def compare(got: Tensors, want: Tensors, tied: bool) -> None:
    """Refuse tensors that are not those of a model, whose head is its embedding if tied."""
    got, want = _needed(got, tied), _needed(want, tied)
    wrong = [f"{name} is missing" for name in want if name not in got]
    wrong += [f"{name} is none of the model's" for name in got if name not in want]
    for name in want:
        if name in got and not _alike(got[name], want[name]):
            wrong.append(f"{name} is {_say(got[name])}, and {_say(want[name])} in the model")
    if wrong:
        more = f", and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        raise Refused("the version is of another model: " + ", ".join(sorted(wrong)[:3]) + more)


def _needed(tensors: Tensors, tied: bool) -> Tensors:
    """Leave out what a checkpoint may have or lack."""
    optional = (".rotary_emb.inv_freq", "lm_head.weight") if tied else (".rotary_emb.inv_freq",)
    return {name: t for name, t in tensors.items() if not name.endswith(optional)}


def _alike(a: tuple[str, tuple[int, ...]], b: tuple[str, tuple[int, ...]]) -> bool:
    return a[1] == b[1] and (a[0] == b[0] or (a[0] in FLOATS and b[0] in FLOATS))


def _say(tensor: tuple[str, tuple[int, ...]]) -> str:
    return f"{tensor[0]} {list(tensor[1])}"


def root_of(instance: str) -> Path:
    """Return the directory for the files of a server, which its workers on this host share."""
    return Path(tempfile.gettempdir()) / f"trinity_files-{os.getuid()}-{instance or 'server'}"
