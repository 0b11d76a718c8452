package explorer

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/trinity-go/trinity"
)

// Agenda decides which tasks and recorded groups each step gets. Its state travels with every
// delivery.
type Agenda struct {
	tasks     *Mix
	inputs    Inputs
	batchSize int    // tasks per step
	scores    keeper // nil if the pipeline's advantage function keeps nothing over steps

	mu    sync.Mutex      // guards all below, and tasks
	step  int64           // last delivered step
	ahead [][]tasksetRows // tasks of the steps after it, as far as they are chosen
	owed  trinity.Metrics // of the last delivered step, if the evaluation after it may be incomplete

	evaluating *int64 // step of the evaluation that runs beside the steps; nil if there is none
}

// keeper is an advantage function that keeps something over steps; see trinity.Advantage.
type keeper interface {
	State() (json.RawMessage, error)
	Restore(state json.RawMessage) error
}

// NewAgenda returns the agenda of a run from its beginning; each step gets batchSize tasks.
func NewAgenda(tasks *Mix, inputs Inputs, batchSize int) *Agenda {
	return &Agenda{tasks: tasks, inputs: inputs, batchSize: batchSize}
}

// Keep makes the state of the pipeline's advantage function travel with the deliveries, if it has one.
func (a *Agenda) Keep(advantage trinity.Advantage) { a.scores, _ = advantage.(keeper) }

// Restore continues from the state that a delivery carried; an empty state is the beginning. It
// refuses the state of other tasksets or inputs.
func (a *Agenda) Restore(state json.RawMessage) error {
	if len(state) == 0 {
		return nil
	}
	var c cursor
	if err := json.Unmarshal(state, &c); err != nil {
		return fmt.Errorf("explorer state: %w", err)
	}
	if err := a.tasks.restore(c.Tasks); err != nil {
		return err
	}
	for _, step := range c.Ahead {
		if err := a.tasks.check(step); err != nil {
			return err
		}
	}
	if err := a.inputs.restore(c.Inputs); err != nil {
		return err
	}
	if a.scores != nil && c.Scores != nil {
		if err := a.scores.Restore(c.Scores); err != nil {
			return fmt.Errorf("advantage: %w", err)
		}
	}
	a.step, a.ahead, a.owed, a.evaluating = c.Step, c.Ahead, c.metrics(), c.Evaluating
	return nil
}

// Rollouts returns the largest number of rollouts that a step delivers if a group has groupSize
// rollouts. It includes the rollouts that inputs add.
func (a *Agenda) Rollouts(groupSize int) int {
	return a.batchSize/a.tasks.unit*max(1, groupSize) + a.inputs.PerStep()
}

// Step returns the last delivered step.
func (a *Agenda) Step() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.step
}

// jobs returns the tasks of a step: those that a killed run began the step with, or else the next
// ones of the selectors. It waits for tasks that come from a queue, and returns errQueueEnded if none
// is left. The explorer asks for steps in order.
func (a *Agenda) jobs(ctx context.Context, step int64) ([]job, error) {
	if err := a.await(ctx, step); err != nil {
		return nil, err
	}
	chosen, err := a.choose(step)
	if err != nil {
		return nil, err
	}
	return a.tasks.jobs(chosen)
}

// await waits for the tasks of a step if they come from a queue. The lock is not held meanwhile.
func (a *Agenda) await(ctx context.Context, step int64) error {
	queue := a.tasks.queue
	if queue == nil || a.isChosen(step) {
		return nil
	}
	return queue.await(ctx, a.batchSize)
}

// isChosen reports whether the tasks of a step are chosen.
func (a *Agenda) isChosen(step int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return step-a.step <= int64(len(a.ahead))
}

func (a *Agenda) choose(step int64) ([]tasksetRows, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if step-a.step > int64(len(a.ahead)) {
		next, err := a.tasks.choose(a.batchSize)
		if err != nil {
			return nil, err
		}
		a.ahead = append(a.ahead, next)
	}
	return a.ahead[step-a.step-1], nil
}

// feedback reports the rewards of a step to the selectors.
func (a *Agenda) feedback(outcomes []*outcome) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tasks.feedback(outcomes)
}

// stateAfter returns the state from which a run continues after a step. Selectors may be ahead of
// the step, so the state lists the tasks that they chose for the steps behind it. Inputs are never
// ahead.
func (a *Agenda) stateAfter(step int64, owed trinity.Metrics) (json.RawMessage, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	tasks, err := a.tasks.state()
	if err != nil {
		return nil, err
	}
	inputs, err := a.inputs.state()
	if err != nil {
		return nil, err
	}
	c := newCursor(step, tasks, a.ahead[step-a.step:], inputs, owed)
	c.Evaluating = a.evaluating
	if a.scores != nil {
		if c.Scores, err = a.scores.State(); err != nil {
			return nil, fmt.Errorf("advantage: %w", err)
		}
	}
	return json.Marshal(c)
}

// evaluates notes the step whose evaluation runs beside the steps, nil if it has ended.
func (a *Agenda) evaluates(step *int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.evaluating = step
}

// delivered notes that a step was delivered.
func (a *Agenda) delivered(step int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ahead = a.ahead[step-a.step:]
	a.step = step
}
