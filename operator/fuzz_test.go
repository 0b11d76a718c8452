package operator

import (
	"encoding/json"
	"math"
	"testing"
)

// FuzzAnswers edits a step by any answer of a program, a service or a script. Whatever it accepts
// is a step that can be sent again, with rewards that are numbers.
func FuzzAnswers(f *testing.F) {
	for _, seed := range []string{
		`{"index":2}` + "\n" + `{"index":0,"reward":0.25,"metrics":{"a":1},"info":{"b":[1]}}`,
		`{"index":1,"reward":null,"reason":"rude","group":0,"parts":{}}`, `{"index":0,"reward":1e999}`, `[1]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		step := groups{group(1, 0), group(failed)}
		lines, err := encode(step)
		if err != nil {
			t.Fatal(err)
		}
		answers, err := decode(text)
		if err != nil {
			return
		}
		kept, metrics, err := edit(step, lines, answers)
		if err != nil {
			return
		}
		if _, err := encode(kept); err != nil {
			t.Error(err)
		}
		if _, err := json.Marshal(metrics); err != nil {
			t.Error(err)
		}
		for _, g := range kept {
			for _, e := range g {
				if v := e.Reward.Value; e.Reward.Valid && (math.IsNaN(v) || math.IsInf(v, 0)) {
					t.Errorf("a reward of %v", v)
				}
			}
		}
	})
}
