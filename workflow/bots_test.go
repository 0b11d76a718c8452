package workflow

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// dirHost gives plug-ins a directory.
type dirHost struct {
	trinity.Host
	dir string
}

func (h dirHost) Dir(string) (string, error) { return h.dir, nil }

func TestBOTSAsksMessages(t *testing.T) {
	task := task()
	task.Format.PromptKey, task.Format.ResponseKey = "data.prompt", "data.truth"
	task.Row["data"] = map[string]any{"prompt": []any{map[string]any{"role": "user", "content": "2+3?"}}, "truth": "5"}
	for _, own := range []bool{false, true} {
		dir := t.TempDir()
		path := filepath.Join(dir, "bots_ref_eval_log.jsonl")
		if own {
			path = filepath.Join(t.TempDir(), "own.jsonl")
			t.Setenv("BOTS_REF_EVAL_LOG_FILE", path)
		}
		w := build(t, "bots_ref_eval_collect_math_boxed_workflow", nil).(trinity.GroupWorkflow)
		p := &parrot{says: "5"}
		r := rollout(task, model(p), &echo{})
		r.Host = dirHost{dir: dir}
		group, err := w.Run(t.Context(), r)
		if err != nil || p.asked != "user: 2+3?\nassistant: " || group[0].Reward.Value != 1.5 {
			t.Fatalf("asked %q, got %+v, %v", p.asked, group, err)
		}
		unscored := *group[0]
		unscored.Reward = trinity.InvalidReward("no judge")
		for _, g := range []trinity.Group{{group[0], &unscored, group[0]}, {&unscored}, {group[0]}} {
			if err := w.Compare(t.Context(), r, g); err != nil {
				t.Fatal(err)
			}
		}
		const rest = `,"question":[{"role":"user","content":"2+3?"}],"truth":"5"}` + "\n"
		const want = `{"model_version":4,"rewards":[1.5,1.5]` + rest + `{"model_version":4,"rewards":[1.5]` + rest
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s has %s, %v; want %s", path, got, err, want)
		}
	}
}

func TestBOTSScoresTheFormat(t *testing.T) {
	for thinks, want := range map[bool]float64{false: 1, true: 0.9} {
		fn, err := registry.Rewards.Build("math_boxed_reward")
		if err != nil {
			t.Fatal(err)
		}
		w := build(t, "bots_math_boxed_workflow", map[string]any{"with_think": thinks})
		exps, err := w.Run(t.Context(), rollout(task(), model(&parrot{says: `\boxed{5}`}), fn))
		if err != nil || exps[0].Reward.Value != want {
			t.Errorf("with_think %v: %+v, %v", thinks, exps[0].Reward, err)
		}
	}
}
