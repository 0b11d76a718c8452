package trinity

import "time"

// Tracer is told what happens in a run. Its methods must not block: what a tracer cannot keep, it
// counts. It may keep what it is given. Many goroutines call it.
type Tracer interface {
	Span(Span)
	Trained(Trained)
	Failed(FailedRollout)
}

// Span is a stretch of time in which somebody worked, or waited for somebody.
type Span struct {
	Role       string       // who; see below
	Kind       SpanKind     // what
	Name       string       // of the task, the operator, …; may be ""
	For        string       // of a wait: who was waited for
	Step       int64        // of the explorer or of the trainer; 0 is none
	Version    int64        // of the weights that sampled, or that were published
	Experience ExperienceID // of a rollout's spans; the zero value is none
	Begin, End time.Time
}

// The roles.
const (
	RoleExplorer   = "explorer"
	RoleEvaluation = "evaluation" // the explorer, in rollouts that nobody learns from
	RoleTrainer    = "trainer"
)

// SpanKind says what happens in a span.
type SpanKind string

// The kinds of spans.
const (
	SpanRollout    SpanKind = "rollout"    // from its slot to its experiences or its failure, with retries
	SpanCall       SpanKind = "model_call" // one call of the sampler
	SpanReward     SpanKind = "reward"
	SpanOperator   SpanKind = "operator"   // of the experience pipeline; Name is the operator's
	SpanDelivery   SpanKind = "delivery"   // of a step to the buffer, which may be full
	SpanEvaluation SpanKind = "evaluation" // of all evaluation tasksets, or of held-out data
	SpanForward    SpanKind = "forward"    // of a micro-batch, or of a whole batch before the update
	SpanBackward   SpanKind = "backward"   // of a micro-batch
	SpanUpdate     SpanKind = "update"     // of the weights by the optimizer
	SpanPublish    SpanKind = "publish"    // of a version
	SpanCheckpoint SpanKind = "checkpoint"
	SpanWait       SpanKind = "wait" // For says for whom
)

// Trained is what the optimizer steps of one train step did to some of its experiences.
type Trained struct {
	Step        int64
	Experiences []TrainedExperience
}

// TrainedExperience is an experience with the streams that the losses of a train step read.
type TrainedExperience struct {
	Experience
	Dropped string   // who dropped it before the update: "advantage", "mask", …; "" means that it was trained on
	Updates []Update // the optimizer steps that learned from it
}

// Update is what one optimizer step saw of an experience, and what it did to it: a token whose
// advantage is not 0 and whose derivative is 0 was clipped.
type Update struct {
	Index int        // of the optimizer step within the train step, from 0
	Now   TokenStats // under the weights before the optimizer step
	Grads TokenGrads // the derivatives of the loss
}

// FailedRollout is a rollout that failed after its retries, or one whose answer the experience pipeline
// dropped.
type FailedRollout struct {
	ID       ExperienceID
	Role     string      // RoleExplorer or RoleEvaluation
	Kind     FailureKind // DroppedAnswer: it did not fail
	Reason   string      // the error, with the stack of a panic; of a dropped answer, who dropped it and why
	Retries  int
	Question string  // what the task asks, for people; "" if that is no text
	Truth    string  // the task's reference answer, for people; "" if it has none
	Prompt   []int32 // of the last call of a model; nil if there was none
	Sampled  []int32 // by that call, until the failure; of a dropped answer, all after the prompt
	Time     time.Time
}
