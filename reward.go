package trinity

import (
	"context"
	"math"
	"slices"
)

// Reward is a value with its named parts, or invalid with a reason. The zero Reward is invalid, so
// an experience that nobody has scored never counts as reward 0.
type Reward struct {
	Value  float64            `json:"value"`
	Valid  bool               `json:"valid"`
	Reason string             `json:"reason,omitempty"` // why it is invalid
	Parts  map[string]float64 `json:"parts,omitempty"`  // e.g. accuracy, format_score; logged as rollout/<part>
	Kind   FailureKind        `json:"kind,omitempty"`   // what the reward function failed by; buffers do not keep it
}

// NewReward returns the sum of the parts as a valid reward. A part that is not a finite number
// makes the reward invalid.
func NewReward(parts map[string]float64) Reward {
	names := make([]string, 0, len(parts))
	for name := range parts {
		names = append(names, name)
	}
	slices.Sort(names) // a sum in map order would differ from run to run
	sum := 0.0
	for _, name := range names {
		if math.IsNaN(parts[name]) || math.IsInf(parts[name], 0) {
			return InvalidReward("reward part " + name + " is not a finite number")
		}
		sum += parts[name]
	}
	return Reward{Value: sum, Valid: true, Parts: parts}
}

// InvalidReward returns the reward of an experience that nobody can score.
func InvalidReward(reason string) Reward { return Reward{Reason: reason} }

// RewardInput is the input of a reward function.
type RewardInput struct {
	Task       *Task       // Task.Row has all columns of the row
	Messages   []Message   // the conversation, with the policy's reply last; nil when scoring only text
	Prompt     string      // the question as asked
	Response   string      // the policy's reply, without special tokens
	Opening    string      // "<think>" and spaces if the prompt ends so: the reply then has only the closing tag; else ""
	Truth      string      // reference answer, "" if there is none
	Experience *Experience // the sequence itself; nil when scoring only text
	Host       Host        // the run around the rollout; nil when scoring only text
}

// RewardFunc scores one response. An error means that it cannot score the response, never reward 0.
type RewardFunc interface {
	Score(ctx context.Context, in RewardInput) (Reward, error)
}

// GroupReward is a RewardFunc that scores all rollouts of a task at once, for example by comparing
// them. The explorer calls ScoreGroup once the group's rollouts have ended, under a deadline of its
// own. Score scores a reply without its group.
type GroupReward interface {
	RewardFunc
	// ScoreGroup returns a reward for each input, in their order. An error means that it cannot score
	// the group.
	ScoreGroup(ctx context.Context, in []RewardInput) ([]Reward, error)
}

// Scorer is an open reward model: a frozen model that gives a whole sequence one or more numbers.
type Scorer interface {
	Labels() int
	// Score returns the numbers [Labels] of each sequence.
	Score(ctx context.Context, sequences [][]int32) ([][]float32, error)
	Close() error
}

// RewardModel is an open reward model with its own tokenizer and chat template.
type RewardModel struct {
	Scorer   Scorer
	Renderer Renderer
}
