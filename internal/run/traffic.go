package run

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/explorer"
	"github.com/trinity-go/trinity/internal/run/front"
	"github.com/trinity-go/trinity/internal/serve/fleet"
	"github.com/trinity-go/trinity/internal/wait"
)

// serveTraffic serves like mode serve. It also records the rollouts of clients that ask for it, and delivers
// them to the trainer as an explorer does.
func (s *stage) serveTraffic(ctx context.Context, place fleet.Place, api *front.API, stage string) (err error) {
	if err := s.pipeline(ctx); err != nil {
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
	recorded, err := api.OpenTraffic(ctx, client, s.host.Learner, s.record)
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
		return api.Serve(ctx, recorded.Handler(api.Handler()))
	})
	return eg.Wait()
}

// record passes a delivery through the experience pipeline and logs it as a step.
func (s *stage) record(ctx context.Context, step int64, groups []trinity.Group, counts trinity.Metrics) ([]trinity.Group, error) {
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
