package torch

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/model"
	"github.com/trinity-go/trinity/trinitytest"
)

// tinyModel saves a tiny random model of a family.
const tinyModel = `
import sys
from transformers import AutoConfig, AutoModelForCausalLM
config = AutoConfig.for_model(sys.argv[1], hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
                              num_key_value_heads=2, head_dim=8, vocab_size=64, max_position_embeddings=64,
                              bos_token_id=0, eos_token_id=1, pad_token_id=None)
AutoModelForCausalLM.from_config(config).save_pretrained(sys.argv[2])
`

// A family that the embedded engine does not compute is opened, trained, adapted, saved and planned by the names of its own tensors.
func TestFamiliesThatOnlyTheWorkerComputes(t *testing.T) {
	python, p := trinitytest.TorchPython(t), onRanks(t, 1)
	for _, family := range []string{"lfm3"} {
		dir := filepath.Join(t.TempDir(), family)
		if out, err := exec.CommandContext(t.Context(), python, "-c", tinyModel, family, dir).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", family, err, out)
		}
		base, err := model.ReadConfig(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := base.Foreign.Refuse(); err == nil || !strings.Contains(err.Error(), `model_type "`+family+`"`) {
			t.Errorf("%s: the embedded engine says %v", family, err)
		}
		for _, lora := range []*engine.LoRASpec{nil, {LoraRank: 2, LoraAlpha: 4}} {
			spec := engine.TrainerSpec{ModelPath: dir, MicroTokens: 64, MaxModelLen: 48, Train: true, LoRA: lora}
			if parts, err := p.PlanMemory(spec); err != nil || len(parts) == 0 {
				t.Errorf("%s: plan %v, %v", family, parts, err)
			}
			e, b := opened(t, p, spec), randomBatch(64)
			before, err := e.Forward(t.Context(), b, trinity.Streams{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := e.ForwardBackward(t.Context(), b, mixed{}); err != nil {
				t.Fatal(err)
			}
			if _, err := e.OptimStep(t.Context(), trinity.OptimParams{LR: 1e-2, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8}); err != nil {
				t.Fatal(err)
			}
			after, err := e.Forward(t.Context(), b, trinity.Streams{})
			if err != nil || apart(before, after) == 0 {
				t.Errorf("%s: a step changes no log-probability: %v", family, err)
			}
			saved := filepath.Join(t.TempDir(), "saved")
			if err := e.SaveModel(t.Context(), saved); err != nil {
				t.Fatal(err)
			}
			if lora != nil {
				file, err := model.OpenAdapter(saved, base)
				if err != nil {
					t.Errorf("%s: the saved adapter: %v", family, err)
					continue
				}
				file.Close()
				continue
			}
			m, err := model.Open(saved)
			if err != nil {
				t.Errorf("%s: the saved model: %v", family, err)
				continue
			}
			if difference := base.Differs(m.Config); difference != "" || len(m.Names()) != len(base.Tensors()) {
				t.Errorf("%s: the saved model: %s, %d tensors of %d", family, difference, len(m.Names()), len(base.Tensors()))
			}
			m.Close()
		}
	}
}
