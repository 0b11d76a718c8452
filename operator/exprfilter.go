package operator

import (
	"context"
	"fmt"

	"github.com/expr-lang/expr"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Operators.Register("expr_filter",
		"Keeps experiences for which an expression is true, such as `valid and response_tokens < 512`. "+
			expressionFields+
			" Metric: filtered_count.",
		func() trinity.Operator { return &exprFilter{} })
}

// exprFilter keeps the experiences for which a condition is true.
type exprFilter struct {
	Condition string `yaml:"condition" required:"write an expression, such as reward > group.mean" doc:"a boolean expression"`
}

// Validate compiles the condition.
func (f *exprFilter) Validate() error {
	_, err := compile("condition", f.Condition, expr.AsBool())
	return err
}

// Process implements trinity.Operator. It returns an error that names the experience if the
// condition fails or is not a boolean.
func (f *exprFilter) Process(_ context.Context, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	program, err := compile("condition", f.Condition, expr.AsBool())
	if err != nil {
		return nil, nil, err
	}
	chosen := selection{}
	for _, g := range byPart(groups) {
		of := fieldsOfGroup(g)
		for _, e := range g {
			v, err := evaluate("condition", program, e, fieldsOf(e, of))
			if err != nil {
				return nil, nil, err
			}
			holds, ok := v.(bool)
			if !ok {
				return nil, nil, fmt.Errorf("condition of experience %s: got %v (%T), want true or false", e.ID, v, v)
			}
			chosen[e] = holds
		}
	}
	kept, metrics := keep(groups, chosen.has)
	return kept, metrics, nil
}
