package trinity

import "context"

// Algorithm names the parts of an algorithm and their arguments. An algorithm type registers its
// defaults in one. A configuration holds its changes in another. [registry.Parts] merges the two.
//
// [registry.Parts]: https://pkg.go.dev/github.com/trinity-go/trinity/registry#Parts
type Algorithm struct {
	Type      string // the algorithm type; its registered name, which registry.Parts fills in
	Schema    string // what the trainer reads: "experience", "sft", "dpo", "kto", "cpt"
	GroupSize int    // rollouts per task when repeat_times is not set
	Offline   bool   // reads a dataset: mode train only, no explorer

	Advantage      string // "" is none
	PolicyLoss     string
	KLPenalty      string
	KLLoss         string
	Entropy        string
	SampleStrategy string

	AdvantageArgs      map[string]any
	PolicyLossArgs     map[string]any
	KLPenaltyArgs      map[string]any
	KLLossArgs         map[string]any
	EntropyArgs        map[string]any
	SampleStrategyArgs map[string]any

	LossAggMode string // overrides loss_agg_mode of the policy loss; "" leaves it
}

// PerRow returns how many experiences a row of data gives: two for a preference (schema dpo), the
// chosen and the rejected answer, else one.
func PerRow(schema string) int {
	if schema == "dpo" {
		return 2
	}
	return 1
}

// Needs says what an advantage function or a policy loss reads of an experience besides its reward.
// The trainer computes these values before it trains, unless a field says otherwise.
type Needs struct {
	// Batch makes the trainer call the advantage function, with the groups of a batch, before the
	// first optimizer step. A batch may hold a part of a group. Without Batch the pipeline calls the
	// function with the whole groups of an explore step, and no other need can be met.
	Batch bool
	Group bool // the function compares the rollouts of a task, so repeat_times must be 2 or more
	Steps bool // a rollout may have several experiences, its steps

	Values         bool // Experience.Values, from a critic
	Reference      bool // Experience.RefLogprobs
	Teacher        bool // Experience.TeacherLogprobs, unless the explorer recorded them
	Entropies      bool // Experience.Entropies
	Discriminators bool // Experience.Discriminators
	// Behaviour is Experience.Logprobs, of the policy that sampled. A part need not say so: an algorithm tries it.
	Behaviour bool

	// GreedyReward asks for Info["reward_baseline"]: the explorer runs each task once more, greedily,
	// and nobody trains on that rollout.
	GreedyReward bool

	// PenalizeKL makes an advantage function subtract a KL penalty from its token rewards. It is nil
	// if the function has no token rewards. The algorithm calls it once, before the first batch; the
	// function then calls of once a batch.
	PenalizeKL func(of KLPenalty)
}

// KLPenalty returns the penalty at each token [T] of each experience of a trainer batch, and
// metrics (kl, kl_coef).
type KLPenalty func(ctx context.Context, batch []*Experience) ([][]float64, Metrics, error)

// SampleStrategy chooses what the trainer reads.
type SampleStrategy interface {
	// Needs returns which buffers the strategy reads and which experiences it drops.
	Needs() SampleNeeds
	// Rollouts returns how many experiences of a batch of n come from the experience buffer. The
	// others come from auxiliary buffers.
	Rollouts(n int) int
	// Open returns the source of batches. It reads the experience buffer and the auxiliary buffers,
	// which auxiliary has by name. The state of the source holds the states of all of them.
	Open(usual Source, auxiliary map[string]Source) (Source, error)
}

// SampleNeeds says what a sample strategy reads and drops. The zero value is a strategy that reads
// the experience buffer alone and drops nothing.
type SampleNeeds struct {
	// Auxiliary maps the names of the auxiliary buffers that the strategy reads to their schemas,
	// such as "sft".
	Auxiliary map[string]string
	// Staleness bounds the number of train steps from the weights that sampled an experience to the
	// weights that train on it; 1 is on-policy. The strategy drops older experiences. Under a style in
	// which explorer and trainer do not wait for each other, the explorer then samples none that
	// would be dropped. 0 means no bound.
	Staleness float64
}
