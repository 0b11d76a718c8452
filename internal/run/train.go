package run

import (
	"context"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/run/learn"
	"github.com/trinity-go/trinity/internal/trainer"
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
	tr, err := s.training(ctx, source, steps, false)
	if err != nil {
		return err
	}
	tr.Evaluation = trainer.Evaluation{HeldOut: heldOut, Interval: int64(s.Explorer.EvalInterval), OnStartup: s.Explorer.EvalOnStartup}
	return trainer.New(tr).Run(ctx, stop)
}

// training opens the engine, loads the newest checkpoint if there is one, and returns the options
// of the stage's trainer, without Weights and Evaluation. With sample it opens the sampler too.
func (s *stage) training(ctx context.Context, source trinity.Source, steps int64, sample bool) (o trainer.Options, err error) {
	if err := s.openModels(ctx, true, sample); err != nil {
		return o, err
	}
	learner := s.learner(source)
	if o, err = learner.Options(ctx, steps); err == nil {
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
