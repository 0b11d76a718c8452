package run_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/model/tokenizer"
	"github.com/trinity-go/trinity/internal/run"
	"github.com/trinity-go/trinity/internal/run/settle"
	"github.com/trinity-go/trinity/model"
)

// Evaluations choose among the adapters of one model. An adapter of an earlier run scores what it
// scored in that run.
func TestEvaluationsChooseAmongAdapters(t *testing.T) {
	p := newProject(t, tiny, rl)
	evals := func(adapters ...string) string {
		var list []string
		for _, a := range adapters {
			list = append(list, fmt.Sprintf("{name: by_%s, path: %s/eval.jsonl, format: {prompt_key: question, response_key: answer}, "+
				"rollout_args: {temperature: 0, adapter: '%s'}}",
				a, p.dir, strings.TrimSuffix(a, "policy")))
		}
		return "buffer.explorer_input.eval_tasksets=[" + strings.Join(list, ", ") + "]"
	}
	const lora = "lora_rank: 4, lora_alpha: 4, use_rslora: true, exclude_modules: [k_proj]"
	if _, err := p.run(t, "model.lora_configs=[{"+lora+"}]", "explorer.eval_on_startup=true", evals("policy")); err != nil {
		t.Fatal(err)
	}
	first := curve(t, p.job(), "explorer", "eval/by_policy/accuracy/mean@1")
	adapter := filepath.Join(p.job(), "global_step_8/actor/lora_adapter")
	text, err := os.ReadFile(filepath.Join(adapter, "adapter_config.json"))
	if err != nil || !strings.Contains(string(text), `"use_rslora": true`) || !strings.Contains(string(text), `"k_proj"`) {
		t.Errorf("the saved adapter's config is %s (%v)", text, err)
	}
	f, err := settle.Facts(p.load(t, "model.lora_configs=[{path: "+adapter+", lora_rank: 64}]").Settled()[0])
	if want := int64(4 * (6*64 + 2*64 + 128 + 2*128 + 32)); err != nil || f.Model.Trained != want {
		t.Errorf("%d parameters of the saved adapter are trained, %v; want %d", f.Model.Trained, err, want)
	}
	job := filepath.Join(filepath.Dir(p.job()), "second")
	second := []string{"name=second", fmt.Sprintf("model.lora_configs=[{name: new, %s}, {name: old, path: %s}]", lora, adapter),
		"explorer.eval_on_startup=true", "buffer.total_steps=4", evals("policy", "new", "old", "base")}
	if _, err := p.run(t, second...); err != nil {
		t.Fatal(err)
	}
	score := func(by string, step int) float64 {
		return curve(t, job, "explorer", "eval/by_"+by+"/accuracy/mean@1")[step/4]
	}
	if old := score("old", 0); old != first[2] || old == first[0] {
		t.Errorf("the old adapter scores %v, in its own run it began with %v and ended with %v", old, first[0], first[2])
	}
	for step := 0; step <= 4; step += 4 {
		if score("policy", step) != score("new", step) || score("old", step) != score("old", 0) || score("base", step) != first[0] {
			t.Errorf("step %d: policy %v, new %v, old %v, base %v", step, score("policy", step), score("new", step), score("old", step),
				score("base", step))
		}
	}
}

// The plan counts the adapter of the output head, which all-linear leaves out.
func TestTheHeadsAdapterIsInThePlan(t *testing.T) {
	p := newProject(t, tiny, rl)
	trained := func(modules string) int64 {
		f, err := settle.Facts(p.load(t, "model.lora_configs=[{lora_rank: 4, target_modules: "+modules+"}]").Settled()[0])
		if err != nil {
			t.Fatal(err)
		}
		return f.Model.Trained
	}
	cfg, err := model.ReadConfig(filepath.Join(p.dir, "model"))
	if err != nil {
		t.Fatal(err)
	}
	head, layers := int64(4*(cfg.VocabSize+cfg.HiddenSize)), trained("all-linear")
	if got := trained("[lm_head]"); got != head {
		t.Errorf("%d weights of the head are trained, want %d", got, head)
	}
	if got := trained("[all-linear, lm_head]"); got != layers+head {
		t.Errorf("%d weights of layers and head are trained, want %d", got, layers+head)
	}
}

func TestAdaptersAreCheckedBeforeARun(t *testing.T) {
	p := newProject(t, tiny, rl)
	for list, want := range map[string]string{
		"[{path: DIR}]": "model.lora_configs.0: model: ",
		"[{lora_rank: 2}, {name: other, path: DIR}]":   "model.lora_configs.1: model: ",
		"[{target_modules: [nose]}]":                   "model.lora_configs.0: target_modules",
		"[{lora_rank: 2, exclude_modules: [no_proj]}]": "model.lora_configs.0: exclude_modules",
	} {
		cfg := p.load(t, "model.lora_configs="+strings.ReplaceAll(list, "DIR", p.dir))
		_, checked := settle.Facts(cfg.Settled()[0])
		_, ran := runConfig(t, cfg)
		for _, err := range []error{checked, ran} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v; want %q", list, err, want)
			}
		}
	}
}

// model.model_path may be an adapter, which the run goes on training, or a checkpoint. The adapter
// that the run writes names a base that PEFT finds from any directory.
func TestARunStartsFromAnAdapterOrACheckpoint(t *testing.T) {
	p := newProject(t, tiny, rl)
	t.Chdir(p.dir)
	const greedy = "buffer.explorer_input.eval_tasksets=[{name: few, path: eval.jsonl, rollout_args: {temperature: 0}, " +
		"format: {prompt_key: question, response_key: answer}}]"
	evaluate := func(name string, overrides ...string) (first, last float64) {
		if _, err := p.run(t, append(overrides, "name="+name, "buffer.total_steps=4", "explorer.eval_on_startup=true", greedy)...); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		scores := curve(t, filepath.Join(filepath.Dir(p.job()), name), "explorer", "eval/few/accuracy/mean@1")
		return scores[0], scores[len(scores)-1]
	}
	checkpoint := func(name, below string) string {
		return "model.model_path=" + filepath.Join("checkpoints/p", name, "global_step_4", below)
	}
	_, whole := evaluate("whole", "model.model_path=model")
	if first, _ := evaluate("whole_again", checkpoint("whole", "")); first != whole {
		t.Errorf("the run from a checkpoint begins with %v, and the checkpoint's run ended with %v", first, whole)
	}
	_, adapted := evaluate("adapted", "model.model_path=model", "model.lora_configs=[{lora_rank: 3, lora_alpha: 3}]")
	for i, path := range []string{checkpoint("adapted", ""), checkpoint("adapted", "actor/lora_adapter")} {
		name := fmt.Sprint("adapted_", i)
		if first, _ := evaluate(name, path); first != adapted {
			t.Errorf("%s: the run begins with %v, and the adapter's run ended with %v", path, first, adapted)
		}
		text := read(t, filepath.Join("checkpoints/p", name, "global_step_4/actor/lora_adapter/adapter_config.json"))
		if want := `"base_model_name_or_path": "` + filepath.Join(p.dir, "model") + `"`; !strings.Contains(text, want) ||
			!strings.Contains(text, `"r": 3`) {
			t.Errorf("the adapter's config is %s, want %s", text, want)
		}
	}
	_, err := p.run(t, "name=two", checkpoint("adapted", ""), "model.lora_configs=[{path: "+p.dir+"}]")
	if err == nil || !strings.Contains(err.Error(), "model.lora_configs.0.path") || !strings.Contains(err.Error(), "is an adapter, too") {
		t.Errorf("two adapters: %v", err)
	}
}

// PEFT opens no GGUF file, so a run whose adapters name one says so.
func TestARunNamesABaseThatPEFTCannotOpen(t *testing.T) {
	p := newProject(t, tiny, rl)
	cfg, err := model.ReadConfig(filepath.Join(p.dir, "model"))
	if err != nil {
		t.Fatal(err)
	}
	weights, err := model.RandomInit(cfg, 1, "fan_in")
	if err != nil {
		t.Fatal(err)
	}
	text, err := tokenizer.Load(filepath.Join(p.dir, "model"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(p.dir, "model.gguf")
	if err := model.WriteGGUF(path, weights, weights, text, "f32"); err != nil {
		t.Fatal(err)
	}
	for base, warned := range map[string]int{"": 1, ", base_model_name: base": 0} {
		var said strings.Builder
		cfg := p.load(t, "name=gguf"+strconv.Itoa(len(base)), "buffer.total_steps=1", "model.model_path="+path,
			"model.lora_configs=[{lora_rank: 2, lora_alpha: 2"+base+"}]")
		if _, err := run.Run(t.Context(), t.Context(), cfg, run.Options{Say: func(line string) { said.WriteString(line + "\n") }}); err != nil {
			t.Fatal(err)
		}
		want := "adapters of this run name the base " + path + ", which PEFT cannot open; for PEFT, write the base as a directory " +
			"(trinity convert " + path + " --output DIR) and set model.lora_configs.0.base_model_name=DIR"
		if strings.Count(said.String(), want) != warned {
			t.Errorf("base_model_name %q: the run said %s", base, said.String())
		}
	}
}
