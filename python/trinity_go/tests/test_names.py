"""Names of a configuration, and what is said about those that name nothing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from trinity_go import names
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
            "flows.broken: broken.py:2: no module named 'gymnasium_that_is_nowhere' in PYTHON: pip install it there, "
            "or set python.interpreter",
        ),
        ("flows.raises.Walk", "flows.raises: raises.py:3: ValueError: no GPU"),
        ("flows.wrong.Walk", "flows.wrong: wrong.py:1: invalid syntax"),
        ("FOLDER/gone.py:Walk", "there is no file FOLDER/gone.py"),
        ("FOLDER/own.py:rewards", "FOLDER/own.py has no rewards: did you mean reward?"),
    ],
)
def test_not_found(folder: Path, name: str, says: str) -> None:
    with pytest.raises(Told) as told:
        names.find(name.replace("FOLDER", str(folder)))
    assert str(told.value).replace(sys.executable, "PYTHON") == says.replace("FOLDER", str(folder))
