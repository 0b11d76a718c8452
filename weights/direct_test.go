package weights_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/trinitytest"
	"github.com/trinity-go/trinity/weights"
)

// sending is a bandit that writes down what is asked of it.
type sending struct {
	*trinitytest.Bandit
	asked []string
}

func (s *sending) Device() string { return "cpu" }

func (s *sending) Offer(ctx context.Context, version int64) error {
	s.asked = append(s.asked, fmt.Sprintf("offer %d", version))
	return s.Bandit.Offer(ctx, version)
}

func (s *sending) OpenChannel(context.Context, engine.ChannelSpec) (engine.WeightChannel, error) {
	return slow{}, nil
}

// slow is a channel whose bucket takes time.
type slow struct{ engine.WeightChannel }

func (slow) Send(context.Context, int) (json.RawMessage, error) {
	time.Sleep(time.Millisecond)
	return nil, nil
}

// receiving is a sampler that takes weights from a sending.
type receiving struct {
	trinity.Sampler
	from   *sending
	cannot error
	fails  error
}

func (r *receiving) Receives(context.Context, engine.WeightSender) error { return r.cannot }

func (r *receiving) ReceiveWeights(ctx context.Context, from engine.WeightSender, version int64) error {
	c, err := from.OpenChannel(ctx, engine.ChannelSpec{})
	if err != nil {
		return err
	}
	if _, err := c.Send(ctx, 0); err != nil {
		return err
	}
	r.from.asked = append(r.from.asked, fmt.Sprintf("receive %d", version))
	return r.fails
}

func directly(t *testing.T, l weights.Link) (weights.Synchronizer, error) {
	t.Helper()
	way, err := weights.Ways.Build("direct")
	if err != nil {
		t.Fatal(err)
	}
	l.Timeout, l.Dir = time.Minute, t.TempDir()
	return way.Open(t.Context(), l)
}

// A run begins with the version of its checkpoint. Weights that are that version are offered first;
// others are kept by the engine.
func TestDirectOrder(t *testing.T) {
	for _, c := range []struct {
		version int64
		current bool
		want    []string
	}{
		{0, true, []string{"offer 0", "receive 0", "offer 1", "receive 1"}},
		{3, true, []string{"offer 3", "receive 3", "offer 4", "receive 4"}},
		{3, false, []string{"receive 3", "offer 4", "receive 4"}},
	} {
		s := &sending{Bandit: trinitytest.NewBandit(4)}
		var metrics []trinity.Metrics
		sync, err := directly(t, weights.Link{
			Engine: s, Sampler: &receiving{Sampler: s.Bandit, from: s}, Version: c.version, Current: c.current,
			Report: func(_ context.Context, _ int64, m trinity.Metrics) error {
				metrics = append(metrics, m)
				return nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		sync.ExplorerDone()
		if err := sync.Publish(t.Context(), c.version+1); err != nil || !slices.Equal(s.asked, c.want) {
			t.Errorf("asked %v, %v; want %v", s.asked, err, c.want)
		}
		if len(metrics) != 2 || !(metrics[1]["sync/transfer"] > 0) || !(metrics[1]["sync/load"] >= 0) {
			t.Errorf("metrics %v", metrics)
		}
	}
}

// What stands against a direct way is an error.
func TestDirectIsRefused(t *testing.T) {
	cannot := errors.New("server 1 is too old")
	for _, c := range []struct {
		engine   engine.Trainer
		cannot   error
		handover weights.Handover
		want     string
	}{
		{&sending{Bandit: trinitytest.NewBandit(4)}, cannot, weights.AtRendezvous, "server 1 is too old"},
		{&sending{Bandit: trinitytest.NewBandit(4)}, nil, weights.AtOnce, "set synchronizer.sync_style to fixed"},
		{trinitytest.NewBandit(4), nil, weights.AtRendezvous, "sends no weights"},
	} {
		link := weights.Link{Engine: c.engine, Sampler: &receiving{cannot: c.cannot}, Current: true, Handover: c.handover}
		if _, err := directly(t, link); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}

// A version that no server takes ends the run with what to do.
func TestDirectFails(t *testing.T) {
	s := &sending{Bandit: trinitytest.NewBandit(4)}
	_, err := directly(t, weights.Link{Engine: s, Sampler: &receiving{Sampler: s.Bandit, from: s, fails: errors.New("server 1: joining: no")},
		Current: true})
	const want = "version 0 of the weights, with which the run begins: server 1: joining: no " +
		"(synchronizer.sync_method: directory sends files instead)"
	if err == nil || err.Error() != want {
		t.Errorf("error %v", err)
	}
}
