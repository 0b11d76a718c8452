package studio_test

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/serve/studio"
	"github.com/trinity-go/trinity/monitor"
)

// checkpoint writes a checkpoint, whole but for its weights, and returns its path.
func (r *recorder) checkpoint(step int64) string {
	r.t.Helper()
	path := rundir.Checkpoint(r.dir, step)
	err := durable.WriteDir(path, func(temp string) error {
		if err := os.WriteFile(filepath.Join(temp, "state.json"), []byte("{}"), 0o600); err != nil {
			return err
		}
		return durable.Seal(temp)
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return path
}

// best notes an evaluation for trainer.keep_best.
func (r *recorder) best(e rundir.Evaluations) {
	r.t.Helper()
	text, err := json.Marshal(e)
	if err == nil {
		err = durable.WriteFile(filepath.Join(r.dir, rundir.BestFile), text)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// replied returns what a studio of the runs below root answers.
func replied[T any](t *testing.T, root, what string) (reply T) {
	t.Helper()
	w := httptest.NewRecorder()
	(&studio.Server{Dir: root, Version: "v1"}).Handler().ServeHTTP(w, httptest.NewRequest("GET", "http://localhost/api/v1/"+what, nil))
	if err := json.Unmarshal(w.Body.Bytes(), &reply); err != nil || w.Code != 200 {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	return reply
}

func TestWhereTheBestWeightsAre(t *testing.T) {
	values := map[int]float64{0: .8, 10: .5, 20: .7, 30: .6}
	for name, c := range map[string]struct {
		checkpoints []int64
		keeps       bool
		step        int64 // of the weights; -1 for none
		isBest      bool
	}{
		"none":                        {nil, false, -1, false},
		"of the best evaluation":      {[]int64{10, 20, 30}, false, 20, true},
		"the newest":                  {[]int64{10, 30}, false, 30, false},
		"kept by trainer.keep_best":   {[]int64{20, 30}, true, 20, true},
		"the best of those that stay": {[]int64{10, 30}, true, 30, true},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			r := record(t, root, "r", "seed: 1\n")
			kept := rundir.Evaluations{Metric: evaluation}
			for n := range 31 {
				if value, ok := values[n]; ok {
					r.evaluated(n, value)
					kept.Add(int64(n), value)
				}
			}
			path := ""
			for _, step := range c.checkpoints {
				if at := r.checkpoint(step); step == c.step {
					path = at
				}
			}
			if c.keeps {
				r.best(kept)
			}
			r.end(monitor.Finished, "")
			run := replied[struct {
				Weights *struct {
					Step int64
					Path string
					Best bool
				}
				Evaluation struct {
					First, Best   float64
					Step, Version int64
				}
			}](t, root, "runs/r")
			if e := run.Evaluation; e.First != .8 || e.Best != .7 || e.Step != 20 || e.Version != 20 {
				t.Errorf("the evaluation is %+v; the model that the run began with is none of its weights", e)
			}
			if run.Weights == nil {
				if c.step >= 0 {
					t.Error("no weights")
				}
				return
			}
			if w := *run.Weights; w.Step != c.step || w.Path != path || w.Best != c.isBest {
				t.Errorf("the weights are %+v, want those of step %d in %s", w, c.step, path)
			}
		})
	}
}

// A run that the studio did not start says what it told people, and its warnings once for each kind.
func TestWarningsOfARun(t *testing.T) {
	root := t.TempDir()
	r := record(t, root, "r", "seed: 1\n")
	r.log(trinity.Record{Step: 1, Role: trinity.RoleTrainer, Time: began, Metrics: trinity.Metrics{"actor/final_loss": 1}})
	lines := strings.Join([]string{
		"2026-01-01T00:00:01.5Z mode both",
		"2026-01-01T00:00:02Z WARNING: explorer step 5: eval/held_out/accuracy/mean@1 is 0 and was 0.77",
		"2026-01-01T00:00:03Z WARNING: explorer step 6: all rewards of each task are equal, as in the 4 steps before",
		"2026-01-01T00:00:04Z WARNING: explorer step 11: all rewards of each task are equal, as in the 9 steps before", "",
	}, "\n")
	if err := os.WriteFile(filepath.Join(r.dir, rundir.Monitor, rundir.MessagesFile), []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	r.end(monitor.Finished, "")
	for range 2 {
		run := replied[struct{ Warnings []string }](t, root, "runs/r")
		if w := run.Warnings; len(w) != 2 || !strings.Contains(w[0], "was 0.77") || !strings.Contains(w[1], "step 11") {
			t.Errorf("the warnings are %q", w)
		}
	}
	log := replied[struct {
		Started bool
		Text    string
		Cursor  int
	}](t, root, "runs/r/log")
	if log.Started || log.Text != lines || log.Cursor != len(lines) {
		t.Errorf("the log is %+v", log)
	}
}
