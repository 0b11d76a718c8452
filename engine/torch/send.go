package torch

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/trinity-go/trinity/engine"
)

var _ engine.WeightSender = (*workerModel)(nil)

// SendsWeights says that the way direct fits.
func (*plugin) SendsWeights() {}

// Device implements engine.WeightSender.
func (e *workerModel) Device() string { return e.worker.device }

// plan is how the worker has cut the weights into buckets.
type plan struct {
	dtype   string
	limit   int64
	buckets [][]engine.TensorInfo
}

// OpenChannel implements engine.WeightSender. A worker has one channel.
func (e *workerModel) OpenChannel(ctx context.Context, to engine.ChannelSpec) (engine.WeightChannel, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.keepsVersion(to.Version); err != nil {
		return nil, err
	}
	if p := &e.plan; p.buckets == nil || p.dtype != to.DType || p.limit != to.Limit {
		answer, err := e.send(ctx, "plan", map[string]any{"dtype": to.DType, "limit": to.Limit})
		if err != nil {
			return nil, err
		}
		*p = plan{dtype: to.DType, limit: to.Limit}
		if err := answer.value("buckets", &p.buckets); err != nil {
			return nil, err
		}
	}
	c := &weightChannel{engine: e, spec: to, buckets: e.plan.buckets}
	answer, err := e.send(ctx, "open", map[string]any{
		"transport": to.Transport, "group": to.Group, "peer": to.Peer, "seconds": to.Timeout.Seconds(),
	})
	if err != nil {
		return nil, err
	}
	if err := answer.value("address", &c.host); err != nil {
		return nil, err
	}
	return c, answer.value("port", &c.port)
}

// keepsVersion returns an error if the weights of a version are gone. A server that restarts may ask for them
// while the next version is published.
func (e *workerModel) keepsVersion(number int64) error {
	if err := e.keepsPublished(); err != nil {
		return err
	}
	if e.Published != number {
		return fmt.Errorf("torch: version %d is gone, since version %d has been offered: the server gets that one", number, e.Published)
	}
	return nil
}

// send asks the worker for a stage of the verb. The worker limits its waits itself, so the end of ctx does not end the
// worker, which would have to train on.
func (e *workerModel) send(ctx context.Context, stage string, meta map[string]any) (reply, error) {
	meta["stage"] = stage
	answer, err := e.do(context.WithoutCancel(ctx), "send", message{meta: meta})
	if err != nil {
		return answer, err
	}
	if text, failed := answer.file.Metadata["failed"]; failed {
		var why string
		if err := json.Unmarshal([]byte(text), &why); err != nil {
			return answer, err
		}
		return answer, fmt.Errorf("torch: sending weights, %s: %s", stage, why)
	}
	return answer, nil
}

// weightChannel is the worker's channel to a server.
type weightChannel struct {
	engine  *workerModel
	spec    engine.ChannelSpec
	buckets [][]engine.TensorInfo
	host    string
	port    int
}

// Buckets implements engine.WeightChannel.
func (c *weightChannel) Buckets() [][]engine.TensorInfo { return c.buckets }

// Address implements engine.WeightChannel.
func (c *weightChannel) Address() (host string, port int) { return c.host, c.port }

// Join implements engine.WeightChannel.
func (c *weightChannel) Join(ctx context.Context) error {
	_, err := c.ask(ctx, "join", map[string]any{"world": c.spec.Ranks + 1, "announced": c.spec.Announced})
	return err
}

// Send implements engine.WeightChannel.
func (c *weightChannel) Send(ctx context.Context, bucket int) (handles json.RawMessage, err error) {
	answer, err := c.ask(ctx, "bucket", map[string]any{"index": bucket})
	if err != nil {
		return nil, err
	}
	return json.RawMessage(answer.file.Metadata["handles"]), nil
}

// Close implements engine.WeightChannel.
func (c *weightChannel) Close(ctx context.Context) error {
	_, err := c.ask(ctx, "close", map[string]any{})
	return err
}

func (c *weightChannel) ask(ctx context.Context, stage string, meta map[string]any) (reply, error) {
	c.engine.mu.Lock()
	defer c.engine.mu.Unlock()
	if err := c.engine.keepsVersion(c.spec.Version); err != nil && stage != "close" {
		return reply{}, err
	}
	return c.engine.send(ctx, stage, meta)
}
