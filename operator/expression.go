package operator

import (
	"fmt"
	"math"
	"slices"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/vm"

	"github.com/trinity-go/trinity"
)

// expressionFields is the part of the operators' descriptions that lists what an expression may
// use.
const expressionFields = "Fields: reward (NaN if invalid), valid, parts, metrics, info (maps; write `info.x ?? 0` if x may be " +
	"absent), prompt, response, prompt_tokens, response_tokens, trained_tokens (numbers), truncated (\"\", " +
	"\"prompt_truncated\", \"response_truncated\"), task, step, run, turn, part (\"\" for a reply), version (the " +
	"oldest that sampled a token), and group.{size, scored, mean, std, max, min} over the valid rewards of " +
	"the experiences of the group with the same part (NaN if there are none). The language is that of expr-lang.org without a clock."

// fields are the variables of an expression: one experience and its group.
type fields struct {
	Reward         float64        `expr:"reward"`
	Valid          bool           `expr:"valid"`
	Parts          map[string]any `expr:"parts"`
	Metrics        map[string]any `expr:"metrics"`
	Info           map[string]any `expr:"info"`
	Prompt         string         `expr:"prompt"`
	Response       string         `expr:"response"`
	PromptTokens   int            `expr:"prompt_tokens"`
	ResponseTokens int            `expr:"response_tokens"`
	TrainedTokens  int            `expr:"trained_tokens"`
	Truncated      string         `expr:"truncated"`
	Task           string         `expr:"task"`
	Step           int64          `expr:"step"`
	Run            int            `expr:"run"`
	Turn           int            `expr:"turn"`
	Part           string         `expr:"part"`
	Version        int64          `expr:"version"`
	Group          groupFields    `expr:"group"`
}

type groupFields struct {
	Size   int     `expr:"size"`
	Scored int     `expr:"scored"`
	Mean   float64 `expr:"mean"`
	Std    float64 `expr:"std"`
	Max    float64 `expr:"max"`
	Min    float64 `expr:"min"`
}

func fieldsOfGroup(g trinity.Group) groupFields {
	r := rewards(g)
	if len(r) == 0 {
		nan := math.NaN()
		return groupFields{len(g), 0, nan, nan, nan, nan}
	}
	return groupFields{len(g), len(r), mean(r), populationStd(r), slices.Max(r), slices.Min(r)}
}

func fieldsOf(e *trinity.Experience, g groupFields) fields {
	f := fields{
		Reward: math.NaN(), Valid: scored(e), Parts: untyped(e.Reward.Parts), Metrics: untyped(e.Metrics), Info: e.Info,
		Prompt: e.Prompt, Response: e.Response, PromptTokens: e.PromptLen, ResponseTokens: e.ResponseLen(), TrainedTokens: e.TrainedTokens(),
		Truncated: string(e.Truncated), Task: e.ID.Task, Step: e.ID.Step, Run: e.ID.Run, Turn: e.ID.Turn, Part: e.Part,
		Version: e.Versions[0], Group: g,
	}
	if f.Valid {
		f.Reward = e.Reward.Value
	}
	return f
}

// untyped copies a map so that an absent key is nil in an expression instead of 0.
func untyped(m map[string]float64) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

// compile checks the names and types of an expression. as sets the type of its value.
func compile(key, source string, as ...expr.Option) (*vm.Program, error) {
	program, err := expr.Compile(source, append([]expr.Option{expr.Env(fields{}), expr.DisableBuiltin("now")}, as...)...)
	if err != nil {
		return nil, fmt.Errorf("%s: %s", key, oneLine(err))
	}
	return program, nil
}

// evaluate runs an expression on one experience.
func evaluate(key string, program *vm.Program, e *trinity.Experience, f fields) (any, error) {
	v, err := expr.Run(program, f)
	if err != nil {
		return nil, fmt.Errorf("%s of experience %s: %s", key, e.ID, oneLine(err))
	}
	return v, nil
}
