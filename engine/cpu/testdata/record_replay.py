# Writes what PyTorch and transformers say, in float64, of the tiny mixtures if each token has given experts: log-probabilities, the mean
# negative log-probability of the trained tokens, and its gradient by some weights. Token t of sequence s has expert (5t + 3l + 2s + j) mod E as
# its number j in layer l of those with experts.
# usage: record_replay.py [OUT_DIR]      needs torch, transformers, safetensors; run record.py first
import gzip, json, os, sys
import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

here = os.path.dirname(os.path.abspath(__file__))
out = sys.argv[1] if len(sys.argv) > 1 else here
models = {"qwen3_moe": (1, ["layers.1.mlp.gate.weight", "layers.0.self_attn.k_proj.weight", "embed_tokens.weight"]),
          "qwen3_moe_sums": (2, ["layers.0.mlp.gate.weight", "layers.1.mlp.gate.weight", "layers.0.input_layernorm.weight"])}

def given(tokens, layer, s, experts, k):
    return torch.tensor([[(5 * t + 3 * layer + 2 * s + j) % experts for j in range(k)] for t in range(tokens)])

class Replayed(torch.nn.Module):  # a router whose choice is given
    def __init__(self, router, layer):
        super().__init__()
        self.weight, self.layer, self.normalise, self.k = router.weight, layer, router.norm_topk_prob, router.top_k
    def forward(self, hidden):
        hidden = hidden.reshape(-1, hidden.shape[-1])
        logits = hidden @ self.weight.T
        chosen = given(len(hidden), self.layer, self.sequence, len(self.weight), self.k)
        weights = torch.softmax(logits, -1).gather(-1, chosen)
        if self.normalise:
            weights = weights / weights.sum(-1, keepdim=True)
        return logits, weights, chosen

sequences = json.load(gzip.open(os.path.join(here, "sequences.json.gz")))
trained = sum(sum(s["mask"]) for s in sequences)
results, tensors = {}, {}
for name, (layers, keep) in models.items():
    model = AutoModelForCausalLM.from_pretrained(os.path.join(here, name), dtype=torch.float64, attn_implementation="eager", experts_implementation="eager")
    sparse = [layer for layer in model.model.layers if hasattr(layer.mlp, "gate")]
    assert len(sparse) == layers
    for number, layer in enumerate(sparse):
        layer.mlp.gate = Replayed(layer.mlp.gate, number)
    loss, values = 0, []
    for i, s in enumerate(sequences):
        for layer in sparse:
            layer.mlp.gate.sequence = i
        z = model(input_ids=torch.tensor([s["tokens"][:-1]])).logits[0]
        logprobs = torch.log_softmax(z / s["temperature"], -1).gather(-1, torch.tensor(s["tokens"][1:])[:, None])[:, 0]
        v = torch.where(torch.tensor(s["mask"][1:]), logprobs, 0.0)
        values.append([0.0, *v.tolist()])
        loss = loss - v.sum() / trained
    loss.backward()
    results[name] = dict(loss=loss.item(), logprobs=values)
    parameters = dict(model.named_parameters())
    tensors.update({f"{name}.{n}": parameters["model." + n].grad.float().contiguous() for n in keep})
with open(os.path.join(out, "replay.json.gz"), "wb") as f, gzip.GzipFile(fileobj=f, mode="wb", mtime=0, filename="") as z:
    z.write(json.dumps(results).encode())
save_file(tensors, os.path.join(out, "replay.safetensors"))
