package run_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/run/settle"
)

// A run over two tasksets plans and reports each of them, and gives each its share.
func TestTwoTasksetsShareARun(t *testing.T) {
	p := newProject(t, tiny, blended)
	cfg := p.load(t, "buffer.total_steps=null", "buffer.explorer_input.tasksets.0.path="+filepath.Join(p.dir, "eval.jsonl"),
		"buffer.total_epochs=3",
		"buffer.explorer_input.tasksets.0.data_selector={selector_type: random}")
	facts, err := settle.Facts(cfg.Settled()[0])
	if err != nil {
		t.Fatal(err)
	}
	plan, err := cfg.Plan(facts)
	if err != nil {
		t.Fatal(err)
	}
	if s, text := plan.Stages[0], plan.String(); s.ExploreSteps != 8 || strings.Count(text, "\n  tasks ") != 2 ||
		!strings.Contains(text, "66.7 %") { // 3 × (4 + 4) tasks, 3 a step
		t.Errorf("%d steps\n%s", s.ExploreSteps, text)
	}
	summary, err := runConfig(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if summary.Stages[0].Steps != 8 {
		t.Errorf("%d steps", summary.Stages[0].Steps)
	}
	metrics := read(t, filepath.Join(p.job(), "monitor", "metrics.jsonl"))
	for _, name := range []string{`"rollout/digits/reward/mean"`, `"rollout/few/reward/mean"`, `"rollout/few/finished_task_count"`,
		`"rollout/reward/mean"`} {
		if !strings.Contains(metrics, name) {
			t.Errorf("no %s", name)
		}
	}
}
