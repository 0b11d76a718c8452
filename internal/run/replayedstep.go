package run

import (
	"context"
	"reflect"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/run/settle"
	"github.com/trinity-go/trinity/internal/trainer"
)

// replayedStep keeps what a trainer tells of one step.
type replayedStep struct {
	*replay
	out *Retrained
}

// Log implements trainer.Recorder.
func (r *replayedStep) Log(_ context.Context, step int64, m trinity.Metrics) error {
	if step == r.Step {
		r.out.Metrics = m
	}
	return nil
}

// Took implements trainer.Recorder.
func (r *replayedStep) Took(int64, []trinity.ExperienceID, map[string][]trinity.ExperienceID) error {
	return nil
}

// Progress implements trainer.Recorder.
func (r *replayedStep) Progress(string, int, int) {}

// Say implements trainer.Recorder.
func (r *replayedStep) Say(line string) { r.replay.Say(line) }

// Trained implements [trinity.Tracer].
func (r *replayedStep) Trained(t trinity.Trained) {
	if t.Step == r.Step {
		r.out.Trained = t
	}
}

// Span implements [trinity.Tracer].
func (r *replayedStep) Span(trinity.Span) {}

// Failed implements [trinity.Tracer].
func (r *replayedStep) Failed(trinity.FailedRollout) {}

// unsampled is the weights of a trainer whose versions nobody samples with.
type unsampled struct{ engine engine.Trainer }

// Publish implements trainer.Weights.
func (u unsampled) Publish(ctx context.Context, version int64) error {
	p, ok := u.engine.(engine.Publisher)
	if !ok {
		return nil
	}
	if err := p.Offer(ctx, version); err != nil {
		return err
	}
	_, err := p.Adopt(ctx)
	return err
}

// before is a Checkpointer that saves one step, unless the trainer began with it: from that
// checkpoint the overrides are tried.
type before struct {
	checkpointer
	step, from int64
}

// Save implements trainer.Checkpointer.
func (b *before) Save(ctx context.Context, at trainer.Progress, _ bool) error {
	if at.Step != b.step || at.Step == b.from {
		return nil
	}
	return b.saveState(ctx, at, false)
}

// otherwiseScored returns a source whose batches have the advantages of cfg, if the pipeline of the
// explorer has computed others before the buffer.
func otherwiseScored(source trinity.Source, cfg, recorded *settle.Stage) trinity.Source {
	is, was := cfg.Objective, recorded.Objective
	same := is.Def.Advantage == was.Def.Advantage && reflect.DeepEqual(is.Def.AdvantageArgs, was.Def.AdvantageArgs)
	if same || is.InPipeline() == nil {
		return source
	}
	return rescored{source, is.InPipeline()}
}

// rescored is a Source that computes the advantages again.
type rescored struct {
	trinity.Source
	advantage trinity.Advantage
}

// Take implements trinity.Source.
func (r rescored) Take(ctx context.Context, want trinity.Want) (trinity.Taken, error) {
	taken, err := r.Source.Take(ctx, want)
	if err == nil {
		taken.Groups, _, err = r.advantage.Advantages(taken.Groups)
	}
	return taken, err
}
