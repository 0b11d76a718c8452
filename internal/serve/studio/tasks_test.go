package studio

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/trace"
)

// rewarded adds a train step to a trace, in which each task has answers with these rewards; a negative one
// is none.
func rewarded(t *testing.T, dir string, step int64, tasks map[string][]float64) {
	t.Helper()
	w, err := trace.New(trace.Options{
		Dir: filepath.Join(dir, rundir.Traces), FromStep: step - 1, Text: func(int32) string { return "x" },
		Say: func(line string) { t.Error(line) },
	})
	if err != nil {
		t.Fatal(err)
	}
	var all []trinity.TrainedExperience
	for task, rewards := range tasks {
		for run, reward := range rewards {
			e := trinity.Experience{
				ID: trinity.ExperienceID{Step: step, Task: task, Run: run}, Tokens: []int32{1, 2}, PromptLen: 1, Mask: []bool{false, true},
				Logprobs: []float32{0, -1}, Reward: trinity.Reward{Reason: "none"},
			}
			if reward >= 0 {
				e.Reward = trinity.NewReward(map[string]float64{"accuracy": reward})
			}
			stats := trinity.TokenStats{Logprob: []float32{0, -1}}
			all = append(all, trinity.TrainedExperience{Experience: e, Updates: []trinity.Update{{Index: 0, Now: stats}, {Index: 1, Now: stats}}})
		}
	}
	w.Trained(trinity.Trained{Step: step, Experiences: all})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// Tasks that several runs have answered come with their rewards in every step. A step that cannot be
// read is told, and the others are there.
func TestSharedTasks(t *testing.T) {
	dir, s := site(t, "")
	rewarded(t, filepath.Join(dir, "a"), 1, map[string][]float64{"q/1": {0, 1, -1}, "q/2": {1}})
	rewarded(t, filepath.Join(dir, "a"), 5, map[string][]float64{"q/1": {1, 1}})
	rewarded(t, filepath.Join(dir, "b"), 3, map[string][]float64{"q/1": {-1}, "q/3": {1}})
	rewarded(t, filepath.Join(dir, "c"), 2, map[string][]float64{"q/1": {0}, "q/3": {0.5}})
	put(t, dir, "none/monitor/metrics.jsonl", line(1, "trainer", `"a":1`))
	shared := func(runs string) (text string) {
		t.Helper()
		status, text := get(t, s, "/api/v1/tasks?"+runs)
		if status != http.StatusOK {
			t.Fatalf("%s: %d %s", runs, status, text)
		}
		return strings.TrimSpace(text)
	}
	q1a := `[{"step":1,"explore_step":1,"n":3,"invalid":1,"mean":0.5},{"step":5,"explore_step":5,"n":2,"invalid":0,"mean":1}]`
	q1b := `[{"step":3,"explore_step":3,"n":1,"invalid":1,"mean":null}]`
	want := `{"damaged":[],"left_off":0,"tasks":[{"task":"q/1","runs":[` + q1a + `,` + q1b + `]}]}`
	for range 2 { // the second time from memory
		if got := shared("run=a&run=b"); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	three := shared("run=c&run=b&run=a")
	if !strings.Contains(three, `"tasks":[{"task":"q/1","runs":[[{"step":2,`) || !strings.Contains(three, `{"task":"q/3","runs":[[{`) ||
		!strings.Contains(three, `"mean":1}],[]]}`) || strings.Contains(three, "q/2") {
		t.Error(three)
	}
	if got := shared("run=a&run=none"); got != `{"damaged":[],"left_off":0,"tasks":[]}` {
		t.Error(got)
	}
	broken := trace.StepFile(filepath.Join(dir, "a", rundir.Traces), 5)
	if err := os.Truncate(broken, 40); err != nil {
		t.Fatal(err)
	}
	if got := shared("run=a&run=b"); !strings.Contains(got, `"damaged":["`+broken) || !strings.Contains(got, `"n":3`) ||
		strings.Contains(got, `"step":5`) {
		t.Error(got)
	}
	for runs, says := range map[string]string{"run=a": "2 to 16", "run=a&run=x": "no run", "run=a&run=../b": "no run"} {
		if status, text := get(t, s, "/api/v1/tasks?"+runs); status/100 != 4 || !strings.Contains(text, says) {
			t.Errorf("%s: %d %s", runs, status, text)
		}
	}
}
