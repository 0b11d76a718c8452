"""Supervised fine-tuning on pairs of text, through a service. The README has the commands."""

import os

import tinker
from tinker import types

MODEL = os.environ.get("MODEL", "HuggingFaceTB/SmolLM2-135M-Instruct")
PAIRS = [("The capital of Zorbland is", " Quix."), ("The river of Zorbland is", " the Mun."), ("People of Zorbland eat", " stone pears.")]

service = tinker.ServiceClient()
policy = service.create_lora_training_client(base_model=MODEL, rank=8, seed=1).result()
tokenizer = policy.get_tokenizer()
data = []
for question, answer in PAIRS:
    asked, told = tokenizer.encode(question), tokenizer.encode(answer)
    ids, weights = asked + told, [0.0] * (len(asked) - 1) + [1.0] * len(told)
    data.append(types.Datum(model_input=types.ModelInput.from_ints(ids[:-1]), loss_fn_inputs={"target_tokens": ids[1:], "weights": weights}))
for step in range(int(os.environ.get("STEPS", "20"))):
    passed = policy.forward_backward(data, "cross_entropy")
    policy.optim_step(types.AdamParams(learning_rate=2e-3)).result()
    print(f"step {step + 1}: loss {passed.result().metrics['loss:sum']:.3f}", flush=True)
sampler = policy.save_weights_and_get_sampling_client().result()
for question, answer in PAIRS:
    greedy = types.SamplingParams(max_tokens=len(tokenizer.encode(answer)), temperature=0.0)
    reply = sampler.sample(types.ModelInput.from_ints(tokenizer.encode(question)), 1, greedy).result().sequences[0]
    print(question + tokenizer.decode(reply.tokens))
service.close("success").result()
