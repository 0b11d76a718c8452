package bridge

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"maps"
	"regexp"
	"strings"
)

// Library is a Python library whose tasks become tasksets: what it asks and how it scores.
type Library struct {
	Module, Script string
}

//go:embed reasoning_gym.py
var reasoningGym string

//go:embed verifiers.py
var verifiers string

// PythonClass plays an environment that a Python file of the user's describes: a class with reset and
// step.
//
//go:embed pythonclass.py
var PythonClass string

// The libraries.
var (
	ReasoningGym = Library{"reasoning_gym", reasoningGym}
	Verifiers    = Library{"verifiers", verifiers}
)

// Rows returns the rows of up to count tasks from start on; fewer are the last.
func (b *Bridge) Rows(ctx context.Context, name string, config map[string]any, start, count int) ([]json.RawMessage, error) {
	var said struct{ Rows []json.RawMessage }
	question := map[string]any{"do": "rows", "name": name, "config": config, "start": start, "count": count}
	if err := b.Call(ctx, question, &said); err != nil {
		return nil, err
	}
	if said.Rows == nil {
		return nil, errors.New("the library gives no rows")
	}
	return said.Rows, nil
}

// answerTag finds answers between tags.
var answerTag = regexp.MustCompile(`(?s)<answer>(.*?)</answer>`)

// ScoreEntry returns what a generator of reasoning-gym gives for the answer in a reply: the text
// between <answer> and </answer>, else all of it. entry has dataset_name, config and index.
func (b *Bridge) ScoreEntry(ctx context.Context, entry map[string]any, reply string) (float64, error) {
	if tagged := answerTag.FindAllStringSubmatch(reply, -1); tagged != nil {
		reply = tagged[len(tagged)-1][1]
	}
	question := map[string]any{"do": "score", "answer": strings.TrimSpace(reply)}
	maps.Copy(question, entry)
	var said struct{ Score *float64 }
	if err := b.Call(ctx, question, &said); err != nil {
		return 0, err
	}
	if said.Score == nil {
		return 0, errors.New("the generator gives no score")
	}
	return *said.Score, nil
}
