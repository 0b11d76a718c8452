package bridge

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

func sentGroups() []trinity.Group {
	e := func(run int) *trinity.Experience {
		return &trinity.Experience{
			ID: trinity.ExperienceID{Step: 1, Task: "t", Run: run}, Tokens: []int32{1, -2, 3}, Mask: []bool{false, true, false}, PromptLen: 1,
			Logprobs: []float32{0, -1, 0}, Reward: trinity.Reward{Valid: true, Value: 1},
		}
	}
	return []trinity.Group{{e(0), e(1)}}
}

func FuzzEdits(f *testing.F) {
	for _, seed := range []string{
		`{"experiences": [{"index": 0, "reward": 2, "mask": "AAA=", "advantages": "AACAPwAAAAA=", "metrics": {"a": 1}, "info": {"b": [1]}}]}`,
		`{"experiences": [{"index": 1}, {"index": 0}, {"index": 1, "reward": null, "reason": "odd"}], "metrics": {"m": 1}}`,
		`{"experiences": [{"index": -1}]}`,
		`{"experiences": [{"index": 0, "mask": "AQE="}]}`, `{"experiences": [{"index": 0, "returns": "AAAA"}]}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var edits Edits
		if json.Unmarshal([]byte(text), &edits) != nil {
			return
		}
		groups := sentGroups()
		kept, err := edits.Apply(groups)
		if err != nil {
			if strings.Contains(err.Error(), "\n") && !strings.Contains(text, `\n`) {
				t.Errorf("%q", err)
			}
			return
		}
		ids, n := map[trinity.ExperienceID]bool{}, 0
		for _, e := range slices.Concat(kept...) {
			ids[e.ID], n = true, n+1
			if err := e.Check(); err != nil {
				t.Error(err)
			}
			if !slices.Equal(e.Tokens, []int32{1, -2, 3}) || e.Mask[0] || e.Mask[2] {
				t.Errorf("%+v", *e)
			}
			for k, a := range e.Advantages {
				if a != 0 && !e.Mask[k] || math.IsNaN(float64(a)) || math.IsInf(float64(a), 0) {
					t.Errorf("advantage %v of token %d, which is learnt: %v", a, k, e.Mask[k])
				}
			}
		}
		if len(ids) != n || n != len(edits.Experiences) {
			t.Errorf("%d experiences have %d ids, for %d answers", n, len(ids), len(edits.Experiences))
		}
	})
}

func FuzzNumbers(f *testing.F) {
	f.Add(Pack([]float32{1, -0.5, float32(math.Inf(1))}))
	f.Add("AAA=")
	f.Add("?")
	f.Fuzz(func(t *testing.T, text string) {
		values, err := Unpack(text)
		if err != nil {
			return
		}
		again, err := Unpack(Pack(values))
		same := func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }
		if err != nil || !slices.EqualFunc(again, values, same) {
			t.Errorf("%v, %v became %v", err, values, again)
		}
	})
}
