package run_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/run"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/trace"
	"github.com/trinity-go/trinity/monitor"
)

// A run's traces change no bit of what it learns.
func TestTracesChangeNothing(t *testing.T) {
	var all []result
	var with project
	for _, o := range []string{"monitor.trace={tokens: all, spans: true}", "monitor.trace={tokens: off, spans: false}"} {
		p := newProject(t, tiny, rl)
		if _, err := p.run(t, o); err != nil {
			t.Fatal(err)
		}
		if present := len(glob(t, filepath.Join(p.job(), "trace"))) > 0; present == (len(all) > 0) {
			t.Errorf("%s: a trace is there: %v", o, present)
		}
		if len(all) == 0 {
			with = p
		}
		all = append(all, results(t, p.dir))
	}
	all[0].sameAs(t, all[1])
	dir := filepath.Join(with.job(), rundir.Traces)
	steps, err := trace.Steps(dir)
	if err != nil || len(steps) != 8 {
		t.Fatalf("steps %v, %v", steps, err)
	}
	rows, err := trace.ReadStep(dir, 8)
	if err != nil || len(rows) != 12 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	for _, r := range rows {
		if r.Update < 0 || len(r.DLogprob) != len(r.Tokens) || fmt.Sprint(r.Now) != fmt.Sprint(r.Logprobs) && r.Update == 0 {
			t.Errorf("a row of %s: %+v", r.ID, r)
		}
		if r.Truth == "" || r.Prompt == "" {
			t.Errorf("%s: the truth is %q, the question %q", r.ID, r.Truth, r.Prompt)
		}
	}
	evaluations, err := trace.Evaluations(dir)
	if err != nil || len(evaluations) == 0 {
		t.Fatalf("evaluations %v, %v", evaluations, err)
	}
	for i, mean := range curve(t, with.job(), "explorer", "eval/few/reward/mean@2") {
		answers, err := trace.ReadEvaluated(evaluations[i].Path)
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for _, a := range answers {
			if a.Truth == "" || a.Run == nil || a.Step != evaluations[i].Step {
				t.Errorf("%+v", a)
			}
			sum += *a.Reward
		}
		if got := sum / float64(len(answers)); math.Abs(got-mean) > 1e-9 {
			t.Errorf("the answers at step %d have the mean reward %v, and the metric is %v", evaluations[i].Step, got, mean)
		}
	}
	spans, err := trace.ReadSpans(dir)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]bool{}
	for _, s := range spans {
		kinds[strings.TrimSpace(fmt.Sprint(s.Role, " ", s.Kind, " ", s.For))] = true
	}
	for _, kind := range []string{
		"explorer wait trainer", "explorer rollout", "explorer model_call", "explorer reward", "explorer operator", "explorer delivery",
		"evaluation evaluation", "evaluation rollout", "trainer wait explorer", "trainer forward", "trainer backward", "trainer update",
		"trainer publish", "trainer checkpoint",
	} {
		if !kinds[kind] {
			t.Errorf("no span %q among %v", kind, kinds)
		}
	}
}

// A run whose watchers panic or sleep ends with the same bits, and says once which of them panicked.
func TestWatchersThatPanicChangeNothing(t *testing.T) {
	quiet := newProject(t, tiny, rl)
	troubled := "buffer.explorer_input.taskset.workflow_args={trouble: late}"
	settings := []string{"buffer.explorer_input.default_workflow_type=test_troubled", troubled, "explorer.max_retry_times=1"}
	if _, err := quiet.run(t, settings...); err != nil {
		t.Fatal(err)
	}
	want := results(t, quiet.dir)
	for watcher, lines := range map[string]int32{"test_panics": 1, "test_panics_in_log": 1, "test_sleeps": 0} {
		p := newProject(t, tiny, rl)
		var said atomic.Int32
		cfg := p.load(t, append(settings, "monitor.monitor_type=[jsonl, "+watcher+"]")...)
		_, err := run.Run(t.Context(), t.Context(), cfg, run.Options{Say: func(line string) {
			t.Log(line)
			if strings.Contains(line, "no longer tells *run_test.") && strings.HasSuffix(line, "what happens: panic: of the test") {
				said.Add(1)
			}
		}})
		if err != nil || said.Load() != lines {
			t.Errorf("%s: %d lines, want %d; %v", watcher, said.Load(), lines, err)
		}
		results(t, p.dir).sameAs(t, want)
	}
}

// A stage that cannot write its log closes the monitors that it has opened.
func TestAStageThatDoesNotBeginClosesItsMonitors(t *testing.T) {
	p := newProject(t, tiny, rl)
	cfg := p.load(t, "monitor.monitor_type=[jsonl, test_closes]")
	if err := os.MkdirAll(cfg.CheckpointJobDir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(cfg.CheckpointJobDir, "log"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	before := closes.Load()
	if _, err := runConfig(t, cfg); err == nil || closes.Load() != before+1 {
		t.Errorf("%v; the monitor was closed %d times", err, closes.Load()-before)
	}
}

// closes is how many monitors test_closes were closed.
var closes atomic.Int32

type closing struct{}

func (*closing) Log(context.Context, trinity.Record) error { return nil }
func (*closing) Close() error                              { closes.Add(1); return nil }

func init() {
	monitor.Monitors.Register("test_closes", "Counts how often it is closed.", func() trinity.Monitor { return &closing{} })
	monitor.Monitors.Register("test_panics", "Panics at whatever happens.", func() trinity.Monitor { return &watcher{panics: true} })
	monitor.Monitors.Register("test_panics_in_log", "Panics at each record.", func() trinity.Monitor { return &panicsInLog{} })
	monitor.Monitors.Register("test_sleeps", "Sleeps at whatever happens.", func() trinity.Monitor { return &watcher{} })
}

// watcher is a monitor that does harm within steps.
type watcher struct{ panics bool }

func (*watcher) Log(context.Context, trinity.Record) error { return nil }
func (*watcher) Close() error                              { return nil }
func (w *watcher) Span(trinity.Span)                       { w.harm() }
func (w *watcher) Failed(trinity.FailedRollout)            { w.harm() }

// panicsInLog is a monitor that does harm between steps.
type panicsInLog struct{}

func (*panicsInLog) Log(context.Context, trinity.Record) error { panic("of the test") }
func (*panicsInLog) Close() error                              { return nil }

func (w *watcher) harm() {
	if w.panics {
		panic("of the test")
	}
	time.Sleep(time.Millisecond)
}

// A failed rollout is in the trace with its reason, and with what it had sampled.
func TestTraceHasFailedRollouts(t *testing.T) {
	p := newProject(t, tiny, rl)
	_, err := p.run(t, "buffer.explorer_input.default_workflow_type=test_troubled", "buffer.total_steps=2", noEvaluation,
		"explorer.max_retry_times=1", "buffer.explorer_input.taskset.workflow_args={trouble: late}")
	if err != nil {
		t.Fatal(err)
	}
	failures, err := trace.ReadFailures(filepath.Join(p.job(), rundir.Traces))
	if err != nil || len(failures) != 6 { // one of each of three tasks in two steps
		t.Fatalf("%d failures, %v", len(failures), err)
	}
	for _, f := range failures {
		if f.Kind != "workflow" || !strings.Contains(f.Reason, "a broken tool") || f.Retries != 1 || f.Run != 0 || f.Task == "" ||
			f.Role != "explorer" || len(f.Prompt) == 0 || len(f.Sampled) == 0 {
			t.Errorf("failure %+v", f)
		}
	}
}

// An answer without a valid reward, which does not reach the trainer, is in the trace with its tokens.
func TestTraceHasDroppedAnswers(t *testing.T) {
	p := newProject(t, tiny, rl)
	_, err := p.run(t, "buffer.explorer_input.default_reward_fn_type=test_even_start", "buffer.total_steps=2", noEvaluation)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(p.job(), rundir.Traces)
	invalid := 0.0
	for _, r := range metrics(t, filepath.Join(p.job(), "monitor", "metrics.jsonl")) {
		n, _ := r.Metrics["rollout/invalid_reward_count"].(float64)
		invalid += n
	}
	failures, err := trace.ReadFailures(dir)
	if err != nil || invalid == 0 {
		t.Fatalf("%g invalid rewards, %v", invalid, err)
	}
	texts, err := trace.ReadTexts(dir)
	if err != nil {
		t.Fatal(err)
	}
	unscored := 0
	for _, f := range failures {
		if f.Kind != trinity.DroppedAnswer || f.Role != "explorer" || f.Retries != 0 || f.Task == "" ||
			len(f.Prompt) == 0 || len(f.Sampled) == 0 {
			t.Fatalf("failure %+v", f)
		}
		if f.Sampled[0]%2 == 0 {
			continue // its group had no other answer to compare with
		}
		unscored++
		want := fmt.Sprintf("dropped by advantage, no valid reward: it begins with %d", f.Sampled[0])
		if f.Reason != want || texts[f.Sampled[0]] == "" {
			t.Errorf("reason %q, token %q; want %q", f.Reason, texts[f.Sampled[0]], want)
		}
	}
	if unscored == 0 || unscored > int(invalid) || len(failures) > 2*8 {
		t.Errorf("%d failures, %d of them without a valid reward, of %g", len(failures), unscored, invalid)
	}
	for _, step := range []int64{1, 2} {
		rows, err := trace.ReadStep(dir, step)
		for _, r := range rows {
			if r.Reward == nil {
				t.Errorf("train step %d has %s, without a valid reward", step, r.ID)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// sameTraces checks that the traces of two runs have the same of each train step that both have.
func sameTraces(t *testing.T, a, b project) {
	t.Helper()
	steps, err := trace.Steps(filepath.Join(a.job(), rundir.Traces))
	if err != nil || len(steps) == 0 {
		t.Fatalf("the trace has the train steps %v, %v", steps, err)
	}
	of := func(p project, step int64) string {
		rows, err := trace.ReadStep(filepath.Join(p.job(), rundir.Traces), step)
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		for _, r := range rows {
			text += fmt.Sprintln(r.ID, r.Response, r.Dropped, r.Streams, r.Updated)
		}
		return text
	}
	other, err := trace.Steps(filepath.Join(b.job(), rundir.Traces))
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range steps {
		if slices.Contains(other, step) && of(a, step) != of(b, step) {
			t.Errorf("the traces of train step %d differ:\n%.300s\nwant\n%.300s", step, of(a, step), of(b, step))
		}
	}
}

// A run that finds no place for its trace goes on without.
func TestRunWithoutPlaceForItsTrace(t *testing.T) {
	p := newProject(t, tiny, rl)
	write(t, filepath.Join(p.job(), "trace"), "a file")
	var told atomic.Bool
	_, err := run.Run(t.Context(), t.Context(), p.load(t, "buffer.total_steps=1", noEvaluation), run.Options{Say: func(line string) {
		if strings.Contains(line, "goes on without its trace") {
			told.Store(true)
		}
	}})
	if err != nil || !told.Load() {
		t.Errorf("told %v, %v", told.Load(), err)
	}
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// The trace of a run has the spans of all its explorers, once: of one in another directory, which sends
// them, and of one in the run's, which writes them. Without spans in the trainer they stay where they are.
func TestTraceHasTheSpansOfAllExplorers(t *testing.T) {
	for _, keeps := range []bool{true, false} {
		t.Run(fmt.Sprint(keeps), func(t *testing.T) {
			t.Parallel()
			p := newProject(t, tiny, rl)
			elsewhere := p.copyOf(t)
			const token = "TRINITY_TOKEN=of the test"
			port := freePort(t)
			trainer := p.start(t, []string{token}, append(fields(trainingTwo), "trainer.listen_address=127.0.0.1:"+port,
				fmt.Sprintf("monitor.trace.spans=%v", keeps))...)
			left := elsewhere.start(t, []string{token, childJoin + "=http://127.0.0.1:" + port}, half("left", "1/2")...)
			p.start(t, []string{token, childJoin + "=http://127.0.0.1:" + port}, half("right", "2/2")...).finish(t)
			left.finish(t)
			trainer.finish(t)
			of := func(p project, name string) map[string]int {
				spans, err := trace.ReadSpans(filepath.Join(p.job(), rundir.Traces))
				if err != nil {
					t.Fatal(err)
				}
				count := map[string]int{}
				for _, s := range spans {
					if strings.HasSuffix(s.Role, name) {
						count[fmt.Sprint(s.Role, " ", s.Kind, " ", s.Step, " ", s.ID)]++
					}
				}
				return count
			}
			want := of(elsewhere, "left")
			got := of(p, "left")
			if len(want) == 0 || keeps && !maps.Equal(got, want) || !keeps && len(got) > 0 {
				t.Errorf("the trainer's trace has the spans of left %v, and left's own %v", got, want)
			}
			right := of(p, "right")
			for what, n := range right {
				if strings.Contains(what, "rollout") && n > 1 {
					t.Errorf("%s is there %d times", what, n)
				}
			}
			if len(right) == 0 {
				t.Error("the trace has no spans of right")
			}
		})
	}
}
