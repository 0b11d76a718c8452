package explorer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/failpoint"
)

// Where the explorer hands something over.
var (
	failWeights   = failpoint.New("explorer.weights")   // before it waits for them
	failRollouts  = failpoint.New("explorer.rollouts")  // after a step's
	failDeliver   = failpoint.New("explorer.deliver")   // before a delivery
	failDelivered = failpoint.New("explorer.delivered") // after it
	failEvaluated = failpoint.New("explorer.evaluated")
)

// Explorer runs the rollouts of a training run.
type Explorer struct {
	Tasks        *Mix
	EvalTasksets []*Taskset
	Runner       *Runner
	Process      func(context.Context, []trinity.Group) ([]trinity.Group, trinity.Metrics, error) // operators and advantage; metrics by their whole names
	Buffer       trinity.Sink
	Sync         Weights
	Log          func(ctx context.Context, step int64, m trinity.Metrics) error
	Warn         func(error) // is told of every rollout that failed or could not be scored

	BatchSize     int   // tasks per step
	TotalSteps    int64 // steps of the run
	Pace          Pace
	EvalInterval  int64 // steps; 0 means never
	EvalOnStartup bool

	step        int64
	failedSteps int             // in a row
	owed        trinity.Metrics // of the last delivered step, whose evaluation a killed run may not have ended
}

// Weights are the explorer's side of a [trinity.Synchronizer].
type Weights interface {
	Wait(ctx context.Context, min int64, newest bool) (int64, error)
	ExplorerDone()
}

// Restore takes up the state that a delivery carried.
func (e *Explorer) Restore(state json.RawMessage) error {
	if len(state) == 0 {
		return nil
	}
	var c cursor
	if err := json.Unmarshal(state, &c); err != nil {
		return fmt.Errorf("explorer state: %w", err)
	}
	e.step, e.owed = c.Step, c.metrics()
	return e.Tasks.restore(c.Tasks)
}

// Step is the last step that was delivered.
func (e *Explorer) Step() int64 { return e.step }

// Run explores all steps that are left, evaluates as configured, and then closes the buffer. It ends early, without error, when the trainer has
// ended. A run that fails or is stopped leaves the buffer open: it goes on later.
func (e *Explorer) Run(ctx context.Context) error {
	defer e.Sync.ExplorerDone()
	if err := e.run(ctx); err != nil && !errors.Is(err, trinity.ErrEnded) {
		return err
	}
	return e.Buffer.Close()
}

func (e *Explorer) run(ctx context.Context) error {
	if e.step == 0 && e.EvalOnStartup {
		if err := e.evaluate(ctx, 0, trinity.Metrics{}); err != nil {
			return err
		}
	}
	if e.owed != nil {
		if err := e.evaluateAfter(ctx, e.step, e.owed); err != nil {
			return err
		}
	}
	for e.step < e.TotalSteps {
		if err := e.explore(ctx, e.step+1); err != nil {
			return fmt.Errorf("explorer step %d: %w", e.step+1, err)
		}
	}
	return nil
}

// explore runs one step, and the evaluation that is due after it.
func (e *Explorer) explore(ctx context.Context, step int64) error {
	metrics := trinity.Metrics{}
	version, waited, err := e.weights(ctx, step)
	if err != nil {
		return err
	}
	tasks, err := e.Tasks.next(e.BatchSize)
	if err != nil {
		return err
	}
	start := time.Now()
	outcomes, err := e.Runner.Run(ctx, step, e.Tasks.workflow(), tasks)
	if err = errors.Join(err, failRollouts.Hit("")); err != nil {
		return err
	}
	metrics.Merge("rollout/", e.Tasks.metrics(outcomes))
	metrics["rollout/model_version"] = float64(version)
	metrics["time/explore_step"] = time.Since(start).Seconds()
	metrics["rollout/tokens_per_second"] = float64(sampledTokens(outcomes)) / time.Since(start).Seconds()
	if err := e.warn(outcomes); err != nil {
		return err
	}
	metrics["time/explorer_sync_interval"] = waited.Seconds()
	e.Tasks.feedback(outcomes)

	groups, err := e.process(ctx, outcomes, metrics)
	if err != nil {
		return err
	}
	// A step whose delivery is in a checkpoint is not run again. So its record is out before the delivery, or travels with it.
	if e.evaluatesAfter(step) {
		if err := e.deliver(ctx, step, groups, metrics); err != nil {
			return err
		}
		return e.evaluateAfter(ctx, step, metrics)
	}
	if err := e.Log(ctx, step, metrics); err != nil {
		return err
	}
	return e.deliver(ctx, step, groups, nil)
}

// maxFailedSteps in a row, without one experience that has a valid reward, end the run: something is wrong with the workflow or what it depends
// on, and nothing would be learned.
const maxFailedSteps = 3

// warn tells of every rollout that failed or could not be scored.
func (e *Explorer) warn(outcomes []*outcome) error {
	rollouts, scored := 0, 0
	var first error
	tell := func(err error) {
		first = cmp.Or(first, err)
		e.Warn(err)
	}
	for _, o := range outcomes {
		for _, err := range o.failed {
			tell(err)
		}
		for _, x := range o.group {
			if x.Reward.Valid {
				scored++
			}
		}
		for _, x := range unscored(o.group) {
			tell(fmt.Errorf("task %s, run %d: no valid reward: %s", x.ID.Task, x.ID.Run, cmp.Or(x.Reward.Reason, "the workflow gave none")))
		}
		rollouts += len(o.failed) + len(o.elapsed)
	}
	if first == nil || scored > 0 {
		e.failedSteps = 0
		return nil
	}
	if e.failedSteps++; e.failedSteps < maxFailedSteps {
		return nil
	}
	line, _, _ := strings.Cut(first.Error(), "\n") // a panic's stack is in the log of failed rollouts
	return fmt.Errorf("all %d rollouts of this step and of the %d before failed or have no valid reward; the first: %s", rollouts, maxFailedSteps-1, line)
}

func (e *Explorer) evaluatesAfter(step int64) bool {
	return len(e.EvalTasksets) > 0 && e.EvalInterval > 0 && (step%e.EvalInterval == 0 || step == e.TotalSteps)
}

// evaluateAfter evaluates with the weights of the next step, and logs the step's metrics with what came of it. When the trainer has ended
// before, there are no such weights.
func (e *Explorer) evaluateAfter(ctx context.Context, step int64, metrics trinity.Metrics) error {
	_, _, err := e.weights(ctx, step+1)
	if errors.Is(err, trinity.ErrEnded) {
		return errors.Join(e.Log(ctx, step, metrics), err)
	}
	if err != nil {
		return err
	}
	if err := errors.Join(e.evaluate(ctx, step, metrics), failEvaluated.Hit("")); err != nil {
		return err
	}
	// Before the trainer is let publish a newer version: a run that is taken up with that one must not evaluate again.
	return e.deliver(ctx, step, nil, nil)
}

// weights waits for the version that step begins with. Meanwhile the buffer gives the trainer whatever there is.
func (e *Explorer) weights(ctx context.Context, step int64) (version int64, waited time.Duration, err error) {
	if err := failWeights.Hit(""); err != nil {
		return 0, 0, err
	}
	start := time.Now()
	need := e.Pace.Required(step)
	if err := e.Buffer.Pause(ctx, need); err != nil {
		return 0, 0, err
	}
	version, err = e.Sync.Wait(ctx, need, e.Pace.Newest(step))
	return version, time.Since(start), err
}

// process passes the groups through the pipeline.
func (e *Explorer) process(ctx context.Context, outcomes []*outcome, metrics trinity.Metrics) ([]trinity.Group, error) {
	var groups []trinity.Group
	for _, o := range outcomes {
		if len(o.group) > 0 {
			groups = append(groups, o.group)
		}
	}
	groups, m, err := e.Process(ctx, groups)
	if err != nil {
		return nil, err
	}
	metrics.Merge("", m)
	return groups, nil
}

// deliver puts the groups with the explorer's state after this step; owed are the metrics that it logs later.
func (e *Explorer) deliver(ctx context.Context, step int64, groups []trinity.Group, owed trinity.Metrics) error {
	tasks, err := e.Tasks.state()
	if err != nil {
		return err
	}
	state, err := json.Marshal(newCursor(step, tasks, owed))
	if err != nil {
		return err
	}
	if err := failDeliver.Hit(""); err != nil {
		return err
	}
	if err := e.Buffer.Put(ctx, trinity.Delivery{Groups: groups, Cursor: state, Needs: e.Pace.Required(step)}); err != nil {
		return err
	}
	e.step = step
	return failDelivered.Hit("")
}
