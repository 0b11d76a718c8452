"""What peers that serve the Tinker API share: the loop of the SDK that each of them pins, on the tokens that our side gets."""
import time
import urllib.request

import tinker
from tinker import types
from turns import spec

prompt, new = spec["prompt"], spec["new"]


def wait(address, process, seconds=600):
    """Waits until the server answers."""
    until = time.time() + seconds
    while time.time() < until and process.poll() is None:
        try:
            urllib.request.urlopen(address + "/api/v1/healthz", timeout=5)
            return
        except OSError:
            time.sleep(1)
    raise SystemExit(f"the server at {address} does not answer")


def datum(number, i):
    text = spec["train"]
    begin = i * prompt
    ids = text[begin:begin + prompt + 1]
    return types.Datum(model_input=types.ModelInput.from_ints(ids[:prompt]), loss_fn_inputs={
        "target_tokens": types.TensorData(data=ids[1:], dtype="int64", shape=[prompt]),
        "weights": types.TensorData(data=[1.0] * prompt, dtype="float32", shape=[prompt])})


class Loop:
    """Tokens a second of both passes, or of samples."""

    def __init__(self, address, model):
        client = tinker.ServiceClient(base_url=address, api_key="tml-local")
        self.training = client.create_lora_training_client(base_model=model, rank=32)
        if new:
            self.sampling = self.training.save_weights_and_get_sampling_client(name="bench")

    def run(self, number):
        return {"value": self.sample(number) if new else self.passes(number)}

    def passes(self, number):
        data = [datum(number, i) for i in range(spec["batch"])]
        begin = time.perf_counter()
        self.training.forward_backward(data, "cross_entropy").result()
        value = len(data) * prompt / (time.perf_counter() - begin)
        self.training.optim_step(types.AdamParams(learning_rate=1e-5)).result()
        return value

    def sample(self, number):
        begin = time.perf_counter()
        futures = [self.sampling.sample(
            prompt=types.ModelInput.from_ints(tokens), num_samples=1,
            sampling_params=types.SamplingParams(max_tokens=new, temperature=1.0, seed=i, stop=[]),
        ) for i, tokens in enumerate(spec["calls"][number])]
        tokens = sum(len(f.result().sequences[0].tokens) for f in futures)
        return tokens / (time.perf_counter() - begin)
