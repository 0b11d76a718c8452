package taskset

import (
	"math"
	"slices"
	"testing"

	"github.com/trinity-go/trinity"
)

func TestPriorityWeighsTheDimensions(t *testing.T) {
	rows := []args{
		{},
		{"llm_difficulty_score": 0.4, "lang_score": 0.9},                                                      // (0.4 + 0.1)/2 = 0.25
		{"llm_quality_score": 0.8, "special_char_ratio": 0.2, "alnum_ratio": 0.5, "flagged_words_ratio": 0.0}, // (0.8 + 0.8 + 0.5 + 1)/4 = 0.775
		{"ngram_diversity": 0.5, "consumed_cnt": int64(2)},
		{"perplexity": 10.0}, {"perplexity": 30.0}, {"perplexity": 15.0},
		{"llm_quality_score": "high", "num_words": 3},
	}
	w := Weights{Difficulty: 10, Diversity: 1, UsageFrequency: -2, Quality: 100}
	want := []float64{0, 2.5, 77.5, 0.5 - 4, 0, 10, 2.5, 0}
	s := &scores{weights: w}
	for _, stats := range rows {
		s.add(&trinity.TaskRow{Stats: stats})
	}
	for i := range rows {
		if got := s.priority(i); math.Abs(got-want[i]) > 1e-12 {
			t.Errorf("the priority of %v is %g, want %g", rows[i], got, want[i])
		}
	}
	s.add(&trinity.TaskRow{Row: args{"priority": int64(3)}, Stats: args{"llm_quality_score": 1.0}})
	if got := s.order(-1); !slices.Equal(got, []int{2, 5, 8, 1, 6, 0, 4, 7, 3}) {
		t.Errorf("the order is %v", got)
	}
	if got := string(s.append([]byte(`{"a":1}`),
		1)); got != `{"a":1,"difficulty_score":0.25,"diversity_score":0,"quality_score":0,"priority":2.5}` {
		t.Errorf("the row is %s", got)
	}
}
