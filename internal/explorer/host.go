package explorer

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/trinity-go/trinity"
)

// Host is what the run gives to rollouts. Many goroutines may use it at once.
type Host interface {
	// Model returns a model for rollouts of a task, without ID and seed: the policy for name "",
	// else another one as in [trinity.Host].
	Model(task *trinity.Task, name string) (*trinity.Model, error)
	// Asker returns a model that is asked in words. own gives a model that this process samples the
	// slots, ID and seed of the rollout.
	Asker(task *trinity.Task, name string, own func(*trinity.Model) *trinity.Model) (trinity.Asker, error)
	RewardModel(name string) (*trinity.RewardModel, error)
	Dir(name string) (string, error)
	Serve(ctx context.Context, m *trinity.Model, o trinity.EndpointOptions) (trinity.Endpoint, error)
	Open(key string, open func(log io.Writer) (io.Closer, error)) (io.Closer, error)
	Say(line string)
}

// rolloutHost is the [trinity.Host] of one rollout.
type rolloutHost struct {
	Host
	slots *Slots
	turn  time.Duration // see Runner.Turn
	task  *trinity.Task
	id    trinity.ExperienceID
	seed  uint64
	ended <-chan struct{} // closed when the rollout ends
	trace *traced
}

// Model implements [trinity.Host]. Each model of a rollout draws from a seed of its own.
func (h *rolloutHost) Model(name string) (*trinity.Model, error) {
	if name == "" {
		return nil, errors.New("a model without a name: the policy is the rollout's Model")
	}
	m, err := h.Host.Model(h.task, name)
	if err != nil {
		return nil, err
	}
	return h.own(m, name), nil
}

// Asker implements [trinity.Host].
func (h *rolloutHost) Asker(name string) (trinity.Asker, error) {
	return h.Host.Asker(h.task, name, func(m *trinity.Model) *trinity.Model { return h.own(m, "asker "+name) })
}

// Wait implements [trinity.Host].
func (h *rolloutHost) Wait(ctx context.Context, until func(context.Context) error) error {
	if d := deadlineOf(ctx); d != nil {
		d.pause()
		defer d.resume()
	}
	return until(ctx)
}

// own gives a model of this rollout its slots, its id, its end and a seed, which follows from the name.
func (h *rolloutHost) own(m *trinity.Model, name string) *trinity.Model {
	m.Sampler = slotted{m.Sampler, h.slots, h.turn, h.trace}
	m.ID, m.Ended = h.id, h.ended
	m.Params.Seed = trinity.Seed(h.seed, h.id.Step, name, h.id.Run)
	return m
}
