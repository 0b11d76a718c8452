import os
import pathlib

os.environ["MSWEA_COST_TRACKING"] = "ignore_errors"
os.environ["MSWEA_SILENT_STARTUP"] = "1"

import common
import minisweagent
import yaml
from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.litellm_model import LitellmModel

config = yaml.safe_load((pathlib.Path(minisweagent.__file__).parent / "config" / "mini.yaml").read_text())
config["model"].pop("model_name", None)
config["model"]["model_kwargs"] = {"drop_params": True, "stream": False}
agent_config = {k: v for k, v in config["agent"].items() if k != "mode"}
agent = DefaultAgent(LitellmModel(model_name="openai/policy", **config["model"]), LocalEnvironment(), **agent_config)
result = agent.run(common.QUESTION)
common.finish(result["submission"] if result["exit_status"] == "Submitted" else "")
