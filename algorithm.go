package trinity

// Algorithm is an advantage function, a loss and a few needs, by the names of their parts. Args are defaults, which a config's *_args
// merge over key by key.
type Algorithm struct {
	Schema      string // what the trainer reads: "experience", "sft", "dpo", "cpt"
	GroupSize   int    // rollouts per task when repeat_times is not set
	Offline     bool   // reads a dataset: mode train only, no explorer
	NeedsCritic bool

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

// UsesReference reports whether training needs the frozen reference model.
func (a *Algorithm) UsesReference() bool {
	return (a.KLLoss != "" && a.KLLoss != "none") || (a.KLPenalty != "" && a.KLPenalty != "none")
}
