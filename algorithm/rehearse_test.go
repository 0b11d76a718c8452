package algorithm

import (
	"testing"

	_ "github.com/trinity-go/trinity/algorithm/sample"
	"github.com/trinity-go/trinity/registry"
)

// A loss that lacks what it reads is refused when the algorithm is made, by the key to change.
func TestPartsFitTogether(t *testing.T) {
	for _, c := range []struct {
		spec Spec
		want string // "" for none
	}{
		{Spec{Type: "sft", PolicyLossFn: "ppo"}, "policy_loss_fn: ppo reads advantages or log-probabilities of the policy that sampled, which the dataset of sft does not have (use a loss such as sft, or an algorithm_type that rolls out)"},
		{Spec{Type: "cpt", PolicyLossFn: "mix"}, "policy_loss_fn: mix reads advantages or log-probabilities of the policy that sampled, which the dataset of cpt does not have (use a loss such as sft, or an algorithm_type that rolls out)"},
		{Spec{Type: "sft", PolicyLossFn: "distill"}, ""},
		{Spec{Type: "sft", PolicyLossFn: "sft_phi"}, ""},
		{Spec{Type: "grpo", AdvantageFn: "none"}, "policy_loss_fn: ppo reads advantages, and advantage_fn none makes none (set advantage_fn, or use a loss that reads none, such as sft)"},
		{Spec{Type: "raft", PolicyLossFn: "m2po"}, "policy_loss_fn: m2po reads advantages, and advantage_fn none makes none (set advantage_fn, or use a loss that reads none, such as sft)"},
		{Spec{Type: "raft", PolicyLossFn: "rec", AdvantageFn: "rec"}, ""},
		{Spec{Type: "grpo", SampleStrategy: "mix"}, "policy_loss_fn: ppo cannot learn from demonstrations, which sample_strategy mix mixes in (use mix or mix_chord, or sample_strategy default)"},
		{Spec{Type: "mix", PolicyLossFn: "m2po"}, "policy_loss_fn: m2po cannot learn from demonstrations, which sample_strategy mix mixes in (use mix or mix_chord, or sample_strategy default)"},
		{Spec{Type: "raft", SampleStrategy: "mix"}, ""},
		{Spec{Type: "mix", SampleStrategy: "default"}, "policy_loss_fn: mix learns from demonstrations too, and sample_strategy default mixes none in (set sample_strategy: mix, or a policy_loss_fn of rollouts alone, such as ppo)"},
		{Spec{Type: "grpo", PolicyLossFn: "mix_chord"}, "policy_loss_fn: mix_chord learns from demonstrations too, and sample_strategy default mixes none in (set sample_strategy: mix, or a policy_loss_fn of rollouts alone, such as ppo)"},
		{Spec{Type: "mix", SampleStrategy: "default", PolicyLossFn: "ppo"}, ""},
		{Spec{Type: "dpo", LossAggMode: new("token-mean")}, "loss_agg_mode: policy_loss_fn dpo aggregates in a way of its own (remove the key)"},
	} {
		_, err := New(c.spec)
		if got := text(err); got != c.want && got != "algorithm "+c.spec.Type+": "+c.want {
			t.Errorf("%+v: error %q, want %q", c.spec, got, c.want)
		}
	}
	for _, name := range registry.Algorithms.Names() {
		if _, err := New(Spec{Type: name}); err != nil {
			t.Error(err)
		}
	}
}

func TestReadsLogprobs(t *testing.T) {
	for _, c := range []struct {
		spec Spec
		want bool
	}{
		{Spec{Type: "grpo"}, true},
		{Spec{Type: "grpo", PolicyLossFn: "opmd"}, false},
		{Spec{Type: "grpo", PolicyLossFn: "opmd", AdvantageArgs: map[string]any{"rank_penalty": 0.5}}, true},
		{Spec{Type: "raft", PolicyLossFn: "sft"}, false},
		{Spec{Type: "ppo", PolicyLossFn: "opmd"}, false},
		{Spec{Type: "ppo", PolicyLossFn: "opmd", KLPenaltyFn: "k2"}, true},
		{Spec{Type: "grpo", PolicyLossFn: "topr"}, true},
	} {
		a, err := New(c.spec)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := a.ReadsLogprobs(); err != nil || got != c.want {
			t.Errorf("%+v: got %v, %v; want %v", c.spec, got, err, c.want)
		}
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
