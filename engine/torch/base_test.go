package torch

import (
	"context"
	"errors"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/trinitytest"
)

// Tenants of one frozen model train adapters of their own, also of its head.
func TestSharesABase(t *testing.T) {
	p := realPlugin(t, map[string]any{"head_rows": 3})
	spec := tiny("llama3_bias_tied")
	spec.Train, spec.Place = true, here(t, 1)
	trinitytest.Base(t, p, spec)
}

// cancelling is a loss in which its caller gives up.
type cancelling struct {
	mixed
	cancel func()
}

func (c cancelling) Loss(b *trinity.Batch, now []trinity.TokenStats) ([]trinity.TokenGrads, trinity.Metrics, error) {
	c.cancel()
	return c.mixed.Loss(b, now)
}

// A tenant that gives up harms no other, and a worker that has ended is replaced for new tenants.
func TestTenantsOutliveOneAnother(t *testing.T) {
	p, spec := realPlugin(t, nil), tiny("qwen2")
	spec.Train, spec.Place = true, here(t, 1)
	b, err := p.OpenBase(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	tenant := func() engine.Trainer {
		e, err := b.Tenant(t.Context(), &engine.LoRASpec{LoraRank: 2, LoraAlpha: 4}, 1)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	first, second := tenant(), tenant()
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := first.ForwardBackward(ctx, randomBatch(64), cancelling{cancel: cancel}); err != nil {
		t.Errorf("a caller that gave up: %v", err)
	}
	want, err := second.Forward(t.Context(), randomBatch(64), trinity.Streams{})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.(*base).worker.kill(); err != nil {
		t.Error(err)
	}
	lost := (*trinity.LostError)(nil)
	for range 2 {
		if _, err := second.Forward(t.Context(), randomBatch(64), trinity.Streams{}); !errors.As(err, &lost) {
			t.Errorf("%v; want the loss of the worker", err)
		}
	}
	third := tenant()
	if got, err := third.Forward(t.Context(), randomBatch(64), trinity.Streams{}); err != nil || apart(got, want) != 0 {
		t.Errorf("in a new worker: %v, %.2g nats off", err, apart(got, want))
	}
	for _, e := range []engine.Trainer{first, second, third} {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}
