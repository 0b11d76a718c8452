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
			if err := o.Open(partsHost{h}); err != nil {
				return err
			}
		}
	}
	return nil
}

// partsHost is the [trinity.Host] of plug-ins that belong to no rollout.
type partsHost struct{ explorer.Host }

var errNoRollout = errors.New("models are for rollouts, and this plug-in belongs to none")

// Model implements [trinity.Host].
func (partsHost) Model(string) (*trinity.Model, error) { return nil, errNoRollout }

// Asker implements [trinity.Host].
func (partsHost) Asker(string) (trinity.Asker, error) { return nil, errNoRollout }

// Wait implements [trinity.Host].
func (partsHost) Wait(ctx context.Context, until func(context.Context) error) error {
	return until(ctx)
}
