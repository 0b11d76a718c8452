package algorithm

import (
	"testing"

	"github.com/trinity-go/trinity"
)

// Replies and judgements of a group have baselines of their own, and stay one group with the experiences of a rollout together.
func TestPartsAreComparedApart(t *testing.T) {
	var g trinity.Group
	for run, rewards := range [][2]float64{{0.9, 10}, {0.1, 30}, {0.5, 20}} { // judgement, reply
		for turn, part := range []string{"judge", ""} {
			g = append(g, &trinity.Experience{
				ID:     trinity.ExperienceID{Step: 1, Task: "t", Run: run, Turn: turn},
				Tokens: []int32{1, 2}, Mask: []bool{false, true}, PromptLen: 1,
				Reward: trinity.Reward{Value: rewards[turn], Valid: run != 2 || part == ""}, Origin: trinity.Origin{Part: part},
			})
		}
	}
	a, err := build(trinity.Algorithm{Type: "grpo", AdvantageArgs: map[string]any{"epsilon": 1e-9}})
	if err != nil {
		t.Fatal(err)
	}
	plain := trinity.Group{{ID: trinity.ExperienceID{Step: 1, Task: "u"}, Tokens: []int32{1, 2}, Mask: []bool{false, true},
		Reward: trinity.Reward{Value: 3, Valid: true}}}
	kept, m, err := a.InPipeline().Advantages(t.Context(), []trinity.Group{g, plain})
	if err != nil || len(kept) != 2 || len(kept[0]) != 5 || len(kept[1]) != 1 || m["invalid_count"] != 1 {
		t.Fatalf("%d groups, %v, %v", len(kept), m, err)
	}
	const half = 0.70710678
	want := []float32{half, -1, -half, 1, 0}
	for i, e := range kept[0] {
		if got := e.Advantages[1]; got < want[i]-1e-5 || got > want[i]+1e-5 {
			t.Errorf("%s, part %q: advantage %v, want %v", e.ID, e.Part, got, want[i])
		}
		if i > 0 && e.ID.Run < kept[0][i-1].ID.Run {
			t.Errorf("%s comes after %s", e.ID, kept[0][i-1].ID)
		}
	}
}
