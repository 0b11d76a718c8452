package reward

import "github.com/trinity-go/trinity"

// truthsOf returns the reference answers, of which each is right. The error is one of
// [trinity.Task.Truths]. A truth that is not the row's own counts alone.
func truthsOf(in trinity.RewardInput) ([]string, error) {
	if in.Task == nil || in.Truth != in.Task.Truth() {
		return []string{in.Truth}, nil
	}
	return in.Task.Truths()
}
