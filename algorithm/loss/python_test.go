package loss_test

import (
	"maps"
	"math"
	"math/rand/v2"
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
	return loss.PolicyLosses.Build("python", trinitytest.PythonClass(t, class, args, section))
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

// compatLosses are the losses of Trinity-RFT and ours.
var compatLosses = map[string]struct {
	ours string
	args map[string]any // of both
	// detached losses have parts that are no function of the log-probabilities: their derivatives are not those of the value.
	detached bool
	mixture  bool
}{
	"ppo_policy_loss.PPOPolicyLossFn":                          {ours: "ppo"},
	"cispo_policy_loss.CISPOPolicyLossFn":                      {ours: "cispo", detached: true},
	"gspo_policy_loss.GSPOLossFn":                              {ours: "gspo", detached: true},
	"sapo_policy_loss.SAPOPolicyLossFn":                        {ours: "sapo", detached: true},
	"topr_policy_loss.TOPRPolicyLossFn":                        {ours: "topr", detached: true},
	"opmd_policy_loss.OPMDPolicyLossFn":                        {ours: "opmd"},
	"sppo_loss_fn.sPPOPolicyLossFn":                            {ours: "sppo", detached: true},
	"rec_policy_loss.RECPolicyLossFn":                          {ours: "rec", detached: true},
	"sft_loss.SFTLossFn":                                       {ours: "sft"},
	"importance_sampling_policy_loss.ImportanceSamplingLossFn": {ours: "importance_sampling"},
	"chord_policy_loss.SFTISLossFn":                            {ours: "sft_is", detached: true},
	"chord_policy_loss.SFTPhiLossFn":                           {ours: "sft_phi", args: map[string]any{"cutoff_prob": 0.5}, detached: true},
	"mix_policy_loss.MIXPolicyLossFn": {ours: "mix", mixture: true,
		args: map[string]any{"mu": 0.3, "train_batch_size_usual": 12, "train_batch_size_expert": 4}},
	"chord_policy_loss.MIXCHORDPolicyLossFn": {ours: "mix_chord", mixture: true, detached: true, args: map[string]any{
		"mu_warmup_steps": 2, "mu_decay_steps": 4, "mu_peak": 0.8, "mu_valley": 0.1,
		"train_batch_size_usual": 12, "train_batch_size_expert": 4,
	}},
}

// Losses of Trinity-RFT, as they are, give the derivatives of ours, and those of their own values.
func TestCompatLosses(t *testing.T) {
	t.Cleanup(bridge.Together())
	const below = "trinity.algorithm.policy_loss_fn"
	python := trinitytest.CompatPython(t)
	host := trinitytest.Programs(t)
	compared := slices.Collect(maps.Keys(compatLosses))
	trinitytest.EveryClass(t, python, below, append(compared, "dpo_loss.DPOLossFn"), map[string]string{
		"policy_loss_fn.PolicyLossFn": "abstract", "policy_loss_fn.PolicyLossFnMeta": "the class of classes",
	})
	for class, c := range compatLosses {
		t.Run(c.ours, func(t *testing.T) {
			ours, err := loss.PolicyLosses.Build(c.ours, c.args)
			if err != nil {
				t.Fatal(err)
			}
			class, err := buildPython(t, below+"."+class, c.args, map[string]any{"interpreter": python})
			if err != nil {
				t.Fatal(err)
			}
			theirs := openedBy(t, host, class)
			for seed := range uint64(3) {
				exps, now := optimizerStep(seed, 16, 64)
				if c.mixture {
					demonstrate(exps)
				}
				want, w := learnt(t, loss.NewComposite(ours, nil, nil), exps, now, 16)
				got, m := learnt(t, theirs, exps, now, 16)
				sameGradient(t, got, want, 1e-6)
				if math.Abs(m["final_loss"]-w["final_loss"]) > 1e-5*(1+math.Abs(w["final_loss"])) {
					t.Errorf("loss %v, want %v", m["final_loss"], w["final_loss"])
				}
				sameBits(t, theirs, exps, now)
				if !c.detached {
					sameSlopes(t, theirs, exps, now, got)
				}
			}
		})
	}
}

// demonstrate takes from demonstrations what they lack.
func demonstrate(exps []*trinity.Experience) {
	for _, e := range exps {
		if e.IsExpert {
			e.Advantages, e.Logprobs = nil, nil
		}
	}
}

// sameSlopes compares derivatives by all log-probabilities of a sequence with differences of the loss.
func sameSlopes(t *testing.T, l *loss.Composite, exps []*trinity.Experience, now []trinity.TokenStats, grads []trinity.TokenGrads) {
	t.Helper()
	const h = 0.01
	for i := range 4 {
		at := func(h float32) float64 {
			moved := slices.Clone(now)
			moved[i].Logprob = slices.Clone(now[i].Logprob)
			for k, trained := range exps[i].Mask {
				if trained {
					moved[i].Logprob[k] += h
				}
			}
			_, m := learnt(t, l, exps, moved, 16)
			return m["final_loss"]
		}
		want, largest := 0.0, 0.0
		for _, g := range grads[i].Logprob {
			want, largest = want+float64(g), largest+math.Abs(float64(g))
		}
		if got := (at(h) - at(-h)) / (2 * h); math.Abs(got-want) > 0.03*largest {
			t.Errorf("sequence %d: the loss has the slope %v, and derivatives %v", i, got, want)
		}
	}
}

// A preference loss of Trinity-RFT is ours for a single pair: of several it sums the log-ratios first.
func TestCompatPairs(t *testing.T) {
	t.Cleanup(bridge.Together())
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

// sameTerms compares a KL and an entropy term in Python with ours.
func sameTerms(t *testing.T, host trinity.Host, section map[string]any, ours, theirs, ourBonus, bonus string) {
	t.Helper()
	weight, coef := map[string]any{"kl_coef": 0.3}, map[string]any{"entropy_coef": 0.2}
	want := termsOf(t, host, ours, ourBonus, weight, coef)
	got := termsOf(t, host, "python", "python", trinitytest.PythonClass(t, theirs, weight, section),
		trinitytest.PythonClass(t, bonus, coef, section))
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
	sameTerms(t, trinitytest.Programs(t), nil, "k2", "own_losses.k2", "default", "own_losses.Bonus")
}

func TestCompatTerms(t *testing.T) {
	t.Cleanup(bridge.Together())
	python, host := trinitytest.CompatPython(t), trinitytest.Programs(t)
	const kls, bonuses = "trinity.algorithm.kl_fn", "trinity.algorithm.entropy_loss_fn"
	for _, c := range []struct{ ours, theirs, ourBonus, bonus string }{
		{"k1", "K1Fn", "default", "DefaultEntropyLossFn"}, {"k2", "K2Fn", "mix", "MixEntropyLossFn"},
		{"k3", "K3Fn", "none", "DummyEntropyLossFn"}, {"low_var_kl", "LowVarKLFn", "default", "DefaultEntropyLossFn"},
		{"abs", "AbsFn", "default", "DefaultEntropyLossFn"}, {"corrected_k3", "CorrectedK3Fn", "default", "DefaultEntropyLossFn"},
		{"none", "DummyKLFn", "default", "DefaultEntropyLossFn"},
	} {
		section := map[string]any{"interpreter": python}
		sameTerms(t, host, section, c.ours, kls+".kl_fn."+c.theirs, c.ourBonus, bonuses+".entropy_loss_fn."+c.bonus)
	}
	trinitytest.EveryClass(t, python, kls, []string{
		"kl_fn.K1Fn", "kl_fn.K2Fn", "kl_fn.K3Fn", "kl_fn.LowVarKLFn", "kl_fn.AbsFn", "kl_fn.CorrectedK3Fn", "kl_fn.DummyKLFn",
	}, map[string]string{"kl_fn.KLFn": "abstract"})
	trinitytest.EveryClass(t, python, bonuses, []string{
		"entropy_loss_fn.DefaultEntropyLossFn", "entropy_loss_fn.MixEntropyLossFn", "entropy_loss_fn.DummyEntropyLossFn",
	}, map[string]string{"entropy_loss_fn.EntropyLossFn": "abstract"})
}

func TestKLInPythonIsAdaptiveOrNot(t *testing.T) {
	for value, want := range map[any]string{
		"yes": "args.adaptive: yes is neither true nor false", 1: "args.adaptive: 1 is neither true nor false", true: "",
	} {
		args := map[string]any{"adaptive": value, "target_kl": 0.1, "horizon": 100}
		k, err := loss.KLs.Build("python", trinitytest.PythonClass(t, "own_losses.k2", args, nil))
		switch {
		case want != "" && (err == nil || !strings.HasSuffix(err.Error(), want)):
			t.Errorf("%v: %v, want %s", value, err, want)
		case want == "" && (err != nil || !k.Controller().Adaptive):
			t.Errorf("%v: %v", value, err)
		}
	}
}
