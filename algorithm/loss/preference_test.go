package loss

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

// preferences holds the records of testdata/record_preference.py.
type preferences struct {
	Pairs, Answers, Probes []preferenceRow
	Cases                  []preferenceCase
}

type preferenceRow struct {
	Tokens    []int32   `json:"tokens"`
	PromptLen int       `json:"prompt_len"`
	Mask      []bool    `json:"mask"`
	Chosen    bool      `json:"chosen"`
	Logprob   []float32 `json:"logprob"`
	Ref       []float32 `json:"ref"`
}

type preferenceCase struct {
	Name        string             `json:"name"`
	Policy      string             `json:"policy_loss_fn"`
	PolicyArgs  map[string]any     `json:"policy_loss_fn_args"`
	Shift       float64            `json:"shift"` // of the probes' log-probabilities
	Metrics     map[string]float64 `json:"metrics"`
	LogprobGrad [][]float64        `json:"logprob_grad"`
}

func loadPreferences(t *testing.T) *preferences {
	t.Helper()
	data, err := os.ReadFile("testdata/preference.json")
	if err != nil {
		t.Fatal(err)
	}
	var p preferences
	if err := json.Unmarshal(data, &p); err != nil {
		t.Fatal(err)
	}
	return &p
}

func preferenceBatch(rows []preferenceRow) (batch []*trinity.Experience, now []trinity.TokenStats) {
	for i, r := range rows {
		batch = append(batch, &trinity.Experience{
			ID: trinity.ExperienceID{Run: i}, Tokens: r.Tokens, Mask: r.Mask, PromptLen: r.PromptLen, Chosen: r.Chosen, RefLogprobs: r.Ref,
		})
		now = append(now, trinity.TokenStats{Logprob: r.Logprob})
	}
	return batch, now
}

// prepared is a loss that has looked at the step.
func (p *preferences) prepared(t *testing.T, c preferenceCase) (l *Composite, batch []*trinity.Experience, now []trinity.TokenStats) {
	t.Helper()
	l = NewComposite(mustPolicy(t, c.Policy, c.PolicyArgs), nil, &noEntropy{})
	if c.Policy == "dpo" {
		batch, now = preferenceBatch(p.Pairs)
		return l, batch, now
	}
	batch, now = preferenceBatch(p.Answers)
	probes := l.Probes(batch)
	want, stats := preferenceBatch(p.Probes)
	if len(probes) != len(want) {
		t.Fatalf("%d probes, want %d", len(probes), len(want))
	}
	for i, e := range probes {
		if !slices.Equal(e.Tokens, want[i].Tokens) || !slices.Equal(e.Mask, want[i].Mask) || e.PromptLen != want[i].PromptLen {
			t.Fatalf("probe %d: %v %v, want %v %v", i, e.Tokens, e.Mask, want[i].Tokens, want[i].Mask)
		}
		e.RefLogprobs = want[i].RefLogprobs
		for k, lp := range stats[i].Logprob {
			stats[i].Logprob[k] = float32(float64(lp) + c.Shift)
		}
	}
	if err := l.Prepare(t.Context(), step(probes...), stats); err != nil {
		t.Fatal(err)
	}
	return l, batch, now
}

func TestPreferencesEqualPyTorch(t *testing.T) {
	cases := loadPreferences(t).Cases
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			l, batch, now := loadPreferences(t).prepared(t, c)
			grads, metrics, err := l.Loss(whole(batch...), now)
			if err != nil {
				t.Fatal(err)
			}
			compareMetrics(t, metrics, c.Metrics, 1e-12)
			for i, want := range c.LogprobGrad {
				compareGrads(t, "logprob", i, grads[i].Logprob, want)
			}
		})
	}
}

// Losses, metrics and gradients of micro-batches add up to those of the step, for cuts between
// pairs and between answers.
func TestMicroBatchesOfPreferencesAddUp(t *testing.T) {
	for _, c := range loadPreferences(t).Cases {
		l, batch, now := loadPreferences(t).prepared(t, c)
		want, metrics, err := l.Loss(whole(batch...), now)
		if err != nil {
			t.Fatal(err)
		}
		for _, size := range []int{2, 4} {
			grads, sum := inMicroBatches(t, l, batch, now, size)
			for i := range grads {
				sameGrads(t, c.Name, grads[i].Logprob, want[i].Logprob)
			}
			compareMetrics(t, sum, metrics, 1e-12)
		}
	}
}

// answer is a sequence of one prompt token and trained tokens at distances lp − ref from the
// reference, now at lp −2.
func answer(prompt int32, chosen bool, distances ...float32) (*trinity.Experience, trinity.TokenStats) {
	e := seq(0, make([]float32, len(distances)), make([]float32, len(distances)))
	e.Tokens[0], e.Chosen, e.Logprobs, e.Advantages = prompt, chosen, nil, nil
	now := at(make([]float32, len(distances))...)
	for i, d := range distances {
		e.RefLogprobs[i+1], now.Logprob[i+1] = -2-d, -2
	}
	return e, now
}

// The test has one pair. It checks the loss and its derivative for each log-probability of the
// chosen answer. The derivative for the rejected answer is the opposite.
func TestDPOEqualsValuesByHand(t *testing.T) {
	logistic := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	for _, c := range []struct {
		name             string
		beta, smoothing  float64
		chosen, rejected []float32
		loss, slope      float64
		right            float64
		likelier         float64 // log-probabilities are −2 a token
	}{
		{"at the reference", 0.1, 0, []float32{0, 0}, []float32{0}, math.Ln2, -0.05, 0, 0},
		{"a sum over the answer, not a mean", 0.5, 0, []float32{1, 1}, []float32{0}, -math.Log(logistic(1)), -0.5 * logistic(-1), 1, 0},
		{"the wrong way round", 0.5, 0, []float32{-1}, []float32{2, 1}, -math.Log(logistic(-2)), -0.5 * logistic(2), 0, 1},
		{"length alone decides nothing", 1, 0, []float32{0.5, 0.5, 0.5, 0.5}, []float32{2}, math.Ln2, -0.5, 0, 0},
		{"conservative: no push at the smoothed odds", 1, 0.25, []float32{float32(math.Log(3))}, []float32{0},
			-0.75*math.Log(0.75) - 0.25*math.Log(0.25), 0, 1, 0},
		{"conservative: back where it is surer", 1, 0.25, []float32{40}, []float32{0}, 10, 0.25, 1, 0},
	} {
		w, nowW := answer(1, true, c.chosen...)
		l, nowL := answer(1, false, c.rejected...)
		p := mustPolicy(t, "dpo", map[string]any{"beta": c.beta, "label_smoothing": c.smoothing})
		grads, m, err := NewComposite(p, nil, &noEntropy{}).Loss(whole(w, l), []trinity.TokenStats{nowW, nowL})
		if err != nil {
			t.Fatal(err)
		}
		for what, v := range map[string][2]float64{
			"dpo_loss": {m["dpo_loss"], c.loss}, "slope": {float64(grads[0].Logprob[1]), c.slope},
			"slope of the rejected": {float64(grads[1].Logprob[1]), -c.slope},
			"accuracy_mean":         {m["accuracy_mean"], c.right}, "chosen_reward": {m["chosen_reward"], c.beta * sum(c.chosen)},
			"rejected_reward":  {m["rejected_reward"], c.beta * sum(c.rejected)},
			"ranking_accuracy": {m["ranking_accuracy"], c.likelier},
		} {
			if math.Abs(v[0]-v[1]) > 1e-6 {
				t.Errorf("%s: %s = %v, want %v", c.name, what, v[0], v[1])
			}
		}
	}
}

func sum(v []float32) float64 {
	s := 0.0
	for _, x := range v {
		s += float64(x)
	}
	return s
}

// Each pair has its own sigmoid: an extreme pair neither hides nor outweighs another.
func TestDPOIsAMeanOverPairs(t *testing.T) {
	near, nowNear := answer(1, true, 0)
	nearL, nowNearL := answer(1, false, 0)
	far, nowFar := answer(2, true, 500)
	farL, nowFarL := answer(2, false, 0)
	p := mustPolicy(t, "dpo", map[string]any{"beta": 1})
	grads, m, err := NewComposite(p, nil, &noEntropy{}).Loss(whole(near, nearL, far, farL),
		[]trinity.TokenStats{nowNear, nowNearL, nowFar, nowFarL})
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(m["dpo_loss"]-math.Ln2/2) > 1e-12 || grads[0].Logprob[1] != -0.25 || grads[2].Logprob[1] != 0 || m["accuracy_mean"] != 0.5 {
		t.Errorf("%v, gradients %v, %v", m, grads[0].Logprob, grads[2].Logprob)
	}
}

// The test has one answer and a KL of z0. It checks the loss and its derivative for the answer's
// log-probability.
func TestKTOEqualsValuesByHand(t *testing.T) {
	logistic := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	slope := func(x float64) float64 { return logistic(x) * logistic(-x) }
	args := map[string]any{"beta": 0.5, "desirable_weight": 2.0, "undesirable_weight": 3.0}
	for _, c := range []struct {
		name        string
		chosen      bool
		r, kl       float32
		z0          float64
		loss, slope float64
	}{
		{"desirable, at the reference", true, 0, 0, 0, 1, -2 * 0.5 * 0.25},
		{"undesirable, at the reference", false, 0, 0, 0, 1.5, 3 * 0.5 * 0.25},
		{"desirable, gained more than the average", true, 3, 1, 1, 2 * logistic(-1), -slope(1)},
		{"undesirable, gained more than the average", false, 3, 1, 1, 3 * logistic(1), 1.5 * slope(1)},
		{"a KL below 0 counts as 0", true, 2, -4, 0, 2 * logistic(-1), -slope(1)},
		{"undesirable, lost much: hardly a push", false, -40, 2, 2, 3 * logistic(-21), 1.5 * slope(21)},
	} {
		k := mustPolicy(t, "kto", args)
		l := NewComposite(k, nil, &noEntropy{})
		e, now := answer(1, c.chosen, c.r)
		other, _ := answer(2, true, 0)
		probes := l.Probes([]*trinity.Experience{e, other})
		stats := make([]trinity.TokenStats, len(probes))
		for i, p := range probes {
			p.RefLogprobs, stats[i] = []float32{0, -2 - c.kl}, at(-2)
		}
		if err := l.Prepare(t.Context(), step(probes...), stats); err != nil || len(probes) != 2 {
			t.Fatalf("%d probes, %v", len(probes), err)
		}
		grads, m, err := l.Loss(whole(e), []trinity.TokenStats{now})
		if err != nil {
			t.Fatal(err)
		}
		for what, v := range map[string][2]float64{
			"kto_loss": {m["kto_loss"], c.loss}, "kl": {m["kl"], c.z0}, "slope": {float64(grads[0].Logprob[1]), c.slope},
		} {
			if math.Abs(v[0]-v[1]) > 1e-6 {
				t.Errorf("%s: %s = %v, want %v", c.name, what, v[0], v[1])
			}
		}
		_, good := m["rewards/chosen"]
		if _, bad := m["rewards/rejected"]; good != c.chosen || bad == c.chosen {
			t.Errorf("%s: metrics %v, want the mean reward of the kind that there is", c.name, m)
		}
	}
}

// A step whose answers all belong to one prompt has no mismatched pairs. The pairs of the step
// before do not count.
func TestKTOForgetsOldProbes(t *testing.T) {
	l := NewComposite(mustPolicy(t, "kto", nil), nil, &noEntropy{})
	e, now := answer(1, true, 0)
	other, _ := answer(2, true, 0)
	probes := l.Probes([]*trinity.Experience{e, other})
	stats := []trinity.TokenStats{at(0), at(0)}
	for _, p := range probes {
		p.RefLogprobs = []float32{0, -7}
	}
	if err := l.Prepare(t.Context(), step(probes...), stats); err != nil {
		t.Fatal(err)
	}
	if _, m, _ := l.Loss(whole(e), []trinity.TokenStats{now}); m["kl"] != 7 {
		t.Errorf("kl %v, want 7", m["kl"])
	}
	if probes := l.Probes([]*trinity.Experience{e, e}); len(probes) != 0 {
		t.Errorf("%d probes of one prompt", len(probes))
	}
	if _, m, _ := l.Loss(whole(e), []trinity.TokenStats{now}); m["kl"] != 0 {
		t.Errorf("kl %v, want 0", m["kl"])
	}
}

// A probe is at most as long as the longest sequence of the step, which fits the model.
func TestProbesAreNotLongerThanTheStep(t *testing.T) {
	long, _ := answer(1, true, 0, 0, 0, 0, 0, 0)
	long.PromptLen = 5
	copy(long.Mask, make([]bool, 5))
	wide, _ := answer(2, false, 0, 0, 0, 0, 0)
	probes := NewComposite(mustPolicy(t, "kto", nil), nil, nil).Probes([]*trinity.Experience{long, wide})
	if len(probes) != 2 || len(probes[0].Tokens) != 7 || len(probes[0].Mask) != 7 || probes[0].TrainedTokens() != 2 ||
		len(probes[1].Tokens) != 3 {
		t.Errorf("%+v", probes)
	}
}

func TestPreferencesReportBadInput(t *testing.T) {
	w, now := answer(1, true, 0)
	l, nowL := answer(1, false, 0)
	dpo, kto := NewComposite(mustPolicy(t, "dpo", nil), nil, &noEntropy{}), NewComposite(mustPolicy(t, "kto", nil), nil, &noEntropy{})
	if !dpo.Pairs() || kto.Pairs() || !dpo.Needs().Reference || !kto.Needs().Reference || dpo.Probes([]*trinity.Experience{w, l}) != nil {
		t.Error("what the losses ask of the trainer")
	}
	if _, _, err := dpo.Loss(whole(w), []trinity.TokenStats{now}); err == nil ||
		!strings.Contains(err.Error(), "a micro-batch of 1 sequences cannot be cut into the pairs") {
		t.Error(err)
	}
	l.RefLogprobs = nil
	for _, c := range []*Composite{dpo, kto} {
		if _, _, err := c.Loss(whole(w, l), []trinity.TokenStats{now, nowL}); err == nil ||
			!strings.Contains(err.Error(), "no ref_logprobs (of the reference model)") {
			t.Error(err)
		}
	}
	if err := kto.Policy.(Prober).Prepare(t.Context(), step(l), []trinity.TokenStats{nowL}); err == nil ||
		!strings.Contains(err.Error(), "0 of the reference model, want 2") {
		t.Error(err)
	}
	w.RefLogprobs[1] = float32(math.Inf(-1))
	if err := kto.Policy.(Prober).Prepare(t.Context(), step(w), []trinity.TokenStats{now}); err == nil ||
		!strings.Contains(err.Error(), "the KL from the reference model") {
		t.Error(err)
	}
	for _, c := range []struct {
		name string
		args map[string]any
		want string
	}{
		{"dpo", map[string]any{"beta": 0}, "beta: must be more than 0"},
		{"dpo", map[string]any{"beta": math.NaN()}, "beta: must be more than 0"},
		{"dpo", map[string]any{"label_smoothing": 0.5}, "label_smoothing: must be at least 0 and less than 0.5"},
		{"dpo", map[string]any{"label_smoothing": -0.1}, "label_smoothing: must be at least 0 and less than 0.5"},
		{"kto", map[string]any{"beta": -1}, "beta: must be more than 0"},
		{"kto", map[string]any{"desirable_weight": -1}, "must be at least 0"},
		{"kto", map[string]any{"undesirable_weight": math.NaN()}, "must be at least 0"},
		{"kto", map[string]any{"desirable_weight": 0, "undesirable_weight": 0}, "nothing would be learnt"},
	} {
		if _, err := PolicyLosses.Build(c.name, c.args); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %v: error %v, want %q", c.name, c.args, err, c.want)
		}
	}
}

// Extremes stay finite: log-ratios of ±50 a token, an answer of one token, a side without trained
// tokens.
func TestPreferencesStayFinite(t *testing.T) {
	var batch []*trinity.Experience
	var now []trinity.TokenStats
	for i, d := range []float32{50, -50, -50, 50, 0, 0} {
		e, n := answer(int32(i/2), i%2 == 0, d, d, d)
		if i == 5 {
			clear(e.Mask)
		}
		batch, now = append(batch, e), append(now, n)
	}
	for _, name := range []string{"dpo", "kto"} {
		l := NewComposite(mustPolicy(t, name, map[string]any{"beta": 10}), nil, &noEntropy{})
		grads, m, err := l.Loss(whole(batch...), now)
		if err != nil {
			t.Fatal(err)
		}
		for metric, v := range m {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				t.Errorf("%s: %s = %v", name, metric, v)
			}
		}
		for i, g := range grads {
			for k, x := range g.Logprob {
				if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) || !batch[i].Mask[k] && x != 0 {
					t.Errorf("%s: gradient[%d][%d] = %v", name, i, k, x)
				}
			}
		}
	}
}

// step returns an optimizer step in one batch.
func step(exps ...*trinity.Experience) *trinity.Batch {
	return &trinity.Batch{Step: 1, Experiences: exps, Whole: exps}
}
