package explorer

import (
	"reflect"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

func TestSamples(t *testing.T) {
	answer := func(text string, reward float64) *trinity.Experience {
		return &trinity.Experience{Prompt: "q", Response: text, Reward: trinity.Reward{Value: reward, Valid: true}}
	}
	sample := func(text string, reward float64) trinity.Sample {
		return trinity.Sample{Prompt: "q", Response: text, Reward: reward}
	}
	unscored := &trinity.Experience{Prompt: "q", Response: "unscored"}
	long := strings.Repeat("a", 3000) + strings.Repeat("ß", 3000)
	for _, c := range []struct {
		name   string
		groups []trinity.Group
		want   []trinity.Sample
	}{
		{"no rollout", nil, nil},
		{"no valid reward", []trinity.Group{{unscored}}, nil},
		{"one", []trinity.Group{{unscored, answer("a", 1)}}, []trinity.Sample{sample("a", 1)}},
		{"the first lowest and the first highest",
			[]trinity.Group{{answer("a", .5), answer("b", 1)}, {answer("c", 0), answer("d", 1), answer("e", 0)}},
			[]trinity.Sample{sample("c", 0), sample("b", 1)}},
		{"equal rewards", []trinity.Group{{answer("a", 0), answer("b", 0)}, {answer("c", 0)}},
			[]trinity.Sample{sample("a", 0), sample("b", 0)}},
		{"a long answer", []trinity.Group{{answer(long, 0)}},
			[]trinity.Sample{sample(strings.Repeat("a", 2000)+" … "+strings.Repeat("ß", 2000), 0)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var outcomes []*outcome
			for _, g := range c.groups {
				outcomes = append(outcomes, &outcome{group: g})
			}
			if got := samples(outcomes); !reflect.DeepEqual(got, c.want) {
				t.Errorf("samples are %+v, want %+v", got, c.want)
			}
		})
	}
}
