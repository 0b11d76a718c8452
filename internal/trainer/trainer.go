// Package trainer is the training loop. A step takes a batch, asks the engine for the gradients of
// the loss in micro-batches, steps the optimizer, publishes the weights and logs metrics. A
// checkpoint follows every SaveInterval steps.
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

// Failpoints at the trainer's hand-over points.
var (
	failTake      = failpoint.New("trainer.take")      // before it takes a batch
	failTaken     = failpoint.New("trainer.taken")     // after it took a batch
	failUpdated   = failpoint.New("trainer.updated")   // after the optimizer's last step on a batch
	failPublished = failpoint.New("trainer.published") // after it published a version
	failSave      = failpoint.New("trainer.save")      // before a checkpoint
	failSaved     = failpoint.New("trainer.saved")     // after a checkpoint
)

// Trainer trains a policy and, if there is one, its critic.
type Trainer struct {
	opts  Options
	trace *trace // of the step in progress
	at    Progress

	before        []passed // of the step in progress, see updater
	batch         int      // experiences of the last batch
	taken         bool     // whether the step in progress has its batch
	reportedShort bool     // whether a short batch was reported
}

// New returns a trainer that continues after o.From.
func New(o Options) *Trainer {
	t := &Trainer{opts: o, at: o.From}
	t.trace = t.opts.Tracing.begin(0, nil)
	return t
}

// Run trains until TotalSteps, the end of the source, or the cancellation of stop, and saves the
// last step. When stop is cancelled, Run first finishes a step that has its batch, and returns the
// cause. When ctx is cancelled, it writes nothing more.
func (t *Trainer) Run(ctx, stop context.Context) error {
	if err := t.opts.Policy.Schedule.Validate(); err != nil {
		return err
	}
	if err := t.evaluateFirst(ctx); err != nil {
		return err
	}
	if err := t.catchUp(ctx); err != nil {
		return err
	}
	saved, ended := t.at.Step, false
	for !t.isComplete() && !t.isEnough() {
		step := t.at.Step + 1
		err := t.train(ctx, stop, step)
		ended = errors.Is(err, io.EOF)
		if ended || stop.Err() != nil && (err == nil || errors.Is(err, context.Cause(stop))) {
			break
		}
		if err != nil {
			return t.abort(ctx, fmt.Errorf("trainer step %d: %w", step, err), saved)
		}
		if t.isDue() {
			if err := t.save(ctx, t.at.Step == t.opts.TotalSteps); err != nil {
				return err
			}
			saved = t.at.Step
		}
	}
	if t.isShort() {
		t.opts.Recorder.Say(fmt.Sprintf("train step %d, the last one, had %d of %d experiences: there were no more",
			t.at.Step, t.batch, t.opts.BatchSize))
	}
	if t.at.Step > saved || (ended || t.isEnough()) && t.at.Step > 0 {
		if err := t.save(ctx, true); err != nil {
			return err
		}
	}
	if stop.Err() != nil && !ended && !t.isComplete() && !t.isEnough() {
		return context.Cause(stop)
	}
	return nil
}

// isComplete reports whether all steps are trained.
func (t *Trainer) isComplete() bool {
	return t.opts.TotalSteps > 0 && t.at.Step >= t.opts.TotalSteps
}

// isEnough reports whether evaluations end the training at the last step.
func (t *Trainer) isEnough() bool { return t.opts.isEnough(t.at) }

// isDue reports whether the last step gets a checkpoint.
func (t *Trainer) isDue() bool {
	return t.opts.SaveInterval > 0 && t.at.Step%t.opts.SaveInterval == 0 || t.opts.Keeps != nil && t.opts.Keeps(t.at.Step)
}

// train trains one step: take, update, publish, evaluate, log.
func (t *Trainer) train(ctx, stop context.Context, step int64) error {
	begin := time.Now()
	taken, metrics, err := t.take(stop)
	if err != nil {
		return err
	}
	start := time.Now()
	fate := provenance{dropped: taken.Dropped}
	t.trace = t.opts.Tracing.begin(step, taken.Groups)
	if err := errors.Join(t.update(ctx, step, taken.Groups, &fate, metrics), failUpdated.Hit("")); err != nil {
		return err
	}
	t.trace.end(&fate)
	elapsed := time.Since(start).Seconds()
	if t.at.OptimizerSteps >= 0 {
		metrics["actor/optimizer_steps"] = float64(t.at.OptimizerSteps)
	}
	metrics["time/train_step"] = elapsed
	metrics["perf/time_per_step"] = time.Since(begin).Seconds()
	metrics["perf/throughput"] = metrics["perf/total_num_tokens"] * float64(max(1, t.opts.Policy.Epochs)) / elapsed
	t.at.Step = step
	if err := t.opts.Recorder.Took(step, fate.trained, fate.dropped); err != nil {
		return err
	}
	if t.opts.Weights != nil && step%t.opts.SyncInterval == 0 {
		start := time.Now()
		t.begins("publishes version %d", step)
		if err := errors.Join(t.opts.Weights.Publish(ctx, step), failPublished.Hit("")); err != nil {
			return err
		}
		t.at.Published = step
		metrics["time/sync_weight"] = time.Since(start).Seconds()
		t.opts.Tracing.span(step, trinity.SpanPublish, "", "", start)
	}
	if t.evaluatesAfter(step) {
		if err := t.evaluate(ctx, step, metrics); err != nil {
			return err
		}
	}
	return t.opts.Recorder.Log(ctx, step, metrics)
}

// take waits for the next batch and returns it with its metrics.
func (t *Trainer) take(stop context.Context) (taken trinity.Taken, metrics trinity.Metrics, err error) {
	if err := failTake.Hit(""); err != nil {
		return taken, nil, err
	}
	t.taken = false
	t.opts.Recorder.Progress("waits for experiences", 0, 0)
	start := time.Now()
	taken, err = t.opts.Source.Take(stop, trinity.Want{N: t.opts.BatchSize, Rollouts: t.opts.ByRollout, Published: t.at.Published})
	t.taken = err == nil
	t.opts.Tracing.span(t.at.Step+1, trinity.SpanWait, "", t.awaited(), start)
	if err = errors.Join(err, failTaken.Hit("")); err != nil {
		return taken, nil, err
	}
	if !t.reportedShort && t.isShort() {
		line := fmt.Sprintf("train step %d had %d of %d experiences: its version had no more; of later short steps only the last is reported",
			t.at.Step, t.batch, t.opts.BatchSize)
		t.opts.Recorder.Say(line)
		t.reportedShort = true
	}
	exps := taken.Experiences()
	for _, e := range exps {
		if t.opts.Admit == nil {
			break
		}
		if err := t.opts.Admit(e); err != nil {
			return taken, nil, err
		}
	}
	t.batch = len(exps)
	metrics = batchMetrics(exps)
	metrics.Merge("", taken.Metrics)
	return taken, metrics, nil
}

// update trains on one batch. An empty batch, of which operators left nothing, changes nothing.
// It notes in fate what became of the experiences.
func (t *Trainer) update(ctx context.Context, step int64, groups []trinity.Group, fate *provenance, metrics trinity.Metrics) error {
	if len(groups) == 0 {
		return nil
	}
	exps, err := t.prepare(ctx, step, groups, fate, metrics)
	if err != nil {
		return err
	}
	fate.train(exps)
	streamMetrics(exps, metrics)
	if t.opts.Critic != nil {
		trace := &trace{Tracing: &t.opts.Tracing, step: step, model: "critic"}
		if err := t.opts.Critic.learn(ctx, step, exps, t.opts.MicroTokens, trace, metrics); err != nil {
			return fmt.Errorf("critic: %w", err)
		}
		if step <= t.opts.Critic.Warmup {
			return nil
		}
	}
	u := t.policy()
	u.progress = func(done, total int) { t.opts.Recorder.Progress(fmt.Sprintf("trains step %d", step), done, total) }
	m, err := u.learn(ctx, step, exps)
	if t.at.OptimizerSteps >= 0 {
		t.at.OptimizerSteps += u.taken
	}
	metrics.Merge("actor/", m)
	return err
}

// begins tells people which work the trainer begins. It counts as one piece.
func (t *Trainer) begins(work string, step int64) {
	t.opts.Recorder.Progress(fmt.Sprintf(work, step), 0, 1)
}

// policy returns the updater of the policy.
func (t *Trainer) policy() *updater {
	claimer, _ := t.opts.Weights.(Claimer)
	return &updater{
		Learner: t.opts.Policy, microTokens: t.opts.MicroTokens, compares: t.opts.Reference, adaptive: t.opts.Adaptive, trace: t.trace,
		claimer: claimer, before: t.before,
	}
}

// catchUp publishes the current weights if a resumed run, now with a shorter sync_interval, skipped
// a version that explorers may be waiting for.
func (t *Trainer) catchUp(ctx context.Context) error {
	due := t.opts.SyncInterval
	if t.opts.Weights == nil || t.at.Published >= t.at.Step/due*due {
		return nil
	}
	if err := t.opts.Weights.Publish(ctx, t.at.Step); err != nil {
		return err
	}
	t.at.Published = t.at.Step
	return nil
}

// isShort reports whether the last batch had fewer experiences than BatchSize; the cause may also
// be operators that drop experiences. A batch of rollouts has any number of experiences.
func (t *Trainer) isShort() bool {
	return !t.opts.ByRollout && 0 < t.batch && t.batch < t.opts.BatchSize
}

// abort returns the error of a failed step. If the trainer waited for a batch in vain, abort first
// saves the steps since the last checkpoint: they are complete.
func (t *Trainer) abort(ctx context.Context, err error, saved int64) error {
	if !Starved(err) || t.taken || t.at.Step == saved {
		return err
	}
	if failed := t.save(ctx, false); failed != nil {
		return errors.Join(err, failed)
	}
	return fmt.Errorf("%w; the trainer saved step %d, and the same command resumes after it", err, t.at.Step)
}

// Starved reports whether err is a timeout while waiting for experiences.
func Starved(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout()
}

func (t *Trainer) save(ctx context.Context, last bool) error {
	if err := failSave.Hit(""); err != nil {
		return err
	}
	start := time.Now()
	t.begins("writes the checkpoint of step %d", t.at.Step)
	if err := errors.Join(t.opts.Checkpointer.Save(ctx, t.at, last), failSaved.Hit("")); err != nil {
		return fmt.Errorf("checkpoint at step %d: %w", t.at.Step, err)
	}
	t.opts.Tracing.span(t.at.Step, trinity.SpanCheckpoint, "", "", start)
	return nil
}

// awaited names whom the trainer waits for when it takes a batch.
func (t *Trainer) awaited() string {
	if t.opts.Weights == nil {
		return "data"
	}
	return trinity.RoleExplorer
}
