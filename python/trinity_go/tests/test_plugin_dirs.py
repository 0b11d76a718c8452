"""Modules of plugin_dirs, and the names that they register."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from trinity_go import advantages, compat, describe, losses, names, plugin_dirs, rewards, rollouts
from trinity_go.compat import registry
from trinity_go.wire import Told

FILES = {
    "one/walk.py": "from trinity.utils.registry import Registry\n"
    "from trinity.common.rewards import REWARD_FUNCTIONS, RewardFn\n"
    "from trinity.plugins.steps import N\n"
    "@REWARD_FUNCTIONS.register_module('steps')\n"
    "class Steps(RewardFn):\n"
    "    '''Counts steps.'''\n"
    "    def __init__(self, unit: float = 1.0): self.unit = unit\n"
    "    def __call__(self, response, **kwargs): return {'steps': N * self.unit}\n",
    "one/beside.py": "from walk import Steps\n",  # the same file under another name
    "one/broken.py": "\nimport gymnasium_that_is_nowhere\n",
    "one/no-name.py": "",
    "one/__main__.py": "raise SystemExit\n",
    "two/steps.py": "N = 3\n",
    "two/kinds.py": "from trinity.algorithm import ALGORITHM_TYPE, AlgorithmType\n"
    "from trinity.buffer.selector import SELECTORS\n"
    "from trinity.buffer.selector.selector import BaseSelector\n"
    "@ALGORITHM_TYPE.register_module('mine')\n"
    "class Mine(AlgorithmType): pass\n"
    "SELECTORS.register_module('first', BaseSelector)\n",
    "two/lacks.py": "from trinity.algorithm.policy_loss_fn import POLICY_LOSS_FN, PolicyLossFn\n",
    "two/walk.py": "raise SystemExit\n",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    for kind in registry.registries.values():
        monkeypatch.setattr(kind, "modules", {})
    before = set(sys.modules)
    compat.install()
    plugin_dirs.install([str(tmp_path / "one"), str(tmp_path / "two"), str(tmp_path / "gone")])
    yield tmp_path
    plugin_dirs.install([])
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_registered(folder: Path) -> None:
    steps = names.find("steps", "reward")
    assert steps(2)(response="") == {"steps": 6}
    assert names.find("steps") is steps
    assert names.find("trinity.plugins.walk.Steps").__qualname__ == "Steps"
    assert [(r["kind"], r["name"], r["doc"]) for r in describe.registered()][:1] == [
        ("reward", "steps", "Counts steps.")
    ]
    assert names.find("mine", "algorithm")._name == "mine" and not names.find("mine").use_critic
    assert names.find("first").__name__ == "BaseSelector"
    failed = {Path(path).name: str(error) for path, error in plugin_dirs.load().items()}
    assert sorted(failed) == [
        "broken.py",
        "gone",
        "lacks.py",
        "no-name.py",
        "walk.py",
    ]  # beside.py registers what is registered
    assert "has the same name" in failed["walk.py"]


def test_not_registered(folder: Path) -> None:
    with pytest.raises(Told) as told:
        names.find("stepz", "reward")
    said = str(told.value)
    assert said.startswith(
        f"no module in {folder}/one, {folder}/two, {folder}/gone registers a reward stepz: registered are steps; "
    )
    assert f"{folder}/one/broken.py: broken.py:2: no module named 'gymnasium_that_is_nowhere'" in said
    assert (
        f"{folder}/two/lacks.py: lacks.py:1: ImportError: cannot import name 'PolicyLossFn' from "
        "'trinity.algorithm.policy_loss_fn': pip install --no-deps trinity-rft has what this version does not offer"
        in said
    )
    with pytest.raises(Told, match="^steps is registered as reward, and not as workflow$"):
        names.find("steps", "workflow")


def test_described(folder: Path) -> None:
    question = {"kind": "reward", "name": "steps", "args": {"unit": 2}}
    said = describe.describe(question, {"reward": lambda name, args: {"own": [name, args]}})["is"]
    assert said["kind"] == "reward" and said["is_class"] and said["doc"] == "Counts steps."
    assert said["signature"] == "(unit: float = 1.0)"
    assert said["arguments"] == [{"name": "unit", "type": "float", "default": "1.0"}]
    assert said["own"] == ["steps", {"unit": 2}]
    assert f"{folder}/one/walk.py" in said["files"] and f"{folder}/two/steps.py" in said["files"]
    assert not any("site-packages" in path or path.endswith("json/__init__.py") for path in said["files"])


class Losing:
    def __init__(self, clip_low: float, clip_high: float = 0.2, *, backend: str = "verl") -> None:
        pass

    @classmethod
    def default_args(cls) -> dict[str, float]:
        return {"clip_low": 0.1}


class AdvantageFn:
    __module__ = "trinity.algorithm.advantage_fn"


class Workflow:
    """No base of Trinity-RFT: a class of the user's has its name."""


class Scores(Workflow):
    def __call__(self, completion: str) -> float:
        return 1.0


class Grouped(AdvantageFn):
    select_keys = ("uid",)

    @classmethod
    def compute_in_trainer(cls) -> bool:
        return True


def test_arguments() -> None:
    describe.check_arguments("x.Losing", Losing, {"clip_high": 1}, ["backend"])
    for args, says, at in [
        ({"clip_hi": 1}, 'x.Losing has no argument clip_hi (did you mean "clip_high"?)', "args.clip_hi"),
        ({"zzz": 1}, "x.Losing has no argument zzz: it has clip_low, clip_high", "args.zzz"),
        ({"backend": 1}, "backend of x.Losing is what the run gives it", "args.backend"),
    ]:
        with pytest.raises(Told) as told:
            describe.check_arguments("x.Losing", Losing, args, ["backend"])
        assert (str(told.value), told.value.key) == (says, at)

    def function(completion: str, bonus: float) -> float:
        return bonus

    with pytest.raises(Told, match="^f lacks its argument bonus$"):
        describe.check_arguments("f", function, {}, ["completion"])


def test_a_base_of_the_same_name() -> None:
    """It says nothing of the kind."""
    assert describe.describe({"kind": "reward", "name": f"{__name__}.Scores", "args": {}}, {})["is"]["kind"] == "reward"


@pytest.mark.parametrize("base", ["StepWiseRewardWorkflow", "RewardFn", "GroupAdvantage", "DPOLossFn"])
def test_a_base_of_the_same_name_changes_nothing(base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Mine(type(base, (), {})):  # type: ignore[misc]
        def run(self) -> None: ...
        def process(self, exps: Any) -> None: ...
        def __call__(self, logprob: Any) -> None: ...
        def __init__(self, task: Any = None, model: Any = None, auxiliary_models: Any = None) -> None: ...

    monkeypatch.setattr(sys.modules[__name__], "Mine", Mine, raising=False)
    name = f"{__name__}.Mine"
    assert rollouts.describe(name, {}) == {"steps": False}
    assert not rewards.Scorer(name, {}).prefers_own
    assert advantages.describe(name, {})["needs"] == []
    assert not losses.Loss(name, {}).pairs


def test_wrong_kind() -> None:
    name = f"{__name__}.Grouped"
    assert describe.describe({"kind": "advantage", "name": name, "args": {}}, {})["is"] | {"files": [], "failed": []} == {
        "doc": "", "signature": "()", "is_class": True, "is_async": False, "arguments": [], "kind": "advantage",
        "compute_in_trainer": True, "select_keys": ["uid"], "files": [], "failed": [],
    }  # fmt: skip
    assert describe.describe({"kind": "", "name": name, "args": {}}, {})["is"]["kind"] == "advantage"
    with pytest.raises(Told, match=f"^{name} is an AdvantageFn, and default_workflow_type names a workflow$"):
        describe.describe({"kind": "workflow", "name": name, "args": {}}, {})


def test_what_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "good.py").write_text("x = 1\n")
    (tmp_path / "ends.py").write_text("raise SystemExit(3)\n")
    monkeypatch.setattr(plugin_dirs, "tried", set())
    monkeypatch.setattr(sys, "meta_path", sys.meta_path[:])
    compat.install()
    plugin_dirs.install([str(tmp_path)])
    try:
        assert names.failures() == [f"{tmp_path}/ends.py: ends.py:1: SystemExit: 3"]
        assert {f"{tmp_path}/ends.py", f"{tmp_path}/good.py"} <= set(describe.files())
    finally:
        plugin_dirs.install([])
