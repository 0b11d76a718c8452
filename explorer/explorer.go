package explorer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
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
	Inputs       Inputs
	EvalTasksets []*Taskset
	Runner       *Runner
	Process      func(context.Context, int64, []trinity.Group) ([]trinity.Group, trinity.Metrics, error) // operators and advantage of a step; metrics by their whole names
	Buffer       trinity.Sink
	Sync         Weights
	Log          func(ctx context.Context, step int64, m trinity.Metrics) error
	Warn         func(error) // is told of every rollout that failed or could not be scored

	BatchSize     int   // tasks per step
	TotalSteps    int64 // steps of the run
	UnderWay      int   // steps at once; 0 is 1, one after the other
	Pace          Pace
	EvalInterval  int64 // steps; 0 means never
	EvalOnStartup bool

	mu          sync.Mutex      // guards Tasks, step and ahead
	step        int64           // the last that was delivered
	ahead       [][]chosen      // of each step after it, as far as that is decided
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
	if err := e.Tasks.restore(c.Tasks); err != nil {
		return err
	}
	for _, step := range c.Ahead {
		if err := e.Tasks.check(step); err != nil {
			return err
		}
	}
	if err := e.Inputs.restore(c.Inputs); err != nil {
		return err
	}
	e.step, e.ahead, e.owed = c.Step, c.Ahead, c.metrics()
	return nil
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
	return e.exploreAll(ctx)
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
	if err := e.pause(ctx, step+1); err != nil {
		return err
	}
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

// pause says that nothing is put any more before the version that step needs. The trainer, which may be needed to make it, then takes whatever there is.
func (e *Explorer) pause(ctx context.Context, step int64) error {
	return e.Buffer.Pause(ctx, e.Pace.Required(step))
}

// weights waits for the version that step begins with.
func (e *Explorer) weights(ctx context.Context, step int64) (version int64, waited time.Duration, err error) {
	if err := failWeights.Hit(""); err != nil {
		return 0, 0, err
	}
	start := time.Now()
	version, err = e.Sync.Wait(ctx, e.Pace.Required(step), e.Pace.Newest(step))
	return version, time.Since(start), err
}

// process passes the groups, and those of the inputs, through the pipeline.
func (e *Explorer) process(ctx context.Context, step int64, outcomes []*outcome, metrics trinity.Metrics) ([]trinity.Group, error) {
	var groups []trinity.Group
	for _, o := range outcomes {
		if len(o.group) > 0 {
			groups = append(groups, o.group)
		}
	}
	groups, err := e.Inputs.join(step, groups, metrics)
	if err != nil {
		return nil, err
	}
	groups, m, err := e.Process(ctx, step, groups)
	if err != nil {
		return nil, err
	}
	metrics.Merge("", m)
	return groups, nil
}

// deliver puts the groups with the explorer's state after this step; owed are the metrics that it logs later.
func (e *Explorer) deliver(ctx context.Context, step int64, groups []trinity.Group, owed trinity.Metrics) error {
	state, err := e.stateAfter(step, owed)
	if err != nil {
		return err
	}
	if err := failDeliver.Hit(""); err != nil {
		return err
	}
	if err := e.Buffer.Put(ctx, trinity.Delivery{Groups: groups, Cursor: state, Needs: e.Pace.Required(step)}); err != nil {
		return err
	}
	e.delivered(step)
	return failDelivered.Hit("")
}
