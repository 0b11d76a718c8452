package environment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Environments.Register("calculator",
		"Asks the task's question and offers a tool that computes an expression of numbers with + - * / ** and parentheses, in 64-bit "+
			"floating point. A reply without a call ends the episode. The task's reward function scores it.",
		func() trinity.EnvironmentOpener { return &calculator{Name: "calculator"} })
}

// calculator is the tool.
type calculator struct {
	Name string `yaml:"name" required:"the tool needs a name" doc:"name by which the policy calls the tool"`
}

// longestExpression bounds what a call may ask for, in bytes.
const longestExpression = 500

// Requires implements [trinity.Requirer].
func (c *calculator) Requires() trinity.Requirements {
	return trinity.Requirements{Tools: true, CheckTask: func(t *trinity.Task) error {
		_, err := t.Messages("")
		return err
	}}
}

// OpenEnvironment implements [trinity.EnvironmentOpener].
func (c *calculator) OpenEnvironment(_ context.Context, t *trinity.Task) (trinity.Environment, error) {
	return &calculating{args: c, task: t}, nil
}

// calculating is an episode with the tool.
type calculating struct {
	inMemory
	args *calculator
	task *trinity.Task
}

// Reset implements [trinity.Environment].
func (c *calculating) Reset(context.Context, uint64) (o trinity.Observation, err error) {
	if o.Messages, err = c.task.Messages(""); err != nil {
		return o, err
	}
	o.Tools, err = schemas(tool{name: c.args.Name, description: "Computes an expression of numbers with + - * / ** and parentheses.",
		parameters: map[string]any{"expression": textParameter("such as (12 + 3) * 4")}, required: []string{"expression"}})
	return o, err
}

// Step implements [trinity.Environment].
func (c *calculating) Step(_ context.Context, a trinity.Action) (out trinity.Outcome, err error) {
	for _, call := range a.Calls {
		value, wrong := c.args.answer(call)
		out.ToolError = out.ToolError || wrong != nil
		out.Messages = append(out.Messages, answerOf(call, strconv.FormatFloat(value, 'g', 15, 64), wrong))
	}
	out.Done = len(a.Calls) == 0
	return out, nil
}

// answer computes what a call asks for.
func (c *calculator) answer(call trinity.ToolCall) (float64, error) {
	if call.Name != c.Name {
		return 0, fmt.Errorf("there is no tool %q, only %q", call.Name, c.Name)
	}
	var args struct{ Expression *string }
	if err := json.Unmarshal(call.Arguments, &args); err != nil || args.Expression == nil {
		return 0, errors.New(`want the argument "expression", a text`)
	}
	return compute(*args.Expression)
}

// compute returns the value of an expression of numbers.
func compute(expression string) (float64, error) {
	if len(expression) > longestExpression {
		return 0, fmt.Errorf("the expression has more than %d bytes", longestExpression)
	}
	arithmetic := &onlyNumbers{}
	program, err := expr.Compile(expression, expr.Patch(arithmetic), expr.DisableAllBuiltins())
	if arithmetic.wrong {
		err = errors.New("only + - * / ** and parentheses")
	}
	if err != nil {
		return 0, fmt.Errorf("%q is no expression of numbers", expression)
	}
	value, err := expr.Run(program, nil)
	number, ok := value.(float64)
	if err != nil || !ok || math.IsNaN(number) || math.IsInf(number, 0) {
		return 0, fmt.Errorf("%q has no value", expression)
	}
	return number, nil
}

// onlyNumbers makes all numbers of an expression floating-point ones, which do not wrap around, and
// notes whether there is anything but arithmetic.
type onlyNumbers struct{ wrong bool }

// Visit implements [ast.Visitor].
func (o *onlyNumbers) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.IntegerNode:
		ast.Patch(node, &ast.FloatNode{Value: float64(n.Value)})
	case *ast.FloatNode, *ast.UnaryNode, *ast.BinaryNode:
	default:
		o.wrong = true
	}
}
