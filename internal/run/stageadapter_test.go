package run_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/run"
)

// stagesOfAdapters is a run of two short stages.
var stagesOfAdapters = strings.NewReplacer("WARMBATCH", "8", "WARMSTEPS", "2", "WARMSAVE", "2", "RLLR", "2e-3", "RLBATCH", "2",
	"RLSTEPS", "1", "RLSAVE", "1", "RLMINI", "8",
	"WORKFLOW", "simple_workflow", "REWARDARGS", "{}", "REWARD", "test_even").Replace(staged)

func TestAStageStartsFromTheAdapterOfTheStageBefore(t *testing.T) {
	p := newProject(t, tiny, stagesOfAdapters)
	var said strings.Builder
	summary, err := run.Run(t.Context(), t.Context(), p.load(t, "model.lora_configs=[{lora_rank: 3, lora_alpha: 3}]"),
		run.Options{Say: func(line string) { said.WriteString(line + "\n") }})
	if err != nil {
		t.Fatal(err)
	}
	if want := "model, adapter " + summary.Stages[0].Model + "; writes to "; !strings.Contains(said.String(), want) {
		t.Errorf("the run does not say %q:\n%s", want, said.String())
	}
	for i, name := range []string{"warmup/global_step_2", "rl/global_step_1"} {
		if want := filepath.Join(p.job(), name, "actor/lora_adapter"); summary.Stages[i].Model != want {
			t.Errorf("stage %d wrote %s, want %s", i, summary.Stages[i].Model, want)
		}
	}
	config := read(t, filepath.Join(summary.Stages[1].Model, "adapter_config.json"))
	if want := `"base_model_name_or_path": "` + filepath.Join(p.dir, "model"); !strings.Contains(config, want) ||
		!strings.Contains(config, `"r": 3`) {
		t.Errorf("the last adapter is %s, want %s", config, want)
	}
}
