package cli

import (
	"fmt"
	"io"
	"math"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/serve/studio"
	"github.com/trinity-go/trinity/internal/trace"
	"github.com/trinity-go/trinity/monitor"
)

// writeStage writes what a stage of a run leaves: records of two train steps and an evaluation, spans, a failed
// rollout, and how it ended.
func writeStage(t *testing.T, dir, name string, began time.Time, reward float64) {
	t.Helper()
	home := filepath.Join(dir, rundir.Monitor)
	run := monitor.Run{
		Dir: home, Project: "p", Name: "r/" + name, TotalSteps: 2, Trains: true, Parts: []string{trinity.RoleExplorer, trinity.RoleTrainer},
	}
	monitors, err := monitor.Open([]string{"jsonl"}, nil, run)
	if err != nil {
		t.Fatal(err)
	}
	w, err := trace.New(trace.Options{
		Dir: filepath.Join(dir, rundir.Traces), FromStep: math.MaxInt64, Spans: true, Text: func(int32) string { return "" },
		Say: func(line string) { t.Error(line) },
	})
	if err != nil {
		t.Fatal(err)
	}
	for step := range int64(2) {
		step++
		at := began.Add(time.Duration(step) * time.Minute)
		for role, metrics := range map[string]trinity.Metrics{
			trinity.RoleExplorer: {"rollout/reward/mean": reward, "rollout/tokens_per_second": 10, "time/explore_step": 2},
			trinity.RoleTrainer:  {"actor/final_loss": reward / 2, "perf/throughput": 10, "time/train_step": 3},
		} {
			w.Span(trinity.Span{Role: role, Kind: trinity.SpanForward, Step: step, Begin: at.Add(-time.Second), End: at})
			if err := monitors[0].Log(t.Context(), trinity.Record{Step: step, Role: role, Time: at, Metrics: metrics}); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.Failed(trinity.FailedRollout{
		ID: trinity.ExperienceID{Step: 2, Task: name}, Role: trinity.RoleExplorer, Kind: "workflow", Reason: "no", Time: began,
	})
	log := filepath.Join(dir, rundir.Logs)
	for _, err := range []error{
		w.Close(), monitor.Close(monitors, monitor.Finished), monitor.KeepEnd(home, run.Parts, monitor.Finished, ""), os.MkdirAll(log, 0o755),
		os.WriteFile(filepath.Join(home, "config.yaml"), fmt.Appendf(nil, "name: r\ntrainer: {total_steps: 2}\n# %s\n", name), 0o644),
		os.WriteFile(filepath.Join(log, rundir.FailedLog), []byte(began.Format(time.RFC3339)+" no "+name+"\n"), 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A copy of a run has files of other times, and reads as the run does: every page finds the same stage to be the
// newest.
func TestCopiesReadAsTheRunDoes(t *testing.T) {
	runs := t.TempDir()
	began := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	for i, stage := range []string{"rl", "warmup"} { // warmup, the last by name, came first
		writeStage(t, filepath.Join(runs, "one", "r", stage), stage, began.Add(time.Duration(-i)*time.Hour), float64(i)+1)
	}
	if err := os.CopyFS(filepath.Join(runs, "two", "r"), os.DirFS(filepath.Join(runs, "one", "r"))); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for at, stage := range map[time.Duration]string{time.Hour: "warmup", -time.Hour: "rl"} {
		err := filepath.Walk(filepath.Join(runs, "two", "r", stage), func(path string, _ os.FileInfo, err error) error {
			return os.Chtimes(path, now, now.Add(at))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	read := func(folder string) map[string]string {
		all := map[string]string{}
		dir := filepath.Join(runs, folder, "r")
		for _, command := range []string{
			"perf", "perf --step 2", "view", "view --json", "top --once", "log --pattern . --dir", "compare", "compare --json", "report",
		} {
			var out, errs strings.Builder
			Main(append(strings.Fields(command), dir), strings.NewReader(""), &out, &errs)
			all[command] = out.String() + errs.String()
		}
		page, err := os.ReadFile(filepath.Join(dir, "report.html"))
		if err != nil {
			t.Fatal(err)
		}
		all["page"] = string(page)
		server := httptest.NewServer((&studio.Server{Dir: dir}).Handler())
		defer server.Close()
		for _, path := range []string{"runs", "runs/rl", "compare?run=rl&run=warmup", "runs/rl/failures", "runs/warmup/spans"} {
			reply, err := server.Client().Get(server.URL + "/api/v1/" + path)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(reply.Body)
			if err := reply.Body.Close(); err != nil {
				t.Fatal(err)
			}
			if all[path] = string(text); err != nil || reply.StatusCode != 200 {
				t.Errorf("%s: %s, %v: %s", path, reply.Status, err, text)
			}
		}
		for name, text := range all {
			all[name] = strings.ReplaceAll(text, filepath.Join(runs, folder), "")
		}
		return all
	}
	one, two := read("one"), read("two")
	for name, text := range one {
		if text != two[name] {
			t.Errorf("%s:\n%s\nof the copy:\n%s", name, text, two[name])
		}
	}
	newest := regexp.MustCompile(`/r/rl/trace|no rl|task rl|"task":"rl"|r/rl`)
	for _, name := range []string{"perf", "perf --step 2", "view", "view --json", "top --once"} {
		if !newest.MatchString(two[name]) || strings.Contains(two[name], "warmup") {
			t.Errorf("%s does not show stage rl:\n%s", name, two[name])
		}
	}
}
