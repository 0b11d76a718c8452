package environment

import (
	"context"
	"strconv"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Environments.Register("cliff_walking",
		"The policy walks from one end of a cliff to the other (4 × 12 cells); who steps off the cliff is back at the start. "+
			"Rules are Gymnasium's CliffWalking-v1, with its draws for equal seeds. Reward: -1 a step, -100 off the cliff. Words of "+
			"the messages: {map}, {position} (row by row from 0), {steps} that are left, {actions}, {action}. Metrics: success; "+
			"valid, the share of the replies that name an action.",
		func() trinity.EnvironmentOpener {
			return &cliffWalking{tabular: tabular{
				Ask: "You are P above a cliff. Reach the goal G in few steps; whoever steps on a cell C falls and is back at the start. " + howToAct +
					"\n\n{map}",
				Tell: "{map}", Unread: unread, UnreadReward: -1, MaxSteps: 100}}
		})
}

// cliffWalking is the cliff.
type cliffWalking struct {
	tabular    `yaml:",inline"`
	IsSlippery bool `yaml:"is_slippery" doc:"the policy slips to either side in two of three steps"`
}

// OpenEnvironment implements [trinity.EnvironmentOpener].
func (c *cliffWalking) OpenEnvironment(context.Context, *trinity.Task) (trinity.Environment, error) {
	return &cliff{walk: walk{args: &c.tabular}, rules: c.rules()}, nil
}

// cliff is one episode.
type cliff struct {
	walk
	rules *markov
}

// Reset implements [trinity.Environment].
func (c *cliff) Reset(_ context.Context, seed uint64) (trinity.Observation, error) {
	return c.start(c.rules, seed), nil
}

// The cells of the cliff's row, the last of four.
const cliffStart, cliffGoal = 36, 47

// rules returns the process.
func (c *cliffWalking) rules() *markov {
	g := grid{4, 12}
	begin := make([]float64, g.rows*g.columns)
	begin[cliffStart] = 1
	moves := [][2]int{{-1, 0}, {0, 1}, {1, 0}, {0, -1}}
	return &markov{
		actions: []string{"Up", "Right", "Down", "Left"},
		begin:   begin,
		next: func(state, action int) []transition {
			to := func(action int, p float64) transition {
				switch cell := g.move(state, moves[action%4][0], moves[action%4][1]); {
				case cell > cliffStart && cell < cliffGoal:
					return transition{p: p, state: cliffStart, reward: -100}
				default:
					return transition{p: p, state: cell, reward: -1, ends: cell == cliffGoal}
				}
			}
			if !c.IsSlippery {
				return []transition{to(action, 1)}
			}
			return []transition{to(action+3, 1.0/3), to(action, 1.0/3), to(action+1, 1.0/3)}
		},
		succeeded: func(state int) bool { return state == cliffGoal },
		name:      func(state int) string { return "cell " + strconv.Itoa(state) },
		show: func(state int) []string {
			board := strings.Repeat("_", cliffStart+1) + strings.Repeat("C", cliffGoal-cliffStart-1) + "G"
			return []string{"{map}", g.draw(board, state), "{position}", strconv.Itoa(state)}
		},
	}
}
