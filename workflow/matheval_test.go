package workflow

import (
	"context"
	"testing"

	"github.com/trinity-go/trinity"
)

// The evaluation asks for a box at the end of the question, samples at its own temperature, and counts
// nothing but the accuracy.
func TestMathEval(t *testing.T) {
	p := &parrot{says: "5"}
	evaluated := model(p)
	evaluated.Params.Untrained = true
	exps, err := build(t, "async_math_eval_workflow", nil).Run(t.Context(), rollout(task(), evaluated, &echo{}))
	if err != nil {
		t.Fatal(err)
	}
	e := exps[0]
	if want := "system: You are a helpful assistant.\nuser: 2+3?" + boxedRequest + "\nassistant: "; p.asked != want || e.Prompt != "2+3?" {
		t.Errorf("asked %q, prompt %q", p.asked, e.Prompt)
	}
	if p.params.Temperature != 0.6 || p.params.TopP != 0.8 || e.Temperature != 0.6 {
		t.Errorf("sampled with %+v", p.params)
	}
	if e.Reward.Value != 1 || len(e.Reward.Parts) != 1 || !e.Reward.Valid {
		t.Errorf("reward %+v", e.Reward)
	}
	invalid, err := build(t, "math_eval_workflow", nil).Run(t.Context(), rollout(task(), evaluated, noReward{}))
	if err != nil || invalid[0].Reward.Valid {
		t.Errorf("an invalid reward became %+v, %v", invalid[0].Reward, err)
	}
}

type noReward struct{ trinity.RewardFunc }

func (noReward) Score(context.Context, trinity.RewardInput) (trinity.Reward, error) {
	r := trinity.InvalidReward("no")
	r.Parts = map[string]float64{"accuracy": 1}
	return r, nil
}
