// Package run wires explorer, trainer, buffer and weights as a configuration says, and runs them:
// its modes, stages and checkpoints, and how it resumes.
package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/failpoint"
	"github.com/trinity-go/trinity/internal/run/feed"
	"github.com/trinity-go/trinity/internal/run/learn"
	"github.com/trinity-go/trinity/internal/run/record"
	"github.com/trinity-go/trinity/internal/run/refine"
	"github.com/trinity-go/trinity/internal/run/settle"
)

// Options are what a run needs besides its configuration.
type Options struct {
	Say func(string) // receives lines for people
	// Console shows progress on standard error, whatever monitors are configured. Quiet shows none.
	Console, Quiet bool
	Brief          bool // does not say how each stage starts and where it writes
	// Join is the URL of the trainer that mode explore rolls out for and mode serve follows; "" is
	// the trainer of the run's directory. User information in the URL is the token; without it,
	// TRINITY_TOKEN holds it.
	Join string
	// Adapters are PEFT directories that mode serve samples with by their names.
	Adapters map[string]string
	// Keep is how long mode serve keeps responses for requests that continue them; 0 is 24 hours.
	Keep time.Duration
	// Stage is the only stage to run; "" runs all stages, one after the other.
	Stage string

	activity *record.Activity // of the stage that runs
}

// Summary says what a run did.
type Summary struct {
	Stages []record.StageSummary `json:"stages"`
	Report string                `json:"report,omitempty"` // page with curves, answers and times; "" if the run has no metrics.jsonl
}

// Run runs the stages that are not finished yet: all, or only opts.Stage. The end of stop ends the
// run after the training step in progress, with a checkpoint. The error is then the cause of stop.
// The end of ctx ends the run at once. A configuration serves one run: Run changes paths in it.
func Run(ctx, stop context.Context, cfg *config.Config, opts Options) (*Summary, error) {
	opts.activity = &record.Activity{}
	defer context.AfterFunc(stop, func() { opts.Say(opts.activity.Stopping()) })()
	summary, err := runAll(ctx, stop, cfg, opts)
	err = record.ScrubOf(cfg).Err(err)
	summary.Report = record.Report(cfg.CheckpointJobDir, opts.Say)
	learn.Cards(summary.Stages, cfg.Name, opts.Say)
	return summary, record.WithAdvice(err)
}

func runAll(ctx, stop context.Context, cfg *config.Config, opts Options) (*Summary, error) {
	summary := &Summary{}
	if err := failpoint.Check(); err != nil {
		return summary, err
	}
	if err := checkStage(cfg, opts); err != nil {
		return summary, err
	}
	if opts.Stage == "" {
		if err := record.StartAnew(cfg); err != nil {
			return summary, err
		}
	}
	stages, err := settleAll(ctx, cfg, opts)
	if err != nil {
		if ctx.Err() == nil && stop.Err() == nil {
			record.KeepFailure(opts.chosen(cfg), err, opts.Say)
		}
		return summary, err
	}
	if len(cfg.Stages) == 0 {
		return summary, summary.run(ctx, stop, stages[0], opts)
	}
	return summary, summary.runStages(ctx, stop, cfg, stages, opts)
}

// unusedKeys returns a line with the keys and values that are set but change nothing in any stage, or "".
func unusedKeys(stages []*settle.Stage) string {
	const most = 5
	var keys []string
	for _, stage := range stages {
		for _, n := range stage.Unused() {
			isUsed := func(other *settle.Stage) bool { // in another stage
				return other.IsSet(n.Key) && !slices.ContainsFunc(other.Unused(), func(o config.Note) bool { return o.Key == n.Key })
			}
			if set := n.Key + "=" + n.Value; !slices.Contains(keys, set) && !slices.ContainsFunc(stages, isUsed) {
				keys = append(keys, set)
			}
		}
	}
	if len(keys) == 0 {
		return ""
	}
	if more := len(keys) - most; more > 0 {
		keys = append(keys[:most], fmt.Sprintf("%d more", more))
	}
	return "set, but not used: " + strings.Join(keys, ", ") + "; trinity check says why"
}

// settleAll resolves the stages of a run and downloads their models. It returns an error if a stage
// cannot end well: its data is missing, its models do not fit together, or it needs more memory
// than this machine has.
func settleAll(ctx context.Context, cfg *config.Config, opts Options) ([]*settle.Stage, error) {
	var stages []*settle.Stage
	for i, c := range cfg.Settled() {
		s, err := settle.Resolve(c)
		if err != nil && opts.skips(cfg, i) {
			s, err = &settle.Stage{Settled: c}, nil // another run of the file reports it
		}
		if err != nil {
			return nil, err
		}
		stages = append(stages, s)
		if opts.skips(cfg, i) {
			continue
		}
		done, err := finished(s.Settled, false)
		if err == nil && done == nil {
			err = refine.CheckDatasets(s.Settled, func(path string) bool {
				return slices.ContainsFunc(stages[:i], func(before *settle.Stage) bool { return before.Leaves(path) })
			})
		}
		if err != nil {
			return nil, err
		}
	}
	if line := unusedKeys(stages); line != "" {
		opts.Say(line)
	}
	for i, s := range stages {
		if done, err := finished(s.Settled, i == len(cfg.Stages)-1); err != nil || done != nil || opts.skips(cfg, i) {
			continue // runStages reports the error when it reaches the stage
		}
		if err := s.CheckInterpreters(ctx); err != nil { // before a download
			return nil, err
		}
		if err := s.Fetch(ctx, opts.Say); err != nil {
			return nil, err
		}
		trained := func(b *settle.Stage) bool { return b.Trains && len(b.Model.LoraConfigs) == 0 } // it writes another model
		if !slices.ContainsFunc(stages[:i], trained) {
			if err := s.Openers.CheckServedModel(s.Settled, s.ModelPath); err != nil {
				return nil, err
			}
		}
		if err := s.Fits(stageName(cfg, i), s.Trains, s.Samples); err != nil {
			return nil, err
		}
		if s.ModelPath != "" && !slices.ContainsFunc(stages[:i], func(b *settle.Stage) bool { return b.ModelPath == s.ModelPath }) {
			for _, line := range settle.ModelNotes(s.ModelPath) {
				opts.Say(line)
			}
		}
	}
	return stages, nil
}

// run runs one stage. If its engine loses a worker, run resumes it, at most trainer.max_restarts
// times.
func (sum *Summary) run(ctx, stop context.Context, cfg *settle.Stage, opts Options) error {
	for restarts := 1; ; restarts++ {
		begun := len(sum.Stages)
		err := sum.attempt(ctx, stop, cfg, opts)
		var lost *trinity.LostError
		if !errors.As(err, &lost) || restarts > cfg.Trainer.MaxRestarts || ctx.Err() != nil || stop.Err() != nil {
			return err
		}
		opts.Say(fmt.Sprintf("%v; the run resumes from its last checkpoint (restart %d of trainer.max_restarts = %d)",
			err, restarts, cfg.Trainer.MaxRestarts))
		sum.Stages = sum.Stages[:begun]
		cfg.ContinueFromCheckpoint = true // the directory is this run's own
		if cfg, err = settle.Resolve(cfg.Settled); err != nil {
			return err
		}
		if err := cfg.Fetch(ctx, opts.Say); err != nil {
			return err
		}
	}
}

// attempt runs one stage from its last checkpoint. If the stage began, attempt appends its summary.
func (sum *Summary) attempt(ctx, stop context.Context, cfg *settle.Stage, opts Options) (err error) {
	if opts.Join != "" && cfg.Mode != "explore" && cfg.Mode != "serve" {
		return fmt.Errorf("--join: mode %s joins no trainer: set mode to explore or serve", cfg.Mode)
	}
	if err := record.FreshDir(cfg.Settled); err != nil {
		return err
	}
	record.OwnDirs(cfg.Settled)
	unlock, err := record.LockDir(cfg.CheckpointJobDir, record.Parts(cfg.Settled), cfg.Monitor.CacheDir)
	if err != nil {
		return err
	}
	defer unlock()
	var end record.End
	defer func() { end.Keep(cfg.Settled, err, stop, opts.Say) }()
	pipelines := refine.New(cfg.Settled, opts.Say)
	defer func() { err = errors.Join(err, pipelines.Close()) }()
	if err := pipelines.MakeTasks(ctx, stop); err != nil {
		return err
	}
	with, err := cfg.Provenance(feed.Datasets(cfg.Settled, ""))
	if err != nil {
		return err
	}
	changed, err := cfg.Changes(with, true)
	if err != nil {
		return err
	}
	for _, c := range changed {
		opts.Say(c)
	}
	s, err := open(cfg, opts)
	if err != nil {
		return err
	}
	s.pipelines, s.madeWith = pipelines, with
	stop, cancel := withStop(ctx, stop)
	defer cancel() // after s.close: a store may write when it closes
	defer func() {
		end = record.EndOf(err, stop)
		err = errors.Join(err, s.close(end))
	}()
	defer func() {
		var done record.StageSummary
		var began bool
		if done, began, err = s.log.Summary(err); began {
			done.Made = with
			err = errors.Join(err, learn.HandOn(s.Stage, &done, err == nil, opts.Say))
			sum.Stages = append(sum.Stages, done)
		}
	}()
	switch cfg.Mode {
	case "both", "colocate":
		return s.both(ctx, stop)
	case "train":
		return s.train(ctx, stop, opts)
	case "explore":
		return s.explore(stop, opts)
	case "serve":
		return s.serve(stop, opts)
	case "bench":
		return s.bench(stop)
	}
	return fmt.Errorf("mode %s is not in this version", cfg.Mode)
}

// withStop returns a context that either context cancels, with its cause.
func withStop(ctx, stop context.Context) (context.Context, context.CancelFunc) {
	both, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(stop, func() { cancel(context.Cause(stop)) })
	return both, func() { unhook(); cancel(nil) }
}
