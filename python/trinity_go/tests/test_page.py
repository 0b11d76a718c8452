"""The code of docs/guide/python.md runs, with a tiny model and a step each."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import trinity_go as tg
from trinity_go import _config, _front

ROOT = Path(__file__).parents[3]
MODEL = ROOT / "examples" / "quickstart" / "model"
FAN_IN = {"model": {"init": {"style": "fan_in"}}}


def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        tg.binary()
    except tg.NotInstalled as missing:
        pytest.skip(f"TRINITY_BINARY names no program: {missing}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRINITY_CHECKPOINT_ROOT_DIR", raising=False)
    whole = _front.Recipe.__init__

    def small(self: Any, **given: Any) -> None:
        whole(
            self,
            **given
            | {"model": MODEL, "steps": 1, "batch_size": 4, "config": _config.merge(given.get("config") or {}, FAN_IN)}
            | {"max_response_tokens": 8, "max_prompt_tokens": 400},
        )

    monkeypatch.setattr(_front.Recipe, "__init__", small)
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/guide/python.md").read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 5
    names: dict[str, Any] = {"__name__": "__main__", "MODEL": MODEL}
    for block in blocks:
        if "run.yaml" in block:  # that of the first run, as another process may have left it
            (tmp_path / "run.yaml").write_text(_config.yaml(names["first"]._config))
        exec(compile(block, "python.md", "exec"), names)
        if "run" in names:
            names.setdefault("first", names["run"])
            assert names["run"].curve()[1]
    assert names["run"].name == "second"
