package environment

import (
	"errors"
	"fmt"
	"math"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// controlExpression is an expression of numbers that a policy wrote.
type controlExpression struct{ of syntax.Expr }

// Bounds of an expression: bytes, and steps of the interpreter.
const maxExpression, maxExpressionSteps = 4000, 20_000

// controlNames are the variables of an expression.
var controlNames = map[string]bool{
	"x": true, "v": true, "t": true, "x_target": true, "v_target": true, "horizon": true, "remaining_steps": true,
}

var controlOptions = &syntax.FileOptions{}

// parseControl reads an expression of numbers, variables, operators and functions of numbers. It
// refuses whatever else the language has, since that may take time and memory without bounds.
func parseControl(source string) (*controlExpression, error) {
	if source == "" || len(source) > maxExpression {
		return nil, fmt.Errorf("want one expression of at most %d bytes", maxExpression)
	}
	expr, err := controlOptions.ParseExpr("reply", "("+source+")", 0)
	if err != nil {
		if at := (syntax.Error{}); errors.As(err, &at) {
			err = errors.New(at.Msg)
		}
		return nil, err
	}
	var wrong error
	syntax.Walk(expr, func(n syntax.Node) bool {
		if n != nil && wrong == nil {
			wrong = allowed(n)
		}
		return wrong == nil
	})
	return &controlExpression{expr}, wrong
}

// allowed returns why a part of an expression is not allowed, or nil.
func allowed(n syntax.Node) error {
	switch n := n.(type) {
	case *syntax.ParenExpr, *syntax.CondExpr:
		return nil
	case *syntax.Ident:
		if !controlNames[n.Name] && controlFunctions[n.Name] == nil {
			return fmt.Errorf("unknown name %q", n.Name)
		}
		return nil
	case *syntax.Literal:
		if n.Token == syntax.INT || n.Token == syntax.FLOAT {
			return nil
		}
	case *syntax.UnaryExpr:
		if n.X != nil && (n.Op == syntax.PLUS || n.Op == syntax.MINUS || n.Op == syntax.NOT) {
			return nil
		}
	case *syntax.BinaryExpr:
		switch n.Op {
		case syntax.PLUS, syntax.MINUS, syntax.STAR, syntax.SLASH, syntax.AND, syntax.OR,
			syntax.EQL, syntax.NEQ, syntax.LT, syntax.LE, syntax.GT, syntax.GE:
			return nil
		}
	case *syntax.CallExpr:
		if name, ok := n.Fn.(*syntax.Ident); ok && controlFunctions[name.Name] != nil {
			return nil
		}
		return errors.New("unknown function")
	}
	start, _ := n.Span()
	return fmt.Errorf("not allowed: what stands at character %d", max(1, start.Col-1))
}

// controlFunctions are the functions of an expression.
var controlFunctions = starlark.StringDict{
	"abs":  numeric("abs", 1, 1, func(v []float64) float64 { return math.Abs(v[0]) }),
	"pow":  numeric("pow", 2, 2, func(v []float64) float64 { return math.Pow(v[0], v[1]) }),
	"clip": numeric("clip", 3, 3, func(v []float64) float64 { return min(v[2], max(v[1], v[0])) }),
	"min": numeric("min", 1, 100, func(v []float64) float64 {
		lowest := v[0]
		for _, x := range v {
			lowest = min(lowest, x)
		}
		return lowest
	}),
	"max": numeric("max", 1, 100, func(v []float64) float64 {
		highest := v[0]
		for _, x := range v {
			highest = max(highest, x)
		}
		return highest
	}),
}

// numeric returns a function of numbers.
func numeric(name string, least, most int, of func([]float64) float64) *starlark.Builtin {
	return starlark.NewBuiltin(name, func(
		_ *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, named []starlark.Tuple,
	) (starlark.Value, error) {
		if len(args) < least || len(args) > most || len(named) > 0 {
			return nil, fmt.Errorf("%s does not take these arguments", name)
		}
		values := make([]float64, len(args))
		for i, arg := range args {
			var ok bool
			if values[i], ok = starlark.AsFloat(arg); !ok {
				return nil, fmt.Errorf("%s takes numbers, got %s", name, arg.Type())
			}
		}
		return starlark.Float(of(values)), nil
	})
}

// value computes the expression.
func (e *controlExpression) value(variables map[string]float64) (float64, error) {
	env := starlark.StringDict{}
	for name, f := range controlFunctions {
		env[name] = f
	}
	for name, v := range variables {
		env[name] = starlark.Float(v)
	}
	thread := &starlark.Thread{Name: "reply"}
	thread.SetMaxExecutionSteps(maxExpressionSteps)
	result, err := starlark.EvalExprOptions(controlOptions, thread, e.of, env)
	if err != nil {
		return 0, err
	}
	if _, isBool := result.(starlark.Bool); isBool {
		return 0, errors.New("it gives true or false, want a number")
	}
	v, ok := starlark.AsFloat(result)
	if !ok || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, fmt.Errorf("it gives %s, want a finite number", result.Type())
	}
	return v, nil
}
