// Package trainer is the step loop: it takes a batch, asks the engine for the gradient of the loss in micro-batches, steps the optimizer,
// publishes the weights and has the run checkpointed.
package trainer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/failpoint"
)

// Where the trainer hands something over.
var (
	failTake      = failpoint.New("trainer.take")    // before it takes a batch
	failTaken     = failpoint.New("trainer.taken")   // after that
	failUpdated   = failpoint.New("trainer.updated") // after the optimizer's step
	failPublished = failpoint.New("trainer.published")
	failSave      = failpoint.New("trainer.save")  // before a checkpoint
	failSaved     = failpoint.New("trainer.saved") // after it
)

// Trainer trains one engine.
type Trainer struct {
	Engine  trinity.Engine
	Loss    trinity.Loss
	Source  trinity.Source
	Publish func(ctx context.Context, version int64) error // nil when nobody samples
	// Save writes a checkpoint; last says that training ends with it. When only the next step finds that the source has ended, a step that was
	// saved is saved again, as the last.
	Save      func(ctx context.Context, step int64, last bool) error
	Log       func(ctx context.Context, step int64, m trinity.Metrics) error
	Say       func(line string)                      // is told when the first batch or the last was short; nil for nobody
	AfterStep func(m trinity.Metrics, sequences int) // is told of each optimizer step: adaptive coefficients; nil for none
	// Correct is given a batch whose OldLogprobs the trainer has computed, and returns what to train on, with metrics. nil computes none: old
	// log-probabilities are those recorded when sampling.
	Correct   func(exps []*trinity.Experience) ([]*trinity.Experience, trinity.Metrics, error)
	Schedule  Schedule
	Optimizer trinity.OptimParams // LR is the schedule's

	BatchSize    int   // experiences per step
	ByRollout    bool  // BatchSize counts rollouts
	MiniBatch    int   // experiences per optimizer step; 0 means the whole batch
	Epochs       int   // passes over each batch
	MicroTokens  int   // tokens per micro-batch
	TotalSteps   int64 // 0 means until the source ends
	SyncInterval int64 // steps between versions
	SaveInterval int64 // steps; 0 means only at the end
	Reference    bool  // the loss or the advantage reads reference log-probabilities
	// Cache keeps the reference log-probabilities of a source that gives the same data again; nil for none.
	Cache *ReferenceCache

	// Teachers are frozen models by name, "" for what names none, which Experience.TeacherLogprobs are asked of. nil asks for none.
	Teachers  map[string]trinity.Engine
	Advantage trinity.Advantage // scores each batch before it is trained on; nil where batches come scored
	Critic    *Critic           // whose values the advantage reads; nil for none

	HeldOut       []HeldOut // is measured as the loss goes, and at the end
	EvalInterval  int64     // steps; 0 means only at the end
	EvalOnStartup bool      // measure HeldOut before the first step, too

	step      int64
	published int64
	batch     int  // experiences of the last one
	taken     bool // whether the step at hand has its batch
	short     bool // whether it was said that one was not whole
}

// Restore goes on after the given step.
func (t *Trainer) Restore(step, published int64) { t.step, t.published = step, published }

// Step is the last step that was trained.
func (t *Trainer) Step() int64 { return t.step }

// Published is the version that samplers were last given.
func (t *Trainer) Published() int64 { return t.published }

// Run trains until TotalSteps, the end of the source, or stop is cancelled, and saves where it ends. When stop is cancelled a step that has
// begun is finished first, and the error is the cause; when ctx is cancelled nothing more is written.
func (t *Trainer) Run(ctx, stop context.Context) error {
	if err := t.Schedule.Validate(); err != nil {
		return err
	}
	if err := t.evaluateFirst(ctx); err != nil {
		return err
	}
	if err := t.catchUp(ctx); err != nil {
		return err
	}
	saved, ended := t.step, false
	for t.TotalSteps == 0 || t.step < t.TotalSteps {
		step := t.step + 1
		err := t.train(ctx, stop, step)
		ended = errors.Is(err, io.EOF)
		if ended || stop.Err() != nil && (err == nil || errors.Is(err, context.Cause(stop))) {
			break
		}
		if err != nil {
			err = fmt.Errorf("trainer step %d: %w", step, err)
			if Starved(err) && !t.taken && t.step > saved { // nothing of the step was begun
				if failed := t.save(ctx, false); failed != nil {
					return errors.Join(err, failed)
				}
				return fmt.Errorf("%w; step %d was saved, and the same command goes on behind it", err, t.step)
			}
			return err
		}
		if t.SaveInterval > 0 && t.step%t.SaveInterval == 0 {
			if err := t.save(ctx, t.step == t.TotalSteps); err != nil {
				return err
			}
			saved = t.step
		}
	}
	t.sayShort()
	if t.step > saved || ended && t.step > 0 {
		if err := t.save(ctx, true); err != nil {
			return err
		}
	}
	if stop.Err() != nil && !ended && (t.TotalSteps == 0 || t.step < t.TotalSteps) {
		return context.Cause(stop)
	}
	return nil
}

// catchUp publishes what a run has not that goes on with more versions than it had: explorers may wait for one before they give anything.
func (t *Trainer) catchUp(ctx context.Context) error {
	if t.Publish == nil || t.published >= t.step/t.SyncInterval*t.SyncInterval {
		return nil
	}
	if err := t.Publish(ctx, t.step); err != nil {
		return err
	}
	t.published = t.step
	return nil
}

// sayShort tells that the last batch was not whole. One that was because the operators have dropped experiences is told as well.
func (t *Trainer) sayShort() {
	if t.isShort() {
		t.Say(fmt.Sprintf("train step %d, the last one, had %d of %d experiences: there were no more", t.step, t.batch, t.BatchSize))
	}
}

// Starved says that the time of a wait for experiences has passed.
func Starved(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout()
}

// isShort says that the last batch was not whole, where somebody is told.
func (t *Trainer) isShort() bool { return t.Say != nil && 0 < t.batch && t.batch < t.BatchSize }

func (t *Trainer) save(ctx context.Context, last bool) error {
	if err := failSave.Hit(""); err != nil {
		return err
	}
	if err := errors.Join(t.Save(ctx, t.step, last), failSaved.Hit("")); err != nil {
		return fmt.Errorf("checkpoint at step %d: %w", t.step, err)
	}
	return nil
}

// train does one step.
func (t *Trainer) train(ctx, stop context.Context, step int64) error {
	begin := time.Now()
	if err := failTake.Hit(""); err != nil {
		return err
	}
	t.taken = false
	taken, err := t.Source.Take(stop, trinity.Want{N: t.BatchSize, Rollouts: t.ByRollout, Published: t.published})
	t.taken = err == nil
	if err = errors.Join(err, failTaken.Hit("")); err != nil {
		return err
	}
	if !t.short && t.isShort() {
		t.Say(fmt.Sprintf("train step %d had %d of %d experiences, all that there were for its version; of further steps but the last this is not said", t.step, t.batch, t.BatchSize))
		t.short = true
	}
	exps := taken.Experiences()
	t.batch = len(exps)
	metrics := batchMetrics(exps)
	metrics.Merge("", taken.Metrics)
	start := time.Now()
	if err := errors.Join(t.update(ctx, step, taken.Groups, metrics), failUpdated.Hit("")); err != nil {
		return err
	}
	elapsed := time.Since(start).Seconds()
	metrics["time/train_step"] = elapsed
	metrics["perf/time_per_step"] = time.Since(begin).Seconds()
	metrics["perf/throughput"] = metrics["perf/total_num_tokens"] * float64(max(1, t.Epochs)) / elapsed
	t.step = step
	if t.Publish != nil && step%t.SyncInterval == 0 {
		start := time.Now()
		if err := errors.Join(t.Publish(ctx, step), failPublished.Hit("")); err != nil {
			return err
		}
		t.published = step
		metrics["time/sync_weight"] = time.Since(start).Seconds()
	}
	if t.evaluatesAfter(step) {
		if err := t.evaluate(ctx, step, metrics); err != nil {
			return err
		}
	}
	return t.Log(ctx, step, metrics)
}

// update trains on one batch. An empty batch, all of it filtered, changes nothing.
func (t *Trainer) update(ctx context.Context, step int64, groups []trinity.Group, metrics trinity.Metrics) error {
	if len(groups) == 0 {
		return nil
	}
	exps, err := t.prepare(ctx, step, groups, metrics)
	if err != nil {
		return err
	}
	streamMetrics(exps, metrics)
	if t.Critic != nil {
		if err := t.Critic.learn(ctx, step, exps, t.MicroTokens, metrics); err != nil {
			return fmt.Errorf("critic: %w", err)
		}
		if step <= t.Critic.Warmup {
			return nil
		}
	}
	m, err := t.policy().learn(ctx, step, exps)
	metrics.Merge("actor/", m)
	return err
}

// policy is what trains the policy.
func (t *Trainer) policy() *learner {
	return &learner{
		engine: t.Engine, loss: t.Loss, schedule: t.Schedule, optimizer: t.Optimizer, miniBatch: t.MiniBatch, epochs: t.Epochs, microTokens: t.MicroTokens,
		compares: t.Reference, afterStep: t.AfterStep,
	}
}
