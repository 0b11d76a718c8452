package algorithm

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/trinitytest"
)

// A loss over preferences needs a dataset of preferences, and other losses cannot read one.
func TestLossesBelongToTheirData(t *testing.T) {
	for _, c := range []struct {
		spec trinity.Algorithm
		want string // "" for none
	}{
		{trinity.Algorithm{Type: "dpo"}, ""},
		{trinity.Algorithm{Type: "kto"}, ""},
		{trinity.Algorithm{Type: "cpt"}, ""},
		{trinity.Algorithm{Type: "dpo", KLLoss: "k1"}, ""},
		{trinity.Algorithm{Type: "sft", PolicyLoss: "dpo"},
			"policy_loss_fn: dpo learns from data of schema dpo, and sft reads schema sft (use algorithm_type dpo)"},
		{trinity.Algorithm{Type: "grpo", PolicyLoss: "kto"},
			"policy_loss_fn: kto learns from data of schema kto, and grpo reads schema experience"},
		{trinity.Algorithm{Type: "dpo", PolicyLoss: "kto"}, "use algorithm_type kto"},
		{trinity.Algorithm{Type: "dpo", PolicyLoss: "sft"}, "policy_loss_fn: sft would imitate the rejected answers of schema dpo"},
		{trinity.Algorithm{Type: "kto", PolicyLoss: "sft"}, "the undesirable answers of schema kto"},
		{trinity.Algorithm{Type: "bradley_terry"}, ""},
		{trinity.Algorithm{Type: "bradley_terry", KLLoss: "k2", KLLossArgs: map[string]any{"kl_coef": 0}}, ""},
		{trinity.Algorithm{Type: "grpo", PolicyLoss: "bradley_terry"}, "use algorithm_type bradley_terry"},
		{trinity.Algorithm{Type: "bradley_terry", KLLoss: "k2"},
			"kl_loss_fn: k2 reads log-probabilities, and bradley_terry trains a reward model, which has none (set it to none)"},
		{trinity.Algorithm{Type: "bradley_terry", Entropy: "default"}, "entropy_loss_fn: default reads log-probabilities"},
		{trinity.Algorithm{Type: "dpo", PolicyLoss: "bradley_terry"}, "kl_loss_fn: k2 reads log-probabilities"},
	} {
		a, err := build(c.spec)
		switch {
		case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%+v: error %v, want %q", c.spec, err, c.want)
		case err == nil && a.NeedsReference != (c.spec.Type == "dpo" || c.spec.Type == "kto"):
			t.Errorf("%+v: NeedsReference %t", c.spec, a.NeedsReference)
		}
	}
}

// A misfit of a class in Python names the class, and the attribute that says which data it reads.
func TestLossesInPythonBelongToTheirData(t *testing.T) {
	trinitytest.AllowPython(t)
	dir, err := filepath.Abs("loss/testdata/python")
	if err != nil {
		t.Fatal(err)
	}
	args := func(class string) map[string]any {
		return map[string]any{"class": class, "python": map[string]any{"path": []any{dir}}}
	}
	for _, c := range []struct{ of, class, want string }{
		{"dpo", "own_losses.cispo", "policy_loss_fn: own_losses.cispo would imitate the rejected answers of schema dpo (leave it out, or say " +
			"with its attribute pairs = True that it compares chosen and rejected rows)"},
		{"kto", "own_losses.cispo", "policy_loss_fn: own_losses.cispo would imitate the undesirable answers of schema kto (leave it out)"},
		{"sft", "own_losses.Preference", "policy_loss_fn: own_losses.Preference learns from data of schema dpo, and sft reads schema sft " +
			"(use algorithm_type dpo, or set its attribute pairs to False)"},
		{"dpo", "own_losses.Preference", ""},
	} {
		_, err := build(trinity.Algorithm{Type: c.of, PolicyLoss: "python", PolicyLossArgs: args(c.class)})
		if got := fmt.Sprint(err); c.want == "" && err != nil || c.want != "" && !strings.HasSuffix(got, c.want) {
			t.Errorf("%s: %v, want %q", c.class, err, c.want)
		}
	}
}
