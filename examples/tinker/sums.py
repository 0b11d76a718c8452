"""GRPO on one-digit sums, through a service. The README has the commands and the curve."""

import os
import random

import tinker
from tinker import types

MODEL = os.environ.get("MODEL", "HuggingFaceTB/SmolLM2-135M-Instruct")
STEPS = int(os.environ.get("STEPS", "30"))
GROUPS, SIZE = 8, 8  # questions of a step, and replies to each

service = tinker.ServiceClient()
policy = service.create_lora_training_client(base_model=MODEL, rank=8, seed=1).result()
tokenizer = policy.get_tokenizer()
draw = random.Random(1)

for step in range(STEPS):
    sampler = policy.save_weights_and_get_sampling_client().result()
    asked = []
    for group in range(GROUPS):
        a, b = draw.randrange(10), draw.randrange(10)
        prompt = tokenizer.encode(f"Question: What is {a} + {b}? Reply with the number alone.\nAnswer:")
        params = types.SamplingParams(max_tokens=5, stop=["\n"], seed=step * GROUPS + group)
        asked.append((a + b, prompt, sampler.sample(types.ModelInput.from_ints(prompt), SIZE, params)))
    data, right = [], 0.0
    for answer, prompt, future in asked:
        replies = future.result().sequences
        rewards = [float(tokenizer.decode(reply.tokens).strip() == str(answer)) for reply in replies]
        right += sum(rewards)
        for reply, reward in zip(replies, rewards):
            before, advantage = len(prompt) - 1, reward - sum(rewards) / SIZE
            if advantage:  # a group that agrees teaches nothing
                data.append(
                    types.Datum(
                        model_input=types.ModelInput.from_ints(prompt + reply.tokens[:-1]),
                        loss_fn_inputs={
                            "target_tokens": prompt[1:] + reply.tokens,
                            "logprobs": [0.0] * before + reply.logprobs,
                            "advantages": [0.0] * before + [advantage] * len(reply.tokens),
                        },
                    )
                )
    if data:
        passed = policy.forward_backward(data, "importance_sampling")
        policy.optim_step(types.AdamParams(learning_rate=3e-4)).result()
        passed.result()
    print(f"step {step + 1}: {right / GROUPS / SIZE:.2f} right", flush=True)
print(policy.save_state("last").result().path)
service.close("success").result()
