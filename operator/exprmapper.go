package operator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/vm"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Operators.Register("expr_mapper",
		"Sets the reward and entries of info by expressions, such as `reward: reward - 0.001 * "+
			"response_tokens`. All expressions see the experience and its group as they were before the "+
			"operator. "+
			expressionFields+
			" An experience without a valid reward gets none. A reward that is not a finite number is invalid. "+
			"Metrics: reward_diff/{mean,max,min}.",
		func() trinity.Operator { return &exprMapper{} })
}

// exprMapper computes rewards and info.
type exprMapper struct {
	Reward string            `yaml:"reward" doc:"an expression whose value is a number; empty leaves rewards as they are"`
	Info   map[string]string `yaml:"info" doc:"keys of info to set, each with its expression"`
}

// mapping is a compiled exprMapper.
type mapping struct {
	reward *vm.Program
	info   map[string]*vm.Program
}

func (m *exprMapper) compile() (c mapping, err error) {
	if m.Reward != "" {
		if c.reward, err = compile("reward", m.Reward, expr.AsFloat64()); err != nil {
			return c, err
		}
	}
	c.info = map[string]*vm.Program{}
	for _, k := range slices.Sorted(maps.Keys(m.Info)) {
		if c.info[k], err = compile("info."+k, m.Info[k]); err != nil {
			return c, err
		}
	}
	return c, nil
}

// Validate compiles the expressions.
func (m *exprMapper) Validate() error {
	if m.Reward == "" && len(m.Info) == 0 {
		return errors.New("set reward, info or both")
	}
	_, err := m.compile()
	return err
}

// Process implements trinity.Operator. If an expression fails, the error names it and the
// experience.
func (m *exprMapper) Process(_ context.Context, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	c, err := m.compile()
	if err != nil {
		return nil, nil, err
	}
	var diffs []float64
	for _, g := range byPart(groups) {
		of := fieldsOfGroup(g)
		for _, e := range g {
			before := e.Reward.Value
			if err := c.apply(e, fieldsOf(e, of)); err != nil {
				return nil, nil, err
			}
			if scored(e) {
				diffs = append(diffs, e.Reward.Value-before)
			}
		}
	}
	metrics := trinity.Metrics{}
	if c.reward != nil {
		summarize(metrics, "reward_diff", diffs)
	}
	return groups, metrics, nil
}

func (c mapping) apply(e *trinity.Experience, f fields) error {
	info := map[string]any{}
	for _, k := range slices.Sorted(maps.Keys(c.info)) {
		v, err := evaluate("info."+k, c.info[k], e, f)
		if err != nil {
			return err
		}
		info[k] = v
	}
	if c.reward != nil && f.Valid {
		v, err := evaluate("reward", c.reward, e, f)
		if err != nil {
			return err
		}
		e.Reward.Value = v.(float64)
		if !scored(e) {
			e.Reward = trinity.InvalidReward(fmt.Sprintf("the expression made the reward %v of %v", v, f.Reward))
		}
	}
	if len(info) > 0 {
		e.Info = maps.Clone(e.Info) // siblings may share it
		if e.Info == nil {
			e.Info = map[string]any{}
		}
		maps.Copy(e.Info, info)
	}
	return nil
}
