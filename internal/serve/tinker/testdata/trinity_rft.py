"""Make the calls of Trinity-RFT's trainer on Tinker, in its order, and print what they give: a line of JSON a call.

The argument custom computes the loss here, as version 0.6.0 does; the argument server lets the service do it, as newer ones do.
"""

import asyncio
import json
import os
import sys
import warnings

warnings.simplefilter("ignore")  # it calls the twins with _async, which 0.38 deprecates

import tinker  # noqa: E402
import torch  # noqa: E402
from tinker import types  # noqa: E402

BASE, PREFIX = "tiny", "project-group-name"
PROMPT, CLIP, DUAL, KL = [1, 2, 3], (0.8, 1.2), 3.0, 0.01
REWARDS = [1.0, 0.0, 0.5, 0.2]


def say(call: str, result) -> None:
    print(json.dumps({"call": call, "result": result}), flush=True)


def policy_loss(lp, old, ref, advantage):
    """Dual-clipped PPO with a K2 penalty, a mean over the tokens of a reply."""
    ratio = torch.exp(lp - old)
    loss = torch.maximum(-advantage * ratio, -advantage * torch.clamp(ratio, *CLIP))
    if advantage < 0:
        loss = torch.minimum(loss, torch.full_like(loss, -advantage * DUAL))
    return (loss + KL * 0.5 * (lp - ref) ** 2).mean()


async def main(server: bool) -> None:
    service = tinker.ServiceClient()
    rest = service.create_rest_client()
    actor = await service.create_lora_training_client_async(
        base_model=BASE, rank=2, seed=1, train_mlp=True, train_attn=True, train_unembed=True
    )
    run = (await actor.get_info_async()).model_id
    reference = await service.create_sampling_client_async(base_model=BASE)
    rollouts, stale = reference, None
    for step in range(1, 4):
        params = types.SamplingParams(max_tokens=4, seed=step, temperature=1.0, top_k=-1, top_p=1.0)
        prompt = types.ModelInput.from_ints(PROMPT)
        replies = await rollouts.sample_async(prompt=prompt, sampling_params=params, num_samples=4, include_prompt_logprobs=True, topk_prompt_logprobs=1)
        assert len(replies.topk_prompt_logprobs) == len(PROMPT)
        whole = [PROMPT + list(s.tokens) for s in replies.sequences]
        scores = await asyncio.gather(*[reference.compute_logprobs_async(types.ModelInput.from_ints(ids)) for ids in whole])
        data, rows = [], []
        for ids, s, score, reward in zip(whole, replies.sequences, scores, REWARDS, strict=True):
            n, before = len(s.tokens), len(PROMPT) - 1
            row = (torch.tensor(s.logprobs), torch.tensor(score[-n:]), reward - sum(REWARDS) / 4)
            rows.append(row)
            inputs = {"target_tokens": ids[1:], "weights": torch.cat([torch.zeros(before), torch.ones(n)])}
            if server:
                more = {"logprobs": row[0], "ref_logprobs": row[1], "advantages": torch.full((n,), row[2])}
                inputs |= {key: types.TensorData.from_torch(torch.cat([torch.zeros(before), v])) for key, v in more.items()}
            data.append(types.Datum(model_input=types.ModelInput.from_ints(ids[:-1]), loss_fn_inputs=inputs))

        def custom(given, logprobs, rows=rows):
            losses = [policy_loss(lp[len(PROMPT) - 1 :], *row) / len(given) for lp, row in zip(logprobs, rows, strict=True)]
            return sum(losses), {"actor/final_loss": float(sum(losses))}

        if server:
            config = {"clip_range": 0.2, "clip_ratio_c": DUAL, "kl_coef": KL, "num_total_datums": len(data)}
            passed = await actor.forward_backward_async(data, "trinity_ppo", config)
        else:
            passed = await actor.forward_backward_custom_async(data, custom)
        adam = types.AdamParams(learning_rate=1e-2, beta1=0.9, beta2=0.999, weight_decay=0.01, grad_clip_norm=1.0)
        stepped = await actor.optim_step_async(adam)
        metrics = (await passed).metrics
        await stepped
        say("train_step", metrics["loss:sum"])
        path = (await (await actor.save_weights_for_sampler_async(f"{PREFIX}-sampler-{step}"))).path
        if stale is not None:  # the trainer forgets sampler_weights/ before the name, and goes on when that fails
            try:
                await rest.delete_checkpoint_async(run, stale)
                say("delete_checkpoint", "done")
            except tinker.NotFoundError as e:
                say("delete_checkpoint", e.body["detail"].replace(run, "RUN"))
        stale = f"{PREFIX}-sampler-{step}"
        rollouts = await service.create_sampling_client_async(model_path=path)
    state = (await (await actor.save_state_async(f"{PREFIX}-state-3"))).path
    resumed = await service.create_training_client_from_state_with_optimizer_async(path=state)
    plain = []
    for d in data:
        inputs = {key: d.loss_fn_inputs[key] for key in ("target_tokens", "weights")}
        plain.append(types.Datum(model_input=d.model_input, loss_fn_inputs=inputs))
    passed = await (await resumed.forward_async(plain, "cross_entropy"))
    say("resumed", [list(o["logprobs"].data) for o in passed.loss_fn_outputs])


asyncio.run(main(sys.argv[1] == "server"))
os._exit(0)  # the SDK's transport aborts now and then while Python ends
