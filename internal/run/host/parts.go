package host

import (
	"context"
	"errors"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/explorer"
)

// Give gives plug-ins that belong to no rollout, such as operators, advantages and losses, what the stage offers: it
// calls their method Open(trinity.Host) error, if they have one.
func (h *Host) Give(plugins ...any) error {
	for _, p := range plugins {
		if o, ok := p.(interface{ Open(trinity.Host) error }); ok {
			if err := o.Open(partsHost{h, h}); err != nil {
				return err
			}
		}
	}
	return nil
}

// partsHost is the [trinity.Host] of plug-ins that belong to no rollout.
type partsHost struct {
	explorer.Host
	of *Host
}

var errNoRollout = errors.New("models are for rollouts, and this plug-in belongs to none")

// Model implements [trinity.Host].
func (partsHost) Model(string) (*trinity.Model, error) { return nil, errNoRollout }

// Asker implements [trinity.Host]. It has the models of explorer.auxiliary_models alone.
func (p partsHost) Asker(name string) (trinity.Asker, error) {
	if name == trinity.PolicyAsker {
		return nil, errNoRollout
	}
	return p.Host.Asker(nil, name, func(m *trinity.Model) *trinity.Model {
		m.Params.Seed = trinity.Seed(uint64(p.of.stage.Seed), 0, "asker "+name, 0)
		return m
	})
}

// Serve implements [trinity.Host]. Its endpoint has the models of o, and no policy.
func (p partsHost) Serve(ctx context.Context, _ *trinity.Model, o trinity.EndpointOptions) (trinity.Endpoint, error) {
	return p.Host.Serve(ctx, &trinity.Model{Sampler: noPolicy{}, Renderer: p.of.stage.Text}, o)
}

// noPolicy is the sampler of an endpoint without a policy.
type noPolicy struct{}

// Sample implements [trinity.Sampler].
func (noPolicy) Sample(context.Context, trinity.Prompt, trinity.SamplingParams) ([]trinity.Completion, error) {
	return nil, errNoRollout
}

// Wait implements [trinity.Host].
func (partsHost) Wait(ctx context.Context, until func(context.Context) error) error {
	return until(ctx)
}
