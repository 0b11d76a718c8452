package reward

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

// lengths is a reward model that scores [sequences it has seen at once, length of the chat].
type lengths struct {
	of  []float32
	err error
}

func (l *lengths) Score(_ context.Context, sequences [][]int32) ([][]float32, error) {
	out := make([][]float32, len(sequences))
	for i, s := range sequences {
		out[i] = append([]float32{float32(len(sequences)), float32(len(s))}, l.of...)
	}
	return out, l.err
}

func (l *lengths) Labels() int { return 2 + len(l.of) }

func (l *lengths) Close() error { return nil }

// spelled renders a chat as its text, a token per byte.
type spelled struct {
	trinity.Renderer
	last *string
}

func (s spelled) Render(messages []trinity.Message, _ json.RawMessage, generate bool) ([]int32, error) {
	text := ""
	for _, m := range messages {
		text += m.Role + ": " + m.Content + "\n"
	}
	if generate {
		text += "assistant: "
	}
	*s.last = text
	return make([]int32, len(text)), nil
}

func TestModelScoresTheChat(t *testing.T) {
	read := ""
	scorer := &lengths{of: []float32{float32(math.NaN())}}
	score := func(label int, in trinity.RewardInput) (trinity.Reward, error) {
		fn := build(t, "reward_model", map[string]any{"model_path": "m", "label": label, "scale": 0.5}).(trinity.RewardModelUser)
		if fn.RewardModelPath() != "m" {
			t.Errorf("path %s", fn.RewardModelPath())
		}
		with, err := fn.WithRewardModel(&trinity.RewardModel{Scorer: scorer, Renderer: spelled{last: &read}})
		if err != nil {
			return trinity.Reward{}, err
		}
		return with.Score(t.Context(), in)
	}
	in := trinity.RewardInput{Prompt: "2+3?", Response: "5"}
	r, err := score(1, in)
	if want := "user: 2+3?\nassistant: 5\n"; err != nil || read != want || r.Value != float64(len(want))/2 || r.Parts["score"] != r.Value {
		t.Errorf("%q was read and gave %+v, %v", read, r, err)
	}
	in.Task = &trinity.Task{Format: trinity.TaskFormat{SystemPrompt: "Add."}}
	if r, err := score(0, in); err != nil || r.Value != 0.5 || read != "system: Add.\nuser: 2+3?\nassistant: 5\n" {
		t.Errorf("%q was read and gave %+v, %v", read, r, err)
	}
	if r, err := score(2, in); err != nil || r.Valid {
		t.Errorf("a score that is not a number gave %+v, %v", r, err)
	}
	if _, err := score(3, in); err == nil || !strings.Contains(err.Error(), "label: is 3, and reward model m has 3: want 0 to 2") {
		t.Errorf("a label that the model lacks: %v", err)
	}
	scorer.err = errors.New("broken")
	if _, err := score(0, in); err == nil || !strings.Contains(err.Error(), "reward model m: broken") {
		t.Errorf("error is %v", err)
	}
}
