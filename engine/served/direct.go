package served

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/failpoint"
)

// Transports of weights without files.
const (
	gloo = "gloo"
	nccl = "nccl"
	ipc  = "ipc"
)

// receiver is an endpoint whose server takes weights from the processes of an engine, without files.
type receiver interface {
	// inlet says how, or why the server cannot.
	inlet(ctx context.Context) (inlet, error)
	// receive replaces the server's weights by those that a channel sends. Requests wait meanwhile. A
	// server that is asleep has memory for the weights alone.
	receive(ctx context.Context, h *handover, asleep bool) error
}

// inlet is how a server takes tensors.
type inlet struct {
	device    string // cuda or cpu
	dtype     string // of its weights
	ranks     int    // processes that hold weights
	announces bool   // each of them tells when it joins
	opens     bool   // it reads memory of its GPUs that another process shows
}

// phaseTime is the time that a phase of a handover may take at most, on the side of a server. The sender
// waits half of it for the server.
const phaseTime = 2 * time.Minute

// bucketKey is the key of SamplerSpec.Bucket.
const bucketKey = "explorer.rollout_model.weight_sync_buffer_size"

// bucketBytes are the bytes that a server is sent at once if nothing else is wanted.
const bucketBytes = 1 << 30

var failSent = failpoint.New("served.bucket") // before a server gets a bucket of a version

// Receives implements engine.WeightReceiver.
func (s *sampler) Receives(ctx context.Context, from engine.WeightSender) error {
	if s.pool.servers.adapter {
		return errors.New("a server reads an adapter from files")
	}
	for _, target := range s.pool.servers.all {
		r, ok := target.endpoint.(receiver)
		if !ok {
			return fmt.Errorf("%s takes weights from files alone", target.name())
		}
		in, err := inletOf(ctx, r, s.loader.phase)
		if err == nil {
			_, err = s.pool.servers.transport(from.Device(), in)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", target.name(), err)
		}
	}
	return nil
}

// inletOf asks a server how it takes tensors, for a limited time.
func inletOf(ctx context.Context, r receiver, limit time.Duration) (inlet, error) {
	ctx, cancel := within(ctx, limit, "it has not said within %v how it takes weights", limit)
	defer cancel()
	in, err := r.inlet(ctx)
	if err != nil && ctx.Err() == context.DeadlineExceeded {
		err = context.Cause(ctx)
	}
	return in, err
}

// ReceiveWeights implements engine.WeightReceiver.
func (s *sampler) ReceiveWeights(ctx context.Context, from engine.WeightSender, number int64) error {
	return s.loader.bring(ctx, version{number: number, from: from})
}

// transport chooses how weights travel from a device to a server.
func (l *servers) transport(device string, in inlet) (string, error) {
	both := device == "cuda" && in.device == "cuda"
	switch {
	case both && l.shares && in.opens:
		return ipc, nil
	case both && l.shares:
		return "", errors.New("it shares its GPUs with the trainer, and NCCL takes no GPU twice")
	case both:
		return nccl, nil
	case in.device == "cuda":
		return "", errors.New("it is on GPUs, and the trainer is not")
	}
	return gloo, nil
}

// handover is the delivery of a version to one server without files.
type handover struct {
	engine.WeightChannel
	in        inlet
	transport string
	group     string
	name      string        // of the weights
	phase     time.Duration // of one phase
}

// receive gives a version to a server without files. Servers take turns, because the sender has one channel.
func (l *loader) receive(ctx context.Context, s *server, v version, asleep bool) (err error) {
	r := s.endpoint.(receiver) // Receives has found out
	l.sending.Lock()
	defer l.sending.Unlock()
	h := &handover{name: v.name, group: v.name + "-" + rand.Text()[:8], phase: l.phase}
	if h.in, err = inletOf(ctx, r, l.phase); err != nil {
		return err
	}
	if h.transport, err = l.pool.servers.transport(v.from.Device(), h.in); err != nil {
		return err
	}
	u, err := url.Parse(l.pool.servers.own.addressOf(s.url))
	if err != nil {
		return err
	}
	h.WeightChannel, err = v.from.OpenChannel(ctx, engine.ChannelSpec{
		Version: v.number, Transport: h.transport, Group: h.group, Peer: u.Hostname(), Ranks: h.in.ranks, Announced: h.in.announces,
		DType: h.in.dtype, Limit: l.bucket, Timeout: h.phase / 2,
	})
	if err != nil {
		return err
	}
	defer func() { err = both(err, h.Close(ctx)) }()
	return r.receive(ctx, h, asleep)
}

// join lets the sender and the server meet.
func (h *handover) join(ctx context.Context, server func(ctx context.Context) error) error {
	return h.together(ctx, "joining the trainer", func() error { return h.Join(ctx) }, server)
}

// send sends a bucket, which the server takes with its handles.
func (h *handover) send(ctx context.Context, bucket int, server func(ctx context.Context, handles json.RawMessage) error) error {
	if err := failSent.Hit(""); err != nil {
		return err
	}
	what := fmt.Sprintf("bucket %d of %d", bucket+1, len(h.Buckets()))
	if h.transport != ipc {
		return h.together(ctx, what, func() error {
			_, err := h.Send(ctx, bucket)
			return err
		}, func(ctx context.Context) error { return server(ctx, nil) })
	}
	handles, err := h.Send(ctx, bucket)
	if err != nil {
		return err
	}
	return h.limited(ctx, what, func(ctx context.Context) error { return server(ctx, handles) })
}

// together runs the two sides of a phase at the same time. What the server says comes first in an error, because the
// sender may only have waited in vain.
func (h *handover) together(ctx context.Context, what string, sender func() error, server func(ctx context.Context) error) error {
	var sides errgroup.Group
	sides.Go(sender)
	took := h.limited(ctx, what, server)
	return both(took, sides.Wait())
}

// limited runs the server's side of a phase with a deadline.
func (h *handover) limited(ctx context.Context, what string, server func(ctx context.Context) error) error {
	late := fmt.Errorf("%s has not ended within %v", what, h.phase)
	ctx, cancel := context.WithTimeoutCause(ctx, h.phase, late)
	defer cancel()
	err := server(ctx)
	switch cause := context.Cause(ctx); {
	case err == nil:
		return nil
	case cause == late:
		return late
	case cause != nil:
		return fmt.Errorf("%s: %w", what, cause)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// torchType returns the type in which a server wants weights. One that does not say gets them as the files
// have them.
func torchType(name string) string {
	switch name = strings.TrimPrefix(name, "torch."); name {
	case "bfloat16", "float16":
		return name
	case "half":
		return "float16"
	}
	return "float32"
}
