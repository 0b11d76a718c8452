package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/explorer"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest"
)

// Rollouts of several turns, which wait for the sampler and for their environments by turns.
const (
	turns        = 8 // of a rollout
	turnSteps    = 2 // of a run
	samplerSlots = 8 // calls that the sampler takes at once
	aliveRatio   = 4 // rollouts under way for each slot: the default of explorer.max_rollouts
	meanCall     = 100 * time.Millisecond
	turnWait     = 200 * time.Millisecond // of an environment
)

const lateEnvironment = "bench_late"

func init() {
	registry.Environments.Register(lateEnvironment, "Answers late, and ends after some turns.",
		func() trinity.EnvironmentOpener { return &late{} })
}

// newTurns returns the explorer with the workflow of environments. Its samplers work as long in each
// run, so that the time of a step tells what share of it they work.
func newTurns(a *assignment) (task, error) {
	wait := turnWait
	if a.Unwaiting {
		wait = 0
	}
	w, err := registry.Workflows.Build("environment_workflow", map[string]any{
		"environment": lateEnvironment, "environment_args": map[string]any{"milliseconds": wait.Milliseconds()},
	})
	rollouts := aliveRatio * samplerSlots
	if a.Held {
		rollouts = samplerSlots
	}
	return &exploring{a, w, sampled{}, turnSteps, samplerSlots, rollouts}, err
}

// noSamplerIdle returns the seconds of a step in which all slots of the sampler work all the time.
func noSamplerIdle(_ *bound, w *workload) possible {
	return possible{limit: meanCall.Seconds() * turns * float64(w.rows) / samplerSlots}
}

// late is an environment that answers after a time.
type late struct {
	Milliseconds int `yaml:"milliseconds" doc:"time of a step"`
	step         int
}

// OpenEnvironment implements [trinity.EnvironmentOpener].
func (l *late) OpenEnvironment(context.Context, *trinity.Task) (trinity.Environment, error) {
	return &late{Milliseconds: l.Milliseconds}, nil
}

// Reset implements [trinity.Environment].
func (l *late) Reset(context.Context, uint64) (trinity.Observation, error) {
	l.step = 0
	return says("begin"), nil
}

// Step implements [trinity.Environment].
func (l *late) Step(ctx context.Context, _ trinity.Action) (out trinity.Outcome, err error) {
	select {
	case <-time.After(time.Duration(l.Milliseconds) * time.Millisecond):
	case <-ctx.Done():
		return out, context.Cause(ctx)
	}
	l.step++
	out.Observation, out.Done = says(fmt.Sprint("turn ", l.step)), l.step == turns
	if out.Done {
		out.Reward = new(1.)
	}
	return out, nil
}

// Close implements [trinity.Environment].
func (l *late) Close() error { return nil }

func says(text string) trinity.Observation {
	return trinity.Observation{Messages: []trinity.Message{{Role: "user", Content: text}}}
}

// sampled is a host whose models take their time.
type sampled struct{ explorer.Host }

// Model implements [explorer.Host].
func (sampled) Model(*trinity.Task, string) (*trinity.Model, error) {
	return &trinity.Model{Sampler: slow{}, Renderer: chatty{}, Params: trinity.SamplingParams{Temperature: 1}}, nil
}

// slow is a sampler whose calls take between half and one and a half times the mean, by their seeds.
type slow struct{}

// Sample implements [trinity.Sampler].
func (slow) Sample(ctx context.Context, _ trinity.Prompt, p trinity.SamplingParams) ([]trinity.Completion, error) {
	share := 0.5 + rand.New(rand.NewPCG(p.Seed, 0)).Float64()
	select {
	case <-time.After(time.Duration(share * float64(meanCall))):
		return []trinity.Completion{written(16)}, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// written returns a reply of n tokens, the end included.
func written(n int) trinity.Completion {
	c := trinity.Completion{FinishReason: "stop", Tokens: make([]int32, n), Logprobs: make([]float32, n)}
	for i := range c.Tokens {
		c.Tokens[i], c.Logprobs[i] = 'a', -1
	}
	c.Tokens[n-1] = trinitytest.ChatEnd
	return c
}

// chatty is a renderer of bytes, whose replies call no tools.
type chatty struct{ trinitytest.Chat }

// Read implements [trinity.Renderer].
func (c chatty) Read(tokens []int32, _ json.RawMessage) (trinity.Message, []trinity.ToolCall, error) {
	return c.ReadText(tokens), nil, nil
}
