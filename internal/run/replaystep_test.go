package run_test

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/trinity-go/trinity/internal/run"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/trace"
	"github.com/trinity-go/trinity/internal/view"
)

// A step that is trained again has the same bits, whatever the run is, and nothing in its directory
// changes.
func TestReplayHasTheSameBits(t *testing.T) {
	dataset := func(algorithm string) string { return strings.ReplaceAll(onDataset, "ALGORITHM", algorithm) }
	for _, c := range []struct {
		name, yaml string
		overrides  []string
		step, from int64
	}{
		{name: "after a checkpoint", yaml: rl, step: 7, from: 6},
		{name: "between checkpoints", yaml: rl, step: 8, from: 6},
		{name: "the first step", yaml: rl, step: 1},
		{name: "without checkpoints", yaml: rl, step: 3, overrides: []string{"trainer.save_interval=100"}},
		{name: "by epochs", yaml: rl, step: 2, overrides: []string{
			"buffer.total_steps=null", "buffer.total_epochs=1", "buffer.batch_size=334"}},
		{name: "a batch across groups", yaml: rl, overrides: []string{"buffer.train_batch_size=7"}, step: 9, from: 8},
		{name: "short batches", yaml: rl, step: 8, from: 6, overrides: []string{"data_processor.experience_pipeline.operators=" +
			"[{name: reward_filter, args: {threshold: 0.5}}]"}},
		{name: "empty batches", yaml: rl, step: 7, from: 6, overrides: []string{"data_processor.experience_pipeline.operators=" +
			"[{name: reward_filter, args: {threshold: 2}}]"}},
		{name: "short batches to replay", yaml: rl, step: 8, from: 6, overrides: append(replay("priority_fn: linear_decay"),
			"data_processor.experience_pipeline.operators=[{name: reward_filter, args: {threshold: 0.5}}]")},
		{name: "one step off", yaml: rl, overrides: []string{"synchronizer.sync_offset=1"}, step: 5, from: 4},
		{name: "critic and reference", yaml: rl, step: 5, from: 4, overrides: []string{
			"algorithm.algorithm_type=ppo", "algorithm.kl_loss_fn=k2",
			"algorithm.kl_loss_fn_args={kl_coef: 0.1, adaptive: true, target_kl: 0.1, horizon: 10}"}},
		{name: "replay buffer", yaml: rl, overrides: replay("priority_fn: linear_decay"), step: 5, from: 4},
		{name: "fully async", yaml: rl, overrides: []string{"synchronizer.sync_style=fully_async"}, step: 7, from: 6},
		{name: "dataset", yaml: sft, step: 11, from: 10},
		{name: "pairs", yaml: dataset("dpo"), step: 14, from: 12},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newProject(t, tiny, c.yaml)
			if _, err := p.run(t, append(c.overrides, noEvaluation)...); err != nil {
				t.Fatal(err)
			}
			before := sums(t, p.job())
			record, replayed := replayStep(t, p, c.step)
			if replayed.From != c.from || replayed.Otherwise != nil {
				t.Errorf("from step %d, want %d; otherwise %v", replayed.From, c.from, replayed.Otherwise)
			}
			if d := compared(t, record, replayed); d != nil {
				t.Error(d)
			}
			if after := sums(t, p.job()); !maps.Equal(before, after) {
				t.Errorf("the run's directory was\n%v\nand is\n%v", before, after)
			}
		})
	}
}

// replayStep reads what a run has of a train step, and trains it again.
func replayStep(t *testing.T, p project, step int64, overrides ...string) (*view.Record, *run.Replayed) {
	t.Helper()
	record, err := view.ReadRecord(p.job(), step)
	if err != nil {
		t.Fatal(err)
	}
	o := run.ReplayOptions{Step: step, Overrides: overrides, Say: func(line string) { t.Log(line) }}
	replayed, err := run.Replay(t.Context(), p.job(), o)
	if err != nil {
		t.Fatal(err)
	}
	return record, replayed
}

func compared(t *testing.T, record *view.Record, replayed *run.Replayed) *view.Difference {
	t.Helper()
	var out strings.Builder
	d, err := record.Compare(&out, replayed.Again.Metrics, trace.Rows(replayed.Again.Trained))
	if err != nil {
		t.Fatal(err)
	}
	t.Log(out.String())
	return d
}

// sums returns the contents and the time of every file below a directory.
func sums(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		all[path] = fmt.Sprintf("%x %v", sha256.Sum256(data), info.ModTime())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A trace in which somebody has changed a number is found out: the answer, the token and the column.
func TestReplayNamesWhatATraceHasChanged(t *testing.T) {
	p := newProject(t, tiny, rl)
	if _, err := p.run(t, noEvaluation); err != nil {
		t.Fatal(err)
	}
	record, replayed := replayStep(t, p, 5)
	path := trace.StepFile(filepath.Join(p.job(), rundir.Traces), 5)
	last := len(record.Rows) - 1
	for name, c := range map[string]struct {
		change func(r *trace.Row)
		want   string
	}{
		"d_logprobs": {func(r *trace.Row) { r.DLogprob[len(r.DLogprob)-1] *= 2 }, "token %d"},
		"tokens":     {func(r *trace.Row) { r.Tokens[len(r.Tokens)-1]++ }, "token %d"},
		"mask":       {func(r *trace.Row) { r.Mask = r.Mask[:len(r.Mask)-1] }, "token %d"},
		"reward":     {func(r *trace.Row) { *r.Reward += 1e-12 }, ""},
		"batch":      {func(r *trace.Row) { r.ID = "9/elsewhere/0/0" }, ""},
	} {
		rows, err := trace.ReadStep(filepath.Join(p.job(), rundir.Traces), 5)
		if err != nil {
			t.Fatal(err)
		}
		end := len(rows[last].Tokens) - 1
		c.change(&rows[last])
		changed := *record
		changed.Rows = rows
		d := compared(t, &changed, replayed)
		if d == nil || !strings.Contains(d.String(), rows[last].ID) || !strings.Contains(d.String(), name) {
			t.Errorf("%s: %v", name, d)
		} else if c.want != "" && !strings.Contains(d.String(), fmt.Sprintf(c.want, end)) {
			t.Errorf("%s: %v, want token %d", name, d, end)
		}
	}
	short := *record
	short.Rows = record.Rows[:last]
	d := compared(t, &short, replayed)
	if d == nil || !strings.Contains(d.String(), record.Rows[last].ID) || d.Recorded != "not in the trace" {
		t.Errorf("a trace without its last row: %v", d)
	}
	record.Rows[last].Now[len(record.Rows[last].Now)-1] = -1
	if err := parquet.WriteFile(path, record.Rows); err != nil {
		t.Fatal(err)
	}
	if read, err := view.ReadRecord(p.job(), 5); err != nil || compared(t, read, replayed) == nil {
		t.Errorf("a file in which a log-probability was changed has the same bits: %v", err)
	}
	record.Rows, record.Metrics["actor/unknown"] = nil, 2
	if d := compared(t, record, replayed); d == nil || !strings.HasPrefix(d.String(), "metric actor/unknown is 2 as recorded, and missing") {
		t.Errorf("a metric that nobody computes: %v", d)
	}
	record.Metrics["actor/grad_norm"] = 0
	if d := compared(t, record, replayed); d == nil || !strings.Contains(d.String(), "metric actor/grad_norm is 0") {
		t.Errorf("metrics: %v", d)
	}
}

// With other settings a step does what they say, from the same weights and on the same batch.
func TestReplayWithOtherSettings(t *testing.T) {
	p := newProject(t, tiny, rl)
	if _, err := p.run(t, noEvaluation); err != nil {
		t.Fatal(err)
	}
	const clip = "algorithm.policy_loss_fn_args.clip_range=0.0001"
	for _, c := range []struct {
		step    int64
		setting string
		same    []string // metrics
		differ  []string
		text    string
	}{
		{7, clip, []string{"actor/lr", "critic/advantages/max"}, []string{"actor/pg_clipfrac"}, "of them clipped    0  "},
		{6, clip, []string{"actor/lr", "critic/advantages/max"}, []string{"actor/pg_clipfrac"}, "of them clipped    0  "},
		{6, "algorithm.advantage_fn=rloo", []string{"critic/rewards/mean"}, []string{"critic/advantages/max"}, "optimizer step 1"},
		{1, "algorithm.optimizer.lr=1e-9", []string{"critic/advantages/max"}, []string{"actor/lr"}, ": 1.000000 (optimizer step 0)"},
	} {
		_, replayed := replayStep(t, p, c.step, c.setting)
		was, is := replayed.Again, replayed.Otherwise
		for _, name := range c.same {
			if _, ok := was.Metrics[name]; !ok || was.Metrics[name] != is.Metrics[name] {
				t.Errorf("step %d, %s: %s is %v and was %v", c.step, c.setting, name, is.Metrics[name], was.Metrics[name])
			}
		}
		for _, name := range c.differ {
			if _, ok := was.Metrics[name]; !ok || was.Metrics[name] == is.Metrics[name] {
				t.Errorf("step %d, %s: %s is still %v", c.step, c.setting, name, is.Metrics[name])
			}
		}
		var out strings.Builder
		err := view.PrintOtherwise(&out, c.setting, was.Metrics, is.Metrics, trace.Rows(was.Trained), trace.Rows(is.Trained))
		if err != nil || !strings.Contains(out.String(), c.text) {
			t.Errorf("step %d, %s: %v\n%s\nwant %q", c.step, c.setting, err, out.String(), c.text)
		}
	}
}

// What cannot be made again is an error that says why.
func TestReplayRefuses(t *testing.T) {
	p := newProject(t, tiny, rl)
	if _, err := p.run(t, noEvaluation, "buffer.total_steps=3"); err != nil {
		t.Fatal(err)
	}
	evaluated := `{"step":3,"role":"explorer","time":"2026-01-02T15:04:05.000Z","metrics":{}}` + "\n"
	write(t, filepath.Join(p.dir, "checkpoints", "p", "evaluated", "monitor", "metrics.jsonl"), evaluated) // newer, and trains nothing
	if dir, err := run.TrainedLast(filepath.Join(p.dir, "checkpoints")); err != nil || dir != p.job() {
		t.Errorf("the run that trained last is %s, %v", dir, err)
	}
	for _, c := range []struct {
		change func()
		step   int64
		want   string
	}{
		{func() { os.RemoveAll(filepath.Join(p.job(), "buffer")) }, 3, "cannot be made again"},
		{func() { os.Remove(filepath.Join(p.job(), "monitor", "config.yaml")) }, 3, "config.yaml"},
	} {
		c.change()
		_, err := run.Replay(t.Context(), p.job(), run.ReplayOptions{Step: c.step, Say: func(string) {}})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}
