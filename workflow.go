package trinity

import "context"

// Workflow runs one rollout of a task. It asks the model for what it needs and returns the experiences with rewards. A rollout of several steps
// returns one for each, as the model gave them: ID.Turn is their order, no two have the same, and the reward of the last is the rollout's outcome.
// Whether the others need one is for the algorithm to say; what else it wants of a step, such as a state of the environment, is left in Info.
// Exported fields of an implementation are its workflow_args. Implementations are used by many goroutines at once and keep no state between runs.
// They return when ctx ends, after explorer.max_timeout at the latest: one that has not returned 10 s later is left behind, as a failed rollout.
type Workflow interface {
	Run(ctx context.Context, task *Task, m *Model) ([]*Experience, error)
}

// GroupWorkflow is a Workflow whose rewards compare the siblings of a group (rankings, judges). Compare is called once all rollouts of a
// group are in; it may rewrite their rewards.
type GroupWorkflow interface {
	Workflow
	Compare(ctx context.Context, task *Task, m *Model, g Group) error
}

// RewardUser is a Workflow that scores with a reward function. The explorer passes the one that the task or the taskset names; DefaultReward
// is asked when neither does ("" means that a name is required).
type RewardUser interface {
	DefaultReward() string
	WithReward(RewardFunc) Workflow
}

// TaskChecker is a Workflow or a RewardFunc that sees from a task alone, before any rollout of it, that it cannot be run or scored. The rows of a taskset are
// held to it before a model is loaded.
type TaskChecker interface {
	CheckTask(*Task) error
}

// Validator is implemented by plug-ins that check their arguments beyond types.
type Validator interface {
	Validate() error
}
