package reward

import (
	"context"
	"errors"
	"maps"
	"math"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// part returns an element of weighted_reward's list.
func part(name string, more ...any) map[string]any {
	p := map[string]any{"reward": name}
	for i := 0; i < len(more); i += 2 {
		p[more[i].(string)] = more[i+1]
	}
	return p
}

func weightedOf(parts ...any) map[string]any { return map[string]any{"rewards": parts} }

func TestWeightedRewardAddsItsParts(t *testing.T) {
	fn := build(t, "weighted_reward", weightedOf(
		part("accuracy_reward", "weight", 2),
		part("format_reward", "args", map[string]any{"pattern": `\d+`, "coef": 0.5}),
		part("last_number_reward", "weight", 0, "name", "watched"),
	))
	for reply, want := range map[string]float64{"4": 2.5, "5": 0.5, "four": -0.5} {
		r, err := fn.Score(t.Context(), trinity.RewardInput{Response: reply, Truth: "4"})
		if err != nil || !r.Valid || r.Value != want {
			t.Errorf("%q: got %+v, %v; want %v", reply, r, err, want)
		}
	}
	r, _ := fn.Score(t.Context(), trinity.RewardInput{Response: "4", Truth: "4"})
	want := map[string]float64{"accuracy_reward": 1, "format_reward": 0.5, "watched": 1.1, "watched/accuracy": 1, "watched/format_score": 0.1}
	if !maps.Equal(r.Parts, want) {
		t.Errorf("parts are %v, want %v", r.Parts, want)
	}
}

func TestAnInvalidPartMakesTheWeightedRewardInvalid(t *testing.T) {
	fn := build(t, "weighted_reward", weightedOf(part("format_reward"), part("accuracy_reward", "name", "right")))
	r, err := fn.Score(t.Context(), trinity.RewardInput{Response: "4"})
	if err != nil || r.Valid || !strings.HasPrefix(r.Reason, "right: the task has no reference answer") {
		t.Errorf("got %+v, %v", r, err)
	}
	failed := errors.New("engine")
	w := &weighted{Rewards: []weightedPart{{Reward: "x", Name: "x", fn: failing{&trinity.EngineError{Err: failed}}}}}
	if _, err := w.Score(t.Context(), trinity.RewardInput{}); !errors.As(err, new(*trinity.EngineError)) {
		t.Errorf("got %v, want the engine's error", err)
	}
}

func TestWeightedRewardRequiresWhatItsPartsRequire(t *testing.T) {
	fn := build(t, "weighted_reward", weightedOf(part("accuracy_reward"), part("reward_model", "args", map[string]any{"model_path": "m"})))
	needs := trinity.RequirementsOf(fn)
	if m := needs.RewardModels; len(m) != 1 || m[0].Path != "m" || m[0].Arg != "rewards.1.args.model_path" {
		t.Errorf("reward models %+v", m)
	}
	if err := needs.CheckTask(&trinity.Task{}); err == nil {
		t.Error("a task without a reference answer was accepted")
	}
}

func TestWeightedRewardChecksItsArguments(t *testing.T) {
	for want, args := range map[string]map[string]any{
		"rewards: list":             nil,
		`did you mean "accuracy_re`: weightedOf(part("acuracy_reward")),
		"rewards.0: reward_fn json": weightedOf(part("json_reward")),
		"rewards.1.name":            weightedOf(part("format_reward"), part("format_reward")),
		"weigth":                    weightedOf(part("format_reward", "weigth", 1)),
		"weight: must be a finite":  weightedOf(part("format_reward", "weight", math.Inf(1))),
	} {
		if errs := mustFind(t).Check("weighted_reward", args); len(errs) == 0 || !strings.Contains(errs[0].Error(), want) {
			t.Errorf("got %v, want %q", errs, want)
		}
	}
	nested := weightedOf(part("weighted_reward", "args", weightedOf(part("format_reward"))))
	if _, err := registry.Rewards.Build("weighted_reward", nested); err != nil {
		t.Error(err)
	}
}

// failing is a reward function that cannot score.
type failing struct{ err error }

func (f failing) Score(context.Context, trinity.RewardInput) (trinity.Reward, error) {
	return trinity.Reward{}, f.err
}
