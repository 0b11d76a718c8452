package run

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/buffer"
	"github.com/trinity-go/trinity/synchronizer"
	"github.com/trinity-go/trinity/trainer"
)

// pollInterval is the time between looks at files that another process writes.
const pollInterval = 100 * time.Millisecond

// explore rolls out for a trainer of another process: experiences go to a file, weights come as checkpoints.
func (s *stage) explore(ctx context.Context, opts Options) error {
	ctx, cancel := withStop(ctx, opts.Stop)
	defer cancel()
	ex, err := s.newExplorer()
	if err != nil {
		return err
	}
	if err := s.openEngine(ctx, false, true); err != nil {
		return err
	}
	loader, ok := s.sampler.(trinity.WeightLoader)
	if !ok {
		return fmt.Errorf("engine %s cannot take weights from a checkpoint, which mode explore needs", s.cfg.SampleEngine())
	}
	sink, _, err := s.apart(ctx, s.capacity(ex))
	if err != nil {
		return err
	}
	cursor, err := sink.Resume(ctx)
	if err != nil {
		return err
	}
	if err := ex.Restore(cursor); err != nil {
		return err
	}
	if err := s.record(ex.Step(), ex.TotalSteps); err != nil {
		return err
	}
	sync := s.checkpointSync()
	sync.Load = loader.LoadWeights
	ex.Buffer, ex.Sync = sink, sync
	ex.Runner, ex.Log, ex.Warn = s.runner(), s.log.role("explorer"), s.log.warn
	return s.following(ctx, sync, ex.Run)
}

// following runs the explorer, which has new weights as soon as they are there where nothing is to wait for anything.
func (s *stage) following(ctx context.Context, sync *synchronizer.Checkpoint, explore func(context.Context) error) error {
	if handovers[s.cfg.Synchronizer.SyncStyle] != synchronizer.AtOnce {
		return explore(ctx)
	}
	eg, ctx := errgroup.WithContext(ctx)
	following, enough := context.WithCancel(ctx)
	eg.Go(func() error { return sync.Follow(following) })
	eg.Go(func() error {
		defer enough()
		return explore(ctx)
	})
	return eg.Wait()
}

// trainOnline trains on what an explorer of another process writes.
func (s *stage) trainOnline(ctx context.Context, opts Options) error {
	_, experiences, err := s.apart(ctx, 0)
	if err != nil {
		return err
	}
	stop, cancel := withStop(ctx, opts.Stop)
	defer cancel()
	source, err := s.batches(stop, experiences)
	if err != nil {
		return err
	}
	tr := s.newTrainer(source)
	tr.TotalSteps = int64(value(0, s.cfg.Buffer.TotalSteps, s.cfg.Trainer.TotalSteps))
	tr.Schedule = schedule(&s.cfg.Algorithm.Optimizer, tr.TotalSteps)
	sync := s.checkpointSync()
	sync.Write = s.writeModel
	if err := sync.TrainerStarts(); err != nil {
		return err
	}
	tr.Publish = sync.Publish
	b, shared := experiences.(trinity.Buffer)
	if shared {
		tr.Save = trimming(b, tr.Save)
	}
	if err := s.runTrainer(ctx, opts, tr, source); err != nil {
		return err // explorers wait for the run to be taken up again
	}
	sync.TrainerDone()
	if shared {
		return b.Close()
	}
	return nil
}

// runTrainer opens the engine, resumes and trains.
func (s *stage) runTrainer(ctx context.Context, opts Options, tr *trainer.Trainer, source trinity.Source) error {
	if err := s.openEngine(ctx, true, false); err != nil {
		return err
	}
	if err := s.staff(ctx, tr); err != nil {
		return err
	}
	if err := s.resume(ctx, tr, source); err != nil {
		return err
	}
	stop, cancel := withStop(ctx, opts.Stop)
	defer cancel()
	return tr.Run(ctx, stop)
}

// apart is the two sides of what is between explorer and trainer of different processes: a shared store, or a file.
func (s *stage) apart(ctx context.Context, capacity int) (trinity.Sink, trinity.Source, error) {
	if s.cfg.SharedStore() {
		b, err := s.sharedStore(ctx, capacity)
		if err != nil {
			return nil, nil, err
		}
		return b.Sink(s.cfg.Explorer.Name), b, nil
	}
	b := s.cfg.Buffer.TrainerInput.ExperienceBuffer
	path := first(b.Path, filepath.Join(s.cfg.Buffer.CacheDir, "experience_buffer.jsonl"))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, nil, err
	}
	file := buffer.NewFile(path, seconds(b.MaxReadTimeout), pollInterval)
	return file, file, nil
}

func (s *stage) checkpointSync() *synchronizer.Checkpoint {
	return &synchronizer.Checkpoint{Dir: s.cfg.CheckpointJobDir, Timeout: seconds(s.cfg.Synchronizer.SyncTimeout), Poll: pollInterval}
}
