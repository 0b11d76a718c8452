package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"
	"sync"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// agentProgram imports as much as a small agent does, and answers each task at once.
const agentProgram = `import asyncio, email.message, http.client, json, logging, ssl, sys, typing, urllib.request
for line in sys.stdin:
    url = json.loads(line)["base_url"]
    urllib.request.urlopen(url + "/reward", b'{"value": 1}').read()
    urllib.request.urlopen(url + "/commit", b"").read()
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
	if err != nil {
		return nil, err
	}
	host, err := newAgentHost()
	return &agents{w, host}, err
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

// agentHost keeps what a workflow opens. It has one endpoint at a time, which has recorded an experience
// and takes the program's reward and commit.
type agentHost struct {
	trinity.Host
	opened   io.Closer
	listener net.Listener

	mu        sync.Mutex
	committed func()
	reward    *trinity.Reward
}

func newAgentHost() (*agentHost, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	h := &agentHost{listener: l}
	go func() { _ = http.Serve(l, h) }()
	return h, nil
}

// ServeHTTP implements [http.Handler].
func (h *agentHost) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var in struct{ Value float64 }
	if err != nil || len(body) > 0 && json.Unmarshal(body, &in) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case path.Base(r.URL.Path) == "reward":
		h.reward = &trinity.Reward{Value: in.Value, Valid: true}
	case h.committed != nil:
		h.committed()
	}
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
func (h *agentHost) Serve(_ context.Context, _ *trinity.Model, o trinity.EndpointOptions) (trinity.Endpoint, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.committed, h.reward = o.Committed, nil
	return h, nil
}

// URL implements [trinity.Endpoint].
func (h *agentHost) URL() string { return "http://" + h.listener.Addr().String() + "/r/k/v1" }

// Key implements [trinity.Endpoint].
func (*agentHost) Key() string { return "k" }

// Close implements [trinity.Endpoint].
func (h *agentHost) Close() (*trinity.Recording, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return &trinity.Recording{Calls: 1, Experiences: []*trinity.Experience{{}}, Reward: h.reward}, nil
}
