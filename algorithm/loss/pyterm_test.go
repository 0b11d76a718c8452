package loss_test

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/algorithm/loss"
	"github.com/trinity-go/trinity/trinitytest"
)

// A term that depends on no stream has its value in the metrics, and the gradient is that of the other terms.
func TestConstantTermsInPython(t *testing.T) {
	constantTerms(t, nil, "own_losses.no_kl", "own_losses.no_bonus")
	constantTerms(t, nil, "own_losses.zeros_kl", "own_losses.no_bonus")
	exps, now := optimizerStep(5, 4, 8)
	for kl, bonus := range map[string]string{"own_losses.forgets_kl": "own_losses.no_bonus", "own_losses.no_kl": "own_losses.forgets_bonus"} {
		c := pythonTerms(t, nil, kl, bonus)
		probes := c.Probes(exps)
		err := c.Prepare(t.Context(), &trinity.Batch{Step: 3, Experiences: probes, Whole: probes}, append(now, now...)[:len(probes)])
		if err == nil || !strings.Contains(err.Error(), "it returned no derivatives: return (") {
			t.Errorf("%s, %s: %v", kl, bonus, err)
		}
	}
}

func TestCompatConstantTerms(t *testing.T) {
	section := map[string]any{"interpreter": trinitytest.CompatPython(t)}
	constantTerms(t, section, "trinity.algorithm.kl_fn.kl_fn.DummyKLFn",
		"trinity.algorithm.entropy_loss_fn.entropy_loss_fn.DummyEntropyLossFn")
}

func pythonTerms(t *testing.T, section map[string]any, kl, bonus string) *loss.Composite {
	t.Helper()
	bonusArgs := map[string]any{}
	if section != nil {
		bonusArgs["entropy_coef"] = 0.5
	}
	return termsOf(t, trinitytest.Programs(t), "python", "python", trinitytest.PythonClass(t, kl, map[string]any{"kl_coef": 0.3}, section),
		trinitytest.PythonClass(t, bonus, bonusArgs, section))
}

func constantTerms(t *testing.T, section map[string]any, kl, bonus string) {
	t.Helper()
	policy, err := loss.PolicyLosses.Build("cispo")
	if err != nil {
		t.Fatal(err)
	}
	exps, now := optimizerStep(5, 12, 20)
	want, w := learnt(t, loss.NewComposite(policy, nil, nil), exps, now, 5)
	got, m := learnt(t, pythonTerms(t, section, kl, bonus), exps, now, 5)
	sameGradient(t, got, want, 0)
	for i := range got {
		for k, v := range got[i].Entropy {
			if v != 0 {
				t.Fatalf("%s, token %d: %v by entropy", exps[i].ID, k, v)
			}
		}
	}
	if m["kl_loss"] != 0 || m["entropy_loss"] != 0 || math.Abs(m["kl_coef"]-0.3) > 1e-12 || math.Abs(m["final_loss"]-w["final_loss"]) > 1e-12 {
		t.Errorf("%s, %s: %v, want %v", kl, bonus, m, w)
	}
}

func TestPenaltyInPythonEqualsOurs(t *testing.T) {
	weight := map[string]any{"kl_coef": 0.3, "adaptive": true, "target_kl": 0.05, "horizon": 100}
	ours, err := loss.KLs.Build("k2", weight)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := loss.KLs.Build("python", trinitytest.PythonClass(t, "own_losses.k2", weight, nil))
	if err != nil {
		t.Fatal(err)
	}
	if err := theirs.(interface{ Open(trinity.Host) error }).Open(trinitytest.Programs(t)); err != nil {
		t.Fatal(err)
	}
	a, b := loss.NewPenalty(ours), loss.NewPenalty(theirs)
	for seed := range uint64(3) {
		exps, _ := optimizerStep(seed, 6, 12)
		for k := range exps[2].Mask {
			exps[2].Mask[k] = false // nothing of it is trained
		}
		want, w, err := a.Of(t.Context(), exps)
		if err != nil {
			t.Fatal(err)
		}
		got, m, err := b.Of(t.Context(), exps)
		if err != nil {
			t.Fatal(err)
		}
		for name, v := range w {
			if math.Abs(m[name]-v) > 1e-6*(1+v) || v == 0 {
				t.Errorf("%s is %v, want %v", name, m[name], v)
			}
		}
		for i := range want {
			for k, v := range want[i] {
				if math.Abs(got[i][k]-v) > 1e-6*(1+v) {
					t.Fatalf("%s, token %d: %v, want %v", exps[i].ID, k, got[i][k], v)
				}
			}
		}
	}
	if a.Coef == 0.3 || math.Abs(a.Coef-b.Coef) > 1e-6 {
		t.Errorf("kl_coef became %v, and ours %v", b.Coef, a.Coef)
	}
}

// Numbers of info by the token are a stream of the loss that has a parameter of their name.
func TestStreamsOfInfo(t *testing.T) {
	exps, now := optimizerStep(6, 5, 9)
	own := inPython(t, "own_losses.shaped", nil, nil)
	worth := func(e *trinity.Experience, t int) float64 { return float64(len(e.Tokens)) - 0.1*float64(t) }
	for i, e := range exps {
		var list []any
		for t := e.PromptLen; t < len(e.Tokens); t++ {
			list = append(list, worth(e, t))
		}
		e.Info["worth"] = list
		if i == 0 {
			e.Info["level"] = 1.0 // the others have none, and the loss does without
		}
	}
	grads, _ := learnt(t, own, exps, now, 2)
	for i, e := range exps {
		for k, trained := range e.Mask {
			want := float32(0)
			if trained {
				want = -float32(worth(e, k))
			}
			if grads[i].Logprob[k] != want {
				t.Fatalf("%s, token %d: %v, want %v", e.ID, k, grads[i].Logprob[k], want)
			}
		}
	}
	list := exps[2].Info["worth"].([]any)
	for _, c := range []struct {
		value any
		want  string
	}{
		{list[:2], "experience 1/1/0/0: worth in its info has 2 numbers, want "},
		{append(list[:len(list)-1:len(list)-1], math.Inf(1)), "experience 1/1/0/0: worth in its info is +Inf for token "},
		{append(list[:len(list)-1:len(list)-1], "a"), "experience 1/1/0/0: worth in its info is a for token "},
		{1.0, "policy loss own_losses.shaped takes worth, which is a number in the info of some experiences, and a list in that of others"},
		{nil, "policy loss own_losses.shaped takes worth, which is no stream ("},
	} {
		exps[2].Info["worth"] = c.value
		probes := own.Probes(exps)
		err := own.Prepare(t.Context(), &trinity.Batch{Step: 3, Experiences: probes, Whole: probes}, now)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%v: %v\nwant %s", c.value, err, c.want)
		}
	}
}

// A process that ends loses no state: the next one goes on from the answer before.
func TestStatesOutliveTheProcess(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "mark")
	own := inPython(t, "own_losses.Ends", map[string]any{"mark": mark}, nil)
	exps, now := optimizerStep(6, 3, 6)
	for want := 1.0; want <= 3; want++ {
		if _, m := learnt(t, own, exps, now, 3); m["pg_loss"] != want {
			t.Errorf("it was asked %v times, and says %v", want, m["pg_loss"])
		}
	}
	if _, err := os.Stat(mark); err != nil {
		t.Error(err)
	}
}
