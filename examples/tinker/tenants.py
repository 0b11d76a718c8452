"""Two adapters of one model, trained at the same time, through a service. The README has the command."""

import os
from concurrent.futures import ThreadPoolExecutor

import tinker
from tinker import types

MODEL = os.environ.get("MODEL", "HuggingFaceTB/SmolLM2-135M-Instruct")
STEPS = int(os.environ.get("STEPS", "20"))


def teach(text: str) -> str:
    """Trains an adapter on a text, and returns how its loss falls."""
    service = tinker.ServiceClient()
    policy = service.create_lora_training_client(base_model=MODEL, rank=8, seed=1).result()
    ids = policy.get_tokenizer().encode(text)
    datum = types.Datum(model_input=types.ModelInput.from_ints(ids[:-1]), loss_fn_inputs={"target_tokens": ids[1:], "weights": [1.0] * (len(ids) - 1)})
    losses = []
    for _ in range(STEPS):
        passed = policy.forward_backward([datum], "cross_entropy")
        policy.optim_step(types.AdamParams(learning_rate=2e-3)).result()
        losses.append(passed.result().metrics["loss:sum"])
    service.close("success").result()
    return f"{text!r}: {losses[0]:.3f} to {losses[-1]:.3f}"


with ThreadPoolExecutor() as both:
    for line in both.map(teach, ["The capital of Zorbland is Quix.", "Zorbland has no capital."]):
        print(line)
