package trace

import "encoding/json"

// Verdict says whether an answer is right, for people.
type Verdict string

// The verdicts.
const (
	Right   Verdict = "right"
	Wrong   Verdict = "wrong"
	Invalid Verdict = "invalid" // no valid reward says which
	NotSaid Verdict = ""        // nobody scored it, as a demonstration
)

// IsWrong reports whether somebody who asks for wrong answers wants to see one: it is wrong, or nobody could tell.
func (v Verdict) IsWrong() bool { return v == Wrong || v == Invalid }

// VerdictOf returns the verdict of a reward, whose parts are JSON: that of its part accuracy if it has one, so that a
// bonus for the form makes no answer right, and else that of the reward. What is above 0 is right.
func VerdictOf(reward *float64, parts, reason string) Verdict {
	switch {
	case reward == nil && reason == "":
		return NotSaid
	case reward == nil:
		return Invalid
	}
	var known struct {
		Accuracy *float64 `json:"accuracy"`
	}
	if json.Unmarshal([]byte(parts), &known) == nil && known.Accuracy != nil {
		reward = known.Accuracy
	}
	if *reward <= 0 {
		return Wrong
	}
	return Right
}
