package reward

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"strconv"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/reward/mathequal"
)

func init() {
	registry.Rewards.Register("countdown_reward",
		"The numbers game: 1 if the expression in the last <answer> tag uses each given number once, with + - * / "+
			"(or − × ÷) and parentheses, and equals the target exactly; `format_score` for any other expression; 0 without one. The truth is "+
			"a JSON object {target, numbers}, "+
			"or the target alone with the numbers in the row at `numbers_key`. Part: score.",
		func() trinity.RewardFunc { return &countdown{FormatScore: 0.1, NumbersKey: "numbers"} })
}

// countdown scores an expression that should reach a target with given numbers. Arithmetic is
// exact.
//
// Unlike Trinity-RFT: the operators // and ** are no part of the game, a truth that cannot be read is
// an invalid reward and no error, numbers may begin with 0, and the target must be met exactly.
type countdown struct {
	FormatScore float64 `yaml:"format_score" doc:"for a wrong expression"`
	NumbersKey  string  `yaml:"numbers_key" doc:"key of the numbers in the row, if the truth is the target alone"`
}

// Requires implements [trinity.Requirer].
func (c *countdown) Requires() trinity.Requirements {
	return trinity.Requirements{CheckTask: c.checkTask}
}

func (c *countdown) checkTask(t *trinity.Task) error {
	_, _, err := c.puzzle(trinity.RewardInput{Task: t, Truth: t.Truth()})
	return err
}

// Score implements [trinity.RewardFunc].
func (c *countdown) Score(_ context.Context, in trinity.RewardInput) (trinity.Reward, error) {
	target, numbers, err := c.puzzle(in)
	if err != nil {
		return trinity.InvalidReward(err.Error()), nil
	}
	score := 0.0
	if expression, ok := mathequal.Tagged(in.Response); ok && expression != "" {
		score = c.FormatScore
		if value, used, ok := calculate(expression); ok && value.Cmp(target) == 0 && maps.Equal(tally(used), tally(numbers)) {
			score = 1
		}
	}
	return trinity.NewReward(map[string]float64{"score": score}), nil
}

// puzzle returns the target and the numbers to use.
func (c *countdown) puzzle(in trinity.RewardInput) (target *big.Rat, numbers []*big.Rat, err error) {
	if in.Truth == "" {
		return nil, nil, errors.New(noTruth(in).Reason)
	}
	truth, ok := c.truth(in)
	if !ok {
		return nil, nil, fmt.Errorf("the truth of countdown is %q, want a JSON object {target, numbers}, or a number with %s in the row",
			in.Truth, c.NumbersKey)
	}
	target, ok = exact(truth["target"])
	if !ok {
		return nil, nil, fmt.Errorf("the truth of countdown is %s, whose target is no number", in.Truth)
	}
	list, _ := truth["numbers"].([]any)
	if len(list) == 0 {
		return nil, nil, fmt.Errorf("the truth of countdown is %s, and its numbers are no list of numbers", in.Truth)
	}
	for i, v := range list {
		n, ok := exact(v)
		if !ok {
			return nil, nil, fmt.Errorf("the truth of countdown is %s, and its number %d is none", in.Truth, i+1)
		}
		numbers = append(numbers, n)
	}
	return target, numbers, nil
}

// truth returns the object {target, numbers}: the field of the row, its text as JSON, or an object
// made of two fields. ok is false if there is none.
func (c *countdown) truth(in trinity.RewardInput) (truth map[string]any, ok bool) {
	var numbers any
	if in.Task != nil {
		if v, ok := in.Task.Field(in.Task.Format.ResponseKey); ok {
			if o, ok := v.(map[string]any); ok {
				return o, true
			}
		}
		numbers, _ = in.Task.Field(c.NumbersKey)
	}
	if o, ok := object(in.Truth); ok {
		return o, true
	}
	return map[string]any{"target": in.Truth, "numbers": numbers}, numbers != nil
}

// exact returns a number of a row, which decoders may leave as a number or a text; ok is false for
// anything else.
func exact(v any) (*big.Rat, bool) {
	switch n := v.(type) {
	case float64:
		return rational(strconv.FormatFloat(n, 'f', -1, 64))
	case string, json.Number, int, int32, int64:
		return rational(fmt.Sprint(n))
	}
	return nil, false
}

// tally counts how often each number occurs.
func tally(numbers []*big.Rat) map[string]int {
	counts := map[string]int{}
	for _, n := range numbers {
		counts[n.RatString()]++
	}
	return counts
}

// maxExpression bounds an expression, in bytes. Each literal occurs once, so no value has many more
// digits.
const maxExpression = 1000

// calculate returns the exact value of an expression of whole numbers, + - * / and parentheses, and
// the numbers in it. ok is false for any other text and for a division by zero.
func calculate(text string) (value *big.Rat, used []*big.Rat, ok bool) {
	if len(text) > maxExpression {
		return nil, nil, false
	}
	c := &calculator{rest: plainOperators.Replace(plainNumerals(text))}
	value, ok = c.sum()
	return value, c.used, ok && c.peek() == 0
}

// calculator parses an expression by recursive descent.
type calculator struct {
	rest string
	used []*big.Rat
}

// peek returns the next character that is not a space, 0 at the end.
func (c *calculator) peek() byte {
	c.rest = strings.TrimLeft(c.rest, " \t\r\n")
	if c.rest == "" {
		return 0
	}
	return c.rest[0]
}

// take consumes the next character if set contains it.
func (c *calculator) take(set string) (byte, bool) {
	b := c.peek()
	if b == 0 || strings.IndexByte(set, b) < 0 {
		return 0, false
	}
	c.rest = c.rest[1:]
	return b, true
}

func (c *calculator) sum() (*big.Rat, bool) {
	left, ok := c.product()
	for ok {
		op, more := c.take("+-")
		if !more {
			break
		}
		var right *big.Rat
		if right, ok = c.product(); ok {
			left = add(left, right, op)
		}
	}
	return left, ok
}

func add(left, right *big.Rat, op byte) *big.Rat {
	if op == '-' {
		return new(big.Rat).Sub(left, right)
	}
	return new(big.Rat).Add(left, right)
}

func (c *calculator) product() (*big.Rat, bool) {
	left, ok := c.factor()
	for ok {
		op, more := c.take("*/")
		if !more {
			break
		}
		right, valid := c.factor()
		switch {
		case !valid || op == '/' && right.Sign() == 0:
			return nil, false
		case op == '/':
			left = new(big.Rat).Quo(left, right)
		default:
			left = new(big.Rat).Mul(left, right)
		}
	}
	return left, ok
}

// factor parses a whole number, a sum in parentheses, or a factor with a sign.
func (c *calculator) factor() (*big.Rat, bool) {
	if sign, ok := c.take("+-"); ok {
		v, ok := c.factor()
		if ok && sign == '-' {
			v = new(big.Rat).Neg(v)
		}
		return v, ok
	}
	if _, ok := c.take("("); ok {
		v, ok := c.sum()
		if _, closed := c.take(")"); !ok || !closed {
			return nil, false
		}
		return v, true
	}
	return c.literal()
}

func (c *calculator) literal() (*big.Rat, bool) {
	c.peek()
	n := len(c.rest) - len(strings.TrimLeft(c.rest, "0123456789"))
	if n == 0 {
		return nil, false
	}
	v, ok := new(big.Int).SetString(c.rest[:n], 10)
	c.rest = c.rest[n:]
	if !ok {
		return nil, false
	}
	r := new(big.Rat).SetInt(v)
	c.used = append(c.used, r)
	return r, true
}
