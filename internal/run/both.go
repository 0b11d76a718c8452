package run

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/explorer"
	"github.com/trinity-go/trinity/internal/run/feed"
	"github.com/trinity-go/trinity/internal/run/learn"
	"github.com/trinity-go/trinity/internal/trainer"
	"github.com/trinity-go/trinity/internal/wait"
	"github.com/trinity-go/trinity/weights"
)

// Mode both, from a task to published weights. Both loops run in this process, at the same time.
//
//	tasks
//	  |
//	  v                groups of rollouts              scored groups
//	+----------+      +----------------------+      +----------------+
//	| explorer | ---> | pipeline             | ---> | queue          |
//	+----------+      | operators, advantage |      | log on disk    |
//	  ^               +----------------------+      +----------------+
//	  |                                               |
//	  | a version of the weights                      | a batch
//	  |                                               v
//	+----------+       publish                      +----------------+      +-------------+
//	| weights  | <--------------------------------- | trainer        | ---> | checkpoints |
//	+----------+                                    +----------------+      +-------------+
//
// A step of the explorer (package explorer, flight.go):
//
//	weights.Wait       the version that the step needs: Pace.Required tells which
//	Runner.start       the rollouts of the tasks that the agenda chooses
//	Pipeline.Process   operators edit the groups, and the advantage scores them
//	Sink.Put           one delivery: the groups, and the agenda's state after the step
//
// A step of the trainer (package trainer, trainer.go):
//
//	Source.Take        a batch: the sample strategy chooses it from the queue
//	prepare            reference, teachers, critic's values, correction, advantage
//	learn              for each optimizer step: ForwardBackward on micro-batches, OptimStep
//	Weights.Publish    every sync_interval steps: the weights become a version
//	Checkpointer.Save  every save_interval steps: engine, queue position, agenda's state

// both explores and trains in one process.
func (s *stage) both(ctx, stop context.Context) error {
	cfg := s.Settled

	// tasks -> explorer -> pipeline -> queue
	ex, err := s.exploring(stop)
	if err != nil {
		return err
	}
	queue, err := s.store(stop, feed.Capacity(s.Settled, ex.Pace, ex.TotalSteps, ex.Agenda.Rollouts(s.Method.GroupSize)))
	if err != nil {
		return err
	}
	ex.Buffer = queue.Sink(cfg.Explorer.Name)

	// queue -> trainer -> checkpoints
	source, err := s.data.Batches(stop, queue)
	if err != nil {
		return err
	}
	tr, err := s.training(ctx, source, cfg.TrainSteps(ex.TotalSteps), ex.TotalSteps)
	if err != nil {
		return err
	}
	tr.Checkpointer = &learn.Trimming{Checkpointer: tr.Checkpointer, Queue: queue}
	learn.TakeTurns(&tr, s.models.Sampler)

	// Both continue where the checkpoint and the queue's log end.
	if err := beginning(tr.From, queue); err != nil {
		return err
	}
	_, cursor, err := ex.Buffer.Resume(ctx)
	if err != nil {
		return err
	}
	if err := ex.Agenda.Restore(cursor); err != nil {
		return err
	}
	if err := s.leaveOnline(); err != nil {
		return err
	}

	// trainer -> weights -> explorer
	probe, err := s.Probe()
	if err != nil {
		return err
	}
	sync, err := s.Openers.Way.Open(ctx, weights.Link{
		Engine: s.models.Policy, Sampler: s.models.Sampler, Version: tr.From.Published, Current: tr.From.IsCurrent(), Dir: cfg.Buffer.CacheDir,
		Handover: feed.Handover(cfg), Timeout: wait.Seconds(cfg.Synchronizer.SyncTimeout + cfg.TaskWait()),
		Probe: probe, Report: s.log.Delivered, Say: s.say,
	})
	if err != nil {
		return fmt.Errorf("synchronizer.sync_method %s: %w", cfg.Engines.Weights, err)
	}
	ex.Weights, tr.Weights = sync, sync
	if tr.IsEnough() { // the run ended early, and nothing is left to explore
		ex.TotalSteps = ex.Agenda.Step()
	}
	ex.Recorder = s.log.Explorer()
	enough := make(chan struct{})
	ex.Enough = enough
	return together(ctx, stop, explorer.New(*ex), trainer.New(tr), sync, queue, enough)
}

// together runs both loops. When one ends without error, the other runs to its own end; when one
// fails, together cancels the other. stop ends the trainer first, and so does an explorer that lacks
// tasks, so that no step is lost. The explorer continues until the trainer has saved: a version may
// be published, and be in the checkpoint, only after the step that samples with the version before it
// has ended. enough is closed when the trainer has ended.
func together(
	ctx, stop context.Context, ex *explorer.Explorer, tr *trainer.Trainer, sync weights.Synchronizer, queue trinity.Buffer,
	enough chan<- struct{},
) error {
	eg, ctx := errgroup.WithContext(ctx)
	stop, cancel := withStop(ctx, stop)
	defer cancel()
	stop, lack := context.WithCancelCause(stop)
	defer lack(nil)
	exploring, halt := context.WithCancelCause(ctx)
	defer halt(nil)
	eg.Go(func() error {
		err := ex.Run(exploring)
		if explorer.LacksTasks(err) {
			lack(err)
			return nil
		}
		return err
	})
	eg.Go(func() error {
		defer queue.Close()
		defer sync.TrainerDone()
		if err := tr.Run(ctx, stop); err != nil {
			return err
		}
		close(enough)
		context.AfterFunc(stop, func() { halt(context.Cause(stop)) }) // only an evaluation is left, and nobody waits for it
		return nil
	})
	return eg.Wait()
}
