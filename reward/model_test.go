package reward

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

// lengths is a reward model with three labels: the number of sequences in a call, the length of the
// chat, and of.
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

// spelled renders a chat as its text, one token per byte, and keeps the text in last.
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

// oneModel is a host with a reward model of one name.
type oneModel struct {
	trinity.Host
	model *trinity.RewardModel
}

func (h oneModel) RewardModel(name string) (*trinity.RewardModel, error) {
	if name != "m" {
		return nil, errors.New("not open")
	}
	return h.model, nil
}

func TestModelScoresTheChat(t *testing.T) {
	read := ""
	scorer := &lengths{of: []float32{float32(math.NaN())}}
	host := oneModel{model: &trinity.RewardModel{Scorer: scorer, Renderer: spelled{last: &read}}}
	score := func(label int, in trinity.RewardInput) (trinity.Reward, error) {
		fn := build(t, "reward_model", map[string]any{"model_path": "m", "label": label, "scale": 0.5})
		want := trinity.Requirements{RewardModels: []trinity.RewardModelSpec{{Path: "m", Arg: "model_path", Labels: label + 1}}}
		if got := trinity.RequirementsOf(fn); !reflect.DeepEqual(got, want) {
			t.Errorf("requires %+v, want %+v", got, want)
		}
		return fn.Score(t.Context(), in)
	}
	in := trinity.RewardInput{Prompt: "2+3?", Response: "5", Host: host}
	r, err := score(1, in)
	if want := "user: 2+3?\nassistant: 5\n"; err != nil || read != want || r.Value != float64(len(want))/2 || r.Parts["score"] != r.Value {
		t.Errorf("%q was read and gave %+v, %v", read, r, err)
	}
	in.Task = &trinity.Task{Format: trinity.TaskFormat{SystemPrompt: "Add."}}
	if r, err := score(0, in); err != nil || r.Value != 0.5 || read != "system: Add.\nuser: 2+3?\nassistant: 5\n" {
		t.Errorf("%q was read and gave %+v, %v", read, r, err)
	}
	in.Messages = []trinity.Message{{Role: "user", Content: "2+3?"}, {Role: "assistant", Content: "a"},
		{Role: "user", Content: "b"}, {Role: "assistant", Content: "5"}}
	if _, err := score(0, in); err != nil || read != "user: 2+3?\nassistant: a\nuser: b\nassistant: 5\n" {
		t.Errorf("the model read %q of the conversation, %v", read, err)
	}
	if r, err := score(2, in); err != nil || r.Valid {
		t.Errorf("a score that is not a number gave %+v, %v", r, err)
	}
	scorer.err = errors.New("broken")
	if _, err := score(0, in); err == nil || !strings.Contains(err.Error(), "reward model m: broken") {
		t.Errorf("error is %v", err)
	}
	in.Host = nil
	if _, err := score(0, in); err == nil || !strings.Contains(err.Error(), "reward model m: only a run can open it") {
		t.Errorf("without a host: %v", err)
	}
}
