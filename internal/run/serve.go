package run

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"

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
	step, err := s.newestModel()
	if err != nil && place == nil {
		return err
	}
	if err := s.openModels(ctx, false, true); err != nil {
		return err
	}
	if err := loadCheckpoint(ctx, s, step); err != nil {
		return err
	}
	api := front.New(s.Stage, s.models.Sampler, token, s.say)
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

// newestModel replaces the base model by that of the newest checkpoint that has a model, and returns
// the checkpoint's step. Without such a checkpoint that is 0.
func (s *stage) newestModel() (step int64, err error) {
	steps, err := s.stepsWithModel()
	if err != nil || len(steps) == 0 {
		return 0, err
	}
	step = steps[len(steps)-1]
	dir := filepath.Join(s.checkpoints.Of(step), s.ModelDir())
	s.say("serves the model of " + dir)
	if len(s.Model.LoraConfigs) > 0 {
		s.Model.LoraConfigs = withPath(s.Model.LoraConfigs, dir)
	} else {
		s.ModelPath = dir
	}
	return step, nil
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
