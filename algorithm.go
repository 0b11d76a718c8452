package trinity

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

// PerRow is how many experiences a row of data of a schema gives: a preference gives two, the chosen and the rejected answer, any other row one.
func PerRow(schema string) int {
	if schema == "dpo" {
		return 2
	}
	return 1
}

// Needs says what an advantage function or a policy loss reads of an experience besides its reward. The trainer computes these values before it trains,
// unless a field says otherwise.
type Needs struct {
	// Batch makes the trainer call the advantage function, with the groups of a batch, before the first optimizer step. A batch may hold a part of a
	// group. Without Batch the pipeline calls the function with the whole groups of an explore step, and no other need can be met.
	Batch bool
	Group bool // the function compares the rollouts of a task, so one rollout per task has nothing to be compared with

	Values         bool // Experience.Values, from a critic
	Reference      bool // Experience.RefLogprobs
	Teacher        bool // Experience.TeacherLogprobs, unless the explorer recorded them
	Entropies      bool // Experience.Entropies
	Discriminators bool // Experience.Discriminators
	GreedyReward   bool // Info["reward_baseline"]: the explorer runs each task once more, greedily, and trains on nothing of that rollout
}

// KLPenalized is an Advantage over token rewards, which can take a KL penalty out of them. of returns the penalty at each token [T] of each
// experience of a trainer batch, and metrics (kl, kl_coef); it is called once per batch.
type KLPenalized interface {
	Advantage
	PenalizeKL(of func(batch []*Experience) ([][]float64, Metrics, error))
}

// SampleStrategy chooses what the trainer reads.
type SampleStrategy interface {
	// Open returns the source of batches, over the experience buffer and the auxiliary buffers by name. What Open returns keeps the strategy's
	// own state beside that of its sources.
	Open(usual Source, auxiliary map[string]Source) (Source, error)
}

// StalenessStrategy is a SampleStrategy that drops experiences of old weights. Where explorer and trainer do not wait for one another, the explorer
// does not sample what would be dropped.
type StalenessStrategy interface {
	SampleStrategy
	// Staleness is the most train steps between the weights that sampled and those that come of it: 1 is on-policy, +Inf drops nothing.
	Staleness() float64
}

// MixingStrategy is a SampleStrategy that reads auxiliary buffers beside the experience buffer.
type MixingStrategy interface {
	SampleStrategy
	// Auxiliary maps the names of the buffers that it reads to the schema of what they hold, such as "sft".
	Auxiliary() map[string]string
	// Rollouts is how many experiences of a batch of n come from the experience buffer.
	Rollouts(n int) int
}
