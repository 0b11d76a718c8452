package trinity

// Algorithm is an advantage function, a loss and a few needs, by the names of their parts. Args are defaults, which a config's *_args
// merge over key by key.
type Algorithm struct {
	Schema    string // what the trainer reads: "experience", "sft", "dpo", "kto", "cpt"
	GroupSize int    // rollouts per task when repeat_times is not set
	Offline   bool   // reads a dataset: mode train only, no explorer

	Advantage      string // "" for none
	PolicyLoss     string
	KLPenalty      string
	KLLoss         string
	Entropy        string
	SampleStrategy string

	AdvantageArgs      map[string]any
	PolicyLossArgs     map[string]any
	KLLossArgs         map[string]any
	EntropyArgs        map[string]any
	SampleStrategyArgs map[string]any
}

// PerRow is how many experiences a row of data of a schema gives: a preference gives two, the chosen and the rejected answer, any other row one.
func PerRow(schema string) int {
	if schema == "dpo" {
		return 2
	}
	return 1
}

// Needs are what must be known of an experience before it is trained on, besides its reward. The trainer computes it, where nothing else is said.
type Needs struct {
	Values         bool // Experience.Values, of a critic
	Reference      bool // Experience.RefLogprobs
	Teacher        bool // Experience.TeacherLogprobs, where the explorer has not recorded them
	Entropies      bool // Experience.Entropies
	Discriminators bool // Experience.Discriminators
	GreedyReward   bool // Info["reward_baseline"]: the explorer runs each task once more, greedily, and trains on nothing of that
}

// TrainerAdvantage is an Advantage that reads what only the trainer knows. It is not part of the pipeline: the trainer gives it the groups of a
// batch, which need not be whole ones, before the first optimizer step.
type TrainerAdvantage interface {
	Advantage
	Needs() Needs
}

// KLPenalized is an Advantage over token rewards, which can take a KL penalty out of them. of returns the penalty at each token [T] of each
// experience of a trainer batch, and metrics (kl, kl_coef); it is called once per batch.
type KLPenalized interface {
	Advantage
	PenalizeKL(of func(batch []*Experience) ([][]float64, Metrics, error))
}

// GroupAdvantage is an Advantage that may score a rollout against the others of its task: with one rollout per task it has nothing to compare.
type GroupAdvantage interface {
	Advantage
	ComparesRollouts() bool
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
