"""Drive the trainer for Tinker of trinity-rft 0.6.0 as it is: three steps, checkpoints, and a step of a trainer that resumes.

It prints a line of JSON a step. The upload of weights to explorers is left out: it needs a cluster of Ray.
"""

import asyncio
import json
import os
import sys
import types
import warnings

warnings.simplefilter("ignore")

import tinker  # noqa: E402
import torch  # noqa: E402
from trinity.algorithm import ALGORITHM_TYPE, ENTROPY_LOSS_FN, KL_FN, POLICY_LOSS_FN  # noqa: E402
from trinity.common.config import Config  # noqa: E402
from trinity.common.experience import Experience  # noqa: E402
from trinity.trainer.tinker import tinker_trainer  # noqa: E402

BASE, PROMPT, ADVANTAGES = "tiny", [1, 2, 3], [1.0, -1.0, 0.5, -0.5]
tinker_trainer.Synchronizer = types.SimpleNamespace(get_actor=lambda **_: None)


def configure(folder: str) -> Config:
    config = Config()
    config.project, config.group, config.name = "project", "group", "name"
    config.checkpoint_job_dir, config.trainer.total_steps = folder, 4
    config.model.model_path, config.model.tinker.rank, config.model.tinker.seed = BASE, 2, 1
    algorithm = config.algorithm
    algorithm.algorithm_type = "grpo"
    for key, value in ALGORITHM_TYPE.get("grpo").default_config().items():
        setattr(algorithm, key, value)
    algorithm.policy_loss_fn_args = POLICY_LOSS_FN.get(algorithm.policy_loss_fn).default_args()
    algorithm.kl_loss_fn_args = KL_FN.get(algorithm.kl_loss_fn).default_args()
    algorithm.entropy_loss_fn_args = ENTROPY_LOSS_FN.get(algorithm.entropy_loss_fn).default_args()
    algorithm.optimizer.lr, algorithm.optimizer.lr_warmup_steps, algorithm.loss_agg_mode = 1e-2, 0, "token-mean"
    return config


async def rollouts(trainer, seed: int) -> list:
    path = trainer.latest_remote_sampler_path
    sampler = await trainer.service_client.create_sampling_client_async(**({"model_path": path} if path else {"base_model": BASE}))
    params = tinker.types.SamplingParams(max_tokens=4, seed=seed)
    replies = await sampler.sample_async(prompt=tinker.types.ModelInput.from_ints(PROMPT), sampling_params=params, num_samples=4)
    group = []
    for reply, advantage in zip(replies.sequences, ADVANTAGES, strict=True):
        of = torch.full((len(reply.tokens),), advantage)
        experience = Experience(
            tokens=torch.tensor(PROMPT + list(reply.tokens), dtype=torch.int32), prompt_length=len(PROMPT), reward=advantage,
            logprobs=torch.tensor(reply.logprobs), advantages=of, returns=of, action_mask=torch.ones_like(of, dtype=torch.bool),
        )  # fmt: skip
        group.append(experience)
    return group


async def main() -> None:
    config = configure(sys.argv[1])
    trainer = tinker_trainer.TinkerTrainerWrapper(config)
    await trainer.prepare()
    for step in 1, 2, 3, 4:
        if step == 4:
            await trainer.save_checkpoint()
            trainer = tinker_trainer.TinkerTrainerWrapper(config)
            await trainer.prepare()
        before = trainer.train_step_num
        metrics = await trainer.train_step(await rollouts(trainer, step))
        print(json.dumps({"before": before, "policy": metrics["actor/ppo_kl"], "reference": metrics["actor/kl_loss"]}), flush=True)
        await trainer.save_state_dict()


asyncio.run(main())
os._exit(0)  # the SDK's transport aborts now and then while Python ends
