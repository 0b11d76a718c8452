package trainer

import (
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

// In a batch a letter is a rollout and a digit a demonstration.
func TestOptimizerStepsShareDemonstrations(t *testing.T) {
	for _, c := range []struct {
		batch string
		size  int
		want  string
	}{
		{"abcde", 2, "ab cd e"},
		{"123", 2, "12 3"},
		{"abcdefgh1234", 6, "abcd12 efgh34"},
		{"abcdefgh1234", 0, "abcdefgh1234"},
		{"12ab34cd", 4, "12ab 34cd"},
		{"abcdefghi1234567", 8, "abcd1234 efghi567"},
		{"abcdef12", 5, "abc1 def2"}, // steps of 5 and 3 would give the second step no rollouts or no demonstrations
		{"abcdefghij1", 4, "abc1 def ghij"},
		{"1a", 1, "1 a"},
	} {
		var exps []*trinity.Experience
		for _, name := range strings.Split(c.batch, "") {
			exps = append(exps, &trinity.Experience{ID: trinity.ExperienceID{Task: name}, IsExpert: name < "a"})
		}
		var steps []string
		for _, mini := range miniBatches(exps, c.size) {
			names := ""
			for _, e := range mini {
				names += e.ID.Task
			}
			steps = append(steps, names)
		}
		if got := strings.Join(steps, " "); got != c.want {
			t.Errorf("%s by %d: %s, want %s", c.batch, c.size, got, c.want)
		}
	}
}
