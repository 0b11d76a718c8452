package trainer

import (
	"context"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
)

// Options configure a trainer. Critic, Teachers, Advantage, Corrector, Adaptive, Cache, Weights,
// Tracing and Evaluation are optional.
type Options struct {
	Source    trinity.Source
	Policy    Learner
	Critic    *Critic                   // computes the values that the advantage reads
	Teachers  map[string]engine.Trainer // frozen models by name; "" teaches experiences that name no teacher
	Advantage trinity.Advantage         // scores each batch before the update; nil: batches arrive scored
	Corrector Corrector                 // nil: the old log-probabilities are those recorded at sampling
	Adaptive  Adaptive
	Reference bool            // the loss or the advantage reads Experience.RefLogprobs
	Cache     *ReferenceCache // of a source that repeats its data; nil: compute every time
	// Admit returns why an experience cannot be learnt from, which ends the training; may be nil.
	Admit func(*trinity.Experience) error

	Checkpointer Checkpointer
	Weights      Weights // nil: the trainer publishes no versions
	Recorder     Recorder
	Tracing      Tracing

	From         Progress // the checkpoint to resume from
	TotalSteps   int64    // 0: train until the source ends
	BatchSize    int      // experiences per step
	ByRollout    bool     // BatchSize counts rollouts
	MicroTokens  int      // tokens per micro-batch
	SyncInterval int64    // steps between versions
	SaveInterval int64    // steps between checkpoints; 0: save only at the end
	Evaluation   Evaluation

	// Keeps reports whether a train step gets a checkpoint that SaveInterval does not ask for. It is called after the
	// trainer's evaluation of the step, if there is one; may be nil.
	Keeps func(step int64) bool
	// Enough reports whether the evaluations of versions before one end the training; may be nil.
	Enough func(before int64) bool
}

// IsEnough reports whether evaluations have ended the training before it begins.
func (o *Options) IsEnough() bool { return o.isEnough(o.From) }

// isEnough counts the evaluations that are over at a step however the run was cut: an explorer ends the
// evaluation of a version before the trainer can publish the next.
func (o *Options) isEnough(at Progress) bool {
	before := at.Published
	if o.Weights == nil { // the trainer evaluates
		before = at.Step + 1
	}
	return o.Enough != nil && o.Enough(before)
}

// Learner is an engine with the loss, the learning rate and the optimizer that train it.
type Learner struct {
	Engine    engine.Trainer
	Loss      trinity.Loss
	Schedule  Schedule
	Optimizer trinity.OptimParams // LR comes from the schedule
	MiniBatch int                 // experiences per optimizer step; 0: the whole batch
	Epochs    int                 // passes over each batch
}

// Progress is how far a run has come. A version of the weights has the number of the step that
// made it.
type Progress struct {
	Step      int64 // the last step that was trained
	Published int64 // the version that samplers were last given
	// OptimizerSteps is how many optimizer steps the policy has made: in a train step one for each epoch and
	// mini-batch that has something to train on. A negative number means that nobody knows, because the run
	// resumed from a checkpoint of an earlier version.
	OptimizerSteps int64
}

// IsCurrent reports whether the published weights are the trained weights.
func (p Progress) IsCurrent() bool { return p.Published == p.Step }

// Checkpointer writes checkpoints.
type Checkpointer interface {
	// Save writes the checkpoint of at.Step; last reports that training ends with it. If the source
	// ends right after a checkpoint, the trainer saves the same step again, as the last.
	Save(ctx context.Context, at Progress, last bool) error
}

// Weights brings versions of the engine's weights to samplers.
type Weights interface {
	// Publish makes the engine's current weights a version.
	Publish(ctx context.Context, version int64) error
}

// Claimer is Weights of an engine whose sampler may read the weights that are trained.
type Claimer interface {
	Weights
	// Claim waits until nobody samples with them before the next version.
	Claim(ctx context.Context) error
}

// Recorder keeps what the trainer reports.
type Recorder interface {
	// Log records the metrics of a step.
	Log(ctx context.Context, step int64, m trinity.Metrics) error
	// Took records the experiences that a step trained on, and those that it dropped, by who dropped
	// them. It is called before a checkpoint of the step.
	Took(step int64, trained []trinity.ExperienceID, dropped map[string][]trinity.ExperienceID) error
	// Progress receives what the trainer is doing: done of total micro-batches, or 0 of 0 while it
	// waits.
	Progress(doing string, done, total int)
	// Say receives lines for people: a batch that was too short.
	Say(line string)
}

// Corrector corrects a batch for the difference between the weights that sampled it and the weights
// before the update. Experience.OldLogprobs are computed under the latter. Apply returns the
// experiences to train on, in order, and metrics with their full names.
type Corrector interface {
	Apply(exps []*trinity.Experience) ([]*trinity.Experience, trinity.Metrics, error)
}

// Adaptive adapts coefficients after each optimizer step of the policy. It gets the summed metrics
// of the step's micro-batches and the step's number of sequences.
type Adaptive interface {
	AfterStep(m trinity.Metrics, sequences int)
}
