package run_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/run"
	"github.com/trinity-go/trinity/internal/run/settle"
)

// A program of any stage that cannot start on this machine ends the run before the first stage, and
// the plan says so. Modules that a variable of the program leads to count.
func TestInterpretersAreCheckedBeforeAnythingStarts(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3")
	}
	packages := t.TempDir()
	if err := os.Mkdir(filepath.Join(packages, "sglang"), 0o755); err != nil {
		t.Fatal(err)
	}
	const sampler = "stages.3.explorer.rollout_model="
	for _, c := range []struct{ name, override, want string }{
		{"no interpreter", sampler + "{engine_type: vllm, engine_args: {python: /none/python}}",
			"rollout-0: the interpreter /none/python does not work: "},
		{"no module", sampler + "{engine_type: sglang, engine_args: {python: " + python + ", env: {PYTHONPATH: /none}}}",
			"rollout-0: " + python + " has no sglang: install sglang there, or name another interpreter in " +
				"explorer.rollout_model.engine_args.python"},
		{"no trainer", "stages.2.trainer={trainer_type: torch, trainer_args: {python: /none/python}}",
			"trainer: the interpreter /none/python does not work: "},
		{"all there", sampler + "{engine_type: sglang, engine_args: {python: " + python + ", env: {PYTHONPATH: " + packages + "}}}", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newProject(t, tiny, learningStages)
			plan, err := p.load(t, c.override).PlanStages(settle.Facts)
			if err != nil {
				t.Fatal(err)
			}
			if said := plan.String(); strings.Contains(said, "the run cannot start") != (c.want != "") ||
				!strings.Contains(said, c.want) {
				t.Errorf("the plan says %s", said)
			}
			if c.want == "" {
				return // that a server answers is another test's
			}
			_, err = run.Run(t.Context(), t.Context(), p.load(t, c.override), run.Options{Say: func(string) {}})
			oneLine(t, err, c.want)
			if exists(filepath.Join(p.job(), "sft")) {
				t.Error("the first stage has begun")
			}
		})
	}
}

// A run that starts servers refuses a model directory without weights. It accepts one if load_format is
// set, or if a stage before writes the weights.
func TestStartedServersNeedWeights(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3")
	}
	packages := t.TempDir()
	if err := os.Mkdir(filepath.Join(packages, "vllm"), 0o755); err != nil {
		t.Fatal(err)
	}
	servers := "explorer.rollout_model={engine_type: vllm, engine_args: {python: " + python + ", env: {PYTHONPATH: " + packages + "}}}"
	const need = ", and the servers that the run starts load a model directory with weights (safetensors); trinity convert"
	p := newProject(t, tiny, rl)
	quantized := filepath.Join("..", "..", "model", "testdata", "tiny", "llama3.gguf")
	for _, c := range []struct{ override, want string }{
		{"name=r", "model.model_path: " + filepath.Join(p.dir, "model") + " has no weights" + need},
		{"model.model_path=" + quantized, "is a file" + need},
		{noWeights, ""},
		{"explorer.rollout_model.base_urls=['http://a:8000']", ""},
	} {
		plan, err := p.load(t, servers, c.override).PlanStages(settle.Facts)
		if err != nil {
			t.Fatal(err)
		}
		if said := plan.String(); strings.Contains(said, need) != (c.want != "") || !strings.Contains(said, c.want) {
			t.Errorf("%s: the plan says %s", c.override, said)
		}
		if c.want != "" {
			_, err = p.run(t, servers, c.override)
			oneLine(t, err, c.want)
		}
	}
}
