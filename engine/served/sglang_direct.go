package served

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/trinity-go/trinity/engine"
)

// inlet implements receiver.
func (s *sglangServer) inlet(context.Context) (inlet, error) {
	p := &s.layout
	if p.Pipeline > 1 || p.Data > 1 {
		return inlet{}, fmt.Errorf("pp_size is %d and dp_size %d: it takes tensors with tensor parallelism alone", p.Pipeline, p.Data)
	}
	device := p.Device
	if device == "" {
		device = "cuda"
	}
	return inlet{device: device, dtype: torchType(p.DType), ranks: max(1, p.Tensor)}, nil
}

// receive implements receiver.
func (s *sglangServer) receive(ctx context.Context, h *handover, _ bool) error {
	return s.whilePaused(ctx, retracting, func() error { return s.take(ctx, h) })
}

// take drives the phases of a paused server. The first bucket changes it.
func (s *sglangServer) take(ctx context.Context, h *handover) (err error) {
	host, port := h.Address()
	join := map[string]any{
		"master_address": host, "master_port": port, "rank_offset": 1, "world_size": h.in.ranks + 1, "group_name": h.group,
		"backend": h.transport,
	}
	if err := h.join(ctx, s.does("/init_weights_update_group", join)); err != nil {
		return err
	}
	defer func() {
		leave := s.does("/destroy_weights_update_group", map[string]string{"group_name": h.group})
		err = both(err, h.limited(context.WithoutCancel(ctx), "leaving the trainer", leave))
	}()
	buckets := h.Buckets()
	for i, bucket := range buckets {
		update := s.update(bucket, h.group)
		if i == len(buckets)-1 {
			update["weight_version"], update["flush_cache"] = h.name, true
		}
		err := h.send(ctx, i, func(ctx context.Context, _ json.RawMessage) error {
			return s.does("/update_weights_from_distributed", update)(ctx)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// update is the request that makes the server receive a bucket.
func (*sglangServer) update(bucket []engine.TensorInfo, group string) map[string]any {
	var names, dtypes []string
	var shapes [][]int
	for _, t := range bucket {
		names, dtypes, shapes = append(names, t.Name), append(dtypes, t.DType), append(shapes, t.Shape)
	}
	return map[string]any{
		"names": names, "dtypes": dtypes, "shapes": shapes, "group_name": group, "load_format": "flattened_bucket", "flush_cache": false,
		"abort_all_requests": false,
	}
}

// does returns a call that changes the server.
func (s *sglangServer) does(endpoint string, body any) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		var done sglangDone
		if err := s.client.Call(ctx, endpoint, body, &done); err != nil {
			return err
		}
		return done.err()
	}
}
