package reward

import (
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func TestRulesScoreReplies(t *testing.T) {
	pattern := map[string]any{"pattern": `<think>[^<]*</think><answer>(?P<answer>[0-9]+)</answer>`}
	keys := map[string]any{"keys": []any{"city", "country"}}
	paris := `{"city":"Paris","country":"France"}`
	for _, c := range []struct {
		name            string
		args            map[string]any
		response, truth string
		want            float64
	}{
		{"pattern_reward", pattern, "<think>7+8=15</think><answer>85</answer>", "85", 1},
		{"pattern_reward", pattern, "<think>7+8=15</think><answer>84</answer>", "85", 0},
		{"pattern_reward", pattern, "so <think></think><answer>85</answer>", "85", 0},
		{"pattern_reward", pattern, "<think></think><answer>85</answer>.", "85", 0},
		{"pattern_reward", pattern, "", "85", 0},
		{"last_number_reward", nil, "96 + 20 = 116", "116", 1},
		{"last_number_reward", nil, "116", "116", 1.1},
		{"last_number_reward", nil, " 117\n", "116", 0.1},
		{"last_number_reward", nil, "116 or 117?", "116", 0},
		{"last_number_reward", nil, "1,160.50", "1160.5", 1.1},
		{"last_number_reward", nil, "none", "116", 0},
		{"last_number_reward", map[string]any{"format_score": 0}, "116", "116", 1},
		{"json_reward", keys, `{"city": "Paris", "country": "France"}`, paris, 1.5},
		{"json_reward", keys, `{"country": "Spain", "city": "Paris"}`, paris, 0.5},
		{"json_reward", keys, `{"city": "Paris"}`, paris, 0},
		{"json_reward", keys, `{"city": "Paris", "country": 5}`, paris, 0},
		{"json_reward", keys, `{"city": "Paris", "country": "France", "x": "y"}`, paris, 0},
		{"json_reward", keys, `Here: {"city": "Paris", "country": "France"}`, paris, 0},
		{"json_reward", keys, `{"city": "Paris", "country": "France"} {}`, paris, 0},
	} {
		fn, err := registry.Rewards.Build(c.name, c.args)
		if err != nil {
			t.Fatal(err)
		}
		r, err := fn.Score(t.Context(), trinity.RewardInput{Response: c.response, Truth: c.truth})
		if err != nil || !r.Valid || r.Value != c.want {
			t.Errorf("%s of %q = %+v, %v; want %v", c.name, c.response, r, err, c.want)
		}
	}
}

func TestTruncatedReplyIsWrong(t *testing.T) {
	p := &pattern{Pattern: `(?P<answer>\d+)`}
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	in := trinity.RewardInput{Response: "12", Truth: "12", Experience: &trinity.Experience{Truncated: trinity.ResponseTruncated}}
	if r, err := p.Score(t.Context(), in); err != nil || r.Value != 0 {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestUnreadableTruthGivesAnInvalidReward(t *testing.T) {
	for _, fn := range []trinity.RewardFunc{&lastNumber{}, &jsonReward{Keys: []string{"a"}}} {
		if r, err := fn.Score(t.Context(), trinity.RewardInput{Response: "1", Truth: "unknown"}); err != nil || r.Valid || r.Reason == "" {
			t.Errorf("%T: got %+v, %v; want an invalid reward with a reason", fn, r, err)
		}
	}
}

func TestArgumentsAreChecked(t *testing.T) {
	for name, args := range map[string]map[string]any{
		"pattern_reward": {"pattern": `(\d+)`},
		"json_reward":    {},
	} {
		if errs := mustFind(t).Check(name, args); len(errs) == 0 {
			t.Errorf("%s accepted %v", name, args)
		}
	}
}

func mustFind(t *testing.T) *registry.Catalog {
	t.Helper()
	c, ok := registry.Find("reward_fn")
	if !ok {
		t.Fatal("no kind reward_fn")
	}
	return c
}
