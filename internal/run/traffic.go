package run

import (
	"context"
	"errors"
	"math/rand/v2"
	"path"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/explorer"
	"github.com/trinity-go/trinity/internal/run/feed"
	"github.com/trinity-go/trinity/internal/serve/fleet"
	"github.com/trinity-go/trinity/internal/serve/gateway"
	"github.com/trinity-go/trinity/internal/serve/openai"
	"github.com/trinity-go/trinity/internal/wait"
)

// traffic is a stage that records real traffic for a trainer.
type traffic struct{ *stage }

// serve serves like mode serve. It also records the rollouts of clients that ask for it, and delivers
// them to the trainer as an explorer does.
func (s traffic) serve(ctx context.Context, place fleet.Place, api *openai.Server, stage string) (err error) {
	if _, err := s.pipeline(ctx); err != nil {
		return err
	}
	eg, ctx := errgroup.WithContext(ctx)
	sync := &s.Synchronizer
	client := fleet.NewClient(s.Explorer.Name, sync.SyncStyle, wait.Seconds(sync.SyncTimeout), place)
	client.Algorithm, client.Say, client.Stage, client.Rows = s.Algorithm.AlgorithmType, s.say, stage, "the traffic of "+s.Explorer.Name
	client.Dir = s.CheckpointJobDir
	s.log.Join(client)
	follower, err := s.follower(client)
	if err != nil {
		return err
	}
	defer follower.Close()
	recorded, err := gateway.OpenTraffic(ctx, s.options(api, client))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, recorded.Close()) }()
	step, err := recorded.Resume(ctx)
	if err != nil {
		return err
	}
	if err := s.log.Open(step, 0, s.ModelPath); err != nil {
		return err
	}
	eg.Go(func() error { return client.Alive(ctx) })
	eg.Go(func() error { return client.SendSpans(ctx) })
	eg.Go(func() error {
		if err := follower.Follow(ctx); err != nil || ctx.Err() != nil {
			return err
		}
		recorded.End()
		return client.Close(ctx) // the trainer waits for it
	})
	eg.Go(func() error { return recorded.Deliver(ctx) })
	eg.Go(func() error {
		if _, err := follower.Wait(ctx, 0, false); err != nil && !errors.Is(err, trinity.ErrEnded) {
			return err
		}
		return s.answer(ctx, api, recorded.Handler(api.Handler()))
	})
	return eg.Wait()
}

func (s traffic) options(api *openai.Server, client *fleet.Client) gateway.TrafficOptions {
	return gateway.TrafficOptions{
		Dir: filepath.Join(s.Buffer.CacheDir, "traffic"), Token: api.Token, Name: api.Name, Task: path.Join("traffic", feed.OwnName(s.Settled)) + "/",
		Expiry: wait.Seconds(s.Explorer.PendingExpiry), Timeout: api.Timeout, Waiting: api.Waiting,
		Group: s.Method.GroupSize, Compares: s.Method.Needs.Group, Batch: s.Buffer.BatchSize,
		Renderer: s.Text, Vocabulary: api.VocabSize, Say: s.say, Process: s.record, Sink: client,
		Model: func() *trinity.Model {
			m := s.host.Learner(feed.Sampling(s.Settled, &config.RolloutArgs{}, true))
			m.Params.Seed = rand.Uint64() // nobody repeats real traffic
			return m
		},
	}
}

// record passes a delivery through the experience pipeline and logs it as a step.
func (s traffic) record(ctx context.Context, step int64, groups []trinity.Group, counts trinity.Metrics) ([]trinity.Group, error) {
	metrics := trinity.Metrics{}
	metrics.Merge("rollout/", explorer.Metrics(groups))
	metrics.Merge("traffic/", counts)
	groups, m, err := s.process.Process(ctx, step, groups)
	if err != nil {
		return nil, err
	}
	metrics.Merge("", m)
	return groups, s.log.Explorer().Log(ctx, trinity.Record{Step: step, Metrics: metrics})
}
