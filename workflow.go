package trinity

import "context"

// Workflow runs one rollout of a task: it asks the model and returns the experiences with rewards.
// The exported fields of an implementation are its workflow_args. Many goroutines call one workflow
// at once, so it keeps no state between runs.
//
// A rollout of several steps returns one experience for each step, in order; the explorer numbers
// their ID.Turn. The reward of the last step is the outcome
// of the rollout; the algorithm decides whether the other steps need a reward. Anything else that
// the algorithm reads, such as a state of the environment, goes into Info.
//
// Run returns when ctx ends, which is after explorer.max_timeout at the latest. The explorer
// abandons a workflow that has not returned 10 s later and counts a failed rollout.
type Workflow interface {
	Run(ctx context.Context, r *Rollout) ([]*Experience, error)
}

// GroupWorkflow is a Workflow whose rewards compare the rollouts of a group, such as a ranking or a
// judge. The explorer calls Compare once all rollouts of the group have ended; it may rewrite their
// rewards. r.Model is not the model of any of these rollouts. A workflow that makes the rollouts of a
// group together says so in [Requirements].RunGroup.
type GroupWorkflow interface {
	Workflow
	Compare(ctx context.Context, r *Rollout, g Group) error
}
