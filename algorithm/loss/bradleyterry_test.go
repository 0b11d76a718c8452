package loss

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

// rewardRecord holds the records of testdata/record_reward.py.
type rewardRecord struct {
	Pairs [][5]float64 // score of the chosen and of the rejected answer, margin, trained tokens of both
	Cases []struct {
		Name    string
		Center  float64
		Margins bool
		Metrics map[string]float64
		Grads   []float64
	}
}

// step returns the pairs as an optimizer step.
func (r *rewardRecord) step(margins bool) (batch []*trinity.Experience, now []trinity.TokenStats) {
	for i, p := range r.Pairs {
		for k := range 2 {
			id := trinity.ExperienceID{Task: "pair", Run: 2*i + k}
			e := &trinity.Experience{ID: id, Tokens: make([]int32, 6), Mask: make([]bool, 6), PromptLen: 1}
			for t := range int(p[3+k]) {
				e.Mask[1+t] = true
			}
			if margins && k == 0 {
				e.Info = map[string]any{trinity.MarginInfo: p[2]}
			}
			batch, now = append(batch, e), append(now, trinity.TokenStats{Score: float32(p[k])})
		}
	}
	return batch, now
}

func TestBradleyTerryEqualsPyTorch(t *testing.T) {
	data, err := os.ReadFile("testdata/reward.json")
	if err != nil {
		t.Fatal(err)
	}
	var record rewardRecord
	if err := json.Unmarshal(data, &record); err != nil {
		t.Fatal(err)
	}
	for _, c := range record.Cases {
		l := NewComposite(mustPolicy(t, "bradley_terry", map[string]any{"center_rewards_coefficient": c.Center}), nil, &noEntropy{})
		batch, now := record.step(c.Margins)
		for _, size := range []int{len(batch), 2, 4} {
			grads, sum := inMicroBatches(t, l, batch, now, size)
			for i, g := range grads {
				if want := c.Grads[i]; math.Abs(float64(g.Score)-want) > 1e-7*(1+math.Abs(want)) {
					t.Errorf("%s, sequence %d: derivative %v, want %v", c.Name, i, g.Score, want)
				}
			}
			compareMetrics(t, sum, c.Metrics, 1e-12)
		}
	}
}

func TestBradleyTerryReportsBadInput(t *testing.T) {
	l := NewComposite(mustPolicy(t, "bradley_terry", nil), nil, &noEntropy{})
	w, _ := answer(1, true, 0)
	if l.Streams() != (trinity.Streams{Score: true}) || !l.Pairs() || l.Needs().Reference {
		t.Error("what the loss asks of the trainer")
	}
	for want, now := range map[string][]trinity.TokenStats{
		"a micro-batch of 1 sequences cannot be cut into the pairs": {{Score: 1}},
		"the score is NaN, want a finite number":                    {{Score: float32(math.NaN())}},
		"the streams of 0 sequences":                                {},
	} {
		if _, _, err := l.Loss(whole(w), now); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	for _, center := range []float64{-1, math.NaN(), math.Inf(1)} {
		const want = "center_rewards_coefficient: must be"
		_, err := PolicyLosses.Build("bradley_terry", map[string]any{"center_rewards_coefficient": center})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: error %v, want %q", center, err, want)
		}
	}
}
