package torch

import (
	"context"
	"errors"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/model"
	"github.com/trinity-go/trinity/trinitytest"
)

// Tenants of one frozen model train adapters of their own, also of its head.
func TestSharesABase(t *testing.T) {
	p := realPlugin(t, map[string]any{"head_rows": 3})
	spec := tiny("llama3_bias_tied")
	spec.Train, spec.Place = true, here(t, 1)
	trinitytest.Base(t, p, spec)
}

// meanwhile is a loss during which something happens, while the graph is held.
type meanwhile struct {
	mixed
	happens func()
}

func (m meanwhile) Loss(b *trinity.Batch, now []trinity.TokenStats) ([]trinity.TokenGrads, trinity.Metrics, error) {
	m.happens()
	return m.mixed.Loss(b, now)
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
	if _, err := first.ForwardBackward(ctx, randomBatch(64), meanwhile{happens: cancel}); err != nil {
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

// What a tenant finds free on a GPU is less by what the base and other tenants have.
func TestTenantsShareAGPU(t *testing.T) {
	p, spec := &plugin{args: args{Compute: "auto", HeadRows: 8}}, tiny("qwen2")
	spec.Place = engine.Place{GPUs: 1, Ranks: 1, GPUBytes: 1 << 40}
	parts, err := p.PlanBase(spec)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := model.ReadConfig(spec.ModelPath)
	if err != nil {
		t.Fatal(err)
	}
	spec.Train = true
	b := &base{args: &p.args, spec: spec, cfg: cfg, worker: &worker{gone: make(chan struct{})}, taken: onDevice(parts)}
	free := int64(1<<40) - onDevice(parts)
	if onDevice(parts) < contextBytes {
		t.Errorf("the base takes %d bytes", onDevice(parts))
	}
	for range 2 {
		parts, err := b.PlanTenant(&engine.LoRASpec{LoraRank: 2, LoraAlpha: 4})
		if err != nil || parts[0].Free != free {
			t.Errorf("%d free, want %d; %v", parts[0].Free, free, err)
		}
		e, err := b.enter(t.Context(), onDevice(parts))
		if err != nil {
			t.Fatal(err)
		}
		if free -= onDevice(parts); free != 1<<40-b.taken {
			t.Errorf("%d taken, and %d free", b.taken, free)
		}
		defer func(before int64) {
			if err := e.release(); err != nil || b.taken != before {
				t.Errorf("%d taken, want %d; %v", b.taken, before, err)
			}
		}(b.taken - onDevice(parts))
	}
}
