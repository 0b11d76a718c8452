package algorithm

import (
	"context"
	"encoding/json"
	"flag"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	_ "github.com/trinity-go/trinity/algorithm/advantage"
	"github.com/trinity-go/trinity/algorithm/loss"
	"github.com/trinity-go/trinity/registry"
)

var update = flag.Bool("update", false, "write the golden files")

// golden holds the parts that a type builds if a config has only its name.
type golden struct {
	Def            *trinity.Algorithm
	Advantage      trinity.Advantage
	PolicyLoss     loss.PolicyLoss
	KL             *loss.KLController
	EntropyCoef    *float64
	Mode           loss.AggMode
	NeedsReference bool
}

// build merges changes over an algorithm type and builds its parts.
func build(changes trinity.Algorithm) (*Algorithm, error) {
	parts, err := registry.Parts(changes)
	if err != nil {
		return nil, err
	}
	return New(parts)
}

func TestEveryTypeHasItsDefaults(t *testing.T) {
	want := map[string]json.RawMessage{}
	data, err := os.ReadFile("testdata/defaults.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	got := map[string]golden{}
	for _, name := range registry.Algorithms.Names() {
		a, err := build(trinity.Algorithm{Type: name})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		g := golden{Def: a.Def, Advantage: a.Advantage, PolicyLoss: a.Loss.Policy, Mode: a.Loss.Mode, NeedsReference: a.NeedsReference}
		if a.Loss.KL != nil {
			g.KL = a.Loss.KL.Controller()
		}
		if a.Loss.Bonus != nil {
			c := a.Loss.Bonus.Coef()
			g.EntropyCoef = &c
		}
		got[name] = g
	}
	if *update {
		out, err := json.MarshalIndent(got, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("testdata/defaults.json", append(out, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for name, g := range got {
		out, err := json.Marshal(g)
		if err != nil {
			t.Fatal(err)
		}
		var a, b any
		json.Unmarshal(out, &a)
		json.Unmarshal(want[name], &b)
		if !reflect.DeepEqual(a, b) {
			t.Errorf("%s: %s\nwant %s; after a wanted change run `go test ./algorithm -update`", name, out, want[name])
		}
	}
	if len(want) != len(got) {
		t.Errorf("%d types registered, %d in testdata/defaults.json: run `go test ./algorithm -update`", len(got), len(want))
	}
}

func TestPartsAndArgsOverrideTheType(t *testing.T) {
	a, err := build(trinity.Algorithm{Type: "dapo", PolicyLossArgs: map[string]any{"clip_range_high": 0.5},
		AdvantageArgs: map[string]any{"epsilon": 1e-4},
		KLLoss:        "k3", KLLossArgs: map[string]any{"kl_coef": 0.01}, Entropy: "mix", EntropyArgs: map[string]any{"entropy_coef": 0.1}})
	if err != nil {
		t.Fatal(err)
	}
	policy := reflect.ValueOf(a.Loss.Policy).Elem()
	for field, want := range map[string]float64{"ClipRangeLow": 0.2, "ClipRangeHigh": 0.5, "ClipRatioC": 1e6} {
		if got := reflect.Indirect(policy.FieldByName(field)).Float(); got != want {
			t.Errorf("policy loss: %s is %v, want %v", field, got, want)
		}
	}
	if mode := *loss.Aggregation(a.Loss.Policy); mode != loss.TokenMean {
		t.Errorf("policy loss: loss_agg_mode is %s, want dapo's %s", mode, loss.TokenMean)
	}
	if a.Loss.KLCoef() != 0.01 || !a.NeedsReference || a.Loss.Bonus.Coef() != 0.1 || a.Def.KLLoss != "k3" || a.Def.Entropy != "mix" {
		t.Errorf("got %+v", a)
	}
	if again, _ := registry.Algorithms.Build("dapo"); again.PolicyLossArgs["clip_range_high"] != 0.28 {
		t.Error("the type's own defaults were changed")
	}
}

func TestArgsOfTheTypeDoNotOutliveItsPart(t *testing.T) {
	a, err := build(trinity.Algorithm{Type: "dapo", PolicyLoss: "sft"}) // sft knows no clip_range_low
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Def.PolicyLossArgs) != 0 {
		t.Errorf("args %v", a.Def.PolicyLossArgs)
	}
}

func TestLossAggModeOverridesTheArgs(t *testing.T) {
	own := map[string]any{"loss_agg_mode": "seq-mean-token-sum"}
	for _, c := range []struct {
		name string
		spec trinity.Algorithm
		want loss.AggMode
	}{
		{"the loss's own default", trinity.Algorithm{Type: "grpo"}, loss.TokenMean},
		{"in the loss's args", trinity.Algorithm{Type: "grpo", PolicyLossArgs: own}, loss.SeqMeanTokenSum},
		{"of the algorithm", trinity.Algorithm{Type: "grpo", LossAggMode: "seq-mean-token-mean"}, loss.SeqMeanTokenMean},
		{"of the algorithm, over the args", trinity.Algorithm{Type: "sft", PolicyLossArgs: own,
			LossAggMode: "seq-mean-token-sum-norm"}, loss.SeqMeanTokenSumNorm},
	} {
		a, err := build(c.spec)
		if err != nil {
			t.Fatal(err)
		}
		if got := *loss.Aggregation(a.Loss.Policy); got != c.want || a.Loss.Mode != c.want {
			t.Errorf("%s: policy %s, KL and entropy %s; want %s", c.name, got, a.Loss.Mode, c.want)
		}
		if shown := a.Def.PolicyLossArgs["loss_agg_mode"]; shown != nil && shown != string(c.want) {
			t.Errorf("%s: the args in use say %v, want %s", c.name, shown, c.want)
		}
	}
}

func TestReferenceIsOnlyNeededWithAWeight(t *testing.T) {
	for _, c := range []struct {
		spec trinity.Algorithm
		want bool
	}{
		{trinity.Algorithm{Type: "grpo"}, true},
		{trinity.Algorithm{Type: "grpo", KLLossArgs: map[string]any{"kl_coef": 0}}, false},
		{trinity.Algorithm{Type: "grpo", KLLoss: "none"}, false},
		{trinity.Algorithm{Type: "sft"}, false},
		{trinity.Algorithm{Type: "sft", KLLoss: "k2"}, true},
	} {
		a, err := build(c.spec)
		if err != nil {
			t.Fatal(err)
		}
		if a.NeedsReference != c.want {
			t.Errorf("%+v: NeedsReference %v, want %v", c.spec, a.NeedsReference, c.want)
		}
	}
}

func TestErrorsNameThePart(t *testing.T) {
	for _, c := range []struct {
		spec trinity.Algorithm
		want []string
	}{
		{trinity.Algorithm{Type: "gpro"}, []string{`unknown algorithm "gpro"`, `did you mean "grpo"`}},
		{trinity.Algorithm{Type: "grpo", Advantage: "grop"}, []string{"algorithm grpo", "advantage_fn", `did you mean "grpo"`}},
		{trinity.Algorithm{Type: "grpo", PolicyLoss: "pop"}, []string{"policy_loss_fn", `did you mean "ppo"`}},
		{trinity.Algorithm{Type: "grpo", KLLoss: "k9"}, []string{"kl_loss_fn", `unknown kl_fn "k9"`}},
		{trinity.Algorithm{Type: "grpo", KLPenalty: "k9"}, []string{"kl_penalty_fn", `unknown kl_fn "k9"`}},
		{trinity.Algorithm{Type: "grpo", Entropy: "defualt"}, []string{"entropy_loss_fn", `did you mean "default"`}},
		{trinity.Algorithm{Type: "grpo", PolicyLossArgs: map[string]any{"clip_rang": 0.1}},
			[]string{"policy_loss_fn ppo", `did you mean "clip_range"`}},
		{trinity.Algorithm{Type: "grpo", AdvantageArgs: map[string]any{"epsilon": "small"}}, []string{"advantage_fn grpo", "epsilon"}},
		{trinity.Algorithm{Type: "grpo", LossAggMode: "token-meen"}, []string{"loss_agg_mode", "token-meen", "seq-mean-token-sum-norm"}},
		{trinity.Algorithm{Type: "dapo", PolicyLossArgs: map[string]any{"clip_range": 0.1}},
			[]string{"clip_range has no effect", "clip_range_low"}},
		{trinity.Algorithm{Type: "grpo", KLPenalty: "k2"}, []string{"kl_penalty_fn k2", "advantage_fn grpo", "use kl_loss_fn"}},
		{trinity.Algorithm{Type: "sft", KLPenalty: "k1"}, []string{"algorithm sft", "kl_penalty_fn k1"}},
	} {
		_, err := build(c.spec)
		if err == nil {
			t.Errorf("%+v: no error", c.spec)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%+v: error %q lacks %q", c.spec, err, w)
			}
		}
	}
}

// penalized is an advantage over token rewards: minus the penalty.
type penalized struct{ penalty trinity.KLPenalty }

func (p *penalized) Needs() trinity.Needs {
	return trinity.Needs{Batch: true, PenalizeKL: func(of trinity.KLPenalty) { p.penalty = of }}
}

func (p *penalized) Advantages(ctx context.Context, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	_, m, err := p.penalty(ctx, groups[0])
	return groups, m, err
}

func init() {
	registry.Advantages.Register("test_penalized", "", func() trinity.Advantage { return &penalized{} })
	loss.PolicyLosses.Register("test_no_agg", "", func() loss.PolicyLoss {
		sft, err := loss.PolicyLosses.Build("sft")
		if err != nil {
			panic(err)
		}
		return struct{ loss.PolicyLoss }{sft}
	})
}

func TestTokenRewardsGetTheKLPenalty(t *testing.T) {
	args := map[string]any{"kl_coef": 0.1, "adaptive": true, "target_kl": 0.25, "horizon": 10}
	spec := trinity.Algorithm{Type: "grpo", Advantage: "test_penalized", KLLoss: "none", KLPenalty: "k1", KLPenaltyArgs: args}
	a, err := build(spec)
	if err != nil {
		t.Fatal(err)
	}
	if !a.NeedsReference {
		t.Error("a penalty needs the reference")
	}
	g := trinity.Group{{Tokens: make([]int32, 3), Mask: []bool{false, true, true}, Logprobs: []float32{0, -1, -1},
		RefLogprobs: []float32{0, -1.5, -1.5}}}
	_, m, err := a.Advantage.Advantages(t.Context(), []trinity.Group{g})
	if err != nil || m["kl"] != 0.5 || m["kl_coef"] != 0.1 {
		t.Fatalf("metrics %v, %v", m, err)
	}
	// KL 0.5 is twice the target: +0.2 · 1 sequence / horizon 10
	saved, err := a.State()
	if err != nil {
		t.Fatal(err)
	}
	b, err := build(spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Restore(saved); err != nil {
		t.Fatal(err)
	}
	if _, m, _ = b.Advantage.Advantages(t.Context(), []trinity.Group{g}); math.Abs(m["kl_coef"]-0.1*1.02) > 1e-15 {
		t.Errorf("resumed kl_coef %v, want 0.102", m["kl_coef"])
	}
}

func TestAdaptiveKLLossIsSavedAndRestored(t *testing.T) {
	spec := trinity.Algorithm{Type: "grpo", KLLossArgs: map[string]any{"kl_coef": 0.1, "adaptive": true, "target_kl": 0.5, "horizon": 100}}
	a, err := build(spec)
	if err != nil {
		t.Fatal(err)
	}
	a.AfterStep(trinity.Metrics{"kl_loss": 0.55}, 20) // 10 % over the target: ·(1 + 0.1·20/100)
	if math.Abs(a.Loss.KLCoef()-0.102) > 1e-15 {
		t.Errorf("kl_coef %v, want 0.102", a.Loss.KLCoef())
	}
	saved, _ := a.State()
	b, _ := build(spec)
	if err := b.Restore(saved); err != nil || b.Loss.KLCoef() != a.Loss.KLCoef() {
		t.Errorf("restored %v, %v", b.Loss.KLCoef(), err)
	}
	spec.KLLossArgs = map[string]any{"kl_coef": 0.3}
	c, _ := build(spec)
	if err := c.Restore(saved); err != nil || c.Loss.KLCoef() != 0.3 {
		t.Errorf("a constant kl_coef became %v, %v", c.Loss.KLCoef(), err)
	}
	none, _ := build(trinity.Algorithm{Type: "grpo", KLLoss: "none"})
	before, _ := none.State()
	d, _ := build(trinity.Algorithm{Type: "grpo", KLLossArgs: map[string]any{"kl_coef": 0.2, "adaptive": true,
		"target_kl": 0.5, "horizon": 100}})
	if err := d.Restore(before); err != nil || d.Loss.KLCoef() != 0.2 {
		t.Errorf("the kl_coef of a new term is %v after a restore, %v", d.Loss.KLCoef(), err)
	}
	if err := c.Restore([]byte("{")); err == nil || !strings.Contains(err.Error(), "grpo") {
		t.Errorf("broken state: %v", err)
	}
}

func TestLossAggModeNeedsALossThatAggregates(t *testing.T) {
	_, err := build(trinity.Algorithm{Type: "grpo", PolicyLoss: "test_no_agg", LossAggMode: "token-mean"})
	if err == nil || !strings.Contains(err.Error(), "test_no_agg") {
		t.Errorf("error %v", err)
	}
}
