"""What a server finds out about files before it touches its model."""

import functools
import hashlib
import http.server
import json
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from trinity_worker import files

TOKEN = "token"


class Handler(http.server.SimpleHTTPRequestHandler):
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        if self.headers["Authorization"] != f"Bearer {TOKEN}":
            self.send_error(401)
            return
        super().do_GET()

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, files.Source]]:
    directory = tmp_path / "published"
    (directory / "sub").mkdir(parents=True)
    (directory / "a").write_bytes(b"aa")
    (directory / "sub" / "b c").write_bytes(b"")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(directory)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    Handler.asked = []
    yield directory, files.Source(f"http://127.0.0.1:{server.server_port}", TOKEN, 60)
    server.shutdown()
    thread.join()
    server.server_close()


def listing(**change: object) -> list[dict]:
    a = {"name": "a", "size": 2, "sha256": hashlib.sha256(b"aa").hexdigest()}
    b = {"name": "sub/b c", "size": 0, "sha256": hashlib.sha256(b"").hexdigest()}
    return [a | change, b]


@pytest.mark.parametrize("what", ["open to others", "a link", "of another user"])
def test_files_go_to_a_directory_of_this_user(
    served: tuple[Path, files.Source], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    if what == "a link":
        root.symlink_to(elsewhere)
    else:
        root.mkdir()
        root.chmod(0o777 if what == "open to others" else 0o700)
    if what == "of another user":
        monkeypatch.setattr(files.os, "getuid", lambda: root.stat().st_uid + 1)
    with pytest.raises(files.Refused, match="belongs to this user alone"):
        files.fetch(served[1], listing(), root, "digest 1")
    assert not list(elsewhere.iterdir()) and not list(root.iterdir())


def test_files_arrive_once(served: tuple[Path, files.Source], tmp_path: Path) -> None:
    for _ in range(2):
        got = files.fetch(served[1], listing(), tmp_path / "root", "digest 1")
    assert (got / "a").read_bytes() == b"aa" and (got / "sub" / "b c").read_bytes() == b""
    assert Handler.asked == ["/a", "/sub/b%20c"]
    (served[0] / "a").write_bytes(b"bb")
    got = files.fetch(served[1], listing(sha256=hashlib.sha256(b"bb").hexdigest()), tmp_path / "root", "digest 2")
    assert (got / "a").read_bytes() == b"bb"


class Garbage(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.wfile.write(b"no status\r\n\r\n")

    def log_message(self, *args: object) -> None:
        pass


def test_an_answer_that_is_no_http(tmp_path: Path) -> None:
    with http.server.HTTPServer(("127.0.0.1", 0), Garbage) as server:
        threading.Thread(target=server.handle_request).start()
        source = files.Source(f"http://127.0.0.1:{server.server_port}", TOKEN, 60)
        with pytest.raises(files.Refused, match=r"a of the version cannot be fetched from .*: no status$"):
            files.fetch(source, listing(), tmp_path / "root", "digest")


BAD = {
    "another digest": ({"sha256": "0" * 64}, "arrived damaged"),
    "another size": ({"size": 3}, "has 2 bytes, and was published with 3"),
    "no such file": ({"name": "c"}, "cannot be fetched"),
    "an absolute name": ({"name": "/etc/passwd"}, "leads out of"),
    "a name above": ({"name": "sub/../../x"}, "leads out of"),
    "no name": ({"name": ""}, "leads out of"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files(name: str, served: tuple[Path, files.Source], tmp_path: Path) -> None:
    change, want = BAD[name]
    with pytest.raises(files.Refused, match=want):
        files.fetch(served[1], listing(**change), tmp_path / "root", "digest")
    files.fetch(served[1], listing(), tmp_path / "root", "digest")  # nothing of the bad version is left


def test_token_and_time(served: tuple[Path, files.Source], tmp_path: Path) -> None:
    for source, want in (
        (files.Source(served[1].url, "other", 60), "401"),
        (files.Source(served[1].url, TOKEN, -1), "2 of 2 bytes after -1 s"),
        (files.Source("http://127.0.0.1:1", TOKEN, 60), "cannot be fetched from"),
    ):
        with pytest.raises(files.Refused, match=want):
            files.fetch(source, listing(), tmp_path / "root", "digest")


def safetensors(path: Path, header: object, data: bytes = b"") -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def test_tensors_are_read(tmp_path: Path) -> None:
    one = {"__metadata__": {"format": "pt"}, "a": {"dtype": "F32", "shape": [2, 1], "data_offsets": [0, 8]}}
    two = {"b": {"dtype": "BF16", "shape": [], "data_offsets": [0, 2]}}
    found = [safetensors(tmp_path / "1", one, b"12345678"), safetensors(tmp_path / "2", two, b"12")]
    assert files.read_tensors(found) == {"a": ("F32", (2, 1)), "b": ("BF16", ())}


@pytest.mark.parametrize(
    "header,data",
    [
        (b"{", b""),
        (b"[]", b""),
        ({"a": {}}, b""),
        ({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}, b"1234567"),
    ],
)
def test_bad_tensors(header: object, data: bytes, tmp_path: Path) -> None:
    with pytest.raises(files.Refused, match="model is no safetensors file|model ends before"):
        files.read_tensors([safetensors(tmp_path / "model", header, data)])


def test_short_file(tmp_path: Path) -> None:
    (tmp_path / "model").write_bytes(b"1234567")
    with pytest.raises(files.Refused, match="is no safetensors file"):
        files.read_tensors([tmp_path / "model"])


MODEL: files.Tensors = {
    "a": ("BF16", (2, 3)),
    "b": ("I32", (1,)),
    "lm_head.weight": ("BF16", (4,)),
    "x.rotary_emb.inv_freq": ("F32", (1,)),
}
SAME: files.Tensors = {"a": ("F32", (2, 3)), "b": ("I32", (1,)), "lm_head.weight": ("F32", (4,))}


@pytest.mark.parametrize(
    "change,tied,want",
    [
        ({}, False, ""),
        ({"lm_head.weight": None}, True, ""),
        ({"lm_head.weight": None}, False, "lm_head.weight is missing"),
        ({"a": None}, False, "a is missing"),
        ({"c": ("F32", (1,))}, False, "c is none of the model's"),
        ({"a": ("F32", (3, 2))}, False, "a is F32 .3, 2., and BF16 .2, 3. in the model"),
        ({"b": ("F32", (1,))}, False, "b is F32"),
        ({"a": None, "b": None, "lm_head.weight": None, "c": ("F32", (1,))}, False, "and 1 more"),
    ],
)
def test_compare(change: dict, tied: bool, want: str) -> None:
    got = {name: t for name, t in (SAME | change).items() if t is not None}
    if want == "":
        files.compare(got, MODEL, tied)
        return
    with pytest.raises(files.Refused, match=want):
        files.compare(got, MODEL, tied)
