package cpu

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"github.com/trinity-go/trinity"
)

// loadSaved prints the log-probabilities that transformers computes with a saved model, or with a saved adapter of it.
const loadSaved = `
import json, sys, torch
from transformers import AutoModelForCausalLM
base, adapter, tokens = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
m, info = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
assert not info["missing_keys"] and not info["unexpected_keys"] and not info["mismatched_keys"], info
if adapter:  # by PEFT's names: W + alpha/r·B·A
    from safetensors.torch import load_file
    parts, c = load_file(adapter + "/adapter_model.safetensors"), json.load(open(adapter + "/adapter_config.json"))
    for name, a in parts.items():
        if name.endswith(".lora_A.weight"):
            module = name.removesuffix(".lora_A.weight")
            assert module.split(".")[-1] in c["target_modules"], module
            weight = m.get_submodule(module.removeprefix("base_model.model.")).weight
            weight.data += c["lora_alpha"] / c["r"] * parts[module + ".lora_B.weight"] @ a
ids = torch.tensor([tokens])
with torch.no_grad():
    lp = torch.log_softmax(m(input_ids=ids[:, :-1]).logits[0], -1)
print(json.dumps([0.0] + lp.gather(1, ids[0, 1:, None])[:, 0].tolist()))
`

// transformers loads what an engine has trained and saved.
func TestTransformersLoadsWhatIsSaved(t *testing.T) {
	python := os.Getenv("TRINITY_COMPAT_PYTHON")
	if python == "" {
		t.Skip("TRINITY_COMPAT_PYTHON names no Python that has transformers")
	}
	for name, opts := range map[string]Options{
		"phi3": tiny("phi3"), "phi3 adapter": adapterOptions("phi3"), "ministral3": tiny("ministral3"), "granite": tiny("granite"),
		"granitemoehybrid": tiny("granitemoehybrid"), "lfm2": tiny("lfm2"), "lfm2 adapter": adapterOptions("lfm2"),
		"gemma3_text": tiny("gemma3_text"), "gemma3_text adapter": adapterOptions("gemma3_text"),
		"olmo3": tiny("olmo3"),
	} {
		t.Run(name, func(t *testing.T) {
			e, dir := open(t, opts), t.TempDir()
			train(t, e, sequences(t, true), 2)
			if err := e.SaveModel(context.Background(), dir); err != nil {
				t.Fatal(err)
			}
			base, adapter := dir, ""
			if opts.LoRA != nil {
				base, adapter = opts.ModelPath, dir
			}
			x := allTrained(0, sequences(t, false)[0].Tokens)
			text, err := json.Marshal(x.Tokens)
			if err != nil {
				t.Fatal(err)
			}
			command := exec.Command(python, "-c", loadSaved, base, adapter, string(text))
			command.Stderr = os.Stderr
			out, err := command.Output()
			if err != nil {
				t.Fatal(err)
			}
			var want []float64
			if err := json.Unmarshal(out, &want); err != nil {
				t.Fatalf("%s: %v", out, err)
			}
			stats, err := e.Forward(context.Background(), whole([]*trinity.Experience{x}), trinity.Streams{})
			if err != nil {
				t.Fatal(err)
			}
			if d := worst(stats[0].Logprob[1:], want[1:]); d > 1e-4 {
				t.Errorf("logprobs are %.2g nats apart", d)
			}
		})
	}
}
