"""transformers' generate: sampled tokens a second, of the whole call or after the first token; or prefill speed when one token is wanted."""
import time

from torch_here import load, spec, torch
from turns import serve
from transformers import StoppingCriteria, StoppingCriteriaList

model = load().eval()
new = spec["new"]


class Clock(StoppingCriteria):
    """Notes when the first token was there; stops nothing."""

    def __call__(self, ids, scores, **kwargs):
        self.first = self.first or time.perf_counter()
        return torch.zeros(ids.shape[0], dtype=torch.bool)


def run(number):
    prompts = torch.tensor(spec["calls"][number])
    clock = Clock()
    clock.first = None
    start = time.perf_counter()
    with torch.inference_mode():
        out = model.generate(
            prompts, attention_mask=torch.ones_like(prompts), do_sample=True, temperature=1.0, top_k=0, top_p=1.0, pad_token_id=0,
            max_new_tokens=new, min_new_tokens=new, disable_compile=True, stopping_criteria=StoppingCriteriaList([clock]))
    end = time.perf_counter()
    assert out.shape[1] == prompts.shape[1] + new
    if spec["whole"]:
        return {"value": prompts.shape[0] * new / (end - start)}
    if new == 1:
        return {"value": prompts.numel() / (end - start)}
    return {"value": prompts.shape[0] * (new - 1) / (end - clock.first)}


serve(run)
