package trainer

import (
	"testing"

	"github.com/trinity-go/trinity"
)

// Scores and lengths of judgements are no scores and lengths of replies.
func TestMetricsOfPartsAreApart(t *testing.T) {
	of := func(part string, reward float64, tokens int) *trinity.Experience {
		return &trinity.Experience{
			Tokens: make([]int32, 1+tokens), PromptLen: 1, Reward: trinity.Reward{Value: reward, Valid: true},
			Origin: trinity.Origin{Part: part},
		}
	}
	m := batchMetrics([]*trinity.Experience{of("judge", 0.5, 10), of("", 1, 2), of("judge", 0.7, 30), of("", 0, 4)})
	for name, want := range map[string]float64{
		"critic/score/mean": 0.5, "critic/rewards/max": 1, "response_length/mean": 3, "prompt_length/max": 1, "response_length/clip_ratio": 0,
		"critic/judge_score/max": 0.7, "critic/judge_rewards/min": 0.5, "judge_response_length/mean": 20,
		"judge_response_length/clip_ratio": 0, "perf/total_num_tokens": 50,
	} {
		if got, ok := m[name]; !ok || got != want {
			t.Errorf("%s is %v (%t), want %v", name, got, ok, want)
		}
	}
	if len(batchMetrics(nil)) != 1 {
		t.Errorf("without experiences: %v", batchMetrics(nil))
	}
}
