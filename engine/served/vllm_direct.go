package served

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/trinity-go/trinity/engine"
)

// vllmChannel is what a server with the plug-in needs to join a sender. Without a transport it only compares the tensors
// with its model.
type vllmChannel struct {
	Transport string              `json:"transport"`
	Group     string              `json:"group"`
	Address   string              `json:"address"`
	Port      int                 `json:"port"`
	World     int                 `json:"world"`
	Seconds   float64             `json:"seconds"`
	Tensors   []engine.TensorInfo `json:"tensors"`
}

// inlet implements receiver.
func (s *vllmServer) inlet(ctx context.Context) (inlet, error) {
	c, err := s.config(ctx)
	switch {
	case err != nil && statusOf(err) != http.StatusNotFound:
		return inlet{}, err
	case err != nil:
		return inlet{}, fmt.Errorf("it does not say how it was started (VLLM_SERVER_DEV_MODE=1): %w", err)
	case c.Transfer.Backend != filesBackend:
		return inlet{}, errors.New("it takes weights from a directory alone: " + withPlugIn)
	}
	p := &c.Parallel
	return inlet{
		device: c.Device.Device, dtype: torchType(c.Model.DType), announces: true, opens: true,
		ranks: max(1, p.Tensor) * max(1, p.Pipeline) * max(1, p.Data),
	}, nil
}

// receive implements receiver.
func (s *vllmServer) receive(ctx context.Context, h *handover, asleep bool) error {
	return s.change(ctx, asleep, func() error { return s.take(ctx, h) })
}

// take drives the phases of a paused server. It compares the tensors before it changes anything.
func (s *vllmServer) take(ctx context.Context, h *handover) error {
	c := vllmChannel{Tensors: slices.Concat(h.Buckets()...)}
	phase := func(name string, body any) func(context.Context) error {
		return func(ctx context.Context) error { return s.phase(ctx, name, body) }
	}
	compare := phase("init_weight_transfer_engine", map[string]any{"init_info": map[string]any{"channel": c}})
	if err := h.limited(ctx, "comparing the tensors", compare); err != nil {
		return err
	}
	if err := h.limited(ctx, "beginning the update", s.begin); err != nil {
		return err
	}
	c.Transport, c.Group, c.World, c.Seconds = h.transport, h.group, h.in.ranks+1, h.phase.Seconds()/2
	c.Address, c.Port = h.Address()
	if err := h.join(ctx, phase("init_weight_transfer_engine", map[string]any{"init_info": map[string]any{"channel": c}})); err != nil {
		return err
	}
	for i, bucket := range h.Buckets() {
		err := h.send(ctx, i, func(ctx context.Context, handles json.RawMessage) error {
			update := map[string]any{"tensors": bucket}
			if handles != nil {
				update["handles"] = handles
			}
			return s.phase(ctx, "update_weights", map[string]any{"update_info": update})
		})
		if err != nil {
			return err
		}
	}
	return h.limited(ctx, "ending the update", phase("finish_weight_update", map[string]string{"weight_version": h.name}))
}
