package algorithm

import (
	"strings"
	"testing"
)

// A loss over preferences makes no sense of other data, and no other loss of preferences.
func TestLossesBelongToTheirData(t *testing.T) {
	for _, c := range []struct {
		spec Spec
		want string // "" for none
	}{
		{Spec{Type: "dpo"}, ""},
		{Spec{Type: "kto"}, ""},
		{Spec{Type: "cpt"}, ""},
		{Spec{Type: "dpo", KLLossFn: "k1"}, ""},
		{Spec{Type: "sft", PolicyLossFn: "dpo"}, "policy_loss_fn: dpo learns from data of schema dpo, and sft reads schema sft (use algorithm_type dpo)"},
		{Spec{Type: "grpo", PolicyLossFn: "kto"}, "policy_loss_fn: kto learns from data of schema kto, and grpo reads schema experience"},
		{Spec{Type: "dpo", PolicyLossFn: "kto"}, "use algorithm_type kto"},
		{Spec{Type: "dpo", PolicyLossFn: "sft"}, "policy_loss_fn: sft would learn from the rejected answers of schema dpo as from the others"},
		{Spec{Type: "kto", PolicyLossFn: "sft"}, "the undesirable answers of schema kto"},
	} {
		a, err := New(c.spec)
		switch {
		case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%+v: error %v, want %q", c.spec, err, c.want)
		case err == nil && a.NeedsReference != (c.spec.Type != "cpt"):
			t.Errorf("%+v: NeedsReference %t", c.spec, a.NeedsReference)
		}
	}
}
