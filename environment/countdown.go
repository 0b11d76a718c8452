package environment

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Environments.Register("countdown",
		"The numbers game, a step a turn: the policy combines two of the numbers, such as 3 * 7, which are replaced by the result, until one "+
			"is left. The numbers and the target are the row's, else they follow from the seed. A division must give a whole number. A reply "+
			"that is no step costs a try. Reward: 1 if the last number is the target, else 0. Metrics: success; valid, the share of replies that "+
			"are a step.",
		func() trinity.EnvironmentOpener {
			return &countdown{NumbersKey: "numbers", TargetKey: "target", Count: 4, Largest: 20, Tries: 3,
				Ask: "Reach {target} from {numbers}: each turn, replace two of the numbers by their sum, difference, product or quotient, until " +
					"one is left. Think first, then write the next step between ``` and ```, such as ```{step}```.",
				Tell: "Left: {numbers}. The target is {target}."}
		})
}

// countdown is the game.
type countdown struct {
	NumbersKey string `yaml:"numbers_key" doc:"column of the numbers"`
	TargetKey  string `yaml:"target_key" doc:"column of the target"`
	Count      int    `yaml:"count" range:"[2,8]" doc:"numbers of a row that has none"`
	Largest    int    `yaml:"largest" range:"[1,1000]" doc:"largest of them; the target is at most ten times as large"`
	Tries      int    `yaml:"tries" range:"[1,)" doc:"replies that are no step at most; the last one ends the episode"`
	Ask        string `yaml:"ask" doc:"first message to the policy; {numbers} stands for those left, {target}, and {step} for an example"`
	Tell       string `yaml:"tell" doc:"message after each step, with the same words"`
}

// Requires implements [trinity.Requirer].
func (c *countdown) Requires() trinity.Requirements {
	return trinity.Requirements{CheckTask: func(t *trinity.Task) error {
		_, _, err := c.puzzle(t)
		return err
	}}
}

// puzzle returns the row's numbers and target; numbers is nil if it has neither.
func (c *countdown) puzzle(t *trinity.Task) (numbers []int, target int, err error) {
	var given *int
	if err := columns(t, map[string]any{c.NumbersKey: &numbers, c.TargetKey: &given}); err != nil {
		return nil, 0, err
	}
	switch {
	case numbers == nil && given == nil:
		return nil, 0, nil
	case given == nil || len(numbers) < 2:
		return nil, 0, fmt.Errorf("columns %q and %q: want two numbers or more, and a target; or neither of both", c.NumbersKey, c.TargetKey)
	}
	return numbers, *given, nil
}

// OpenEnvironment implements [trinity.EnvironmentOpener].
func (c *countdown) OpenEnvironment(_ context.Context, t *trinity.Task) (trinity.Environment, error) {
	_, _, err := c.puzzle(t)
	return &counting{args: c, task: t}, err
}

// counting is one episode.
type counting struct {
	inMemory
	args          *countdown
	task          *trinity.Task
	left          []int
	target        int
	replies, read int
}

// Reset implements [trinity.Environment].
func (c *counting) Reset(_ context.Context, seed uint64) (o trinity.Observation, err error) {
	c.replies, c.read = 0, 0
	if c.left, c.target, err = c.args.puzzle(c.task); err != nil {
		return o, err
	}
	if c.left == nil {
		c.draw(rand.New(rand.NewPCG(seed, 0)))
	}
	return c.says(c.args.Ask), nil
}

// draw draws numbers and a target that steps lead to.
func (c *counting) draw(random *rand.Rand) {
	for {
		c.left = nil
		for range c.args.Count {
			c.left = append(c.left, 1+random.IntN(c.args.Largest))
		}
		made := slices.Clone(c.left)
		for len(made) > 1 {
			random.Shuffle(len(made), func(i, j int) { made[i], made[j] = made[j], made[i] })
			if result, err := combined(made[0], made[1], "+-*/"[random.IntN(4)]); err == nil {
				made = append(made[2:], result)
			}
		}
		if c.target = made[0]; c.target > 0 && c.target <= 10*c.args.Largest {
			return
		}
	}
}

// combined returns the result of a step.
func combined(a, b int, operator byte) (int, error) {
	const most = 1_000_000_000
	result := 0
	switch operator {
	case '+':
		result = a + b
	case '-':
		result = a - b
	case '*':
		result = a * b
	default:
		if b == 0 || a%b != 0 {
			return 0, fmt.Errorf("%d / %d is no whole number", a, b)
		}
		result = a / b
	}
	if max(result, -result) > most {
		return 0, errors.New("the result is too large")
	}
	return result, nil
}

// says returns what the policy reads.
func (c *counting) says(text string) trinity.Observation {
	var numbers []string
	for _, n := range c.left {
		numbers = append(numbers, strconv.Itoa(n))
	}
	step := ""
	if len(c.left) > 1 {
		step = fmt.Sprintf("%d + %d", c.left[0], c.left[1])
	}
	listed := strings.Join(numbers, ", ")
	return says(text, fmt.Sprintf("%s to %d", listed, c.target), "{numbers}", listed, "{target}", strconv.Itoa(c.target), "{step}", step)
}

// countdownStep is a step: two numbers, an operator between them, and the result or not.
var countdownStep = regexp.MustCompile(`^\s*(-?\d{1,10})\s*([-+*/])\s*(-?\d{1,10})\s*(?:=\s*(-?\d{1,10})\s*)?$`)

// take makes a step, or returns why it is none.
func (c *counting) take(reply string) error {
	parts := countdownStep.FindStringSubmatch(fenced(reply))
	if parts == nil {
		return errors.New("the reply is no step of two numbers and one of + - * / between them")
	}
	a, _ := strconv.Atoi(parts[1]) // the pattern makes sure that these are numbers
	b, _ := strconv.Atoi(parts[3])
	rest := slices.Clone(c.left)
	for _, n := range []int{a, b} {
		i := slices.Index(rest, n)
		if i < 0 {
			return fmt.Errorf("%s needs numbers that are left", strings.TrimSpace(parts[0]))
		}
		rest = slices.Delete(rest, i, i+1)
	}
	result, err := combined(a, b, parts[2][0])
	if err != nil {
		return err
	}
	if parts[4] != "" && parts[4] != strconv.Itoa(result) {
		return fmt.Errorf("%d %s %d is %d", a, parts[2], b, result)
	}
	c.left = append(rest, result)
	return nil
}

// Step implements [trinity.Environment].
func (c *counting) Step(_ context.Context, a trinity.Action) (out trinity.Outcome, err error) {
	c.replies++
	text := c.args.Tell
	if wrong := c.take(a.Text); wrong == nil {
		c.read++
	} else {
		text = "Not done: " + wrong.Error() + ".\n" + text
	}
	out.Observation = c.says(text)
	won := asNumber(len(c.left) == 1 && c.left[0] == c.target)
	out.Metrics = map[string]float64{"success": won, "valid": float64(c.read) / float64(c.replies)}
	if out.Done = len(c.left) == 1 || c.replies-c.read == c.args.Tries; out.Done {
		out.Reward = &won
	}
	return out, nil
}
