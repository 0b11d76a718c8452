package explorer

import (
	"context"
	"errors"
	"math"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/failpoint"
)

// Failpoints at the explorer's hand-over points.
var (
	failWeights   = failpoint.New("explorer.weights")   // before it waits for weights
	failRollouts  = failpoint.New("explorer.rollouts")  // after the rollouts of a step
	failDeliver   = failpoint.New("explorer.deliver")   // before a delivery
	failDelivered = failpoint.New("explorer.delivered") // after a delivery
	failEvaluated = failpoint.New("explorer.evaluated") // after an evaluation
)

// Options configure an explorer. EvalTasksets, StepsInFlight, EvalInterval and EvalOnStartup are
// optional.
type Options struct {
	Agenda       *Agenda
	EvalTasksets []*Taskset // none: the explorer evaluates nothing
	Runner       *Runner
	Pipeline     Pipeline
	Buffer       trinity.Sink
	Weights      Weights
	Recorder     Recorder

	TotalSteps    int64 // of the run
	StepsInFlight int   // concurrent steps; 0 is 1
	Pace          Pace
	EvalInterval  int64 // steps between evaluations; 0 is never
	EvalOnStartup bool
	EvalParallel  bool // evaluates beside the steps, except after the last

	// MaxFailedRatio is the share of the newest rollouts of a taskset that may fail; more end the run.
	// 0 bounds nothing.
	MaxFailedRatio float64

	// Enough is closed once the trainer has ended: the explorer no longer waits for tasks of a queue.
	// nil if there is no trainer.
	Enough <-chan struct{}

	// Drafts returns how many draft tokens the sampler has verified and accepted so far, and the time that
	// these saved. nil if it makes none.
	Drafts func() (verified, accepted int64, saved time.Duration)

	Learns  string // which rewards the algorithm compares: InGroup, InStep, or "" for none
	Experts bool   // the trainer also learns from data of experts
}

// Values of Options.Learns.
const (
	InGroup = "group" // the rewards of a task's rollouts with one another
	InStep  = "step"  // all rewards of a step with one another
)

// Pipeline edits the groups of a step before their delivery: the operators and the advantage.
// Metrics have their full names.
type Pipeline interface {
	Process(ctx context.Context, step int64, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error)
}

// Weights is the explorer's side of a weights.Synchronizer.
type Weights interface {
	Wait(ctx context.Context, min int64, newest bool) (int64, error)
	Held(ctx context.Context, do func(version int64) error) error
	ExplorerDone()
}

// Recorder keeps what the explorer reports.
type Recorder interface {
	// Log records a step. The recorder sets the role and the time.
	Log(ctx context.Context, r trinity.Record) error
	// Warn records a rollout that failed or has no valid reward.
	Warn(err error)
	// Say shows a line to people.
	Say(line string)
}

// Explorer runs the rollouts of a training run.
type Explorer struct {
	opts        Options
	failedSteps int               // consecutive steps without a valid reward
	mostFailed  int               // of them, that end the run
	recent      map[string]recent // by taskset
	toldFailure bool              // whether people have read of a failed rollout
	highest     float64           // reward so far
	equalSteps  int               // consecutive steps whose rewards do not differ where the algorithm compares them
	drafts      drafts            // until the newest step that was measured
	callless    int               // steps with tools that nobody called, from the start; -1 after a call

	// beside runs do beside the steps. Run waits for it also if the trainer has ended.
	beside     func(do func(ctx context.Context) error)
	evaluating chan struct{} // closed when the newest evaluation beside the steps is logged; nil before the first
}

// New returns an explorer that continues after the agenda's last step.
func New(o Options) *Explorer {
	return &Explorer{opts: o, recent: map[string]recent{}, highest: math.Inf(-1)}
}

// Run explores the remaining steps, evaluates as configured, and then closes the buffer. It ends
// early, without error, when the trainer has ended. A run that fails or is stopped leaves the
// buffer open, because it resumes later.
func (e *Explorer) Run(ctx context.Context) error {
	defer e.opts.Weights.ExplorerDone()
	eg, within := errgroup.WithContext(ctx)
	e.beside = func(do func(context.Context) error) { eg.Go(func() error { return do(within) }) }
	e.beside(func(ctx context.Context) error {
		if err := e.run(ctx); !errors.Is(err, trinity.ErrEnded) {
			return err
		}
		return nil
	})
	if err := eg.Wait(); err != nil {
		return err
	}
	return e.opts.Buffer.Close(ctx)
}

func (e *Explorer) run(ctx context.Context) error {
	step, owed, due := e.opts.Agenda.step, e.opts.Agenda.owed, e.opts.Agenda.evaluating
	e.mostFailed = int(min(maxFailedSteps, e.opts.TotalSteps-step))
	if step == 0 && e.opts.EvalOnStartup {
		due = &step
	}
	if due != nil {
		if err := e.evaluateFirst(ctx, *due); err != nil {
			return err
		}
	}
	if owed != nil {
		if err := e.evaluateAfter(ctx, trinity.Record{Step: step, Metrics: owed}); err != nil {
			return err
		}
	}
	return e.exploreAll(ctx)
}

// evaluatesAfter reports whether an evaluation follows a step.
func (e *Explorer) evaluatesAfter(step int64) bool {
	o := &e.opts
	return len(o.EvalTasksets) > 0 && o.EvalInterval > 0 && (step%o.EvalInterval == 0 || step == o.TotalSteps)
}

// pausesAfter reports whether the steps wait for an evaluation that follows a step.
func (e *Explorer) pausesAfter(step int64) bool {
	return e.evaluatesAfter(step) && !(e.opts.EvalParallel && step < e.opts.TotalSteps)
}

// evaluateAfter evaluates with the weights of the next step and adds the results to the step's
// record, which it logs. If the trainer has ended, there are no such weights, and evaluateAfter
// logs the record as it is.
func (e *Explorer) evaluateAfter(ctx context.Context, r trinity.Record) error {
	if err := e.evaluated(ctx); err != nil {
		return err
	}
	if err := e.pause(ctx, r.Step+1); err != nil {
		return err
	}
	_, _, err := e.weights(ctx, r.Step+1)
	if errors.Is(err, trinity.ErrEnded) {
		return errors.Join(e.opts.Recorder.Log(ctx, r), err)
	}
	if err != nil {
		return err
	}
	if err := errors.Join(e.evaluate(ctx, r), failEvaluated.Hit("")); err != nil {
		return err
	}
	// This comes before the trainer may publish a newer version: a run that resumes with that
	// version must not evaluate again.
	return e.deliver(ctx, r.Step, nil, nil)
}

// pause tells the buffer that nothing follows before the version that step needs. The trainer may
// have to make that version, so it then takes whatever there is.
func (e *Explorer) pause(ctx context.Context, step int64) error {
	return e.opts.Buffer.Pause(ctx, e.opts.Pace.Required(step))
}

// weights waits for the version that step begins with.
func (e *Explorer) weights(ctx context.Context, step int64) (version int64, waited time.Duration, err error) {
	if err := failWeights.Hit(""); err != nil {
		return 0, 0, err
	}
	if progress := e.opts.Runner.Progress; progress != nil {
		progress("waits for weights", 0, 0)
	}
	start := time.Now()
	version, err = e.opts.Weights.Wait(ctx, e.opts.Pace.Required(step), e.opts.Pace.Newest(step))
	tell(e.opts.Runner.Tracer, trinity.RoleExplorer, step, trinity.SpanWait, "weights", trinity.RoleTrainer, start)
	return version, time.Since(start), err
}

// process passes the groups of the rollouts and of the inputs through the pipeline.
func (e *Explorer) process(ctx context.Context, step int64, outcomes []*outcome, metrics trinity.Metrics) ([]trinity.Group, error) {
	var groups []trinity.Group
	for _, o := range outcomes {
		if len(o.group) > 0 {
			groups = append(groups, o.group)
		}
	}
	groups, err := e.opts.Agenda.inputs.join(step, groups, metrics)
	if err != nil {
		return nil, err
	}
	groups, m, err := e.opts.Pipeline.Process(ctx, step, groups)
	if err != nil {
		return nil, err
	}
	metrics.Merge("", m)
	return groups, nil
}

// deliver puts the groups with the explorer's state after this step; owed are the metrics that it
// logs later.
func (e *Explorer) deliver(ctx context.Context, step int64, groups []trinity.Group, owed trinity.Metrics) error {
	state, err := e.opts.Agenda.stateAfter(step, owed)
	if err != nil {
		return err
	}
	if err := failDeliver.Hit(""); err != nil {
		return err
	}
	defer tell(e.opts.Runner.Tracer, trinity.RoleExplorer, step, trinity.SpanDelivery, "", "", time.Now())
	if err := e.opts.Buffer.Put(ctx, trinity.Delivery{Groups: groups, Cursor: state, Needs: e.opts.Pace.Required(step)}); err != nil {
		return err
	}
	e.opts.Agenda.delivered(step)
	return failDelivered.Hit("")
}
