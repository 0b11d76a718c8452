package reward

import (
	"math"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func TestRLCRRewardsHonestConfidence(t *testing.T) {
	const tiny = 1e-5
	reply := func(answer, confidence string) string {
		return "<think>2+2</think>\n<answer>" + answer + "</answer>\n<analysis>easy</analysis>\n<confidence>" + confidence + "</confidence>\n"
	}
	for _, c := range []struct {
		name, reply string
		want        float64
	}{
		{"right and sure", reply("4", "1"), .5 + .5 + .5 + tiny + tiny},
		{"right and half sure", reply("\\frac{8}{2}", "0.5"), .5 + .5 + .5*.75 + tiny*.5},
		{"wrong and sure", reply("5", "1.0"), .5 + 0 + 0 + tiny + tiny},
		{"wrong and honest", reply("5", "0"), .5 + 0 + .5 + 0 + tiny},
		{"a confidence above 1", reply("4", " 7 "), .5 + .5 + .5 + tiny + tiny},
		{"no number", reply("4", "very"), .5 + .5},
		{"NaN", reply("4", "NaN"), .5 + .5},
		{"two answers", reply("5</answer><answer>4", "1"), 0},
		{"no analysis", "<think>2+2</think><answer>4</answer><confidence>1</confidence>", 0},
		{"text after it", reply("4", "1") + "!", 0},
	} {
		r, err := build(t, "rlcr_reward", nil).Score(t.Context(), trinity.RewardInput{Response: c.reply, Truth: "4"})
		if err != nil || !r.Valid || math.Abs(r.Value-c.want) > 1e-12 {
			t.Errorf("%s: %+v, %v, want %g", c.name, r, err, c.want)
		}
	}
	own := build(t, "rlcr_reward", map[string]any{"weights": map[string]any{"brier": 2.0, "accuracy": 0.0, "format": 0.0}})
	r, err := own.Score(t.Context(), trinity.RewardInput{Response: reply("5", "0.5"), Truth: "4"})
	if err != nil || math.Abs(r.Value-2*.75-.5*tiny) > 1e-12 {
		t.Errorf("own weights: %+v, %v", r, err)
	}
	for _, weights := range []map[string]any{{"bier": 1.0}, {"brier": math.Inf(1)}} {
		if _, err := registry.Rewards.Build("rlcr_reward", map[string]any{"weights": weights}); err == nil {
			t.Errorf("weights %v are accepted", weights)
		}
	}
}
