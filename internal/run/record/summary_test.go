package record

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/rundir"
)

// The table of a run has what all records of metrics.jsonl tell, and keeps nothing else of a long file in memory.
func TestSummaryRecallsWhatItShows(t *testing.T) {
	const steps = 500
	dir := t.TempDir()
	var text strings.Builder
	for step := range steps {
		fmt.Fprintf(&text, `{"step":%d,"role":"explorer","time":"2026-01-02T15:04:05.123Z","metrics":{"rollout/reward/mean":%d`, step+1, step)
		for i := range 60 {
			fmt.Fprintf(&text, `,"rollout/other_%d/mean":%d`, i, i)
		}
		text.WriteString(`,"time/explore_step":2,"rollout/tokens_per_second":30`)
		if step%100 == 0 {
			fmt.Fprintf(&text, `,"eval/held/accuracy/mean@1":%d,"eval/held/response_length/mean@1":7`, step)
		}
		fmt.Fprintf(&text, "}}\n"+`{"step":%d,"role":"trainer","time":"2026-01-02T15:04:05.123Z","metrics":{"actor/final_loss":"NaN",`+
			`"time/train_step":4,"perf/throughput":50},"samples":[{"prompt":"p","response":"r"}]}`+"\n", step+1)
	}
	if err := os.WriteFile(filepath.Join(dir, rundir.MetricsFile), []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	read := func() (s StageSummary) {
		s.Rewards, s.Losses, s.Steps = []float64{7}, []float64{7}, 499 // of this process
		if err := s.Recall(dir); err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := read()
	if len(s.Rewards) != steps || s.Rewards[0] != 0 || s.Rewards[steps-1] != steps-1 || len(s.Losses) != steps || s.Steps != 499 ||
		s.Sampled != 30 || s.Trained != 50 {
		t.Errorf("recalled %d rewards, %d losses, %d steps, %v and %v tokens/s", len(s.Rewards), len(s.Losses), s.Steps, s.Sampled, s.Trained)
	}
	var evals []Eval
	for step := 1; step <= steps; step += 100 {
		evals = append(evals, Eval{int64(step), "eval/held/accuracy/mean@1", float64(step - 1)})
	}
	if !reflect.DeepEqual(s.Evals, evals) {
		t.Errorf("evaluations %v, want %v", s.Evals, evals)
	}
	if made := testing.AllocsPerRun(1, func() { read() }) / (2 * steps); made > 20 {
		t.Errorf("a record takes %.0f allocations, want some for the metrics of the table", made)
	}
}
