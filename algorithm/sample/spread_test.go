package sample

import (
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

// TestSpread: a letter is a rollout of that task, a digit a demonstration.
func TestSpread(t *testing.T) {
	for _, c := range []struct{ rollouts, experts, want string }{
		{"aabbccdd", "1234", "aa1bb2cc3dd4"},
		{"aabbccdd", "12", "aabb1ccdd2"},
		{"aabbccdd", "1", "aabbccdd1"},
		{"aab", "123456", "aa1234b56"},
		{"abcd", "123", "ab1c2d3"},
		{"aaaa", "12", "aaaa12"},
		{"ab", "", "ab"},
	} {
		of := func(names string, expert bool) (exps []*trinity.Experience) {
			for _, n := range strings.Split(names, "") {
				exps = append(exps, &trinity.Experience{ID: trinity.ExperienceID{Task: n}, IsExpert: expert})
			}
			return exps
		}
		got := ""
		for _, e := range spread(of(c.rollouts, false), of(c.experts, true)) {
			got += e.ID.Task
		}
		if got != c.want {
			t.Errorf("%s with %s: %s, want %s", c.rollouts, c.experts, got, c.want)
		}
	}
}
