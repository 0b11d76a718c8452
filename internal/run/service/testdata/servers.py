"""Train and sample through a service that samples on servers. Prints what it refuses, and then what it sampled."""

import tinker
from tinker import types

IDS = [70, 71, 72, 73, 74]
service = tinker.ServiceClient()


def trained(**layers):
    client = service.create_lora_training_client("own/tiny", rank=4, seed=1, **layers)
    inputs = {"target_tokens": tensor(IDS[1:], "int64"), "weights": tensor([1.0] * 4, "float32")}
    datum = types.Datum(model_input=types.ModelInput.from_ints(IDS[:-1]), loss_fn_inputs=inputs)
    client.forward_backward([datum], "cross_entropy").result()
    client.optim_step(types.AdamParams(learning_rate=1e-2)).result()
    return client


def tensor(flat, dtype):
    return types.TensorData(data=flat, dtype=dtype, shape=[len(flat)])


def refused(call):
    try:
        call()
        print("not refused", flush=True)
    except (tinker.APIError, tinker.RequestFailedError) as e:
        print(e, flush=True)


refused(lambda: trained().save_weights_and_get_sampling_client())
sampler = trained(train_unembed=False).save_weights_and_get_sampling_client()
prompt = types.ModelInput.from_ints(IDS[:2])
refused(lambda: sampler.compute_logprobs(prompt).result())
params = types.SamplingParams(max_tokens=4, seed=3)
got = sampler.sample(prompt, num_samples=2, sampling_params=params, topk_sample_logprobs=2).result()
print("sampled", [len(s.tokens) == len(s.logprobs) for s in got.sequences], flush=True)
