package workflow

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// prop is an environment that can be used again, of a test.
type prop struct {
	Breaks string `yaml:"breaks"` // step, reuse
	log    *events
	t      *trinity.Task
}

// events are what happened, also of goroutines.
type events struct {
	mu   sync.Mutex
	list []string
}

func (e *events) add(event string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, event)
}

var propLog events

func init() {
	registry.Environments.Register("prop", "An environment for tests.", func() trinity.EnvironmentOpener { return &prop{log: &propLog} })
}

func (p *prop) OpenEnvironment(_ context.Context, t *trinity.Task) (trinity.Environment, error) {
	p.log.add("open " + t.ID)
	return &prop{Breaks: p.Breaks, log: p.log, t: t}, nil
}

func (p *prop) Reuse(_ context.Context, t *trinity.Task) error {
	p.log.add("reuse " + t.ID)
	p.t = t
	if p.Breaks == "reuse" {
		return errors.New("broken")
	}
	return nil
}

func (p *prop) Reset(context.Context, uint64) (trinity.Observation, error) {
	return trinity.Observation{Messages: []trinity.Message{{Role: "user", Content: p.t.ID}}}, nil
}

func (p *prop) Step(context.Context, trinity.Action) (trinity.Outcome, error) {
	one := 1.0
	if p.Breaks == "step" {
		return trinity.Outcome{}, errors.New("broken")
	}
	return trinity.Outcome{Done: true, Reward: &one}, nil
}

func (p *prop) Close() error {
	p.log.add("close " + p.t.ID)
	return nil
}

// stageHost is a host that opens resources.
type stageHost struct {
	trinity.Host
	opened map[string]io.Closer
}

func (h *stageHost) Open(key string, open func(io.Writer) (io.Closer, error)) (io.Closer, error) {
	if h.opened[key] == nil {
		c, err := open(io.Discard)
		if err != nil {
			return nil, err
		}
		h.opened[key] = c
	}
	return h.opened[key], nil
}

// An environment that can be used again is kept for the next rollout, also of another taskset, and
// closed after an error and with the stage.
func TestEnvironmentsAreUsedAgain(t *testing.T) {
	for _, c := range []struct {
		breaks string
		want   []string
	}{
		{"", []string{"open a", "reuse b", "open c", "reuse d", "close b", "close d"}},
		{"step", []string{"open a", "close a", "open b", "close b", "open c", "close c", "open d", "close d"}},
		{"reuse", []string{"open a", "reuse b", "close b", "open b", "open c", "reuse d", "close d", "reuse d", "close d", "open d",
			"close d"}},
	} {
		propLog.list = nil
		host := &stageHost{opened: map[string]io.Closer{}}
		args := map[string]any{"environment": "prop", "environment_args": map[string]any{"breaks": c.breaks}}
		for _, ids := range [][2]string{{"a", "b"}, {"c", "d"}} {
			w := build(t, "environment_workflow", args) // a taskset's
			for _, name := range ids {
				r := rollout(&trinity.Task{ID: name}, model(&parrot{says: "ok"}), nil)
				r.Host = host
				if _, err := w.Run(t.Context(), r); (err != nil) != (c.breaks == "step") {
					t.Error(err)
				}
			}
		}
		for _, opened := range host.opened {
			if err := opened.Close(); err != nil {
				t.Error(err)
			}
			if opened.(*shelf).put(&prop{}) {
				t.Error("a stage that has ended keeps an environment")
			}
		}
		if !sameEvents(propLog.list, c.want) {
			t.Errorf("breaks %q: %q, want %q", c.breaks, propLog.list, c.want)
		}
	}
}

// sameEvents compares events; those of the end come in any order.
func sameEvents(got, want []string) bool {
	if len(got) != len(want) {
		return false
	}
	left := map[string]int{}
	for i := range want {
		if i < len(want)-2 && got[i] != want[i] {
			return false
		}
		left[want[i]]++
		left[got[i]]--
	}
	for _, n := range left {
		if n != 0 {
			return false
		}
	}
	return true
}
