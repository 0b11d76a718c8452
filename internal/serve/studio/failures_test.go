package studio

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/trace"
)

// The newest failures of a run are there without a train step, those of evaluations too.
func TestFailuresWithoutATrainStep(t *testing.T) {
	dir, s := site(t, "")
	w, err := trace.New(trace.Options{
		Dir: filepath.Join(dir, "r", rundir.Traces), Text: func(int32) string { return hostile }, Say: func(line string) { t.Error(line) },
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range mostFailures + 1 {
		role := trinity.RoleExplorer
		if i == mostFailures {
			role = trinity.RoleEvaluation
		}
		w.Failed(trinity.FailedRollout{
			ID: trinity.ExperienceID{Step: int64(i), Task: "c"}, Role: role, Kind: trinity.FailedTool, Reason: fmt.Sprint("boom\n", i),
			Prompt: []int32{1}, Time: time.Unix(int64(1e9+i), 0),
		})
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	put(t, dir, "none/monitor/metrics.jsonl", line(1, "trainer", `"a":1`))
	type reply struct {
		Failures []struct {
			Role, Reason string
			PromptText   string `json:"prompt_text"`
		}
		Total   int
		Damaged []string
	}
	for query, want := range map[string]int{"": mostFailures, "?limit=2": 2} {
		all := got[reply](t, s, "runs/r/failures"+query)
		if len(all.Failures) != want || all.Total != mostFailures+1 || len(all.Damaged) != 0 {
			t.Fatalf("%q: %d of %d failures, %v", query, len(all.Failures), all.Total, all.Damaged)
		}
		if f := all.Failures[0]; f.Role != trinity.RoleEvaluation || f.Reason != "boom\n200" || f.PromptText != hostile ||
			all.Failures[1].Reason != "boom\n199" {
			t.Errorf("%q: the newest are not first: %+v", query, all.Failures[:2])
		}
	}
	if all := got[reply](t, s, "runs/none/failures"); all.Failures == nil || all.Total != 0 || len(all.Damaged) != 0 {
		t.Errorf("a run without a trace: %+v", all)
	}
	for _, limit := range []string{"0", "-1", "201", "x"} {
		if status, text := get(t, s, "/api/v1/runs/r/failures?limit="+limit); status != 400 || !strings.Contains(text, "want") {
			t.Errorf("%s: %d: %s", limit, status, text)
		}
	}
	if status, text := get(t, s, "/api/v1/runs/nowhere/failures"); status != 404 {
		t.Errorf("%d: %s", status, text)
	}
}
