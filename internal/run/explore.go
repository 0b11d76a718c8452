package run

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/explorer"
	"github.com/trinity-go/trinity/internal/run/feed"
	"github.com/trinity-go/trinity/internal/run/front"
	"github.com/trinity-go/trinity/internal/run/settle"
	"github.com/trinity-go/trinity/internal/serve/fleet"
	"github.com/trinity-go/trinity/internal/wait"
	"github.com/trinity-go/trinity/weights"
)

// explore rolls out for a trainer in another process.
func (s *stage) explore(ctx context.Context, opts Options) error {
	ex, err := s.exploring(ctx)
	if err != nil {
		return err
	}
	if s.Buffer.TrainerInput.ExperienceBuffer.StorageType == "file" {
		return s.exploreAlone(ctx, ex)
	}
	place, err := front.TrainerPlace(s.Settled, opts.Join)
	if err != nil {
		return err
	}
	if place == nil { // it has yet to start
		place = fleet.In(s.CheckpointJobDir)
	}
	cfg := &s.Synchronizer
	client := fleet.NewClient(s.Explorer.Name, cfg.SyncStyle, wait.Seconds(cfg.SyncTimeout), place)
	client.Share.Part, client.Share.Of = s.Explorer.Part()
	client.Algorithm = s.Algorithm.AlgorithmType
	client.Say = s.say
	client.Rows = dividedRows(s.Settled)
	client.Stage = opts.Stage
	client.Dir = s.CheckpointJobDir
	s.log.Join(client)
	s.say(fmt.Sprintf("explorer %s joins the trainer of %s", client.Name, place))
	_, cursor, err := client.Resume(ctx)
	if errors.Is(err, trinity.ErrEnded) { // the trainer needs no more deliveries
		s.say(fmt.Sprintf("the trainer of %s has ended its run, so explorer %s has nothing to do: "+
			"for more steps set trainer.total_steps and total_steps, and start the trainer first", place, client.Name))
		return s.log.Open(ex.TotalSteps, ex.TotalSteps, s.ModelPath)
	}
	if err != nil {
		return err
	}
	if err := ex.Agenda.Restore(cursor); err != nil {
		return err
	}
	eg, ctx := errgroup.WithContext(ctx)
	joined, enough := context.WithCancel(ctx)
	eg.Go(func() error { return client.Alive(joined) })
	eg.Go(func() error { return client.SendSpans(joined) })
	eg.Go(func() error {
		defer enough()
		return s.exploreFor(ctx, ex, client)
	})
	return eg.Wait()
}

// exploreFor rolls out with the weights of the trainer that the client has joined.
func (s *stage) exploreFor(ctx context.Context, ex *explorer.Options, client *fleet.Client) error {
	if err := s.openModels(ctx, false, true); err != nil {
		return err
	}
	loader, ok := s.models.Sampler.(weights.Loader)
	if !ok {
		return fmt.Errorf("engine %s cannot take weights from a checkpoint, which mode explore needs", s.Engines.Sample)
	}
	if err := s.log.Open(ex.Agenda.Step(), ex.TotalSteps, s.ModelPath); err != nil {
		return err
	}
	follower := &weights.Follower{
		Trainer: client, Dir: filepath.Join(s.Buffer.CacheDir, "weights"), Load: loader.LoadWeights,
		Timeout: wait.Seconds(s.Synchronizer.SyncTimeout + s.TaskWait()), Keep: isResident(loader),
	}
	defer follower.Close()
	if isResident(loader) {
		follower.Report = s.log.Delivered
	}
	prove(s, follower, samplesAlone(s.Settled))
	if ex.Agenda.Step() == 0 { // an evaluation before the first step needs weights
		if _, err := follower.Wait(ctx, 0, false); err != nil {
			return err
		}
	}
	ex.Buffer, ex.Weights, ex.Recorder = client, follower, s.log.Explorer()
	watching, enough := context.WithCancel(ctx)
	defer enough()
	if s.TaskWait() > 0 {
		ex.Enough = endOf(watching, follower)
	}
	return s.following(ctx, follower, explorer.New(*ex).Run)
}

// endOf returns a channel that is closed when the trainer has ended. An explorer that waits for tasks
// asks the trainer for nothing, and would not know.
func endOf(ctx context.Context, follower *weights.Follower) <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		if follower.Ended(ctx) == nil { // an error meets the explorer, too
			close(ended)
		}
	}()
	return ended
}

// following runs explore. Under fully_async it also loads each new version as soon as the trainer
// publishes it.
func (s *stage) following(ctx context.Context, follower *weights.Follower, explore func(context.Context) error) error {
	if feed.Handover(s.Settled) != weights.AtOnce {
		return explore(ctx)
	}
	eg, ctx := errgroup.WithContext(ctx)
	following, enough := context.WithCancel(ctx)
	eg.Go(func() error { return follower.Follow(following) })
	eg.Go(func() error {
		defer enough()
		return explore(ctx)
	})
	return eg.Wait()
}

// dividedRows identifies the tasksets whose rows explorers share. It is equal for explorers with
// the same tasksets.
func dividedRows(cfg *config.Settled) string {
	sum := sha256.Sum256(encodeJSON(cfg.Buffer.ExplorerInput))
	return hex.EncodeToString(sum[:])
}

// exploring returns the options of the stage's explorer, without buffer, weights and recorder.
func (s *stage) exploring(ctx context.Context) (*explorer.Options, error) {
	cfg := s.Settled
	if err := s.host.Load(ctx); err != nil {
		return nil, err
	}
	tasks, err := s.data.Mix(ctx)
	if err != nil {
		return nil, err
	}
	evals, err := s.data.EvalTasksets(ctx)
	if err != nil {
		return nil, err
	}
	inputs, err := s.data.Inputs(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.pipeline(ctx); err != nil {
		return nil, err
	}
	agenda := explorer.NewAgenda(tasks, inputs, cfg.Buffer.BatchSize)
	agenda.Keep(s.Objective.InPipeline())
	return &explorer.Options{
		Agenda:       agenda,
		EvalTasksets: evals, Runner: s.runner(), Pipeline: s.process,
		TotalSteps: exploreSteps(cfg, tasks), StepsInFlight: cfg.Batch.StepsInFlight, Pace: feed.Pace(s.Settled),
		EvalInterval: int64(cfg.Explorer.EvalInterval), EvalOnStartup: cfg.Explorer.EvalOnStartup,
		EvalParallel: cfg.Explorer.EvalParallel, Learns: learnsFrom(&cfg.Method), Experts: cfg.Batch.Rollouts < cfg.Batch.Train,
		MaxFailedRatio: cfg.Explorer.MaxFailedRatio, Drafts: s.drafts,
	}, nil
}

// drafts returns what the sampler's draft tokens have brought so far: zeros if it makes none.
func (s *stage) drafts() (verified, accepted int64, saved time.Duration) {
	if sampler, ok := s.models.Sampler.(interface {
		Drafts() (verified, accepted int64, saved time.Duration)
	}); ok {
		return sampler.Drafts()
	}
	return 0, 0, 0
}

// exploreSteps returns the explorer's number of steps.
func exploreSteps(cfg *config.Settled, tasks *explorer.Mix) int64 {
	steps := tasks.Epoch() * cfg.Buffer.TotalEpochs / cfg.Buffer.BatchSize
	return int64(config.Value(max(1, steps), cfg.Buffer.TotalSteps))
}

// learnsFrom returns which rewards an algorithm compares, for explorer.Options.
func learnsFrom(m *config.Method) string {
	switch {
	case m.Advantage == nil || m.Distils:
		return ""
	case m.Needs.Group:
		return explorer.InGroup
	}
	return explorer.InStep
}

// exploreAlone writes rollouts to an archive in files. No trainer reads it meanwhile, so the model
// stays the same.
func (s *stage) exploreAlone(ctx context.Context, ex *explorer.Options) error {
	sink, dir, err := s.data.Sink()
	if err != nil {
		return err
	}
	defer sink.Close(ctx)
	_, cursor, err := sink.Resume(ctx)
	if err != nil {
		return err
	}
	if err := ex.Agenda.Restore(cursor); err != nil {
		return err
	}
	if err := s.openModels(ctx, false, true); err != nil {
		return err
	}
	if err := s.log.Open(ex.Agenda.Step(), ex.TotalSteps, s.ModelPath); err != nil {
		return err
	}
	s.say("writes the rollouts to " + dir)
	ex.Pace = explorer.Pace{Style: "fixed", Interval: ex.TotalSteps + 1} // every step with version 0
	ex.Buffer, ex.Weights, ex.Recorder = sink, untrained{}, s.log.Explorer()
	return explorer.New(*ex).Run(ctx)
}

// untrained stands for the weights of a model that nobody trains: they stay at version 0.
type untrained struct{}

func (untrained) Wait(context.Context, int64, bool) (int64, error)   { return 0, nil }
func (untrained) Held(_ context.Context, do func(int64) error) error { return do(0) }
func (untrained) ExplorerDone()                                      {}

// prove makes a follower prove each version that a sampler loads, if it can be proven.
func prove(s *stage, follower *weights.Follower, alone bool) {
	if p, ok := s.models.Sampler.(weights.Provable); ok && s.Synchronizer.Verify != "off" {
		follower.Prove(p, alone, settle.Digests(s.Settled), s.say)
	}
}

// samplesAlone reports whether nobody samples while an explorer's sampler loads a version: the step has
// ended, and no other explorer may use the same servers.
func samplesAlone(cfg *config.Settled) bool {
	_, of := cfg.Explorer.Part()
	return of == 1 && feed.Handover(cfg) == weights.AtRendezvous
}
