package weights

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	Ways.Register("direct",
		"The engine's processes send each version to the processes of servers, without files: over NCCL, over gloo on CPUs, or through the "+
			"memory of GPUs that both are on. The trainer is torch, the servers are vLLM or SGLang.",
		func() Way { return direct{} })
}

// Sending is a Way whose versions are nowhere but in the engine. The engine must keep each until the next
// one is offered, because a server that restarts gets it again.
type Sending interface {
	Way
	Sends()
}

type direct struct{}

// Shares implements Way.
func (direct) Shares() bool { return false }

// Sends implements Sending.
func (direct) Sends() {}

// Lacks returns why a run cannot use the way, and what to do.
func (direct) Lacks(trainer, sampler, style string, adapter bool) (lacks []string, hint string) {
	refuse := func(wrong bool, format string, a ...any) {
		if wrong {
			lacks = append(lacks, fmt.Sprintf(format, a...))
		}
	}
	_, sends := plugin("trainer", trainer).(interface{ SendsWeights() })
	_, receives := plugin("sampler", sampler).(interface{ ReceivesWeights() })
	refuse(!sends, "there is no direct way from the trainer %q, which sends no weights", trainer)
	refuse(!receives, "there is no direct way to the sampler %q, which takes no tensors", sampler)
	refuse(style != "fixed", "there is no direct way with the sync_style %s, in which versions wait for the explorer", style)
	refuse(adapter, "there is no direct way for an adapter, which servers read from files")
	return lacks, "set it to directory, which sends files"
}

// plugin returns a plug-in with its defaults; nil if this program has none.
func plugin(kind, name string) any {
	catalog, ok := registry.Find(kind)
	if !ok || !catalog.Has(name) {
		return nil
	}
	return catalog.Default(name)
}

// Open implements Way.
func (direct) Open(ctx context.Context, l Link) (Synchronizer, error) {
	opened, sampler, err := ends(ctx, l)
	if err != nil {
		return nil, err
	}
	d := &bySending{engine: &timed{WeightSender: opened}, sampler: sampler, version: l.Version, evidence: evidenceOf(l)}
	if err := d.begin(ctx, l.Current); err != nil {
		return nil, fmt.Errorf("version %d of the weights, with which the run begins: %w", l.Version, err)
	}
	m := NewMemory(d, l.Version, l.Handover, l.Timeout)
	m.sleeper, _ = l.Sampler.(Sleeper)
	return m, nil
}

// ends returns the two sides, if weights can travel between them.
func ends(ctx context.Context, l Link) (engine.WeightSender, engine.WeightReceiver, error) {
	opened, ok := l.Engine.(engine.WeightSender)
	if !ok {
		return nil, nil, fmt.Errorf("a %T sends no weights", l.Engine)
	}
	sampler, ok := l.Sampler.(engine.WeightReceiver)
	if !ok {
		return nil, nil, fmt.Errorf("a %T takes no tensors", l.Sampler)
	}
	if l.Handover != AtRendezvous {
		return nil, nil, errors.New("a version must not wait for the explorer: set synchronizer.sync_style to fixed")
	}
	return opened, sampler, sampler.Receives(ctx, opened)
}

// bySending is an Offerer whose versions go from process to process. Memory calls one method at a time.
type bySending struct {
	engine  *timed
	sampler engine.WeightReceiver
	version int64 // that was offered last
	evidence
}

// begin brings the version of a checkpoint into use. The engine's weights are that version, or it keeps it.
func (d *bySending) begin(ctx context.Context, current bool) error {
	if current {
		if err := d.Offer(ctx, d.version); err != nil {
			return err
		}
	}
	_, err := d.Adopt(ctx)
	return err
}

// Offer implements Offerer.
func (d *bySending) Offer(ctx context.Context, version int64) error {
	if err := d.learn(ctx, d.engine, version); err != nil {
		return err
	}
	d.version = version
	return d.engine.Offer(ctx, version) // last: the engine then frees the GPUs that it shares with a sampler
}

// Adopt implements Offerer.
func (d *bySending) Adopt(ctx context.Context) (int64, error) {
	begin := time.Now()
	d.engine.spent.Store(0)
	err := d.sampler.ReceiveWeights(ctx, d.engine, d.version)
	var lost *trinity.LostError
	switch {
	case ctx.Err() != nil || errors.As(err, &lost):
		return 0, err
	case err != nil:
		return 0, fmt.Errorf("%w (synchronizer.sync_method: directory sends files instead)", err)
	}
	transfer := time.Duration(d.engine.spent.Load()).Seconds()
	m := trinity.Metrics{"sync/transfer": transfer, "sync/load": time.Since(begin).Seconds() - transfer}
	return d.version, d.tell(ctx, d.version, m)
}

// timed measures how long an engine sends.
type timed struct {
	engine.WeightSender
	spent atomic.Int64 // nanoseconds
}

// OpenChannel implements engine.WeightSender.
func (t *timed) OpenChannel(ctx context.Context, to engine.ChannelSpec) (engine.WeightChannel, error) {
	c, err := t.WeightSender.OpenChannel(ctx, to)
	if err != nil {
		return nil, err
	}
	return &timedChannel{c, t}, nil
}

type timedChannel struct {
	engine.WeightChannel
	of *timed
}

// Send implements engine.WeightChannel.
func (c *timedChannel) Send(ctx context.Context, bucket int) (json.RawMessage, error) {
	begin := time.Now()
	defer func() { c.of.spent.Add(int64(time.Since(begin))) }()
	return c.WeightChannel.Send(ctx, bucket)
}
