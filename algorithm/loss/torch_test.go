package loss

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/trinity-go/trinity"
)

// recorded holds the records of testdata/record.py: the formulas in PyTorch, float64 with autograd.
type recorded struct {
	Step  int64 `json:"step"`
	Batch []struct {
		PromptLen int       `json:"prompt_len"`
		Mask      []bool    `json:"mask"`
		IsExpert  bool      `json:"is_expert"`
		Logprob   []float32 `json:"logprob"`
		Old       []float32 `json:"old"`
		Ref       []float32 `json:"ref"`
		Advantage []float32 `json:"advantage"`
		Entropy   []float32 `json:"entropy"`
	} `json:"batch"`
	Cases []recordedCase `json:"cases"`
}

type recordedCase struct {
	Name        string             `json:"name"`
	Policy      string             `json:"policy_loss_fn"`
	PolicyArgs  map[string]any     `json:"policy_loss_fn_args"`
	KL          string             `json:"kl_loss_fn"`
	KLArgs      map[string]any     `json:"kl_loss_fn_args"`
	Entropy     string             `json:"entropy_loss_fn"`
	EntropyArgs map[string]any     `json:"entropy_loss_fn_args"`
	Metrics     map[string]float64 `json:"metrics"`
	LogprobGrad [][]float64        `json:"logprob_grad"`
	EntropyGrad [][]float64        `json:"entropy_grad"`
}

func load(t *testing.T) (*recorded, []*trinity.Experience, []trinity.TokenStats) {
	t.Helper()
	data, err := os.ReadFile("testdata/torch.json")
	if err != nil {
		t.Fatal(err)
	}
	var r recorded
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	var batch []*trinity.Experience
	var now []trinity.TokenStats
	for i, s := range r.Batch {
		batch = append(batch, &trinity.Experience{
			ID: trinity.ExperienceID{Run: i}, Tokens: make([]int32, len(s.Mask)), Mask: s.Mask, PromptLen: s.PromptLen, IsExpert: s.IsExpert,
			Logprobs: s.Old, RefLogprobs: s.Ref, Advantages: s.Advantage,
		})
		now = append(now, trinity.TokenStats{Logprob: s.Logprob, Entropy: s.Entropy})
	}
	return &r, batch, now
}

func build(t *testing.T, c recordedCase) *Composite {
	t.Helper()
	policy, err := PolicyLosses.Build(c.Policy, c.PolicyArgs)
	if err != nil {
		t.Fatal(err)
	}
	kl, err := KLs.Build(c.KL, c.KLArgs)
	if err != nil {
		t.Fatal(err)
	}
	entropy, err := Entropies.Build(c.Entropy, c.EntropyArgs)
	if err != nil {
		t.Fatal(err)
	}
	return NewComposite(policy, kl, entropy)
}

// look shows a loss the optimizer step, as the trainer does. now are the streams of batch.
func look(t *testing.T, l *Composite, batch []*trinity.Experience, now []trinity.TokenStats) {
	t.Helper()
	var stats []trinity.TokenStats
	probes := l.Probes(batch)
	for _, e := range probes {
		stats = append(stats, now[slices.Index(batch, e)])
	}
	if len(probes) == 0 {
		return
	}
	if err := l.Prepare(t.Context(), step(probes...), stats); err != nil {
		t.Fatal(err)
	}
}

func TestLossesEqualPyTorch(t *testing.T) {
	r, batch, now := load(t)
	for _, c := range r.Cases {
		t.Run(c.Name, func(t *testing.T) {
			l := build(t, c)
			look(t, l, batch, now)
			grads, metrics, err := l.Loss(&trinity.Batch{Step: r.Step, Experiences: batch, Whole: batch}, now)
			if err != nil {
				t.Fatal(err)
			}
			compareMetrics(t, metrics, c.Metrics, 1e-12)
			for i := range batch {
				var entropyGrad []float64
				if c.EntropyArgs["entropy_coef"] != nil && c.EntropyArgs["entropy_coef"] != 0.0 {
					entropyGrad = c.EntropyGrad[i]
				}
				compareGrads(t, "logprob", i, grads[i].Logprob, c.LogprobGrad[i])
				compareGrads(t, "entropy", i, grads[i].Entropy, entropyGrad)
			}
		})
	}
}

func compareMetrics(t *testing.T, got trinity.Metrics, want map[string]float64, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("metrics %v, want %v", got, want)
	}
	for name, w := range want {
		if g, ok := got[name]; !ok || !(math.Abs(g-w) <= tolerance*(1+math.Abs(w))) {
			t.Errorf("%s = %v, want %v", name, g, w)
		}
	}
}

// compareGrads allows for the rounding of a derivative to float32.
func compareGrads(t *testing.T, name string, sequence int, got []float32, want []float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("d/d%s of sequence %d has length %d, want %d", name, sequence, len(got), len(want))
		return
	}
	for k, w := range want {
		if float32(w) != got[k] && !(math.Abs(float64(got[k])-w) <= 1e-7*math.Abs(w)) {
			t.Errorf("d/d%s[%d][%d] = %v, want %v", name, sequence, k, got[k], w)
		}
	}
}
