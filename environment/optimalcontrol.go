package environment

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Environments.Register("cod_optimalcontrol",
		"The policy writes one expression that controls a point on a line: v ← a·v + b·u (+ noise), x ← x + v, with u from −1 to 1. a and b are "+
			"unknown, and the same in all tasks of a pack. A row has the columns seed, x0, v0, x_target, v_target, horizon (or max_horizon) and "+
			"control_penalty_coef. Loss: (x − x_target)² + 2·(v − v_target)² at the end + control_penalty_coef·Σ u². Reward: 1/(1 + loss); "+
			"unread_reward for a reply that is no expression; 0 for one that cannot be computed. Words of the first message: {x0}, {v0}, "+
			"{x_target}, {v_target}, {horizon}, {penalty}, {noise}, {earlier}. Metrics: loss, valid.",
		func() trinity.EnvironmentOpener {
			return &optimalControl{A: []float64{0.55, 1.2}, B: []float64{-1.5, 1.5}, UnreadReward: -0.1,
				Ask: "A point moves on a line. In each step your controller gives u, which is cut to −1 … 1; then v ← a·v + b·u{noise} and " +
					"x ← x + v. " +
					"You do not know a and b, which stay the same in later tasks. The point begins at x = {x0} with v = {v0}. After {horizon} steps it " +
					"should be at x = {x_target} with v = {v_target}. Your reward is 1/(1 + loss), with loss = (x − x_target)² + 2·(v − v_target)² " +
					"+ {penalty}·Σ u².\n" +
					"Think first, then write one expression for u between ``` and ```. It may use x, v, t (the step, from 0), x_target, v_target, " +
					"horizon and remaining_steps; numbers, + - * /, comparisons, and, or, not, A if CONDITION else B; abs, min, max, pow, " +
					"clip(value, lowest, highest).{earlier}"}
		})
}

// optimalControl is the point on a line.
type optimalControl struct {
	A            []float64 `yaml:"a_env_range" doc:"lowest and highest a"`
	B            []float64 `yaml:"b_env_range" doc:"lowest and highest b"`
	MinAbsB      float64   `yaml:"min_abs_b_env" range:"[0,inf]" doc:"lowest size of b"`
	Noise        bool      `yaml:"enable_process_noise" doc:"add Gaussian noise to v"`
	NoiseStd     float64   `yaml:"process_noise_std" range:"[0,)" doc:"standard deviation of the noise"`
	ShowEarlier  bool      `yaml:"include_previous_control_policy" doc:"the policy reads the pack's last working expression, with its result"`
	UnreadReward float64   `yaml:"unread_reward" doc:"reward of a reply that is no expression"`
	Ask          string    `yaml:"ask" required:"write the message to the policy" doc:"first message to the policy"`
}

// Validate checks the arguments.
func (o *optimalControl) Validate() error {
	for name, r := range map[string][]float64{"a_env_range": o.A, "b_env_range": o.B} {
		if len(r) != 2 || !(r[0] <= r[1]) || math.IsInf(r[0], 0) || math.IsInf(r[1], 0) {
			return fmt.Errorf("%s: want [lowest, highest], got %v", name, r)
		}
	}
	if o.MinAbsB > max(-o.B[0], o.B[1]) {
		return fmt.Errorf("min_abs_b_env: b_env_range needs a b of that size, got %g", o.MinAbsB)
	}
	return nil
}

// control is a task: a place to begin, one to reach, and the time for it.
type control struct {
	place
	x0, v0, x, v, penalty float64
	horizon               int
}

// maxHorizon bounds the steps of a task.
const maxHorizon = 10_000

// of reads the task of a row.
func (o *optimalControl) of(t *trinity.Task) (c control, err error) {
	if c.place, err = placeOf(t); err != nil {
		return c, err
	}
	numbers := map[string]*float64{"x0": &c.x0, "v0": &c.v0, "x_target": &c.x, "v_target": &c.v, "control_penalty_coef": &c.penalty}
	into := map[string]any{"horizon": &c.horizon}
	if _, ok := t.Field("horizon"); !ok {
		into = map[string]any{"max_horizon": &c.horizon}
	}
	for _, name := range slices.Sorted(maps.Keys(numbers)) {
		n := numbers[name]
		if _, ok := t.Field(name); !ok {
			return c, fmt.Errorf("no column %q: a task has x0, v0, x_target, v_target, horizon and control_penalty_coef", name)
		}
		into[name] = n
	}
	if err = columns(t, into); err == nil && (c.horizon < 1 || c.horizon > maxHorizon) {
		err = fmt.Errorf("column \"horizon\" or \"max_horizon\": want 1 to %d, got %d", maxHorizon, c.horizon)
	}
	return c, err
}

// Requires implements [trinity.Requirer].
func (o *optimalControl) Requires() trinity.Requirements {
	return trinity.Requirements{CheckTask: checkBy(o.of)}
}

// OpenEnvironment implements [trinity.EnvironmentOpener].
func (o *optimalControl) OpenEnvironment(ctx context.Context, t *trinity.Task) (trinity.Environment, error) {
	c := &controlling{args: o}
	return c, c.Reuse(ctx, t)
}

// controlling is one episode.
type controlling struct {
	inMemory
	args    *optimalControl
	task    control
	a, b    float64
	noise   *rand.Rand
	earlier string // what the pack's last expression that worked has come to
}

// Reuse implements [trinity.Reusable]. The later tasks of a pack know of its earlier expressions.
func (c *controlling) Reuse(_ context.Context, t *trinity.Task) (err error) {
	if c.task, err = c.args.of(t); c.task.index == 0 {
		c.earlier = ""
	}
	return err
}

// Reset implements [trinity.Environment].
func (c *controlling) Reset(_ context.Context, seed uint64) (trinity.Observation, error) {
	own, unknowns := c.task.seeds(seed)
	random := newNumpyRandom(unknowns)
	c.a, c.b = random.uniform(c.args.A[0], c.args.A[1]), c.args.drawB(random)
	c.noise = rand.New(rand.NewPCG(own, 0))
	if c.task.index == 0 {
		c.earlier = ""
	}
	noise, earlier := "", ""
	if c.args.Noise {
		noise = fmt.Sprintf(" + noise of standard deviation %g", c.args.NoiseStd)
	}
	if c.args.ShowEarlier && c.earlier != "" {
		earlier = "\n\nIn an earlier task, with the same a and b: " + c.earlier
	}
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	t := &c.task
	o := says(c.args.Ask, "", "{x0}", number(t.x0), "{v0}", number(t.v0), "{x_target}", number(t.x), "{v_target}", number(t.v),
		"{horizon}", strconv.Itoa(t.horizon), "{penalty}", number(t.penalty), "{noise}", noise, "{earlier}", earlier)
	o.State = o.Messages[0].Content
	return o, nil
}

// drawB draws a b of sufficient size, each of those in the range equally likely.
func (o *optimalControl) drawB(random *numpyRandom) float64 {
	below := max(0, min(o.B[1], -o.MinAbsB)-o.B[0])
	above := max(0, o.B[1]-max(o.B[0], o.MinAbsB))
	at := random.float64() * (below + above)
	switch {
	case o.MinAbsB == 0:
		return random.uniform(o.B[0], o.B[1])
	case below > 0 && at < below || above == 0 && o.B[0] <= -o.MinAbsB:
		return o.B[0] + min(at, below)
	}
	return max(o.B[0], o.MinAbsB) + at - below
}

// Step implements [trinity.Environment]. A reply is the whole episode.
func (c *controlling) Step(ctx context.Context, a trinity.Action) (out trinity.Outcome, err error) {
	source := strings.TrimSpace(fencedCode(a.Text, "python", "text"))
	reward, said, loss, valid := c.args.UnreadReward, "", math.NaN(), 0.0
	if expression, wrong := parseControl(source); wrong != nil {
		said = fmt.Sprintf("This is no expression: %v.", wrong)
	} else if path, wrong := c.drive(ctx, expression); wrong != nil {
		if ctx.Err() != nil {
			return out, context.Cause(ctx)
		}
		reward, said = 0, fmt.Sprintf("The expression fails: %v.", wrong)
	} else {
		valid, loss = 1, path.loss
		reward = 1 / (1 + loss)
		said = fmt.Sprintf("%s\nThe target was x = %g, v = %g. Loss %.3f, reward %.4g.", path.table, c.task.x, c.task.v, loss, reward)
		c.earlier = fmt.Sprintf("from x = %g, v = %g to the target x = %g, v = %g in %d steps, with a penalty of %g, the expression %s "+
			"ended at x = %.3f, v = %.3f with reward %.4g.",
			c.task.x0, c.task.v0, c.task.x, c.task.v, c.task.horizon, c.task.penalty, source, path.x, path.v, reward)
	}
	out.Observation = says(said, "")
	out.Reward, out.Done, out.Metrics = &reward, true, map[string]float64{"valid": valid}
	if valid == 1 {
		out.Metrics["loss"] = loss
	}
	return out, nil
}

// driven is how an expression moved the point.
type driven struct {
	table      string
	x, v, loss float64
}

// drive lets an expression control the point.
func (c *controlling) drive(ctx context.Context, e *controlExpression) (d driven, err error) {
	const shown = 40 // steps in the table at most
	t := &c.task
	x, v, effort := t.x0, t.v0, 0.0
	var table strings.Builder
	table.WriteString("t x v u")
	for step := range t.horizon {
		if ctx.Err() != nil {
			return d, context.Cause(ctx)
		}
		u, err := e.value(map[string]float64{"x": x, "v": v, "t": float64(step), "x_target": t.x, "v_target": t.v,
			"horizon": float64(t.horizon), "remaining_steps": float64(t.horizon - step)})
		if err != nil {
			return d, fmt.Errorf("in step %d, %w", step, err)
		}
		u = min(1, max(-1, u))
		if step < shown {
			fmt.Fprintf(&table, "\n%d %.3f %.3f %.3f", step, x, v, u)
		} else if step == shown {
			table.WriteString("\n…")
		}
		effort += u * u
		v = c.a*v + c.b*u
		if c.args.Noise {
			v += c.args.NoiseStd * c.noise.NormFloat64()
		}
		x += v
	}
	fmt.Fprintf(&table, "\n%d %.3f %.3f", t.horizon, x, v)
	loss := (x-t.x)*(x-t.x) + 2*(v-t.v)*(v-t.v) + t.penalty*effort
	if math.IsNaN(loss) || loss < 0 {
		return d, errors.New("the point is nowhere in the end")
	}
	return driven{table.String(), x, v, min(loss, math.MaxFloat64)}, nil
}
