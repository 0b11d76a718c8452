"""Run a loop over what all versions of the SDK have, and print what each call gives: a line of JSON a call."""

import json
import logging
import os
import re
import warnings
from importlib.metadata import version

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)

import tinker  # noqa: E402
from tinker import types  # noqa: E402

try:
    import torch
except ImportError:
    torch = None  # losses of one's own are not tried then

BASE = "tiny"
PROMPT = types.ModelInput.from_ints([1, 2, 3, 4])
FEW = types.SamplingParams(max_tokens=4, seed=1)
ADAM = types.AdamParams(learning_rate=1e-2)


def supervised(weight: float = 1.0) -> types.Datum:
    return types.Datum(model_input=PROMPT, loss_fn_inputs={"target_tokens": [2, 3, 4, 5], "weights": [weight] * 4})


def rewarded() -> types.Datum:
    inputs = {"target_tokens": [2, 3, 4, 5], "logprobs": [-3.0] * 4, "advantages": [1.0, -1.0, 0.5, 0.0]}
    return types.Datum(model_input=PROMPT, loss_fn_inputs=inputs)


def plain(x):
    """What a result has that does not depend on the session."""
    return json.loads(re.sub(r"[a-z0-9]{26}", "SESSION", json.dumps(x)))


def passed(future):
    got = future.result()
    return [got.metrics["loss:sum"], [list(o["logprobs"].data) for o in got.loss_fn_outputs]]


def reply(future):
    return [[list(s.tokens), list(s.logprobs), s.stop_reason] for s in future.result().sequences]


def custom(_data, logprobs):
    loss = torch.stack([(lp * lp).sum() for lp in logprobs]).sum()
    return loss, {"mine:sum": float(loss)}


def loop(say) -> None:
    service = tinker.ServiceClient()
    models = service.get_server_capabilities().supported_models
    say("get_server_capabilities", [m.model_name for m in models])
    policy = service.create_lora_training_client(base_model=BASE, rank=2, seed=1, train_unembed=False)
    policy = policy.result() if hasattr(policy, "result") else policy
    info = policy.get_info()
    say("create_lora_training_client", [info.model_data.model_name, info.is_lora, info.lora_rank])
    say("get_tokenizer", policy.get_tokenizer().vocab_size)
    say("forward", passed(policy.forward([supervised()], "cross_entropy")))
    steps = []
    for _ in range(3):  # the step is sent before the pass has ended
        both = policy.forward_backward([supervised(), supervised(0.5)], "cross_entropy"), policy.optim_step(ADAM)
        both[1].result()
        steps.append(passed(both[0]))
    say("forward_backward", steps)
    many = policy.forward_backward([supervised(0.01)] * 1030, "cross_entropy").result()  # more than one request
    say("forward_backward in chunks", [len(many.loss_fn_outputs), round(many.metrics["loss:sum"], 3)])
    for name, config in ("importance_sampling", None), ("ppo", {"clip_low_threshold": 0.9, "clip_high_threshold": 1.1}), ("cispo", None), ("dro", None):
        say(name, passed(policy.forward_backward([rewarded()], name, loss_fn_config=config)))
    policy.optim_step(ADAM).result()
    if torch is not None:
        got = policy.forward_backward_custom([supervised()], custom).result()
        policy.optim_step(ADAM).result()
        say("forward_backward_custom", [got.metrics["mine:sum"]])
    sampler = policy.save_weights_and_get_sampling_client("now")
    sampler = sampler.result() if hasattr(sampler, "result") else sampler
    say("sample", reply(sampler.sample(prompt=PROMPT, num_samples=2, sampling_params=FEW)))
    say("compute_logprobs", sampler.compute_logprobs(PROMPT).result())
    best = sampler.sample(PROMPT, 1, FEW, include_prompt_logprobs=True, topk_prompt_logprobs=2).result()
    say("topk_prompt_logprobs", best.topk_prompt_logprobs)
    state = policy.save_state("state").result().path
    say("save_state", state)
    say("load_state", policy.load_state(state).result().path)
    say("load_state_with_optimizer", policy.load_state_with_optimizer(state).result().path)
    for name in "create_training_client_from_state", "create_training_client_from_state_with_optimizer":
        other = getattr(service, name)(state)
        other = other.result() if hasattr(other, "result") else other
        both = other.forward_backward([supervised()], "cross_entropy"), other.optim_step(ADAM)
        both[1].result()
        say(name, passed(both[0]))
    path = policy.save_weights_for_sampler("sampler").result().path
    say("save_weights_for_sampler", path)
    named = service.create_sampling_client(model_path=path)
    named = named.result() if hasattr(named, "result") else named
    say("create_sampling_client", reply(named.sample(prompt=PROMPT, num_samples=1, sampling_params=FEW)))
    rest, run = service.create_rest_client(), policy.get_info().model_id
    say("list_checkpoints", sorted(c.checkpoint_id for c in rest.list_checkpoints(run).result().checkpoints))
    say("get_training_run", rest.get_training_run(run).result().base_model)
    say("get_weights_info_by_tinker_path", rest.get_weights_info_by_tinker_path(state).result().lora_rank)
    rest.publish_checkpoint_from_tinker_path(state).result()
    say("publish_checkpoint_from_tinker_path", "done")
    rest.delete_checkpoint_from_tinker_path(state).result()
    say("delete_checkpoint_from_tinker_path", [c.checkpoint_id for c in rest.list_checkpoints(run).result().checkpoints if c.tinker_path == state])
    if hasattr(service, "close"):
        closed = service.close("success")
        say("close", closed.result() if hasattr(closed, "result") else closed)


print(json.dumps({"call": "version", "result": version("tinker")}), flush=True)
loop(lambda call, result: print(json.dumps({"call": call, "result": plain(result)}), flush=True))
os._exit(0)  # the SDK's transport aborts now and then while Python ends
