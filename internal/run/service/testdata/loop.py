"""Train and sample through a service as loops do. Prints the number of each step, and then everything that came back."""

import json

import tinker
from tinker import types

try:
    import torch
except ImportError:
    torch = None  # losses of one's own are not tried then

BASE, IDS, NEXT, OTHER = "tiny", [1, 2, 3, 4, 5], [2, 3, 4, 5, 6], [7, 8, 9, 7, 8]
ADAM = types.AdamParams(learning_rate=1e-2, grad_clip_norm=1.0)
service, seen = tinker.ServiceClient(), []


def datum(targets, **inputs):
    prompt = types.ModelInput.from_ints(IDS)
    tensors = {"target_tokens": tensor(targets, int), **{name: tensor(v, float) for name, v in inputs.items()}}
    return types.Datum(model_input=prompt, loss_fn_inputs=tensors)


def tensor(rows, kind):
    shape, flat = [len(rows)], rows
    if isinstance(rows[0], list):
        shape, flat = [len(rows), len(rows[0])], [x for row in rows for x in row]
    return types.TensorData(data=flat, dtype="int64" if kind is int else "float32", shape=shape)


def step(client, loss, *data):
    passes, stepped = client.forward_backward(list(data), loss), client.optim_step(ADAM)
    result = passes.result()
    found = [result.metrics, [o["logprobs"].tolist() for o in result.loss_fn_outputs], stepped.result().metrics]
    seen.append([loss, found])
    print("step", len(seen), flush=True)
    return found


def custom(_data, logprobs):
    loss = -torch.stack([(lp * lp).sum() for lp in logprobs]).sum()
    return loss, {"custom:sum": loss.item()}


def refused(*data):
    try:
        policy.forward_backward(list(data), "cross_entropy").result()
    except tinker.TinkerError as e:
        return str(e)
    raise SystemExit(f"{data} was taken")


ONES, OLD = [1.0] * 5, {"logprobs": [-2.0] * 5}
MIXED = datum(OTHER, advantages=[1.0, -1.0, 0.5, 0.0, 2.0], **OLD)
policy = service.create_lora_training_client(base_model=BASE, rank=4, seed=1).result()
second = service.create_lora_training_client(base_model=BASE, rank=8, seed=2, train_unembed=False).result()
for _ in range(3):
    step(policy, "cross_entropy", datum(NEXT, weights=ONES), datum(OTHER, weights=ONES))
    step(second, "cross_entropy", datum(OTHER, weights=ONES))
step(policy, "cross_entropy", datum([[t, (t + 1) % 10, (t + 3) % 10] for t in NEXT], weights=[[0.5, 0.3, 0.2]] * 5))
step(policy, "importance_sampling", datum(NEXT, advantages=ONES, **OLD))
step(policy, "ppo", MIXED, datum(NEXT, advantages=ONES, **OLD))
if torch:
    own = policy.forward_backward_custom([datum(NEXT, weights=ONES)], custom).result()
    seen.append(["custom", own.metrics, policy.optim_step(ADAM).result().metrics])
for message, data in (("token 4 is 99", datum([2, 3, 4, 5, 99], weights=ONES)), ("want 10", datum([[1, 2]] * 5, weights=ONES))):
    assert message in refused(data), refused(data)
try:
    policy.optim_step(ADAM).result()
    raise SystemExit("a step took a gradient that is not whole")
except tinker.TinkerError as e:
    assert "it was discarded" in str(e), e
path = policy.save_state("middle").result().path
want = step(policy, "ppo", MIXED)
resumed = service.create_training_client_from_state_with_optimizer(path).result()
assert step(resumed, "ppo", MIXED) == want, "a resumed client has other bits"
policy.load_state_with_optimizer(path).result()
assert step(policy, "ppo", MIXED) == want, "a loaded client has other bits"
step(service.create_training_client_from_state(path).result(), "ppo", MIXED)
sampler = policy.save_weights_and_get_sampling_client().result()
asked, prompt = types.SamplingParams(max_tokens=4, seed=3), types.ModelInput.from_ints(IDS)
seen.append([[s.tokens, s.logprobs] for s in sampler.sample(prompt, 2, asked).result().sequences])
scored = sampler.compute_logprobs(prompt).result()
trained = policy.forward([datum([*IDS[1:], 0], weights=ONES)], "cross_entropy").result().loss_fn_outputs[0]["logprobs"].tolist()
assert max(abs(a - b) for a, b in zip(scored[1:], trained)) < 1e-4, (scored, trained)
print(json.dumps(seen))
