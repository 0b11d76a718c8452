package explorer

import (
	"encoding/json"

	"github.com/trinity-go/trinity"
)

// tasksOf makes the tasks of a step: those that a killed run had begun it with, else the selectors' next. Steps are asked for in their order.
func (e *Explorer) tasksOf(step int64) ([]*trinity.Task, error) {
	chosen, err := e.chosenFor(step)
	if err != nil {
		return nil, err
	}
	return e.Tasks.tasks(chosen)
}

func (e *Explorer) chosenFor(step int64) ([]chosen, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if step-e.step > int64(len(e.ahead)) {
		next, err := e.Tasks.choose(e.BatchSize)
		if err != nil {
			return nil, err
		}
		e.ahead = append(e.ahead, next)
	}
	return e.ahead[step-e.step-1], nil
}

// feedback tells the selectors what came of a step.
func (e *Explorer) feedback(outcomes []*outcome) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.Tasks.feedback(outcomes)
}

// stateAfter is what a run goes on from after a step: where the selectors are, and what they have chosen for the steps behind it. Inputs are after this step.
func (e *Explorer) stateAfter(step int64, owed trinity.Metrics) (json.RawMessage, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	tasks, err := e.Tasks.state()
	if err != nil {
		return nil, err
	}
	inputs, err := e.Inputs.state()
	if err != nil {
		return nil, err
	}
	return json.Marshal(newCursor(step, tasks, e.ahead[step-e.step:], inputs, owed))
}

// delivered takes note that a step is.
func (e *Explorer) delivered(step int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ahead = e.ahead[step-e.step:]
	e.step = step
}
