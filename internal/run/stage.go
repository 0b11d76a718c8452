package run

import (
	"context"
	"errors"
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/explorer"
	"github.com/trinity-go/trinity/internal/pipeline"
	"github.com/trinity-go/trinity/internal/run/checkpoint"
	"github.com/trinity-go/trinity/internal/run/feed"
	"github.com/trinity-go/trinity/internal/run/host"
	"github.com/trinity-go/trinity/internal/run/place"
	"github.com/trinity-go/trinity/internal/run/record"
	"github.com/trinity-go/trinity/internal/run/refine"
	"github.com/trinity-go/trinity/internal/run/settle"
	"github.com/trinity-go/trinity/internal/wait"
	"github.com/trinity-go/trinity/weights"
)

// stage is one stage of a run at work.
type stage struct {
	*settle.Stage
	data        feed.Reader
	say         func(string)
	madeWith    checkpoint.Provenance
	log         *record.Log
	checkpoints checkpoint.Dir

	available int64 // bytes of memory before anything was loaded
	host      *host.Host

	models settle.Models

	pipelines *refine.Pipelines
	process   *pipeline.Pipeline // of the explorer; nil without one
	queue     trinity.Buffer     // between explorer and trainer; nil without one
}

// open begins a stage whose models are on this machine. It loads no weights.
func open(cfg *settle.Stage, opts Options) (*stage, error) {
	if cfg.Text == nil {
		return nil, fmt.Errorf("model %s has no tokenizer: a run needs one (tokenizer.json)", cfg.ModelPath)
	}
	log := record.NewLog(cfg.Settled, record.LogOptions{
		Say: opts.Say, Console: opts.Console, Quiet: opts.Quiet, Brief: opts.Brief, Activity: opts.activity,
	}, cfg.Text.Tokenizer())
	offers := host.New(cfg, log.Say, log.Scrub.Writer)
	if cfg.Objective != nil {
		if err := offers.Give(cfg.Objective); err != nil {
			return nil, err
		}
	}
	data := cfg.Reader(log.Say)
	data.Give = offers.Give
	return &stage{
		Stage: cfg, data: data, say: log.Say, log: log, available: int64(place.Machine().Available), host: offers,
		checkpoints: checkpoint.Dir{Path: cfg.CheckpointJobDir, Keep: cfg.Trainer.MaxCheckpointsToKeep, Say: log.Say},
	}, nil
}

// openModels loads the weights of the policy and the critic.
func (s *stage) openModels(ctx context.Context, train, sample bool) (err error) {
	s.models, err = s.OpenModels(ctx, train, sample, s.available, s.say)
	s.host.Sampler = s.models.Sampler
	return err
}

// loadCheckpoint gives the model of a step to a sampler that does not open models itself. Step 0 is the
// model with which its servers were started.
func loadCheckpoint(ctx context.Context, s *stage, step int64) error {
	sampler, ok := s.models.Sampler.(weights.Resident)
	switch {
	case !ok || len(s.Model.LoraConfigs) > 0:
		return nil
	case step == 0:
		s.say("samples with the weights that the servers have")
		return nil
	}
	return sampler.LoadWeights(ctx, s.ModelPath, step)
}

// runner returns a runner of groups of rollouts.
func (s *stage) runner() *explorer.Runner {
	calls, over := s.Batch.Sequences, s.Explorer.OverRollout // calls that the engine decodes at once
	return &explorer.Runner{
		Tracer: s.log.Tracer(), Scrub: s.log.Scrub.Err, Host: s.host, Seed: uint64(s.Seed), MaxRetries: s.Explorer.MaxRetryTimes,
		Slots:   explorer.NewSlots(calls, config.Value(4*calls, s.Explorer.MaxRollouts)),
		Timeout: wait.Seconds(s.Explorer.MaxTimeout), Turn: wait.Seconds(s.Explorer.TurnTimeout),
		Reward: wait.Seconds(s.Explorer.RewardTimeout), Tempo: s.tempo(),
		Over:     explorer.OverRollout{Ratio: over.Ratio, Wait: wait.Seconds(over.WaitAfterMin), Partial: over.ReturnPartialTasks},
		Greedy:   s.Objective != nil && s.Objective.Needs().GreedyReward,
		Progress: func(doing string, done, total int) { s.log.Progress(trinity.RoleExplorer, doing, done, total) },
	}
}

// tempo returns nil unless the deadline of rollouts follows their times.
func (s *stage) tempo() *explorer.Tempo {
	d := s.Explorer.DynamicTimeout
	if !d.Enable {
		return nil
	}
	return &explorer.Tempo{Ratio: d.Ratio, Warmup: d.WarmupMinSteps}
}

// pipeline opens the pipeline of the stage's explorer. The stage closes it.
func (s *stage) pipeline(ctx context.Context) (err error) {
	s.process, err = s.pipelines.Pipeline(ctx, &s.data, s.host.Give, s.log.Tracer(), s.log.Account)
	return err
}

// store opens the buffer between explorers and trainer, with room for capacity rollouts. The stage
// closes it.
func (s *stage) store(ctx context.Context, capacity int) (_ trinity.Buffer, err error) {
	s.queue, err = s.data.OpenStore(ctx, capacity)
	return s.queue, err
}

// close closes all that the stage has opened, after the stage has ended.
func (s *stage) close(end record.End) error {
	err := errors.Join(
		s.models.Close(), s.Openers.Programs.Close(), s.host.Close(), s.log.Close(end),
	)
	if s.process != nil {
		err = errors.Join(err, s.process.Close())
	}
	if s.queue != nil {
		err = errors.Join(err, s.queue.Close())
	}
	return err
}
