package reward

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Rewards.Register("json_reward",
		"Structured output: `format_score` if the reply is one JSON object with exactly the keys `keys` and a text for each; "+
			"`answer_score` in addition if it equals the truth, a JSON object too. Parts: accuracy, format_score.",
		func() trinity.RewardFunc { return &jsonReward{FormatScore: 0.5, AnswerScore: 1} })
}

// jsonReward scores structured output.
type jsonReward struct {
	Keys        []string `yaml:"keys" required:"name the keys of the object" doc:"the keys that the object must have, without others"`
	FormatScore float64  `yaml:"format_score" doc:"for an object with these keys"`
	AnswerScore float64  `yaml:"answer_score" doc:"for the right object"`
}

// Requires implements [trinity.Requirer].
func (*jsonReward) Requires() trinity.Requirements {
	return trinity.Requirements{CheckTask: checkObject}
}

func checkObject(t *trinity.Task) error {
	_, err := objectIn(trinity.RewardInput{Task: t, Truth: t.Truth()})
	return err
}

// Score implements [trinity.RewardFunc].
func (j *jsonReward) Score(_ context.Context, in trinity.RewardInput) (trinity.Reward, error) {
	truth, err := objectIn(in)
	if err != nil {
		return trinity.InvalidReward(err.Error()), nil
	}
	parts := map[string]float64{"accuracy": 0, "format_score": 0}
	if got, ok := object(in.Response); ok && j.shaped(got) {
		parts["format_score"] = j.FormatScore
		if reflect.DeepEqual(got, truth) {
			parts["accuracy"] = j.AnswerScore
		}
	}
	return trinity.NewReward(parts), nil
}

// objectIn returns the truth as a JSON object.
func objectIn(in trinity.RewardInput) (map[string]any, error) {
	o, ok := object(in.Truth)
	switch {
	case in.Truth == "":
		return nil, errors.New(noTruth(in).Reason)
	case !ok:
		return nil, fmt.Errorf("the truth is not a JSON object: %q", in.Truth)
	}
	return o, nil
}

// shaped reports whether the object has exactly the keys, each with a text.
func (j *jsonReward) shaped(o map[string]any) bool {
	for k, v := range o {
		if _, isText := v.(string); !isText || !slices.Contains(j.Keys, k) {
			return false
		}
	}
	return len(o) == len(j.Keys)
}

// object decodes a text that is one JSON object and nothing else; ok is false for any other text.
func object(text string) (map[string]any, bool) {
	d := json.NewDecoder(strings.NewReader(text))
	var o map[string]any
	if err := d.Decode(&o); err != nil || o == nil {
		return nil, false
	}
	_, err := d.Token()
	return o, errors.Is(err, io.EOF)
}
