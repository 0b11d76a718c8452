package trinity

import "errors"

// FailureKind says what a rollout failed by. Its values are parts of metric names:
// rollout/failed_<kind>_count.
type FailureKind string

// The kinds of failure.
const (
	FailedTimeout     FailureKind = "timeout"     // a deadline passed
	FailedModel       FailureKind = "model"       // a model that is not trained could not be asked
	FailedEnvironment FailureKind = "environment" // the environment
	FailedTool        FailureKind = "tool"        // a tool that the policy called
	FailedAgent       FailureKind = "agent"       // the agent's program
	FailedReward      FailureKind = "reward"      // the reward function
	FailedSandbox     FailureKind = "sandbox"     // the sandbox, not the program inside it
	FailedCancelled   FailureKind = "cancelled"   // the step ended without the rollout (explorer.over_rollout)
	FailedWorkflow    FailureKind = "workflow"    // anything else
)

// DroppedAnswer is the kind of a rollout that did not fail and that no metric of failures counts: the
// experience pipeline dropped its answer before the trainer, as one without a valid reward.
const DroppedAnswer FailureKind = "dropped"

// RolloutError is a failure of one rollout. The rollout is counted under its kind and never gets
// reward 0.
type RolloutError struct {
	Kind  FailureKind
	Err   error
	Final bool // the rollout had effects outside, so it is not attempted again
}

func (e *RolloutError) Error() string { return e.Err.Error() }
func (e *RolloutError) Unwrap() error { return e.Err }

// KindOf returns the kind of the RolloutError in err, otherwise if there is none.
func KindOf(err error, otherwise FailureKind) FailureKind {
	if of := (*RolloutError)(nil); errors.As(err, &of) {
		return of.Kind
	}
	return otherwise
}
