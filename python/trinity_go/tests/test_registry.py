"""Registries of classes, as code for Trinity-RFT uses them."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from trinity_go.compat import registry
from trinity_go.compat.registry import Registry


def test_registered() -> None:
    kind = Registry("things", {"join": "os.path.join"})

    @kind.register_module("one")
    class One:
        pass

    class Two:
        pass

    assert kind.register_module()(Two) is Two
    assert kind.register_module("2", module_cls=Two) is Two
    assert kind.get("one") is One and One._name == "one"  # type: ignore[attr-defined]
    assert kind.get("Two") is kind.get("2") is Two
    assert kind.get("join")("a", "b") and kind.get("os.path.join")("a", "b")
    assert kind.get(None) is None
    assert kind.names() == ["2", "Two", "one"]
    with pytest.raises(KeyError, match="one is already registered in things, as .*One"):
        kind.register_module("one", Two)
    assert kind.register_module("one", Two, force=True) is kind.get("one") is Two
    with pytest.raises(ValueError, match="things has no three: registered are 2, Two, one"):
        kind.get("three")


def test_names_of_an_installed_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "trinity" / "common"
    folder.mkdir(parents=True)
    (tmp_path / "trinity" / "__init__.py").write_text("")
    (folder / "__init__.py").write_text(
        "raise SystemExit\nX = Registry('x', default_mapping={'a': 'os.path.join', 'b': 'c.D'})\n"
    )
    kind = Registry("things", {"b": "own.D"}, original="trinity.common")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert kind.default_mapping == {"a": "os.path.join", "b": "own.D"}
    assert kind.get("a")("x", "y")
    assert Registry("things", original="trinity.nowhere").default_mapping == {}


def test_threads_wait_for_the_names(monkeypatch: pytest.MonkeyPatch) -> None:
    began, go_on = threading.Event(), threading.Event()

    def slowly(original: str) -> dict[str, str]:
        began.set()
        go_on.wait(10)
        return {"a": "os.path.join"}

    monkeypatch.setattr(registry, "_mapping_of", slowly)
    kind, seen = Registry("things", original="trinity.common"), list[dict[str, str]]()
    threads = [threading.Thread(target=lambda: seen.append(kind.default_mapping)) for _ in range(2)]
    threads[0].start()
    assert began.wait(10)
    threads[1].start()
    threads[1].join(0.05)  # without the lock it ends here
    go_on.set()
    for thread in threads:
        thread.join()
    assert seen == [{"a": "os.path.join"}] * 2
