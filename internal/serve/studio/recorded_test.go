package studio_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/trace"
	"github.com/trinity-go/trinity/monitor"
)

// What a model may write.
const (
	script = "<script>window.pwned = 1</script><img src=x onerror='window.pwned = 1'>"
	escape = "\x1b[31mred\x1b[2J"
	marks  = "\u202egnp.exe\u2066"
)

var began = time.Now().Add(-20 * time.Minute).Truncate(time.Second)

// recorder is a run that the writers of a real run record.
type recorder struct {
	t        *testing.T
	monitors []trinity.Monitor
	dir      string
	lock     *durable.Lock // a run that nobody holds has ended
}

// record begins a run below root, with settings as YAML.
func record(t *testing.T, root, name, settings string) *recorder {
	t.Helper()
	dir := filepath.Join(root, filepath.FromSlash(name))
	project, own, isBelow := strings.Cut(name, "/")
	if !isBelow {
		project, own = filepath.Base(root), name
	}
	monitors, err := monitor.Open([]string{"jsonl"}, nil, monitor.Run{
		Dir: filepath.Join(dir, "monitor"), Project: project, Name: own, TotalSteps: 60, Trains: true,
		Quiet: true, Parts: []string{"explorer", "trainer"},
	})
	if err != nil {
		t.Fatal(err)
	}
	lock, err := durable.TakeLock(dir, "trainer", "a test")
	if err != nil {
		t.Fatal(err)
	}
	settings = fmt.Sprintf("name: %s\nmodel: {model_path: models/tiny}\n", filepath.Base(dir)) + settings
	if err := durable.WriteFile(filepath.Join(dir, "monitor", rundir.SettingsFile), []byte(settings)); err != nil {
		t.Fatal(err)
	}
	return &recorder{t, monitors, dir, lock}
}

// step records a step of both roles.
func (r *recorder) step(n int, reward float64) {
	r.t.Helper()
	at := began.Add(time.Duration(n) * 10 * time.Second)
	r.log(
		trinity.Record{Step: int64(n), Role: "explorer", Time: at, Metrics: trinity.Metrics{
			"rollout/reward/mean": reward, "rollout/response_length/mean": 20 + 5*math.Sin(float64(n)/5),
		}},
		trinity.Record{Step: int64(n), Role: "trainer", Time: at.Add(time.Second), Metrics: trinity.Metrics{
			"actor/entropy_loss": 2 * math.Exp(-float64(n)/20), "actor/grad_norm": 1 + math.Abs(math.Sin(float64(n*n))),
			"perf/total_num_tokens": 4000, "actor/optimizer_steps": float64(3 * n),
		}},
	)
}

// log records what parts of the run measure.
func (r *recorder) log(records ...trinity.Record) {
	r.t.Helper()
	for _, rec := range records {
		for _, m := range r.monitors {
			if err := m.Log(context.Background(), rec); err != nil {
				r.t.Fatal(err)
			}
		}
	}
}

// end closes the run.
func (r *recorder) end(status monitor.Status, line string) {
	r.t.Helper()
	if err := monitor.Close(r.monitors, status); err != nil {
		r.t.Fatal(err)
	}
	if err := monitor.KeepEnd(filepath.Join(r.dir, "monitor"), []string{"explorer", "trainer"}, status, line); err != nil {
		r.t.Fatal(err)
	}
	r.lock.Release()
}

// reward of a step of a run that learns.
func learnt(n, seed int) float64 {
	return 1 - math.Exp(-float64(n)/20) + .05*math.Sin(float64(n*(seed+3)))
}

// traced records the rollouts of some steps and who worked when.
func (r *recorder) traced(steps ...int) {
	r.t.Helper()
	texts := []string{
		"<|user|>", "What is ", "3 + 4?", "<|assistant|>", "<think>", "three and four ", "make ", "7", "</think>", "The answer is ", "8",
		"<|end|>", script, escape, marks,
	}
	w, err := trace.New(trace.Options{
		Dir: filepath.Join(r.dir, rundir.Traces), Spans: true,
		Text: func(token int32) string { return texts[token] }, Say: func(line string) { r.t.Error(line) },
	})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, n := range steps {
		at := began.Add(time.Duration(n) * 10 * time.Second)
		for lane, s := range []trinity.Span{
			{Role: trinity.RoleExplorer, Kind: trinity.SpanRollout, Name: "sums/1"},
			{Role: trinity.RoleExplorer, Kind: trinity.SpanReward, Name: "sums/1"},
			{Role: trinity.RoleTrainer, Kind: trinity.SpanWait, For: trinity.RoleExplorer},
			{Role: trinity.RoleTrainer, Kind: trinity.SpanForward},
		} {
			s.Step, s.Begin, s.End = int64(n), at.Add(time.Duration(lane)*time.Second), at.Add(time.Duration(lane+2)*time.Second)
			w.Span(s)
		}
		var all []trinity.TrainedExperience
		for run := range 4 {
			all = append(all, rollout(n, "sums/1", run, texts, []int32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, int32(7 + 3*(run%2)), 11}))
		}
		if n == steps[0] {
			hostile := rollout(n, "hostile", 0, texts, []int32{0, 1, 2, 3, 12, 13, 14, 11})
			long := rollout(n, "long", 0, texts, []int32{0, 1, 2, 3, 12, 11})
			long.Response = strings.Repeat("ten megabytes in a line ", 10<<20/24)
			all = append(all, hostile, long)
			name := script + escape + marks
			w.Span(trinity.Span{
				Role: trinity.RoleExplorer, Kind: trinity.SpanRollout, Name: name, Step: int64(n), Begin: at, End: at.Add(2 * time.Second),
				Experience: trinity.ExperienceID{Step: int64(n), Task: name},
			})
			w.Failed(trinity.FailedRollout{
				ID: trinity.ExperienceID{Step: int64(n), Task: "sums/1", Run: 9}, Role: trinity.RoleExplorer, Kind: trinity.FailedTool,
				Reason: "the tool failed: " + script + escape, Prompt: []int32{0, 1}, Sampled: []int32{12, 13}, Time: at,
			})
		}
		w.Trained(trinity.Trained{Step: int64(n), Experiences: all})
		r.written(n)
	}
	if err := w.Close(); err != nil {
		r.t.Fatal(err)
	}
}

// answered keeps the answers of evaluations to 200 held-out rows, of which so many are right: one that only this seed has
// right, and one that is long; and to one of another taskset, of an agent.
func (r *recorder) answered(seed, right int, steps ...int64) {
	r.t.Helper()
	w, err := trace.New(trace.Options{Dir: filepath.Join(r.dir, rundir.Traces), Say: func(line string) { r.t.Error(line) }})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, step := range steps {
		run, one, nought := int64(0), 1.0, 0.0
		rows := []trace.Evaluated{
			{Prompt: "What is 3 + 4?", Truth: "7", Response: "<think>three and four make 8</think>The answer is 8", Reward: &nought},
			{Prompt: "What is 5 + 4?", Truth: "9", Response: "The answer is 9", Reward: &one},
			{Prompt: "How many lamps can I buy for 100 €?", Truth: "12", Reward: &nought,
				Response: "<think>" + strings.Repeat("a lamp costs 8 €, ", 200) + "</think>You can buy 13."},
			{Prompt: "What do they cost?", Truth: "96", Response: "96 €", Reward: &one,
				Chat: `[{"role":"user","content":"What do they cost?"},{"role":"tool","content":"96"},{"role":"assistant","content":"96 €"}]`},
		}
		if seed > 0 && step > 20 {
			rows[0].Response, rows[0].Reward = "<think>three and four make 7</think>The answer is 7", &one
		}
		for i := range rows {
			rows[i].Parts = trace.JSON(fmt.Sprintf(`{"accuracy":%g}`, *rows[i].Reward))
			rows[i].Taskset, rows[i].Row, rows[i].Run, rows[i].Step, rows[i].ModelVersion = "held_out", int64(i), &run, step, step
		}
		rows[3].Taskset = "prices"
		left := right
		for _, row := range rows[:3] {
			left -= int(*row.Reward)
		}
		rows = append(rows, sums(step, 3, left)...)
		w.Evaluation(trace.Evaluation{Who: trace.OfRun, Step: step, Rows: rows})
	}
	if err := w.Close(); err != nil {
		r.t.Fatal(err)
	}
}

// written waits until a step is on the disk: a trace leaves out what comes faster than it can write.
func (r *recorder) written(step int) {
	r.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if _, err := os.Stat(trace.StepFile(filepath.Join(r.dir, rundir.Traces), int64(step))); err == nil {
			return
		}
	}
	r.t.Fatalf("step %d does not reach the disk", step)
}

// logprob of a token.
func logprob(position, run int) float64 {
	return -.05 - .4*math.Abs(math.Sin(float64(position*(run+2))))
}

func rollout(step int, task string, run int, texts []string, tokens []int32) trinity.TrainedExperience {
	const prompt = 4
	e := trinity.Experience{
		ID: trinity.ExperienceID{Step: int64(step), Task: task, Run: run}, Tokens: tokens, PromptLen: prompt, Temperature: 1,
		Reward: trinity.NewReward(map[string]float64{"accuracy": float64((run + 1) % 2), "format": .1}),
	}
	if task == "sums/1" {
		e.Truth = "7"
	}
	stats, grads := trinity.TokenStats{}, trinity.TokenGrads{}
	for i, token := range tokens {
		trained := i >= prompt
		if trained {
			e.Response += texts[token]
		} else {
			e.Prompt += texts[token]
		}
		p := logprob(i, run)
		e.Mask, e.Logprobs = append(e.Mask, trained), append(e.Logprobs, float32(p))
		e.OldLogprobs, e.Entropies = append(e.OldLogprobs, float32(p)-.01), append(e.Entropies, float32(-p))
		e.Advantages = append(e.Advantages, float32(.5-float64(run%2)))
		stats.Logprob, grads.Logprob = append(stats.Logprob, float32(p)+.02), append(grads.Logprob, float32(p)*(.5-float32(run%2)))
	}
	return trinity.TrainedExperience{Experience: e, Updates: []trinity.Update{{Now: stats, Grads: grads}}}
}

// runs records the runs that the tests of the page look at.
func runs(t *testing.T) (root string) {
	t.Helper()
	root = t.TempDir()
	for seed := range 3 {
		for _, lr := range []string{"1e-5", "3e-5"} {
			settings := fmt.Sprintf("seed: %d\nalgorithm: {algorithm_type: grpo, optimizer: {lr: %s}}\n", seed, lr)
			r := record(t, root, fmt.Sprintf("sums/lr%s_seed%d", lr, seed), settings)
			for n := 1; n <= 60; n++ {
				r.step(n, learnt(n, seed))
			}
			if seed == 0 && lr == "1e-5" {
				r.traced(10, 20, 30, 40, 50, 60)
			}
			if seed == 1 && lr == "1e-5" {
				r.traced(10, 20)
			}
			r.end(monitor.Finished, "")
		}
	}
	r := record(t, root, "sums/failed", "algorithm: {algorithm_type: ppo}\n")
	r.step(1, .1)
	r.end(monitor.Failed, "trainer: step 2: the loss is NaN "+script)
	return root
}
