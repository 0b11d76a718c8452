package learn

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/explorer"
	"github.com/trinity-go/trinity/internal/run/checkpoint"
	"github.com/trinity-go/trinity/internal/run/feed"
	"github.com/trinity-go/trinity/internal/run/record"
	"github.com/trinity-go/trinity/internal/run/settle"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/trainer"
)

// best keeps the best checkpoint of a stage (trainer.keep_best), and ends the stage when nothing better has
// come for a while (trainer.patience). An evaluation of the explorer measures a version that the trainer has
// published. The trainer does not wait for it: it writes a checkpoint of each version that will be measured,
// and the checkpoints remove those that turn out not to be the best.
type best struct {
	dir      checkpoint.Dir
	metric   string
	patience int
	set      string         // what the metric's name begins with in an evaluation of its data
	measured map[int64]bool // versions that the explorer will evaluate; nil if the trainer evaluates
	say      func(string)

	mu   sync.Mutex
	all  rundir.Evaluations
	told bool
}

// KeepBest makes a trainer with these options keep the best checkpoint, if the stage wants it. Beside the
// trainer an explorer explores so many steps, and evaluates; with 0 the trainer evaluates.
func (c *Learner) KeepBest(o *trainer.Options, explores int64) (err error) {
	s := c.Stage
	if s.Trainer.KeepBest == "" {
		return nil
	}
	b := &best{dir: c.Checkpoints, patience: s.Trainer.Patience, say: c.Log.Say}
	var lower bool
	b.metric, lower = s.Trainer.BestMetric()
	b.set = strings.Join(strings.SplitN(b.metric, "/", 3)[:2], "/") + "/"
	if b.all, err = rundir.ReadEvaluations(c.Checkpoints.Path); err != nil {
		return err
	}
	if b.all.Metric != b.metric || b.all.Lower != lower { // the values are of another metric
		b.all = rundir.Evaluations{Metric: b.metric, Lower: lower}
	}
	if explores > 0 {
		b.measured = map[int64]bool{}
		pace := feed.Pace(s.Settled)
		for step := int64(s.Explorer.EvalInterval); step < explores; step += int64(s.Explorer.EvalInterval) {
			b.measured[pace.Required(step+1)] = true
		}
		b.measured[pace.Required(explores+1)] = true
	}
	c.best, o.Keeps, o.Enough, c.Log.Evaluated = b, b.keeps, b.enough, b.evaluated
	return nil
}

// evaluated takes a record that may hold an evaluation. What it knows is on the disk before a monitor has it.
func (b *best) evaluated(r trinity.Record) error {
	value, ok := r.Metrics[b.metric]
	if !ok {
		return b.lacks(r)
	}
	version := r.Step
	if of, ok := r.Metrics[explorer.EvalVersion]; ok {
		version = int64(of)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all.Add(version, value)
	return b.dir.KeepEvaluations(b.all)
}

// lacks returns an error if the metric is missing in an evaluation of its data.
func (b *best) lacks(r trinity.Record) error {
	var has []string
	for _, name := range slices.Sorted(maps.Keys(r.Metrics)) {
		if strings.HasPrefix(name, b.set) {
			has = append(has, name)
		}
	}
	if has == nil {
		return nil
	}
	return fmt.Errorf("trainer.keep_best is %s, which the evaluation does not measure: it measures %s", b.metric, strings.Join(has, ", "))
}

// keeps reports whether a step of the trainer gets a checkpoint because it is, or may be, the best.
func (b *best) keeps(step int64) bool {
	if b.measured != nil {
		return b.measured[step]
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.IsBest(step)
}

// enough reports whether the evaluations of versions before one say that the stage should end.
func (b *best) enough(before int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	since := b.all.Since(before)
	if b.patience == 0 || since < b.patience {
		return false
	}
	if !b.told {
		b.told = true
		b.say(fmt.Sprintf("ends early: %d evaluations in a row had no better %s than the best before (trainer.patience = %d)",
			since, b.metric, b.patience))
	}
	return true
}

// HandOn makes the best checkpoint of a stage that has ended the one whose model it hands on, and adds it to the
// summary. If no step was as good as the model of an earlier stage that this one began with, it hands on that model. A
// stage that keeps none hands on its last.
func HandOn(s *settle.Stage, sum *record.StageSummary, ended bool, say func(string)) (err error) {
	if s.Trainer.KeepBest == "" || !s.Trains {
		return nil
	}
	if sum.Best, err = rundir.ReadBest(s.CheckpointJobDir); err != nil || sum.Best == nil {
		return err
	}
	from := checkpoint.HandedOn(sum.Best)
	if start := sum.Best.Start; start != nil {
		line := fmt.Sprintf("%s was better before the first step, %.4g, than in the best checkpoint, %.4g at step %d",
			sum.Best.Metric, *start, sum.Best.Value, sum.Best.Step)
		if from != sum.Best.Checkpoint {
			line = fmt.Sprintf("%s: the stage hands on the model that it began with", line)
		}
		say(line)
	}
	if !ended || s.Trainer.SaveHfCheckpoint == "never" {
		return nil
	}
	quiet := func(string) {}
	if sum.Model, err = s.OpenCheckpoint(from, quiet); err == nil && s.Critic != nil {
		_, err = s.OpenCritic(from, quiet)
	}
	return err
}
