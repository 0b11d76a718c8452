package algorithm

import (
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	_ "github.com/trinity-go/trinity/algorithm/sample"
	"github.com/trinity-go/trinity/registry"
)

// Building an algorithm whose loss lacks an input fails. The error names the key to change.
func TestPartsMustFitTogether(t *testing.T) {
	for _, c := range []struct {
		spec trinity.Algorithm
		want string // "" for none
	}{
		{trinity.Algorithm{Type: "sft", PolicyLoss: "ppo"},
			"policy_loss_fn: ppo reads advantages or log-probabilities of the sampling policy, which the dataset of sft does not " +
				"have (use a loss such as sft, or an algorithm_type that rolls out)"},
		{trinity.Algorithm{Type: "cpt", PolicyLoss: "mix"},
			"policy_loss_fn: mix reads advantages or log-probabilities of the sampling policy, which the dataset of cpt does not " +
				"have (use a loss such as sft, or an algorithm_type that rolls out)"},
		{trinity.Algorithm{Type: "sft", PolicyLoss: "distill"}, ""},
		{trinity.Algorithm{Type: "sft", PolicyLoss: "sft_phi"}, ""},
		{trinity.Algorithm{Type: "grpo", Advantage: "none"},
			"policy_loss_fn: ppo reads advantages, but advantage_fn none computes none (set advantage_fn, or use a loss that " +
				"reads none, such as sft)"},
		{trinity.Algorithm{Type: "raft", PolicyLoss: "m2po"},
			"policy_loss_fn: m2po reads advantages, but advantage_fn none computes none (set advantage_fn, or use a loss that " +
				"reads none, such as sft)"},
		{trinity.Algorithm{Type: "raft", PolicyLoss: "rec", Advantage: "rec"}, ""},
		{trinity.Algorithm{Type: "grpo", SampleStrategy: "mix"},
			"policy_loss_fn: ppo cannot learn from demonstrations, which sample_strategy mix adds (use mix or mix_chord, or " +
				"sample_strategy default)"},
		{trinity.Algorithm{Type: "mix", PolicyLoss: "m2po"},
			"policy_loss_fn: m2po cannot learn from demonstrations, which sample_strategy mix adds (use mix or mix_chord, or " +
				"sample_strategy default)"},
		{trinity.Algorithm{Type: "raft", SampleStrategy: "mix"}, ""},
		{trinity.Algorithm{Type: "mix", SampleStrategy: "default"},
			"policy_loss_fn: mix also learns from demonstrations, but sample_strategy default adds none (set sample_strategy: " +
				"mix, or a policy_loss_fn for rollouts alone, such as ppo)"},
		{trinity.Algorithm{Type: "grpo", PolicyLoss: "mix_chord"},
			"policy_loss_fn: mix_chord also learns from demonstrations, but sample_strategy default adds none (set " +
				"sample_strategy: mix, or a policy_loss_fn for rollouts alone, such as ppo)"},
		{trinity.Algorithm{Type: "mix", SampleStrategy: "default", PolicyLoss: "ppo"}, ""},
		{trinity.Algorithm{Type: "dpo", LossAggMode: "token-mean"}, "loss_agg_mode: policy_loss_fn dpo has a fixed aggregation (remove the key)"},
	} {
		_, err := build(c.spec)
		if got := text(err); got != c.want && got != "algorithm "+c.spec.Type+": "+c.want {
			t.Errorf("%+v: error %q, want %q", c.spec, got, c.want)
		}
	}
	for _, name := range registry.Algorithms.Names() {
		if _, err := build(trinity.Algorithm{Type: name}); err != nil {
			t.Error(err)
		}
	}
}

func TestNeedsFindTheReadersOfLogprobs(t *testing.T) {
	for _, c := range []struct {
		spec trinity.Algorithm
		want bool
	}{
		{trinity.Algorithm{Type: "grpo"}, true},
		{trinity.Algorithm{Type: "grpo", PolicyLoss: "opmd"}, false},
		{trinity.Algorithm{Type: "grpo", PolicyLoss: "opmd", AdvantageArgs: map[string]any{"rank_penalty": 0.5}}, true},
		{trinity.Algorithm{Type: "raft", PolicyLoss: "sft"}, false},
		{trinity.Algorithm{Type: "ppo", PolicyLoss: "opmd"}, false},
		{trinity.Algorithm{Type: "ppo", PolicyLoss: "opmd", KLPenalty: "k2"}, true},
		{trinity.Algorithm{Type: "grpo", PolicyLoss: "topr"}, true},
	} {
		a, err := build(c.spec)
		if err != nil {
			t.Fatal(err)
		}
		if got := a.Needs().Behaviour; got != c.want {
			t.Errorf("%+v: got %v, want %v", c.spec, got, c.want)
		}
	}
}

// An algorithm admits what a model behind an API wrote if it reads no log-probabilities of the policy that sampled, or if the
// experience has them, is a demonstration, or has nothing to learn.
func TestWordsOfOthersAreAdmittedByNeeds(t *testing.T) {
	words := func(change func(*trinity.Experience)) *trinity.Experience {
		e := &trinity.Experience{Tokens: []int32{1, 2}, Mask: []bool{false, true}, Origin: trinity.Origin{Source: "external:gpt-x"}}
		change(e)
		return e
	}
	grpo, err := build(trinity.Algorithm{Type: "grpo"})
	if err != nil {
		t.Fatal(err)
	}
	raft, err := build(trinity.Algorithm{Type: "raft"})
	if err != nil {
		t.Fatal(err)
	}
	if err := raft.Admit(words(func(*trinity.Experience) {})); err != nil {
		t.Errorf("raft: %v", err)
	}
	for name, change := range map[string]func(*trinity.Experience){
		"of the policy":   func(e *trinity.Experience) { e.Source = "" },
		"with logprobs":   func(e *trinity.Experience) { e.Logprobs = make([]float32, 2) },
		"a demonstration": func(e *trinity.Experience) { e.IsExpert = true },
		"masked":          func(e *trinity.Experience) { e.Mask[1] = false },
	} {
		if err := grpo.Admit(words(change)); err != nil {
			t.Errorf("grpo, %s: %v", name, err)
		}
	}
	err = grpo.Admit(words(func(*trinity.Experience) {}))
	for _, want := range []string{"external:gpt-x", "algorithm grpo", "sft, raft, dpo or cpt"} {
		if !strings.Contains(text(err), want) {
			t.Errorf("grpo: %v, want %q", err, want)
		}
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
