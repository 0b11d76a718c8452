package pipeline

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/trinity-go/trinity"
	_ "github.com/trinity-go/trinity/operator" // registers expr_mapper
	"github.com/trinity-go/trinity/registry"
)

func scoredAs(reward float64, info map[string]any) *trinity.Experience {
	e := &trinity.Experience{ID: trinity.ExperienceID{Step: 7, Task: "a/1"}, Tokens: []int32{1, 2}, Mask: []bool{false, true},
		PromptLen: 1, Info: info}
	e.Reward = trinity.NewReward(map[string]float64{"accuracy": reward})
	return e
}

func TestPipelineRemovesInfoThatJSONCannotExpress(t *testing.T) {
	mapper, err := registry.Operators.Build("expr_mapper", map[string]any{"info": map[string]any{"per": "1.0 / reward",
		"twice": "2 * reward"}})
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	p := Pipeline{
		Operators: []Operator{{"expr_mapper", mapper}},
		Say:       func(line string) { said = append(said, line) },
	}
	shared := map[string]any{"score": math.NaN(), "tries": 3}
	half, zero, none := scoredAs(0.5, shared), scoredAs(0, shared), scoredAs(0, nil)
	zero.ID.Run, none.ID.Run = 1, 2
	groups, _, err := p.Process(context.Background(), 7, []trinity.Group{{half, zero}, {none}})
	if err != nil || count(groups) != 3 {
		t.Fatalf("%d experiences are left, %v", count(groups), err)
	}
	if len(shared) != 2 {
		t.Error("the pipeline changed a map that siblings share")
	}
	for e, want := range map[*trinity.Experience]map[string]any{half: {"tries": 3, "per": 2.0, "twice": 1.0},
		zero: {"tries": 3, "twice": 0.0}, none: {"twice": 0.0}} {
		if len(e.Info) != len(want) {
			t.Errorf("%s: info %v, want %v", e.ID, e.Info, want)
		}
		for key, v := range want {
			if e.Info[key] != v {
				t.Errorf("%s: info.%s is %v, want %v", e.ID, key, e.Info[key], v)
			}
		}
	}
	want := []string{
		"step 7: left out info.score, wholly or in part, of 2 of 3 experiences, because JSON cannot express it: first NaN in " +
			"experience 7/a/1/0/0, set by a workflow",
		"step 7: left out info.per, wholly or in part, of 2 of 3 experiences, because JSON cannot express it: first +Inf in " +
			"experience 7/a/1/1/0, set by operator 0, expr_mapper",
	}
	if !slices.Equal(said, want) {
		t.Errorf("said\n%q\nwant\n%q", said, want)
	}
}
