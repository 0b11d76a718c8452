"""The files of an installed trinity-rft, which are imported as they are: TRINITY_COMPAT_PYTHON names a Python that has it.

bench/peers/requirements-compat.txt says what else it has. Neither ray nor vLLM nor veRL is wanted.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

PYTHON = os.environ.get("TRINITY_COMPAT_PYTHON", "")
ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.skipif(not PYTHON, reason="TRINITY_COMPAT_PYTHON names no Python with trinity-rft")

# The modules that are not imported, and what they want.
NOT_IMPORTED = {
    "trinity.common.workflows.simple_mm_workflow": "vllm",  # multi_modal_inputs are left out
    "trinity.buffer.operators.data_juicer_operator": "from_hf_datasets",  # a service of its own
}

LIST = """
import importlib, json, os
from trinity_go import compat
compat.install()
from trinity_go.compat.finder import Finder
import sys
root = next(f for f in sys.meta_path if isinstance(f, Finder)).original
out = {}
for top in ("common/workflows", "common/rewards", "algorithm", "buffer/operators"):
    for folder, _, files in os.walk(os.path.join(root, top)):
        for file in files:
            if file.endswith(".py"):
                path = os.path.relpath(os.path.join(folder, file), root)[:-3].replace(os.sep, ".")
                name = "trinity." + path.removesuffix(".__init__")
                try:
                    importlib.import_module(name)
                    out[name] = ""
                except BaseException as error:
                    out[name] = f"{type(error).__name__}: {error}"
assert not {"ray", "vllm", "verl.trainer"} & {*sys.modules}
print(json.dumps(out))
"""


def run(code: str) -> Any:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_every_module_is_imported() -> None:
    found = run(LIST)
    failed = {name: error for name, error in found.items() if error}
    assert len(found) == 102 and sorted(failed) == sorted(NOT_IMPORTED), failed
    for name, error in failed.items():
        assert NOT_IMPORTED[name] in error


def test_registries_are_the_same() -> None:
    """What a module of users registers is found by its name, and so is what Trinity-RFT has."""
    code = """
import json
from trinity_go import compat, names
from trinity_go.compat.registry import registries
compat.install()
from trinity.algorithm.advantage_fn import ADVANTAGE_FN
from trinity.algorithm.entropy_loss_fn import ENTROPY_LOSS_FN
from trinity.algorithm.kl_fn import KL_FN
from trinity.algorithm.policy_loss_fn import POLICY_LOSS_FN
from trinity.algorithm import ALGORITHM_TYPE
from trinity.buffer.operators import EXPERIENCE_OPERATORS
same = [ADVANTAGE_FN is registries["advantage"], ENTROPY_LOSS_FN is registries["entropy"], KL_FN is registries["kl"],
        POLICY_LOSS_FN is registries["loss"], EXPERIENCE_OPERATORS is registries["operator"],
        ALGORITHM_TYPE is registries["algorithm"]]
found = [names.find(name, kind).__name__ for kind, name in (
    ("workflow", "math_boxed_workflow"), ("reward", "math_reward"), ("advantage", "grpo"), ("loss", "ppo"), ("kl", "k2"),
    ("entropy", "default"), ("operator", "reward_filter"), ("workflow", "math_workflow"))]
print(json.dumps([same, found]))
"""
    same, found = run(code)
    assert all(same), same
    assert found == [
        "MathBoxedWorkflow", "MathRewardFn", "GRPOGroupedAdvantage", "PPOPolicyLossFn", "K2Fn", "DefaultEntropyLossFn", "RewardFilter",
        "MathWorkflow",
    ]  # fmt: skip


def test_names_that_only_the_files_have() -> None:
    code = """
import json
from trinity_go import compat
compat.install()
from trinity.common.experience import Experience
from trinity.common.constants import SyncMethod
from trinity.utils.eval_utils import remove_boxed
from trinity.utils.metrics import AggType
said = []
for line in ("from trinity.common.workflows.workflow import Nothing", "import trinity.common.nothing"):
    try:
        exec(line)
    except ImportError as error:
        said.append(str(error))
print(json.dumps([remove_boxed("\\\\boxed{3}"), AggType.SUM.value, *said]))
"""
    boxed, kind, name, module = run(code)
    assert (boxed, kind) == ("3", "sum")
    assert name.startswith("cannot import name 'Nothing' from 'trinity.common.workflows.workflow'")
    assert module.startswith("no module named 'trinity.common.nothing' in ") and module.endswith("trinity")


def test_these_tests_with_torch() -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TRINITY_COMPAT_PYTHON": ""}
    files = [f"tests/test_{name}.py" for name in ("experience", "models", "workflows")]
    done = subprocess.run(
        [PYTHON, "-m", "pytest", "-q", *files], cwd=ROOT, capture_output=True, text=True, check=False, env=env
    )
    assert done.returncode == 0, done.stdout
    assert "skipped" not in done.stdout, done.stdout


TRL = """
import asyncio, inspect, json
from trl import rewards as theirs
from trinity_go import rewards
texts = ["The answer is $\\\\frac{1}{2}$", "<think>\\nhalf\\n</think>\\n0.5", "0.25 0.25 0.25 0.25", ""]
own = {
    "short": theirs.get_soft_overlong_punishment(max_completion_len=8, soft_punish_cache=4),
    "repeated": theirs.get_repetition_penalty_reward(ngram_size=2, max_penalty=-1.0),
}
async def later(completions, **kwargs):
    await asyncio.sleep(0)
    return theirs.think_format_reward(completions=completions, **kwargs)
def most(completions, completion_ids, **kwargs):
    longest = max(map(len, completion_ids))
    return [len(ids) / longest for ids in completion_ids]
own |= {"later": later, "most": most}
__import__("sys").modules["of_mine"] = module = type(json)("of_mine")
module.__dict__.update(own)
row = {"solution": "$\\\\frac{1}{2}$"}
replies = [
    {"messages": [{"role": "user", "content": "1/2?"}], "response": text, "row": row, "completion_ids": [1, 2] * (2 * i)}
    for i, text in enumerate(texts)
]
out = {}
for name in ("trl.rewards.accuracy_reward", "trl.rewards.think_format_reward", "of_mine.short", "of_mine.repeated", "of_mine.later", "of_mine.most"):
    answers = rewards.reward({"name": name, "args": {}, "replies": replies})
    answers = (asyncio.run(answers) if inspect.isawaitable(answers) else answers)["answers"]
    function = own.get(name.rpartition(".")[2]) or getattr(theirs, name.rpartition(".")[2])
    completions = [[{"role": "assistant", "content": text}] for text in texts]
    want = function(completions=completions, completion_ids=[r["completion_ids"] for r in replies], solution=[row["solution"]] * 4)
    want = asyncio.run(want) if inspect.isawaitable(want) else want
    out[name] = [[answer["reward"] for answer in answers], want]
print(json.dumps(out))
"""


def test_functions_of_trl() -> None:
    """They give the values that they give when they are called, also an async one and one that compares a group."""
    done = subprocess.run(
        [PYTHON, "-c", TRL],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    values = json.loads(done.stdout.splitlines()[-1])
    assert len(values) == 6 and all(got == want for got, want in values.values()), values
    assert values["of_mine.most"][0] == [0.0, 1 / 3, 2 / 3, 1.0]  # which compares a group
    assert len({v for got, _ in values.values() for v in got}) > 3
