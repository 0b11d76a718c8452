package run_test

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestDraftsChangeNoRun runs the same steps without drafts and with some: only the metrics of drafts tell the
// runs apart.
func TestDraftsChangeNoRun(t *testing.T) {
	all := map[string]result{}
	for _, speculate := range []string{"off", "auto", "4"} {
		p := newProject(t, tiny, rl)
		if _, err := p.run(t, "explorer.rollout_model.speculate="+speculate, "buffer.total_steps=4", "trainer.save_interval=4",
			"buffer.explorer_input.taskset.rollout_args.temperature=0.2"); err != nil {
			t.Fatal(err)
		}
		all[speculate] = results(t, p.job())
		metrics := read(t, filepath.Join(p.job(), "monitor", "metrics.jsonl"))
		has := strings.Contains(metrics, "rollout/draft_accept_rate") && strings.Contains(metrics, "perf/draft_saved_time")
		if speculate != "auto" && has != (speculate == "4") {
			t.Errorf("speculate %s: metrics of drafts: %v", speculate, has)
		}
	}
	all["auto"].sameAs(t, all["off"])
	all["4"].sameAs(t, all["off"])
}
