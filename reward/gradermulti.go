package reward

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/types"
	"github.com/expr-lang/expr/vm"

	"github.com/trinity-go/trinity/internal/retry"
)

// multi computes a formula over the scores of graders.
type multi struct {
	graders map[string]grader
	formula *vm.Program
}

// maxNested bounds how many multi graders stand in one another: the bytes of an inner one are read by all outer ones.
const maxNested = 8

var isName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// newMulti builds the graders of a multi grader, a map of names, and its formula.
func (g *graderReward) newMulti(s *graderSpec, key string) (*multi, error) {
	if strings.Count(key, ".graders") == maxNested {
		return nil, fmt.Errorf("%s: more than %d multi graders in one another: leave some out", key, maxNested)
	}
	var specs map[string]json.RawMessage
	if err := json.Unmarshal(s.Graders, &specs); err != nil || len(specs) == 0 {
		return nil, fmt.Errorf("%s.graders: want a map of names to graders", key)
	}
	if kind, single := specs["type"]; single && len(kind) > 0 && kind[0] == '"' { // one grader, as the SDK's types have it
		var name struct{ Name string }
		if err := json.Unmarshal(s.Graders, &name); err != nil {
			return nil, fmt.Errorf("%s.graders: %w", key, err)
		}
		specs = map[string]json.RawMessage{name.Name: s.Graders}
	}
	m, known := &multi{graders: map[string]grader{}}, types.Map{}
	for _, name := range slices.Sorted(maps.Keys(specs)) {
		if !isName.MatchString(name) {
			return nil, fmt.Errorf("%s.graders: formula_parse_error: the name %q must have letters, digits and _ alone", key, name)
		}
		built, err := g.build(specs[name], key+".graders."+name)
		if err != nil {
			return nil, err
		}
		if n, ok := built.(*namedGrader); ok {
			n.name = name
		}
		m.graders[name], known[name] = built, types.Float
	}
	var err error
	if m.formula, err = expr.Compile(s.Formula, append(functions(known), expr.AsFloat64())...); err != nil {
		return nil, fmt.Errorf("%s.calculate_output: formula_parse_error: %s", key, retry.OneLine([]byte(err.Error())))
	}
	return m, nil
}

// functions returns the options of the compiler for formulas.
func functions(known types.Map) []expr.Option {
	options := []expr.Option{expr.Env(known), expr.DisableAllBuiltins(), expr.EnableBuiltin("min"), expr.EnableBuiltin("max"),
		expr.EnableBuiltin("abs"), expr.EnableBuiltin("floor"), expr.EnableBuiltin("ceil")}
	for name, fn := range map[string]func(float64) float64{"exp": math.Exp, "sqrt": math.Sqrt, "log": math.Log} {
		options = append(options, expr.Function(name, func(args ...any) (any, error) {
			switch v := args[0].(type) {
			case float64:
				return fn(v), nil
			case int:
				return fn(float64(v)), nil
			}
			return nil, fmt.Errorf("%s takes a number, got %v", name, args[0])
		}, new(func(any) float64)))
	}
	return options
}

func (m *multi) grade(ctx context.Context, s *sample) (float64, error) {
	scores := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(m.graders)) {
		v, err := m.graders[name].grade(ctx, s)
		if err != nil {
			return 0, err
		}
		scores[name] = v
	}
	out, err := expr.Run(m.formula, scores)
	if err != nil {
		return 0, failed("other_error", "calculate_output: %v", err)
	}
	return out.(float64), nil
}
