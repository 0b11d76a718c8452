package loss_test

import (
	"math"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/algorithm/loss"
	"github.com/trinity-go/trinity/internal/bridge"
	"github.com/trinity-go/trinity/trinitytest"
)

// inPython returns a policy loss of own_losses.py, or of another module, that a host has opened.
func inPython(t *testing.T, class string, args, section map[string]any) *loss.Composite {
	t.Helper()
	p, err := buildPython(t, class, args, section)
	if err != nil {
		t.Fatal(err)
	}
	return opened(t, p)
}

func opened(t *testing.T, p loss.PolicyLoss) *loss.Composite {
	t.Helper()
	return openedBy(t, trinitytest.Programs(t), p)
}

func openedBy(t *testing.T, host trinity.Host, p loss.PolicyLoss) *loss.Composite {
	t.Helper()
	c := loss.NewComposite(p, nil, nil)
	if err := c.Open(host); err != nil {
		t.Fatal(err)
	}
	return c
}

func buildPython(t *testing.T, class string, args, section map[string]any) (loss.PolicyLoss, error) {
	t.Helper()
	bridge.Allow(func(string) {})
	if _, err := exec.LookPath("python3"); err != nil {
		trinitytest.Missing(t, "there is no python3")
	}
	dir, err := filepath.Abs("testdata/python")
	if err != nil {
		t.Fatal(err)
	}
	python := map[string]any{"path": []any{dir}}
	for key, value := range section {
		python[key] = value
	}
	if args == nil {
		args = map[string]any{}
	}
	return loss.PolicyLosses.Build("python", map[string]any{"class": class, "args": args, "python": python})
}

// optimizerStep returns sequences with random streams, and the engine's statistics.
func optimizerStep(seed uint64, sequences, most int) ([]*trinity.Experience, []trinity.TokenStats) {
	r := rand.New(rand.NewPCG(seed, 2))
	var exps []*trinity.Experience
	var now []trinity.TokenStats
	for i := range sequences {
		n, prompt := most/2+r.IntN(most/2+1), 1+r.IntN(3)
		e := &trinity.Experience{
			ID: trinity.ExperienceID{Step: 1, Task: strconv.Itoa(i / 2), Run: i % 2}, PromptLen: prompt, IsExpert: i%4 == 3, Chosen: i%2 == 0,
			Info: map[string]any{"difficulty": 0.5 + r.Float64()},
		}
		s := trinity.TokenStats{}
		adv := float32(r.NormFloat64())
		for t := range prompt + n {
			trained := t >= prompt && r.IntN(5) > 0
			lp := -float32(r.ExpFloat64())
			old, ref, entropy := lp+float32(0.15*r.NormFloat64()), lp+float32(0.3*r.NormFloat64()), float32(r.ExpFloat64())
			a := adv
			if !trained {
				lp, old, ref, a, entropy = 0, 0, 0, 0, 0
			}
			e.Tokens, e.Mask = append(e.Tokens, int32(t)), append(e.Mask, trained)
			e.Logprobs, e.RefLogprobs, e.Advantages = append(e.Logprobs, old), append(e.RefLogprobs, ref), append(e.Advantages, a)
			s.Logprob, s.Entropy = append(s.Logprob, lp), append(s.Entropy, entropy)
		}
		exps, now = append(exps, e), append(now, s)
	}
	return exps, now
}

// learnt computes a step in micro-batches of a number of sequences.
func learnt(
	t *testing.T, l *loss.Composite, exps []*trinity.Experience, now []trinity.TokenStats, size int,
) ([]trinity.TokenGrads, trinity.Metrics) {
	t.Helper()
	if probes := l.Probes(exps); len(probes) > 0 {
		var stats []trinity.TokenStats
		for _, e := range probes {
			stats = append(stats, now[slices.Index(exps, e)])
		}
		if err := l.Prepare(t.Context(), &trinity.Batch{Step: 3, Experiences: probes, Whole: probes}, stats); err != nil {
			t.Fatal(err)
		}
	}
	var grads []trinity.TokenGrads
	metrics := trinity.Metrics{}
	for from := 0; from < len(exps); from += size {
		to := min(from+size, len(exps))
		g, m, err := l.Loss(&trinity.Batch{Step: 3, Experiences: exps[from:to], Whole: exps}, now[from:to])
		if err != nil {
			t.Fatal(err)
		}
		grads = append(grads, g...)
		metrics.Add(m)
	}
	return grads, metrics
}

// sameGradient compares derivatives: the largest difference, relative to the largest derivative.
func sameGradient(t *testing.T, got, want []trinity.TokenGrads, within float64) {
	t.Helper()
	largest, worst := 0.0, 0.0
	for i := range want {
		for k, w := range want[i].Logprob {
			largest = max(largest, math.Abs(float64(w)))
			worst = max(worst, math.Abs(float64(got[i].Logprob[k])-float64(w)))
		}
	}
	if !(worst <= within*largest) || largest == 0 {
		t.Errorf("derivatives differ by %g of the largest, %g", worst/largest, largest)
	}
}

// sameBits compares gradients under two cuts of a step.
func sameBits(t *testing.T, l *loss.Composite, exps []*trinity.Experience, now []trinity.TokenStats) {
	t.Helper()
	whole, _ := learnt(t, l, exps, now, len(exps))
	cut, _ := learnt(t, l, exps, now, 2)
	for i := range whole {
		if !slices.Equal(whole[i].Logprob, cut[i].Logprob) || !slices.Equal(whole[i].Entropy, cut[i].Entropy) {
			t.Fatalf("%s: the gradient depends on the cut", exps[i].ID)
		}
	}
}

func TestLossInPythonEqualsOurs(t *testing.T) {
	exps, now := optimizerStep(1, 12, 20)
	own := inPython(t, "own_losses.cispo", nil, nil)
	ours, err := loss.PolicyLosses.Build("cispo")
	if err != nil {
		t.Fatal(err)
	}
	got, m := learnt(t, own, exps, now, 5)
	want, w := learnt(t, loss.NewComposite(ours, nil, nil), exps, now, 5)
	sameGradient(t, got, want, 1e-6)
	if math.Abs(m["final_loss"]-w["final_loss"]) > 1e-6 || math.Abs(m["pg_loss"]-m["final_loss"]) > 1e-12 || !(m["weight"] > 0.9) {
		t.Errorf("metrics %v, want those of %v", m, w)
	}
	sameBits(t, own, exps, now)
	if n := own.Needs(); n.Reference || n.Teacher || !loss.ReadsAdvantages(own.Policy) {
		t.Errorf("needs %+v", n)
	}
}

func TestLossInPythonTakesStreams(t *testing.T) {
	exps, now := optimizerStep(2, 8, 10)
	for _, e := range exps {
		if e.IsExpert {
			e.Advantages = nil
		}
	}
	own := inPython(t, "own_losses.Weighed", map[string]any{"mu": 0.25}, nil)
	if !own.Streams().Entropy {
		t.Fatal("no entropy is asked for")
	}
	grads, m := learnt(t, own, exps, now, 3)
	n := 0
	for _, e := range exps {
		n += e.TrainedTokens()
	}
	sum := 0.0
	for i, e := range exps {
		factor := 0.25
		if !e.IsExpert {
			factor = 0.75 * e.Info["difficulty"].(float64)
		}
		for k, trained := range e.Mask {
			if !trained {
				continue
			}
			a := float32(1)
			if !e.IsExpert {
				a = e.Advantages[k]
			}
			want := -factor * float64(a) / float64(n)
			if got := float64(grads[i].Logprob[k]); math.Abs(got-want) > 1e-7 || math.Abs(float64(grads[i].Entropy[k])+0.1/float64(n)) > 1e-7 {
				t.Fatalf("%s, token %d: %v and %v, want %v", e.ID, k, got, grads[i].Entropy[k], want)
			}
			sum += want*float64(now[i].Logprob[k]) - 0.1*float64(now[i].Entropy[k])/float64(n)
		}
	}
	if math.Abs(m["final_loss"]-sum) > 1e-6 {
		t.Errorf("final_loss %v, want %v", m["final_loss"], sum)
	}
	sameBits(t, own, exps, now)
	delete(exps[4].Info, "difficulty")
	probes := own.Probes(exps)
	err := own.Prepare(t.Context(), &trinity.Batch{Step: 3, Experiences: probes, Whole: probes}, now)
	if err == nil || !strings.Contains(err.Error(), "takes difficulty, which is no stream (") ||
		!strings.HasSuffix(err.Error(), "and no number in the info of experience 1/2/0/0") {
		t.Error(err)
	}
}

func TestPairsInPython(t *testing.T) {
	exps, now := optimizerStep(3, 8, 10)
	for k := range exps[2].Mask {
		exps[2].Mask[k] = false // its pair does not count
	}
	own := inPython(t, "own_losses.Preference", nil, nil)
	if p := own.Policy.(loss.SchemaLoss); p.Schema() != "dpo" || !own.Pairs() || !own.Needs().Reference || loss.ReadsAdvantages(own.Policy) {
		t.Errorf("%q %v %+v", p.Schema(), own.Pairs(), own.Needs())
	}
	ours, err := loss.PolicyLosses.Build("dpo", map[string]any{"beta": 1})
	if err != nil {
		t.Fatal(err)
	}
	got, m := learnt(t, own, exps, now, 4)
	want, w := learnt(t, loss.NewComposite(ours, nil, nil), exps, now, 4)
	sameGradient(t, got, want, 1e-6)
	if _, ok := m["odd"]; ok || math.Abs(m["final_loss"]-w["final_loss"]) > 1e-6 {
		t.Errorf("metrics %v, want those of %v", m, w)
	}
}

func TestLossesInPythonThatFail(t *testing.T) {
	exps, now := optimizerStep(4, 3, 6)
	for how, want := range map[string]string{
		"rows":   "policy loss own_losses.wrong: the derivatives by logprob have 2 rows for 3 sequences",
		"tokens": "policy loss own_losses.wrong: the derivatives by logprob of sequence 0 are ",
		"nan":    "policy loss own_losses.wrong: derivatives by logprob: that of experience 1/0/1/0, token ",
		"loss":   "policy loss own_losses.wrong: the loss of step 3 is no finite number",
		"none":   "policy loss own_losses.wrong: it returned no derivatives: return (loss, {\"logprob\": derivatives}), or compute",
		"raise":  "policy loss own_losses.wrong: ValueError: odd; own_losses.py:",
	} {
		own := inPython(t, "own_losses.wrong", map[string]any{"how": how}, nil)
		probes := own.Probes(exps)
		err := own.Prepare(t.Context(), &trinity.Batch{Step: 3, Experiences: probes, Whole: probes}, now)
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v\nwant %s", how, err, want)
		}
	}
	for _, c := range []struct {
		class string
		args  map[string]any
		want  string
	}{
		{"own_losses.Weighed", map[string]any{"nu": 1}, "args.nu: own_losses.Weighed has no argument nu: it has mu, bonus"},
		{"own_losses.clipped", nil, "class: own_losses.clipped takes no logprob: a loss takes, by the names of its parameters, "},
		{"own_losses.Other", nil, "class: own_losses has no Other: it has "},
	} {
		if _, err := buildPython(t, c.class, c.args, nil); err == nil || !strings.HasPrefix(err.Error(), "policy_loss_fn python: "+c.want) {
			t.Errorf("%s: %v\nwant %s", c.class, err, c.want)
		}
	}
	p, err := buildPython(t, "own_losses.cispo", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := loss.NewComposite(p, nil, nil)
	probes := c.Probes(exps)
	b := &trinity.Batch{Step: 3, Experiences: probes, Whole: probes}
	if err := c.Prepare(t.Context(), b, now); err == nil || !strings.Contains(err.Error(), "only a run can start Python") {
		t.Error(err)
	}
	exps[1].Advantages = nil
	if err := c.Prepare(t.Context(), b, now); err == nil ||
		!strings.Contains(err.Error(), "experience 1/0/1/0 has no advantages (from an advantage_fn), which policy loss own_losses.cispo takes") {
		t.Error(err)
	}
}

// Losses of Trinity-RFT, as they are, give the derivatives of ours.
func TestCompatLosses(t *testing.T) {
	section := map[string]any{"interpreter": trinitytest.CompatPython(t)}
	host := trinitytest.Programs(t)
	for name, class := range map[string]string{
		"ppo": "ppo_policy_loss.PPOPolicyLossFn", "cispo": "cispo_policy_loss.CISPOPolicyLossFn", "gspo": "gspo_policy_loss.GSPOLossFn",
		"sapo": "sapo_policy_loss.SAPOPolicyLossFn", "topr": "topr_policy_loss.TOPRPolicyLossFn", "opmd": "opmd_policy_loss.OPMDPolicyLossFn",
		"sppo": "sppo_loss_fn.sPPOPolicyLossFn", "rec": "rec_policy_loss.RECPolicyLossFn", "sft": "sft_loss.SFTLossFn",
		"importance_sampling": "importance_sampling_policy_loss.ImportanceSamplingLossFn",
	} {
		t.Run(name, func(t *testing.T) {
			ours, err := loss.PolicyLosses.Build(name)
			if err != nil {
				t.Fatal(err)
			}
			class, err := buildPython(t, "trinity.algorithm.policy_loss_fn."+class, nil, section)
			if err != nil {
				t.Fatal(err)
			}
			theirs := openedBy(t, host, class)
			for seed := range uint64(3) {
				exps, now := optimizerStep(seed, 16, 64)
				want, w := learnt(t, loss.NewComposite(ours, nil, nil), exps, now, 16)
				got, m := learnt(t, theirs, exps, now, 16)
				sameGradient(t, got, want, 1e-6)
				if math.Abs(m["final_loss"]-w["final_loss"]) > 1e-5*(1+math.Abs(w["final_loss"])) {
					t.Errorf("loss %v, want %v", m["final_loss"], w["final_loss"])
				}
				sameBits(t, theirs, exps, now)
			}
		})
	}
}

// A preference loss of Trinity-RFT is ours for a single pair: of several it sums the log-ratios first.
func TestCompatPairs(t *testing.T) {
	section := map[string]any{"interpreter": trinitytest.CompatPython(t)}
	ours, err := loss.PolicyLosses.Build("dpo", map[string]any{"beta": 0.3, "label_smoothing": 0.1})
	if err != nil {
		t.Fatal(err)
	}
	args := map[string]any{"beta": 0.3, "label_smoothing": 0.1}
	theirs := inPython(t, "trinity.algorithm.policy_loss_fn.dpo_loss.DPOLossFn", args, section)
	if !theirs.Pairs() || !theirs.Needs().Reference || loss.ReadsAdvantages(theirs.Policy) {
		t.Errorf("%v, %+v", theirs.Pairs(), theirs.Needs())
	}
	exps, now := optimizerStep(7, 2, 20)
	want, w := learnt(t, loss.NewComposite(ours, nil, nil), exps, now, 2)
	got, m := learnt(t, theirs, exps, now, 2)
	sameGradient(t, got, want, 1e-6)
	for _, name := range []string{"dpo_loss", "chosen_reward", "rejected_reward", "accuracy_mean", "final_loss"} {
		if math.Abs(m[name]-w[name]) > 1e-5 {
			t.Errorf("%s is %v, want %v", name, m[name], w[name])
		}
	}
}

// Losses that tell demonstrations apart, or the step, get what they take.
func TestCompatMixtures(t *testing.T) {
	section := map[string]any{"interpreter": trinitytest.CompatPython(t)}
	for _, class := range []string{"mix_policy_loss.MIXPolicyLossFn", "chord_policy_loss.MIXCHORDPolicyLossFn"} {
		theirs := inPython(t, "trinity.algorithm.policy_loss_fn."+class, nil, section)
		exps, now := optimizerStep(8, 8, 20)
		for _, e := range exps {
			if e.IsExpert {
				e.Advantages, e.Logprobs = nil, nil
			}
		}
		if _, m := learnt(t, theirs, exps, now, 8); m["final_loss"] == 0 || math.Abs(m["final_loss"]-m["loss"]) > 1e-6 {
			t.Errorf("%s: %v", class, m)
		}
		sameBits(t, theirs, exps, now)
	}
}

// termsOf returns our cispo with a KL and an entropy term.
func termsOf(t *testing.T, host trinity.Host, kl, bonus string, klArgs, bonusArgs map[string]any) *loss.Composite {
	t.Helper()
	policy, err := loss.PolicyLosses.Build("cispo")
	if err != nil {
		t.Fatal(err)
	}
	k, err := loss.KLs.Build(kl, klArgs)
	if err != nil {
		t.Fatal(err)
	}
	e, err := loss.Entropies.Build(bonus, bonusArgs)
	if err != nil {
		t.Fatal(err)
	}
	c := loss.NewComposite(policy, k, e)
	if err := c.Open(host); err != nil {
		t.Fatal(err)
	}
	return c
}

// sameTerms compares terms in Python with ours.
func sameTerms(t *testing.T, section map[string]any, ours, theirs, bonus string) {
	t.Helper()
	host := trinitytest.Programs(t)
	in := func(class string, args map[string]any) map[string]any {
		dir, err := filepath.Abs("testdata/python")
		if err != nil {
			t.Fatal(err)
		}
		python := map[string]any{"path": []any{dir}}
		for key, value := range section {
			python[key] = value
		}
		return map[string]any{"class": class, "args": args, "python": python}
	}
	weight, coef := map[string]any{"kl_coef": 0.3}, map[string]any{"entropy_coef": 0.2}
	want := termsOf(t, host, ours, "default", weight, coef)
	got := termsOf(t, host, "python", "python", in(theirs, weight), in(bonus, coef))
	exps, now := optimizerStep(5, 12, 20)
	g, m := learnt(t, got, exps, now, 5)
	w, n := learnt(t, want, exps, now, 5)
	sameGradient(t, g, w, 1e-6)
	n["entropy_loss"] *= 0.2 // a class in Python applies its own coefficient
	for name, v := range n {
		if math.Abs(m[name]-v) > 1e-6*(1+math.Abs(v)) {
			t.Errorf("%s: %s is %v, want %v", theirs, name, m[name], v)
		}
	}
	for i := range w {
		for k, v := range w[i].Entropy {
			if math.Abs(float64(g[i].Entropy[k]-v)) > 1e-8 {
				t.Fatalf("%s, token %d: %v by entropy, want %v", exps[i].ID, k, g[i].Entropy[k], v)
			}
		}
	}
	sameBits(t, got, exps, now)
}

func TestTermsInPython(t *testing.T) {
	bridge.Allow(func(string) {})
	if _, err := exec.LookPath("python3"); err != nil {
		trinitytest.Missing(t, "there is no python3")
	}
	sameTerms(t, nil, "k2", "own_losses.k2", "own_losses.Bonus")
}

func TestCompatTerms(t *testing.T) {
	bridge.Allow(func(string) {})
	section := map[string]any{"interpreter": trinitytest.CompatPython(t)}
	for ours, theirs := range map[string]string{
		"k1": "K1Fn", "k2": "K2Fn", "k3": "K3Fn", "low_var_kl": "LowVarKLFn", "abs": "AbsFn", "corrected_k3": "CorrectedK3Fn",
	} {
		const bonus = "trinity.algorithm.entropy_loss_fn.entropy_loss_fn.DefaultEntropyLossFn"
		sameTerms(t, section, ours, "trinity.algorithm.kl_fn.kl_fn."+theirs, bonus)
	}
}

func TestKLInPythonIsAdaptiveOrNot(t *testing.T) {
	bridge.Allow(func(string) {})
	if _, err := exec.LookPath("python3"); err != nil {
		trinitytest.Missing(t, "there is no python3")
	}
	dir, err := filepath.Abs("testdata/python")
	if err != nil {
		t.Fatal(err)
	}
	for value, want := range map[any]string{
		"yes": "args.adaptive: yes is neither true nor false", 1: "args.adaptive: 1 is neither true nor false", true: "",
	} {
		args := map[string]any{"adaptive": value, "target_kl": 0.1, "horizon": 100}
		k, err := loss.KLs.Build("python", map[string]any{"class": "own_losses.k2", "args": args, "python": map[string]any{"path": []any{dir}}})
		switch {
		case want != "" && (err == nil || !strings.HasSuffix(err.Error(), want)):
			t.Errorf("%v: %v, want %s", value, err, want)
		case want == "" && (err != nil || !k.Controller().Adaptive):
			t.Errorf("%v: %v", value, err)
		}
	}
}
