"""A loop of tinker-cookbook at a service: GRPO on the same questions as the other side. A step lasts from one batch to the next."""
import asyncio
import json
import os
import time

import chz
import tinker
from tinker_cookbook.rl import train
from tinker_cookbook.rl.problem_env import ProblemGroupBuilder
from tinker_cookbook.rl.types import Env, RLDataset, RLDatasetBuilder, StepResult
from transformers import AutoTokenizer
from turns import asked, say, spec

tokenizer = AutoTokenizer.from_pretrained(spec["model"])
with open(spec["questions"]) as f:
    rows = [json.loads(line) for line in f]


class Question(Env):
    def __init__(self, row):
        chat = [{"role": "system", "content": spec["system"]}, {"role": "user", "content": row["question"]}]
        self.prompt = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)

    async def initial_observation(self):
        return tinker.ModelInput.from_ints(self.prompt), []  # nothing ends a reply before its last token

    async def step(self, action, *, extra=None):
        assert len(action) == spec["new"], len(action)
        variety = len(set(tokenizer.decode(action))) / 1000
        return StepResult(reward=variety, episode_done=True, next_observation=tinker.ModelInput.empty(), next_stop_condition=[])


class Questions(RLDataset):
    begin = 0.0

    def get_batch(self, index):
        seconds = time.perf_counter() - self.begin
        if index == 1:
            say(ready=True)
        elif index > 1:
            say(value=seconds)
        if index and not asked():
            os._exit(0)  # the service has ended, and the client would ask it again and again
        self.begin = time.perf_counter()
        first = index * spec["groups"]
        batch = [rows[(first + i) % len(rows)] for i in range(spec["groups"])]
        return [ProblemGroupBuilder(env_thunk=lambda row=row: Question(row), num_envs=spec["group"]) for row in batch]

    def __len__(self):
        return 1000


@chz.chz
class Builder(RLDatasetBuilder):
    async def __call__(self):
        return Questions(), None


asyncio.run(train.main(train.Config(
    learning_rate=1e-6, dataset_builder=Builder(), model_name=spec["model"], recipe_name="bench", max_tokens=spec["new"],
    log_path=spec["dir"], eval_every=0, save_every=0, lora_rank=spec["rank"], loss_fn="importance_sampling",
    base_url=spec["address"], renderer_name="role_colon")))
