package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// agentProgram imports as much as a small agent does, and answers each task at once.
const agentProgram = `import asyncio, email.message, http.client, json, logging, ssl, sys, typing, urllib.request
for line in sys.stdin:
    json.loads(line)
    print('{"reward": 1}', flush=True)
`

// agents makes rollouts with the workflow exec, one after the other. No model is asked.
type agents struct {
	workflow trinity.Workflow
	host     *agentHost
}

func newAgents(a *assignment) (task, error) {
	args := map[string]any{"command": []any{"/usr/bin/python3", "-c", agentProgram}}
	if !a.Unkept {
		args["workers"] = 1
	}
	w, err := registry.Workflows.Build("exec", args)
	return &agents{w, &agentHost{}}, err
}

// run returns the milliseconds of a rollout.
func (g *agents) run(int) (sample, error) {
	const rollouts = 40
	start := time.Now()
	for range rollouts {
		r := &trinity.Rollout{Task: &trinity.Task{}, Model: &trinity.Model{}, Host: g.host}
		exps, err := g.workflow.Run(context.Background(), r)
		if err == nil && exps[0].Reward.Value != 1 {
			err = fmt.Errorf("the reward is %+v", exps[0].Reward)
		}
		if err != nil {
			return sample{}, err
		}
	}
	return sample{Value: time.Since(start).Seconds() * 1e3 / rollouts}, nil
}

// agentHost keeps what a workflow opens, and its endpoints have recorded an experience.
type agentHost struct {
	trinity.Host
	opened io.Closer
}

// Open implements [trinity.Host].
func (h *agentHost) Open(_ string, open func(io.Writer) (io.Closer, error)) (io.Closer, error) {
	var err error
	if h.opened == nil {
		h.opened, err = open(io.Discard)
	}
	return h.opened, err
}

// Wait implements [trinity.Host].
func (*agentHost) Wait(ctx context.Context, until func(context.Context) error) error {
	return until(ctx)
}

// Serve implements [trinity.Host].
func (*agentHost) Serve(context.Context, *trinity.Model, trinity.EndpointOptions) (trinity.Endpoint, error) {
	return called{}, nil
}

// called is an endpoint that was called once.
type called struct{}

// URL implements [trinity.Endpoint].
func (called) URL() string { return "http://127.0.0.1:1/r/k/v1" }

// Key implements [trinity.Endpoint].
func (called) Key() string { return "k" }

// Close implements [trinity.Endpoint].
func (called) Close() (*trinity.Recording, error) {
	return &trinity.Recording{Calls: 1, Experiences: []*trinity.Experience{{}}}, nil
}
