package run

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/algorithm"
	"github.com/trinity-go/trinity/config"
	"github.com/trinity-go/trinity/explorer"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/serve/fleet"
	"github.com/trinity-go/trinity/trainer"
	"github.com/trinity-go/trinity/weights"
)

// both explores and trains in one process.
func (s *stage) both(ctx context.Context, opts Options) error {
	cfg := s.cfg
	stop, cancel := withStop(ctx, opts.Stop)
	defer cancel()
	ex, err := s.exploring(stop)
	if err != nil {
		return err
	}
	queue, err := s.store(s.capacity(ex.Pace, ex.TotalSteps, ex.Agenda.Rollouts(s.groupSize)))
	if err != nil {
		return err
	}
	ex.Buffer = queue.Sink(cfg.Explorer.Name)
	source, err := s.batches(stop, queue)
	if err != nil {
		return err
	}
	tr := s.newTrainer(source)
	tr.TotalSteps = cfg.TrainSteps(ex.TotalSteps)
	tr.Schedule = schedule(&cfg.Algorithm.Optimizer, tr.TotalSteps)
	if err := s.openEngine(ctx, true, true); err != nil {
		return err
	}
	if err := s.staff(ctx, tr); err != nil {
		return err
	}
	if err := s.resume(ctx, tr, source); err != nil {
		return err
	}
	if err := s.beginning(tr, queue); err != nil {
		return err
	}
	tr.Save = trimming(queue, tr.Save)
	_, cursor, err := ex.Buffer.Resume(ctx)
	if err != nil {
		return err
	}
	if err := ex.Agenda.Restore(cursor); err != nil {
		return err
	}
	if err := fleet.Retire(cfg.CheckpointJobDir); err != nil {
		return err
	}
	sync, err := s.engines.way.Open(ctx, weights.Link{
		Engine: s.engine, Sampler: s.sampler, Version: tr.Published(), Current: tr.Published() == tr.Step(), Dir: cfg.Buffer.CacheDir,
		Handover: handovers[cfg.Synchronizer.SyncStyle], Timeout: seconds(cfg.Synchronizer.SyncTimeout),
	})
	if err != nil {
		return fmt.Errorf("synchronizer.sync_method %s: %w", cfg.Engines.Weights, err)
	}
	ex.Weights, tr.Publish = sync, sync.Publish
	ex.Recorder = explorerRecorder{s.log}
	return s.together(ctx, opts.Stop, explorer.New(*ex), tr, sync, queue)
}

// handovers are of the styles of synchronization; AtRendezvous is fixed's.
var handovers = map[string]weights.Handover{
	"explorer_driven": weights.WhenAsked, "trainer_driven": weights.WhenAsked, "fully_async": weights.AtOnce,
}

// experienceLog is the directory, in buffer.cache_dir, of what a queue holds.
const experienceLog = "experience_buffer"

// trimming removes from the queue's log, after each checkpoint, what the one before it had no need of: should the newest be lost, the one before can
// still be gone on from.
func trimming(queue trinity.Buffer, save func(context.Context, int64, bool) error) func(context.Context, int64, bool) error {
	var before trinity.SourceState
	var saved int64
	return func(ctx context.Context, step int64, last bool) error {
		if step == saved { // again, because the source has ended after it: before is of this checkpoint, not of the one before it
			return save(ctx, step, last)
		}
		state, err := queue.State()
		if err != nil {
			return err
		}
		if err := save(ctx, step, last); err != nil {
			return err
		}
		if before.Cursor != nil {
			if err := queue.Trim(ctx, before); err != nil {
				return err
			}
		}
		before, saved = state, step
		return nil
	}
}

// together runs both loops. When one ends well the other is let come to its own end; when one fails the other is cancelled. A stop is the
// trainer's to obey: the explorer goes on until the trainer has saved, because a version may only be published, and be in the checkpoint, once
// the step that samples with the version before has ended.
func (s *stage) together(ctx, stop context.Context, ex *explorer.Explorer, tr *trainer.Trainer, sync trinity.Synchronizer, queue trinity.Buffer) error {
	eg, ctx := errgroup.WithContext(ctx)
	stop, cancel := withStop(ctx, stop)
	defer cancel()
	exploring, halt := context.WithCancelCause(ctx)
	defer halt(nil)
	eg.Go(func() error { return ex.Run(exploring) })
	eg.Go(func() error {
		defer queue.Close()
		defer sync.TrainerDone()
		if err := tr.Run(ctx, stop); err != nil {
			return err
		}
		context.AfterFunc(stop, func() { halt(context.Cause(stop)) }) // what is left, an evaluation, is not waited for
		return nil
	})
	return eg.Wait()
}

// withStop is cancelled by either context, with its cause.
func withStop(ctx, stop context.Context) (context.Context, context.CancelFunc) {
	both, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(stop, func() { cancel(context.Cause(stop)) })
	return both, func() { unhook(); cancel(nil) }
}

// train trains from a dataset, or on what an explorer of another process writes.
func (s *stage) train(ctx context.Context, opts Options) error {
	if !s.algorithm.Def.Offline && !s.cfg.Recorded {
		return s.trainOnline(ctx, opts)
	}
	stop, cancel := withStop(ctx, opts.Stop)
	defer cancel()
	data, err := s.offline(stop)
	if err != nil {
		return err
	}
	source, err := s.batches(stop, data)
	if err != nil {
		return err
	}
	tr := s.newTrainer(source)
	if tr.HeldOut, err = s.heldOut(stop); err != nil {
		return err
	}
	tr.EvalInterval, tr.EvalOnStartup = int64(s.cfg.Explorer.EvalInterval), s.cfg.Explorer.EvalOnStartup
	tr.TotalSteps = int64(value(s.offlineSteps(data), s.cfg.Buffer.TotalSteps, s.cfg.Trainer.TotalSteps))
	tr.Schedule = schedule(&s.cfg.Algorithm.Optimizer, tr.TotalSteps)
	if err := s.readyTrainer(ctx, tr, source); err != nil {
		return err
	}
	return tr.Run(ctx, stop)
}

// newTrainer makes the trainer but for its engine and number of steps.
func (s *stage) newTrainer(source trinity.Source) *trainer.Trainer {
	cfg := s.cfg
	tr := &trainer.Trainer{
		Source: source, Loss: s.algorithm.Loss, Reference: s.algorithm.NeedsReference,
		Optimizer: optimParams(&cfg.Algorithm.Optimizer, cfg.Trainer.GradClip),
		BatchSize: cfg.Batch.Train * cfg.Batch.PerRow, Epochs: cfg.Batch.Epochs, MicroTokens: cfg.Batch.MicroTokens,
		SyncInterval: s.publishInterval(), SaveInterval: int64(cfg.Trainer.SaveInterval),
	}
	if !cfg.Batch.Whole {
		tr.MiniBatch = cfg.Batch.Mini * cfg.Batch.PerRow
	}
	tr.ByRollout = cfg.Batch.CountsRollouts
	if !tr.ByRollout {
		tr.Say = s.say
	}
	tr.AfterStep, tr.Cache = s.algorithm.AfterStep, newCache(cfg)
	tr.Advantage = s.algorithm.InTrainer()
	if cfg.Method.Recomputes {
		tr.Correct = correction(&cfg.Algorithm.RolloutCorrection).Apply
	}
	tr.Log = func(ctx context.Context, step int64, m trinity.Metrics) error {
		return s.log.role("trainer")(ctx, step, m)
	}
	tr.Save = func(ctx context.Context, step int64, last bool) error { return s.save(ctx, tr, source, step, last) }
	return tr
}

func correction(c *config.RolloutCorrection) *algorithm.Correction {
	high := value(0, c.RolloutRsThreshold)
	return &algorithm.Correction{
		Weights: c.RolloutIs, Truncate: c.RolloutIsThreshold, Normalize: c.RolloutIsBatchNormalize,
		Reject: c.RolloutRs, High: high, Low: value(1/high, c.RolloutRsThresholdLower),
	}
}

// exploring returns the options of the stage's explorer, without buffer, weights and recorder.
func (s *stage) exploring(ctx context.Context) (*explorer.Options, error) {
	cfg := s.cfg
	tasks, err := s.mix()
	if err != nil {
		return nil, err
	}
	evals, err := s.evalTasksets()
	if err != nil {
		return nil, err
	}
	inputs, err := s.inputs(ctx)
	if err != nil {
		return nil, err
	}
	p, err := s.pipeline(ctx)
	if err != nil {
		return nil, err
	}
	steps := tasks.Epoch() * cfg.Buffer.TotalEpochs / cfg.Buffer.BatchSize
	return &explorer.Options{
		Agenda: explorer.NewAgenda(tasks, inputs, cfg.Buffer.BatchSize), EvalTasksets: evals, Runner: s.runner(), Pipeline: p,
		TotalSteps: int64(value(max(1, steps), cfg.Buffer.TotalSteps)), UnderWay: cfg.Batch.UnderWay, Pace: s.pace(),
		EvalInterval: int64(cfg.Explorer.EvalInterval), EvalOnStartup: cfg.Explorer.EvalOnStartup,
	}, nil
}

// pace is how explorer and trainer keep step.
func (s *stage) pace() explorer.Pace {
	staleness := math.Inf(1)
	if bounded, ok := s.cfg.Method.Strategy.(trinity.StalenessStrategy); ok {
		staleness = bounded.Staleness()
	}
	cfg := &s.cfg.Synchronizer
	return explorer.Pace{
		Style: cfg.SyncStyle, Interval: int64(value(cfg.SyncInterval, cfg.ExplorerSyncInterval)), Offset: int64(cfg.SyncOffset),
		MaxStaleness: staleness, PerStep: int64(s.cfg.Batch.StepRollouts), PerBatch: int64(s.cfg.Batch.Rollouts),
	}
}

// capacity returns how many rollouts the queue holds, in a run of steps with perStep rollouts at most; the key counts groups.
// In style fixed the trainer waits for the explorer, so the queue has room for all that can pile up meanwhile: else the
// explorer would wait for the trainer too.
func (s *stage) capacity(pace explorer.Pace, steps int64, perStep int) int {
	if s.cfg.Synchronizer.SyncStyle != "fixed" {
		return s.groups()
	}
	ahead := int(max(pace.Interval, s.publishInterval()) + pace.Offset)
	left := perStep // by a train step, at most: of so many experiences there may be few rollouts
	if s.cfg.Batch.CountsRollouts {
		left = max(0, perStep-s.cfg.Batch.Rollouts)
	}
	return max(s.groups(), ahead*perStep+left*int(steps))
}

// groups is what the key allows, in rollouts: a batch at least.
func (s *stage) groups() int {
	return max(s.cfg.Buffer.TrainerInput.ExperienceBuffer.Capacity*max(1, s.groupSize), s.cfg.Batch.Rollouts)
}

// publishInterval is the number of train steps between versions.
func (s *stage) publishInterval() int64 { return publishInterval(s.cfg) }

func publishInterval(cfg *config.Settled) int64 {
	return int64(value(cfg.Synchronizer.SyncInterval, cfg.Synchronizer.TrainerSyncInterval))
}

func optimParams(o *config.Optimizer, norm float64) trinity.OptimParams {
	return trinity.OptimParams{Beta1: o.Betas[0], Beta2: o.Betas[1], Eps: o.Eps, WeightDecay: o.WeightDecay, ClipNorm: norm}
}

// schedule is the learning rate over the steps of a run, of which there are total.
func schedule(o *config.Optimizer, total int64) trainer.Schedule {
	warmup := int64(o.LRWarmupSteps)
	if warmup < 0 {
		warmup = int64(o.LRWarmupStepsRatio * float64(total))
	}
	return trainer.Schedule{LR: o.LR, MinRatio: o.MinLRRatio, WarmupSteps: warmup, DecayRatio: o.LRDecayStepsRatio, TotalSteps: total, Type: o.LRSchedulerType}
}

// resume takes up the newest checkpoint, if there is one, and opens the monitors at its step.
func (s *stage) resume(ctx context.Context, tr *trainer.Trainer, source trinity.Source) error {
	state, dir, pending, ok, err := s.ckpt.latest()
	if err != nil {
		return err
	}
	if err := s.record(state.Step, tr.TotalSteps); err != nil || !ok {
		return err
	}
	if err := s.engine.LoadState(ctx, filepath.Join(dir, engineDir)); err != nil {
		return fmt.Errorf("resuming from %s: %w", dir, err)
	}
	if err := s.loadCritic(ctx, dir); err != nil {
		return err
	}
	if err := s.algorithm.Restore(state.Algorithm); err != nil {
		return err
	}
	tr.Restore(state.Step, state.Published)
	s.log.checkpoint(state.Step, dir, filepath.Join(dir, s.modelDir()))
	return source.Restore(trinity.SourceState{Cursor: state.Cursor, Pending: pending})
}

// save writes the checkpoint of a step, or adds the model to the one that there is.
func (s *stage) save(ctx context.Context, tr *trainer.Trainer, source trinity.Source, step int64, last bool) error {
	dir := s.ckpt.path(step)
	model := filepath.Join(dir, s.modelDir())
	withModel := s.cfg.Trainer.SaveHfCheckpoint == "always" || last && s.cfg.Trainer.SaveHfCheckpoint == "last"
	var err error
	if durable.Missing(dir) != "" {
		err = s.saveState(ctx, tr, source, step, withModel)
	} else if withModel && !present(model) {
		err = s.addModels(ctx, dir)
	}
	if err != nil {
		return err
	}
	s.log.checkpoint(step, dir, model)
	return nil
}

func present(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// saveState writes a checkpoint that a resumed run goes on from.
func (s *stage) saveState(ctx context.Context, tr *trainer.Trainer, source trinity.Source, step int64, withModel bool) error {
	src, err := source.State()
	if err != nil {
		return err
	}
	coefficients, err := s.algorithm.State()
	if err != nil {
		return err
	}
	state := runState{Step: step, Published: tr.Published(), Cursor: src.Cursor, Algorithm: coefficients, Made: s.made}
	return s.ckpt.save(state, src.Pending, func(dir string) error {
		engine := filepath.Join(dir, engineDir)
		if err := os.MkdirAll(engine, 0o755); err != nil {
			return err
		}
		if err := s.engine.SaveState(ctx, engine); err != nil {
			return err
		}
		if err := s.saveCritic(ctx, dir, withModel); err != nil || !withModel {
			return err
		}
		return s.writeModel(ctx, filepath.Join(dir, s.modelDir()))
	})
}

// addModels adds what transformers loads to a checkpoint that has none. The policy's comes last: where it is, all is.
func (s *stage) addModels(ctx context.Context, dir string) error {
	if err := s.addCritic(ctx, dir); err != nil {
		return err
	}
	return durable.WriteDir(filepath.Join(dir, s.modelDir()), func(temp string) error { return s.writeModel(ctx, temp) })
}
