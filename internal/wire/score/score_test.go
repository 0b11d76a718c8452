package score

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

func TestDecode(t *testing.T) {
	for text, want := range map[string]struct {
		reward        trinity.Reward
		failed, wrong string
	}{
		"0.5\n":                             {reward: trinity.Reward{Value: .5, Valid: true}},
		`{"reward": 1, "parts": {"a": .5}}`: {wrong: "invalid character"},
		`{"reward": 1, "parts": {"a": 0.5}, "reason": "ok"}`: {
			reward: trinity.Reward{Value: 1, Valid: true, Parts: map[string]float64{"a": .5}}},
		`{"parts": {"a": 0.5, "b": 1}}`:       {reward: trinity.NewReward(map[string]float64{"a": .5, "b": 1})},
		`null`:                                {reward: trinity.InvalidReward("the reward is null")},
		`{"reason": "no answer"}`:             {reward: trinity.InvalidReward("no answer")},
		`{"reward": null, "reason": "late"}`:  {reward: trinity.InvalidReward("late")},
		`{"error": "broken"}`:                 {failed: "broken"},
		`{"reward": 1, "error": "broken"}`:    {failed: "broken"},
		`{}`:                                  {wrong: "unexpected end of JSON input"},
		``:                                    {wrong: "unexpected end of JSON input"},
		`"1"`:                                 {wrong: "cannot unmarshal string"},
		`true`:                                {wrong: "cannot unmarshal bool"},
		`1 2`:                                 {wrong: "after top-level value"},
		`{"reward": 1} 2`:                     {wrong: "more than one value"},
		`{"score": 1}`:                        {wrong: "unknown field"},
		`1e999`:                               {wrong: "cannot unmarshal number 1e999"},
		`{"parts": {"a": 1e308, "b": 1e308}}`: {wrong: "the sum of the parts is too large"},
		`{"parts": {"reward": 1}}`:            {wrong: "none of them called reward"},
		`{"parts": {"a/mean": 1}}`:            {wrong: `a part is called "a/mean": want a letter`},
		`{"parts": {"": 1}}`:                  {wrong: `a part is called "": want a letter`},
		`{"parts": {"9": 1}}`:                 {wrong: `a part is called "9": want a letter`},
		`{"parts": {"a\nb": 1}}`:              {wrong: `a part is called "a\nb": want a letter`},
		`{"parts": {"` + strings.Repeat("é", 65) + `": 1}}`: {wrong: "at most 64 in all"},
		`{"parts": {"richtig_2.ü-x": 1}}`:                   {reward: trinity.NewReward(map[string]float64{"richtig_2.ü-x": 1})},
		"\xff" + strings.Repeat("x", 100):                   {wrong: `answered "?` + strings.Repeat("x", 79) + `…": want`},
		`{"reward": 1, "parts": {"a": 1e999}}`:              {wrong: "cannot unmarshal number 1e999"},
	} {
		got, failed, wrong := Decode([]byte(text))
		if !says(failed, want.failed) || !says(wrong, want.wrong) {
			t.Errorf("%q: failed %v, wrong %v, want %q, %q", text, failed, wrong, want.failed, want.wrong)
		}
		if failed == nil && wrong == nil && !reflect.DeepEqual(got, want.reward) {
			t.Errorf("%q is %+v, want %+v", text, got, want.reward)
		}
	}
}

func says(err error, want string) bool {
	return err == nil && want == "" || err != nil && want != "" && strings.Contains(err.Error(), want)
}

func FuzzDecode(f *testing.F) {
	for _, text := range []string{"1", "null", `{"reward": 1, "parts": {"a": 2}}`, `{"reason": "a"}`, `{"error": "a"}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r, failed, wrong := Decode(text)
		if failed == nil && wrong == nil && r.Valid && (math.IsNaN(r.Value) || math.IsInf(r.Value, 0) || CheckParts(r.Parts) != nil) {
			t.Errorf("%q is %+v", text, r)
		}
		if failed == nil && wrong == nil && !r.Valid && r.Reason == "" {
			t.Errorf("%q: an invalid reward without a reason", text)
		}
		if wrong != nil && len(wrong.Error()) > 2000 {
			t.Errorf("%q: an error of %d bytes", text, len(wrong.Error()))
		}
	})
}
