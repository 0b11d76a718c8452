"""Names of a configuration, and what is said about those that name nothing."""

from __future__ import annotations

import ntpath
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from trinity_go import _caller, _front, names
from trinity_go.wire import Told


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in {
        "flows/__init__.py": "",
        "flows/walk.py": "from . import steps\nclass Walk:\n    class Inner:\n        pass\ndef run():\n    return steps.N\n",
        "flows/steps.py": "N = 3\n",
        "flows/broken.py": "import flows.steps\nimport gymnasium_that_is_nowhere\n",
        "flows/raises.py": "\n\nraise ValueError('no GPU')\n",
        "flows/wrong.py": "def f(:\n",
        "own.py": "import beside\n\ndef reward(completion):\n    return beside.N\n",
        "beside.py": "N = 7\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_found(folder: Path) -> None:
    assert names.find("flows.walk.Walk").__name__ == "Walk"
    assert names.find("flows.walk.run")() == 3
    file = str(folder / "own.py")
    assert names.find(f"{file}:reward")("x") == 7
    assert names.find(f"{file}:reward") is names.find(f"{file}:reward")
    assert names.find("os.path.join")("a", "b")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("walk", "walk: want package.module.walk or file.py:walk"),
        ("flows.walk.Run", "flows.walk has no Run: did you mean run?"),
        ("flows.steps.Walk", "flows.steps has no Walk: it has no class and no function"),
        (
            "flows.nowhere.Walk",
            "flows.nowhere: no module named 'flows.nowhere' in PYTHON: name its folder in python.path, pip install it there, "
            "or set python.interpreter",
        ),
        (
            "flows.broken.Walk",
            "flows.broken.Walk: broken.py:2: no module named 'gymnasium_that_is_nowhere' in PYTHON: pip install it there, "
            "or set python.interpreter",
        ),
        ("flows.raises.Walk", "flows.raises.Walk: raises.py:3: ValueError: no GPU"),
        ("flows.wrong.Walk", "flows.wrong.Walk: wrong.py:1: invalid syntax"),
        ("FOLDER/gone.py:Walk", "there is no file FOLDER/gone.py"),
        ("FOLDER/own.py:rewards", "FOLDER/own.py has no rewards: did you mean reward?"),
    ],
)
def test_not_found(folder: Path, name: str, says: str) -> None:
    with pytest.raises(Told) as told:
        names.find(name.replace("FOLDER", str(folder)))
    assert str(told.value).replace(sys.executable, "PYTHON") == says.replace("FOLDER", str(folder))


def test_drives_of_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The colon of a drive is not that before a name."""
    file, made = r"C:\mine\scores.py", ModuleType("scores")
    made.right = made.Scores = SimpleNamespace(right=1)  # type: ignore[attr-defined]
    monkeypatch.setattr("os.path", ntpath)
    monkeypatch.setattr(ntpath, "isfile", lambda path: path == file)
    monkeypatch.setattr(names, "_files", {file: made})
    assert names.find(f"{file}:right") is names.find(f"caller:{file}:right") is made.right
    assert names.find(f"{file}:Scores.right") == 1
    with pytest.raises(Told, match=r"^there is no file D:\\other\.py$"):
        names.find(r"D:\other.py:right")


def test_a_script_of_windows_is_importable(monkeypatch: pytest.MonkeyPatch) -> None:
    script = ModuleType("__main__")
    script.__file__, script.right = r"C:\mine\scores.py", test_found  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "__main__", script)
    monkeypatch.setattr("os.path", ntpath)
    monkeypatch.setattr(test_found, "__module__", "__main__")
    monkeypatch.setattr(test_found, "__qualname__", "right")
    functions = _caller.Functions()
    assert functions.name(test_found) == r"caller:C:\mine\scores.py:right"
    assert functions.only_here() == []
    assert not _front._NAMED.findall(r"default_reward_fn_type: caller:C:\mine\scores.py:right")
