package main

import (
	"context"
	"net/http/httptest"
	"slices"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/serve/tinker"
	wire "github.com/trinity-go/trinity/internal/wire/tinker"
)

// ownWork is a service whose engine computes nothing, beside the engine that computes.
type ownWork struct {
	client *wire.Client
	model  *wire.Training
	data   []wire.Datum
	real   *wire.Training
}

// ownShare is the part of the batch that the engine computes in a run: all of it would take minutes.
const ownShare = 32

func newOwnWork(a *assignment) (task, error) {
	bare, err := startService(a, serviceModel, a.Prompt)
	if err != nil {
		return nil, err
	}
	w := &ownWork{data: dataOf(a)}
	if w.real, err = bare.tenant(); err != nil {
		return nil, err
	}
	server, err := tinker.New(tinker.Options{
		Dir: a.Dir + "-idle", Alpha: a.Rank, Gap: time.Minute, Hold: time.Minute, Idle: time.Hour, Say: func(string) {},
		Bases: []*tinker.Base{{
			Name: serviceModel, Vocab: 1 << 30, MaxLen: a.Prompt, MaxScored: a.Prompt + 1, MaxRank: a.Rank, MicroTokens: 2048,
			Open: func(context.Context, *engine.LoRASpec, uint64) (engine.Trainer, error) { return idleTrainer{}, nil },
		}},
	})
	if err != nil {
		return nil, err
	}
	go server.Run(context.Background()) // ends with the process
	at := httptest.NewServer(server.Handler())
	if w.client, err = wire.Open(context.Background(), at.URL, time.Minute, func(string) {}); err != nil {
		return nil, err
	}
	w.model, err = w.client.Train(context.Background(), serviceModel, wire.LoRAConfig{Rank: a.Rank})
	return w, err
}

// run returns how long the requests take that are not computed, in percent of those that are. The client, the loss and
// loopback are in it.
func (w *ownWork) run(int) (sample, error) {
	ctx := context.Background()
	pass := wire.Pass{Loss: "cross_entropy", Bytes: 64 << 20} // one request
	start := time.Now()
	if _, _, err := w.model.Pass(ctx, pass, w.data); err != nil {
		return sample{}, err
	}
	own := time.Since(start)
	start = time.Now()
	_, _, err := w.real.Pass(ctx, pass, w.data[:len(w.data)/ownShare])
	return sample{Value: 100 * own.Seconds() / (ownShare * time.Since(start).Seconds()), P50: own.Seconds() * 1e3}, err
}

// idleTrainer is a trainer that computes no pass. The loss gets zeros.
type idleTrainer struct{ engine.Trainer }

// ForwardBackward implements [engine.Trainer].
func (idleTrainer) ForwardBackward(_ context.Context, b *trinity.Batch, loss trinity.Loss) (trinity.Metrics, error) {
	now := make([]trinity.TokenStats, len(b.Experiences))
	for i, e := range b.Experiences {
		now[i].Logprob = slices.Repeat([]float32{-1}, len(e.Tokens))
	}
	_, metrics, err := loss.Loss(b, now)
	return metrics, err
}

// SaveState implements [engine.Trainer].
func (idleTrainer) SaveState(context.Context, string) error { return nil }

// Close implements [engine.Trainer].
func (idleTrainer) Close() error { return nil }
