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
		{"last_number_reward", nil, "x = −5", "-5", 1},
		{"last_number_reward", nil, "x = −5", "5", 0},
		{"last_number_reward", nil, "−5", "−5", 1.1},
		{"last_number_reward", nil, "+5", "+5", 1.1},
		{"last_number_reward", nil, "＋５", "5", 1.1},
		{"last_number_reward", nil, "－１，２", "2", 1},
		{"last_number_reward", nil, "答案是－１２．５", "-12.5", 1},
		{"last_number_reward", nil, "１，２３４", "1234", 1.1},
		{"last_number_reward", nil, "答案是－１，２３４，５６７．８。", "-1,234,567.8", 1},
		{"last_number_reward", nil, "１，２３４", "234", 0.1},
		{"last_number_reward", nil, "有３，４５６７", "4567", 1},
		{"last_number_reward", nil, "１，２３４，５", "5", 1},
		{"last_number_reward", nil, "1，234", "1234", 1.1},
		{"last_number_reward", nil, "−١٬٢٣٤٫٥", "-1234.5", 1.1},
		{"last_number_reward", nil, "१२३४", "1234", 1.1},
		{"last_number_reward", nil, "﹣7", "-7", 1.1},
		{"last_number_reward", nil, "–7", "-7", 1.1},
		{"last_number_reward", nil, "5–7", "7", 1},
		{"last_number_reward", nil, "5−7", "7", 1},
		{"last_number_reward", nil, "f(x)−7", "7", 1},
		{"last_number_reward", nil, "= ١٢٣٫٥", "123.5", 1},
		{"last_number_reward", nil, "= ١٬٢٣٤", "1234", 1},
		{"last_number_reward", nil, "𝟏𝟐 and 𝟿", "9", 1},
		{"last_number_reward", nil, "x² = 9", "9", 1},
		{"countdown_reward", nil, "<answer>３ × (４ − 2)</answer>", `{"target": 6, "numbers": [3, 4, 2]}`, 1},
		{"countdown_reward", nil, "<answer>8 ÷ 2 – 1</answer>", `{"target": 3, "numbers": [8, 2, 1]}`, 1},
		{"countdown_reward", nil, "<answer>8 ÷ 2 – 1</answer>", `{"target": 4, "numbers": [8, 2, 1]}`, .1},
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

// A prompt that ends by opening the thinking leaves the closing tag to the reply.
func TestFormatOfAReplyThatTheTemplateBegan(t *testing.T) {
	const reply = "r\n</think>\n<answer>2</answer>"
	const doubt = "<analysis>a</analysis><confidence>１</confidence>"
	own := map[string]any{"pattern": `<think>[^<]*</think>\s*<answer>(?P<answer>\d)</answer>`}
	rest := map[string]any{"pattern": `[^<]*</think>\s*<answer>(?P<answer>\d)</answer>`}
	for _, c := range []struct {
		name           string
		args           map[string]any
		reply          string
		opened, closed float64 // reward with and without an opening
	}{
		{"format_reward", nil, reply, .1, -.1},
		{"format_reward", nil, "<think>\n" + reply, -.1, .1},
		{"format_reward", nil, "r <answer>2</answer>", -.1, -.1},
		{"format_reward", own, reply, .1, -.1},
		{"format_reward", rest, reply, .1, .1},
		{"math_reward", nil, reply, 1.1, .9},
		{"math_boxed_reward", map[string]any{"with_think": true}, `r</think>\boxed{2}`, 1, .9},
		{"rlcr_reward", map[string]any{"weights": map[string]any{"mean_confidence": 0., "confidence_one_or_zero": 0.}}, reply + doubt, 1.5, 0},
		{"pattern_reward", own, reply, 1, 0},
		{"pattern_reward", rest, reply, 1, 1},
	} {
		for opening, want := range map[string]float64{"<think>\n": c.opened, "": c.closed} {
			r, err := build(t, c.name, c.args).Score(t.Context(), trinity.RewardInput{Response: c.reply, Opening: opening, Truth: "2"})
			if err != nil || !r.Valid || r.Value != want {
				t.Errorf("%s %v of %q after %q: %+v, %v; want %g", c.name, c.args, c.reply, opening, r, err, want)
			}
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
