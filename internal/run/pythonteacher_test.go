package run_test

import (
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/trinitytest"
)

const pupils = `
from trinity.common.workflows import Workflow

class Pupil(Workflow):
    """Asks its auxiliary model about what it wrote."""

    def run(self):
        replies = self.model.chat([{"role": "user", "content": self.task.task_desc}], **self.task.workflow_args.get("sampling", {}))
        for e in replies:
            of_all = self.auxiliary_model_wrappers[0].logprobs(e.tokens, temperature=1.0)
            e.teacher_logprobs, e.reward = of_all[e.prompt_length - 1:], 0.0
        return replies
`

// A class asks the teacher itself, and the student learns what it learns from the trainer's teacher.
func TestAClassAsksItsTeacher(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		trinitytest.Missing(t, "there is no python3")
	}
	p := newProject(t, tiny, distilled)
	p.teacher(t, "master", 20)
	write(t, filepath.Join(p.dir, "pupils.py"), pupils)
	run := func(name string, overrides ...string) []float64 {
		t.Helper()
		if _, err := p.run(t, append(overrides, p.teachers("master"), "name="+name, "buffer.total_steps=3", noEvaluation)...); err != nil {
			t.Fatal(err)
		}
		return curve(t, filepath.Join(filepath.Dir(p.job()), name), "trainer", "critic/kl/mean")
	}
	want := run("here", "buffer.explorer_input.default_workflow_type=on_policy_distill_workflow")
	asks := "buffer.explorer_input.taskset.workflow_args={auxiliary_models: [master]}"
	classes := map[string][]string{"pupils.Pupil": {asks}}
	if python := os.Getenv("TRINITY_COMPAT_PYTHON"); python != "" {
		classes["trinity.common.workflows.on_policy_distill_workflow.OnPolicyDistillWorkflow"] = []string{asks, "python.interpreter=" + python}
	}
	for class, overrides := range classes {
		name := class[strings.LastIndexByte(class, '.')+1:]
		got := run(name, append(overrides, "buffer.explorer_input.default_workflow_type="+class)...)
		for i := range want {
			if len(got) != len(want) || math.Abs(got[i]-want[i]) > 1e-5 {
				t.Errorf("%s: the divergence from the teacher is %v, want %v", class, got, want)
				break
			}
		}
	}
}

// A model that cannot score the policy's tokens says why, in the failure of the rollout.
func TestAModelThatCannotScore(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		trinitytest.Missing(t, "there is no python3")
	}
	p := newProject(t, tiny, rl)
	write(t, filepath.Join(p.dir, "pupils.py"), pupils)
	other := filepath.Join(p.dir, "other")
	p.teacher(t, "other", 1)
	var tokenizer map[string]any
	if err := json.Unmarshal([]byte(read(t, filepath.Join(other, "tokenizer.json"))), &tokenizer); err != nil {
		t.Fatal(err)
	}
	vocabulary := tokenizer["model"].(map[string]any)["vocab"].(map[string]any)
	vocabulary["1"], vocabulary["2"] = vocabulary["2"], vocabulary["1"]
	write(t, filepath.Join(other, "tokenizer.json"), encode(t, tokenizer))
	for name, c := range map[string]struct{ models, want string }{
		"external": {externally("http://127.0.0.1:9/v1"),
			"model judge: refused: it is asked over a chat API (engine_type: external), which scores no tokens"},
		"other": {"explorer.auxiliary_models=[{name: judge, model_path: " + other + "}]",
			"has another tokenizer than model.model_path"},
	} {
		_, err := p.run(t, c.models, "name="+name, "buffer.total_steps=1", noEvaluation,
			"buffer.explorer_input.default_workflow_type=pupils.Pupil", "buffer.explorer_input.taskset.workflow_args={auxiliary_models: [judge]}")
		oneLine(t, err, c.want)
	}
}
