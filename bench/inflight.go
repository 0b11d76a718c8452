package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/buffer"
	"github.com/trinity-go/trinity/internal/explorer"
	"github.com/trinity-go/trinity/selector"
	"github.com/trinity-go/trinity/weights"
)

// Rollouts of agents, whose time goes by in their environments: log-normal, with a long tail.
const (
	exploreSteps = 20 // of a run
	meanRollout  = 50 * time.Millisecond
	spread       = 0.8 // standard deviation of the logarithm
)

// exploring is the explorer with a workflow, in some slots.
type exploring struct {
	a        *assignment
	workflow trinity.Workflow
	host     explorer.Host
	steps    int // of a run
	calls    int // of the model at once
	rollouts int // under way at once
}

// modellessly returns the explorer with rollouts that ask no model, in as many slots as a step has
// rollouts.
func modellessly(a *assignment, w trinity.Workflow) *exploring {
	return &exploring{a, w, modelless{}, exploreSteps, a.Batch, a.Batch}
}

func newUnequal(a *assignment) (task, error) { return modellessly(a, waiter{}), nil }

func newRollouts(a *assignment) (task, error) { return &idle{modellessly(a, waitless{})}, nil }

// stepsInFlight is a rival with another max_inflight_batches than the usual 2.
func stepsInFlight(name string, n int, target float64) rival {
	return rival{name: "ourselves, " + name, program: "ourselves", target: target, differs: func(a *assignment) { a.StepsInFlight = n }}
}

// run explores, and returns the seconds of a step.
func (u *exploring) run(int) (sample, error) {
	ctx := context.Background()
	data := make(numbers, u.steps*u.a.Batch/u.a.Group)
	rows, err := selector.Selectors.Build("sequential")
	if err != nil {
		return sample{}, err
	}
	if err := rows.Start(data); err != nil {
		return sample{}, err
	}
	template := trinity.Task{Taskset: "waits", GroupSize: u.a.Group}
	tasks, err := explorer.NewMix(&explorer.Taskset{Data: data, Selector: rows, Workflow: u.workflow, Template: template})
	if err != nil {
		return sample{}, err
	}
	e := explorer.New(explorer.Options{
		Agenda: explorer.NewAgenda(tasks, nil, u.a.Batch/u.a.Group), TotalSteps: int64(u.steps), StepsInFlight: u.a.StepsInFlight,
		Runner:   &explorer.Runner{Slots: explorer.NewSlots(u.calls, u.rollouts), Timeout: time.Hour, Host: u.host},
		Pipeline: nothing{}, Recorder: nothing{},
		Buffer: buffer.NewQueue(math.MaxInt, 0, nil).Sink("explorer"), Weights: weights.NewMemory(nil, 0, weights.AtOnce, time.Hour),
		Pace: explorer.Pace{Style: "fully_async", Interval: 1, MaxStaleness: math.Inf(1), PerStep: int64(u.a.Batch), PerBatch: int64(u.a.Batch)},
	})
	start := time.Now()
	err = e.Run(ctx)
	return sample{Value: time.Since(start).Seconds() / float64(u.steps)}, err
}

// idle is the explorer whose rollouts do nothing, so that what it measures is the explorer itself.
type idle struct{ *exploring }

// run returns rollouts per second.
func (i *idle) run(n int) (sample, error) {
	s, err := i.exploring.run(n)
	return sample{Value: float64(i.a.Batch) / s.Value}, err
}

// nothing is a pipeline that edits nothing and a recorder that keeps nothing.
type nothing struct{}

// Process implements [explorer.Pipeline].
func (nothing) Process(_ context.Context, _ int64, g []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	return g, nil, nil
}

// Log implements [explorer.Recorder].
func (nothing) Log(context.Context, trinity.Record) error { return nil }

// Warn implements [explorer.Recorder].
func (nothing) Warn(error) {}
func (nothing) Say(string) {}

// waiter is a workflow that waits. How long follows from the rollout alone.
type waiter struct{}

// Run implements [trinity.Workflow].
func (waiter) Run(ctx context.Context, r *trinity.Rollout) ([]*trinity.Experience, error) {
	time.Sleep(wait(r.Task.Index, r.Model.ID.Run))
	return waitless{}.Run(ctx, r)
}

// waitless is a workflow that returns one experience at once.
type waitless struct{}

// Run implements [trinity.Workflow].
func (waitless) Run(_ context.Context, r *trinity.Rollout) ([]*trinity.Experience, error) {
	e := &trinity.Experience{ID: r.Model.ID, Tokens: []int32{0, 0}, Mask: []bool{false, true}, Logprobs: []float32{0, 0}, PromptLen: 1, Reward: trinity.NewReward(map[string]float64{"waited": 1})}
	return []*trinity.Experience{e}, nil
}

// modelless is a host for rollouts that ask no model.
type modelless struct{ explorer.Host }

// Model implements [explorer.Host].
func (modelless) Model(*trinity.Task, string) (*trinity.Model, error) { return &trinity.Model{}, nil }

func wait(task, run int) time.Duration {
	z := rand.New(rand.NewPCG(uint64(task), uint64(run))).NormFloat64()
	return time.Duration(float64(meanRollout) * math.Exp(spread*z-spread*spread/2))
}

// noSlotIdle is the seconds of a step whose rollouts have all slots all the time.
func noSlotIdle(_ *bound, w *workload) possible {
	sum := time.Duration(0)
	tasks := exploreSteps * w.rows / w.copies
	for task := range tasks {
		for run := range w.copies {
			sum += wait(task, run)
		}
	}
	return possible{limit: sum.Seconds() / float64(w.rows) / exploreSteps}
}

// numbers is a dataset of so many rows.
type numbers []struct{}

// Len implements selector.Dataset.
func (n numbers) Len() int { return len(n) }

// Row implements selector.Dataset.
func (n numbers) Row(i int) (map[string]any, error) {
	return map[string]any{"question": fmt.Sprint(i)}, nil
}
