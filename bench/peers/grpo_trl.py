"""GRPO steps of TRL's GRPOTrainer: rollout of 4 prompts × 8, reward, one update, no KL."""
import json
import time

from torch_here import load, spec, torch
from turns import asked, say
from datasets import Dataset
from transformers import TrainerCallback
from trl import GRPOConfig, GRPOTrainer

with open(spec["questions"]) as f:
    rows = [json.loads(line) for line in f]
prompts = [{"prompt": [{"role": "system", "content": spec["system"]}, {"role": "user", "content": r["question"]}]} for r in rows]


def variety(completions, **kwargs):
    return [len(set(c[0]["content"])) / 1000 for c in completions]


class Gate(TrainerCallback):
    """Holds each step until it is asked for; the first warms up."""

    def on_step_begin(self, args, state, control, **kwargs):
        if state.global_step == 1:
            say(ready=True)
        if state.global_step >= 1 and not asked():
            control.should_training_stop = True
            raise SystemExit(0)
        self.start = time.perf_counter()

    def on_step_end(self, args, state, control, **kwargs):
        seconds = time.perf_counter() - self.start
        if state.global_step > 1:
            say(value=seconds, rollout=trainer.rollout_seconds, micro=micro)


class Trainer(GRPOTrainer):
    def _generate(self, *args, **kwargs):
        start = time.perf_counter()
        out = super()._generate(*args, **kwargs)
        self.rollout_seconds = time.perf_counter() - start
        return out


group, count = spec["group"], spec["batch"]
micro = spec["peer_micro"]
config = GRPOConfig(
    output_dir=spec["dir"], use_cpu=True, per_device_train_batch_size=micro, gradient_accumulation_steps=count // micro, num_generations=group,
    max_completion_length=spec["new"], generation_kwargs={"min_new_tokens": spec["new"]}, max_steps=spec["runs"] + 2, learning_rate=1e-6,
    report_to=[], save_strategy="no", logging_steps=1000, bf16=False, gradient_checkpointing=False, beta=0.0, temperature=1.0, disable_tqdm=True, shuffle_dataset=False,
    model_init_kwargs={"dtype": torch.float32})
trainer = Trainer(model=spec["peer_model"], reward_funcs=[variety], args=config, train_dataset=Dataset.from_list(prompts), callbacks=[Gate()])
trainer.train()
