package run_test

import (
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/trinity-go/trinity/internal/run"
	"github.com/trinity-go/trinity/internal/run/settle"
	"github.com/trinity-go/trinity/model"
)

// A run trains the text part of a model of text and images, and saves a text model. The plan says what is left out. Servers that
// follow the trainer would have the whole model, and are refused.
func TestARunTrainsTheTextPart(t *testing.T) {
	p := newProject(t, tiny, rl)
	path := filepath.Join(p.dir, "model", "config.json")
	write(t, path, `{"model_type":"mistral3","architectures":["Mistral3ForConditionalGeneration"],"vision_config":{},"text_config":`+
		strings.Replace(read(t, path), `"llama"`, `"mistral"`, 1)+`}`)
	cfg := p.load(t)
	facts, err := settle.Facts(cfg.Settled()[0])
	if err != nil {
		t.Fatal(err)
	}
	plan, err := cfg.Plan(facts)
	if err != nil || !strings.Contains(plan.String(), "the model is the text part (mistral) of a mistral3") {
		t.Errorf("%v\n%s", err, plan)
	}
	served := p.load(t, "explorer.rollout_model.engine_type=vllm", "explorer.rollout_model.base_urls=[http://127.0.0.1:1]")
	_, err = settle.Facts(served.Settled()[0])
	oneLine(t, err, "model.model_path: ", "is a mistral3 of text and images", "trinity convert ")
	var said []string
	var mu sync.Mutex
	cfg = p.load(t, noEvaluation, "buffer.total_steps=1")
	if _, err := run.Run(t.Context(), t.Context(), cfg, run.Options{Say: func(line string) {
		mu.Lock()
		defer mu.Unlock()
		said = append(said, line)
	}}); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(said, func(line string) bool { return strings.Contains(line, "the text part (mistral) of a mistral3") }) {
		t.Errorf("the run says %q", said)
	}
	saved, err := filepath.Glob(filepath.Join(p.job(), "global_step_1", "actor", "*", "config.json"))
	if err != nil || len(saved) != 1 {
		t.Fatal(saved, err)
	}
	if c, err := model.ReadConfig(filepath.Dir(saved[0])); err != nil || c.PartOf != "" || c.Architecture != "mistral" {
		t.Errorf("%+v, %v", c, err)
	}
}
