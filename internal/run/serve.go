package run

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sync/errgroup"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/explorer"
	"github.com/trinity-go/trinity/internal/run/checkpoint"
	"github.com/trinity-go/trinity/internal/run/front"
	"github.com/trinity-go/trinity/internal/serve/fleet"
	"github.com/trinity-go/trinity/internal/wait"
	"github.com/trinity-go/trinity/weights"
)

// serve answers the OpenAI API with the rollout model until somebody stops it. If the run has a
// trainer, serve loads each version that the trainer publishes. Otherwise it uses the newest
// checkpoint with a model, or the base model.
func (s *stage) serve(ctx context.Context, opts Options) error {
	token, err := front.Key(s.Settled)
	if err != nil {
		return err
	}
	place, err := front.TrainerPlace(s.Settled, opts.Join)
	if err != nil {
		return err
	}
	if s.Records() && place == nil {
		return s.At("explorer.pending_expiry", "records traffic for a trainer, and there is none",
			"start the trainer first, or name its address with --join, or set it to 0")
	}
	name := checkpoint.ServedName(&s.Model) // before a checkpoint takes the place of the model
	if opts.Adapters[name] != "" {
		return fmt.Errorf("adapter %q: the model itself has this name: give the adapter another one", name)
	}
	step, err := s.serveNewest()
	if err != nil && place == nil {
		return err
	}
	if err := s.openModels(ctx, false, true); err != nil {
		return err
	}
	if err := loadCheckpoint(ctx, s, step); err != nil {
		return err
	}
	if err := s.models.ServeAdapters(ctx, opts.Adapters); err != nil {
		return err
	}
	api := front.New(s.Stage, name, s.models.Sampler, token, opts.Keep, s.say)
	if s.Records() {
		return s.serveTraffic(ctx, place, api, opts.Stage)
	}
	eg, ctx := errgroup.WithContext(ctx)
	if place != nil {
		sync := &s.Synchronizer
		follower, err := s.follower(fleet.NewClient("", sync.SyncStyle, wait.Seconds(sync.SyncTimeout), place))
		if err != nil {
			return err
		}
		follower.Observer = true
		eg.Go(func() error {
			defer follower.Close()
			return follower.Follow(ctx)
		})
	}
	eg.Go(func() error { return api.Serve(ctx, api.Handler()) })
	return eg.Wait()
}

// serveNewest replaces the base model by that of the checkpoint that stands for the run, and returns the
// checkpoint's step. Without a checkpoint that is 0.
func (s *stage) serveNewest() (step int64, err error) {
	path, step, err := newestModel(s.Settled)
	if err != nil || path == "" {
		return 0, err
	}
	dir, err := s.useModelOf(path)
	s.say("serves the model of " + dir)
	return step, err
}

// follower returns a follower that loads the weights of a trainer into the sampler.
func (s *stage) follower(client *fleet.Client) (*weights.Follower, error) {
	loader, ok := s.models.Sampler.(weights.Loader)
	if !ok {
		return nil, fmt.Errorf("engine %s cannot take weights from a trainer", s.Engines.Sample)
	}
	dir, err := os.MkdirTemp(s.CheckpointJobDir, ".serve_")
	if err != nil {
		return nil, err
	}
	load := func(ctx context.Context, dir string, version int64) error {
		if err := loader.LoadWeights(ctx, dir, version); err != nil {
			return err
		}
		s.say(fmt.Sprintf("serves version %d", version))
		return nil
	}
	timeout := wait.Seconds(s.Synchronizer.SyncTimeout)
	follower := &weights.Follower{Trainer: client, Dir: dir, Load: load, Keep: isResident(loader), Timeout: timeout}
	prove(s, follower, false)
	return follower, nil
}

// isResident reports whether a sampler may read a version's directory again, because its weights lie in
// servers that may restart.
func isResident(loader weights.Loader) bool {
	_, is := loader.(weights.Resident)
	return is
}

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
