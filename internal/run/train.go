package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/run/feed"
	"github.com/trinity-go/trinity/internal/run/front"
	"github.com/trinity-go/trinity/internal/run/learn"
	"github.com/trinity-go/trinity/internal/run/record"
	"github.com/trinity-go/trinity/internal/serve/fleet"
	"github.com/trinity-go/trinity/internal/trainer"
	"github.com/trinity-go/trinity/internal/wait"
	"github.com/trinity-go/trinity/weights"
)

// train trains on a dataset, or on the experiences of explorers in other processes.
func (s *stage) train(ctx, stop context.Context, opts Options) error {
	if !s.Objective.Def.Offline && !s.Recorded {
		return s.trainOnline(ctx, stop, opts)
	}
	source, steps, err := s.data.Offline(stop)
	if err != nil {
		return err
	}
	heldOut, err := s.data.HeldOut(stop)
	if err != nil {
		return err
	}
	tr, err := s.training(ctx, source, steps, 0)
	if err != nil {
		return err
	}
	tr.Evaluation = trainer.Evaluation{HeldOut: heldOut, Interval: int64(s.Explorer.EvalInterval), OnStartup: s.Explorer.EvalOnStartup}
	return trainer.New(tr).Run(ctx, stop)
}

// training opens the engine, loads the newest checkpoint if there is one, and returns the options
// of the stage's trainer, without Weights and Evaluation. If an explorer beside it explores some steps,
// it opens the sampler too.
func (s *stage) training(ctx context.Context, source trinity.Source, steps, explores int64) (o trainer.Options, err error) {
	if err := s.openModels(ctx, true, explores > 0); err != nil {
		return o, err
	}
	learner := s.learner(source)
	if o, err = learner.Options(ctx, steps); err == nil {
		err = learner.KeepBest(&o, explores)
	}
	if err == nil {
		o.From, err = learner.Resume(ctx, steps)
	}
	return o, err
}

// learner returns what the stage trains with the batches of a source.
func (s *stage) learner(source trinity.Source) *learn.Learner {
	return &learn.Learner{
		Stage: s.Stage, Models: &s.models, Source: source, Checkpoints: s.checkpoints, Made: s.madeWith, Log: s.log,
	}
}

// lease is how long an explorer keeps its name without a sign of life, and how long the trainer
// waits for it.
const lease = 10 * time.Second

// trainOnline trains on the experiences that explorers in other processes put into its buffer.
func (s *stage) trainOnline(ctx, stop context.Context, opts Options) (err error) {
	token, err := front.TrainerToken(s.Settled)
	if err != nil {
		return err
	}
	queue, err := s.store(stop, feed.Groups(s.Settled))
	if err != nil {
		return err
	}
	source, err := s.data.Batches(stop, queue)
	if err != nil {
		return err
	}
	tr, err := s.training(ctx, source, int64(s.StepLimit()), 0)
	if err != nil {
		return err
	}
	if err := beginning(tr.From, queue); err != nil {
		return err
	}
	inStep := feed.Handover(s.Settled) == weights.AtRendezvous
	probe, err := s.Probe()
	if err != nil {
		return err
	}
	shelf := &weights.Shelf{Dir: s.CheckpointJobDir, Engine: s.models.Policy, Oldest: inStep, Probe: probe}
	server, note, err := s.server(queue, shelf, opts.Stage, token)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, note.Close()) }()
	server.Step, server.TotalSteps = tr.From.Step, tr.TotalSteps
	if err := shelf.Open(ctx, tr.From.Published, tr.From.IsCurrent()); err != nil {
		return err
	}
	if err := server.Open(ctx); err != nil {
		return err
	}
	tr.Weights = server
	tr.Checkpointer = learn.Announcing{Checkpointer: &learn.Trimming{Checkpointer: tr.Checkpointer, Queue: queue}, Shelf: shelf}
	err = server.Serve(ctx, stop, s.Trainer.ListenAddress, func(ctx context.Context) error { return trainer.New(tr).Run(ctx, stop) })
	if trainer.Starved(err) {
		err = fmt.Errorf("%w; %s", err, server.Explorers())
	}
	return err
}

// server returns the server for explorers in other processes, and the log of the weights that they
// use.
func (s *stage) server(queue trinity.Buffer, shelf *weights.Shelf, stage, token string) (*fleet.Server, *os.File, error) {
	note, err := record.OpenLines(s.Log.SaveDir, "explorers.log")
	if err != nil {
		return nil, nil, err
	}
	write := func(line string) { fmt.Fprintf(note, "%s %s\n", time.Now().Format(time.RFC3339), line) }
	var lane func() (fleet.Lane, error) // for explorers that do not see the stage's directory
	if s.Monitor.Trace.Spans {
		lane = func() (fleet.Lane, error) { return s.log.NewTrace(0) }
	}
	cfg := s.Settled
	return &fleet.Server{
		Buffer: queue, Weights: shelf, Style: cfg.Synchronizer.SyncStyle, Algorithm: cfg.Algorithm.AlgorithmType, Stage: stage,
		Explorer: cfg.Explorer.Name, Token: token,
		Dir: cfg.CheckpointJobDir, Lease: lease, Timeout: wait.Seconds(cfg.Synchronizer.SyncTimeout), Note: write,
		Say: func(line string) { s.say(line); write(line) }, Lane: lane,
	}, note, nil
}

// beginning restores the queue from the beginning of its log if there is no checkpoint, which would
// say where to start.
func beginning(at trainer.Progress, queue trinity.Buffer) error {
	if at.Step > 0 {
		return nil
	}
	return queue.Restore(trinity.SourceState{})
}

// leaveOnline removes what the trainer of mode train keeps for its explorers. A later trainer would
// take it for the state of the run.
func (s *stage) leaveOnline() error { return fleet.RemoveFiles(s.CheckpointJobDir) }
