package reward

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/reward/mathequal"
)

func init() {
	registry.Rewards.Register("rlcr_reward",
		"A weighted sum that rewards a right answer and an honest confidence (RLCR). The reply has one block each of <think>, <answer>, "+
			"<analysis> and <confidence>, in this order and with nothing outside. format: 1 if it has, else 0, and then all other parts are 0 too. "+
			"accuracy: 1 if the answer equals the truth mathematically. brier: 1 − (accuracy − confidence)², 0 if the confidence is no number. "+
			"mean_confidence: the confidence, cut to 0 to 1. confidence_one_or_zero: 1 if it is within 0.01 of 0 or 1. `weights` "+
			"holds the weights of the parts; one that it does not name keeps its default.",
		func() trinity.RewardFunc {
			return &rlcr{Weights: map[string]float64{
				"format": 0.5, "accuracy": 0.5, "brier": 0.5, "mean_confidence": 1e-5, "confidence_one_or_zero": 1e-5,
			}}
		})
}

// rlcrParts are the parts in the order in which their weights are added.
var rlcrParts = []string{"format", "accuracy", "brier", "mean_confidence", "confidence_one_or_zero"}

// rlcr scores a reply that states how sure it is of its answer. The Brier score is proper: the expected
// reward is highest for the confidence that is the chance of being right.
//
// Unlike Trinity-RFT: each tag occurs once.
type rlcr struct {
	Weights map[string]float64 `yaml:"weights" range:"(,)" doc:"of format, accuracy, brier, mean_confidence and confidence_one_or_zero"`
}

// Validate returns an error for a weight of an unknown part or one that is not finite.
func (r *rlcr) Validate() error {
	for name := range r.Weights {
		if !slices.Contains(rlcrParts, name) {
			return fmt.Errorf("weights: unknown part %q (known: %s)", name, strings.Join(rlcrParts, ", "))
		}
	}
	return nil
}

// Requires implements [trinity.Requirer].
func (*rlcr) Requires() trinity.Requirements { return trinity.Requirements{CheckTask: checkTruth} }

// Score implements [trinity.RewardFunc].
func (r *rlcr) Score(_ context.Context, in trinity.RewardInput) (trinity.Reward, error) {
	truth, ok := truthOf(in)
	if !ok {
		return noTruth(in), nil
	}
	reward := trinity.Reward{Valid: true, Parts: confidenceParts(in.Opening+in.Response, truth)}
	for _, name := range rlcrParts {
		reward.Value += r.Weights[name] * reward.Parts[name]
	}
	return reward, nil
}

var fourBlocks = regexp.MustCompile(
	`(?s)\A\s*<think>.*</think>\s*<answer>.*</answer>\s*<analysis>.*</analysis>\s*<confidence>(.*)</confidence>\s*\z`)

var fourTags = strings.Fields("<think> </think> <answer> </answer> <analysis> </analysis> <confidence> </confidence>")

// confidenceParts returns the parts of a reply before their weights.
func confidenceParts(reply string, truth []string) map[string]float64 {
	parts := map[string]float64{}
	for _, name := range rlcrParts {
		parts[name] = 0
	}
	blocks := fourBlocks.FindStringSubmatch(reply)
	if blocks == nil || !once(reply, fourTags...) {
		return parts
	}
	parts["format"], parts["accuracy"] = 1, right(mathequal.Tagged, reply, truth)
	confidence, err := strconv.ParseFloat(strings.TrimSpace(plainNumerals(blocks[1])), 64)
	if err != nil || math.IsNaN(confidence) {
		return parts
	}
	confidence = min(max(confidence, 0), 1)
	off := parts["accuracy"] - confidence
	parts["brier"], parts["mean_confidence"] = 1-off*off, confidence
	if min(confidence, 1-confidence) < 0.01 {
		parts["confidence_one_or_zero"] = 1
	}
	return parts
}
