package run

import (
	"context"
	"reflect"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/run/settle"
)

// replayedStep keeps what a trainer tells of one step.
type replayedStep struct {
	step int64
	say  func(string)
	out  *Retrained
}

// Log implements trainer.Recorder.
func (r *replayedStep) Log(_ context.Context, step int64, m trinity.Metrics) error {
	if step == r.step {
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
func (r *replayedStep) Say(line string) { r.say(line) }

// Trained implements [trinity.Tracer].
func (r *replayedStep) Trained(t trinity.Trained) {
	if t.Step == r.step {
		r.out.Trained = t
	}
}

// Span implements [trinity.Tracer].
func (r *replayedStep) Span(trinity.Span) {}

// Failed implements [trinity.Tracer].
func (r *replayedStep) Failed(trinity.FailedRollout) {}

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
