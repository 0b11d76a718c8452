package environment

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Environments.Register("grid_navigation",
		"The policy walks to a goal between walls, of which it may see only those nearby. The map is the row's column map, else it follows "+
			"from the seed and always has a path. Reward: 1 at the goal, and step_reward for each reply. Words of the messages: {map}, "+
			"{position} (row and column from 1), {goal}, {steps} that are left, {actions}, {action}. Metrics: success; valid, the share of the "+
			"replies that name an action.",
		func() trinity.EnvironmentOpener {
			return &gridNavigation{Size: 6, Walls: 0.25, tabular: tabular{
				Ask: "You are P on a map. Reach the goal G, which is at {goal} (row, column); # is a wall, _ is free, and ? is too far away " +
					"to see. " + howToAct + "\n\n{map}",
				Tell: "{map}", Unread: unread, MaxSteps: 40}}
		})
}

// gridNavigation is the search for a goal.
type gridNavigation struct {
	tabular    `yaml:",inline"`
	Size       int     `yaml:"size" range:"[2,50]" doc:"rows and columns of a drawn map"`
	Walls      float64 `yaml:"walls" range:"[0,0.5]" doc:"share of a drawn map's cells that are walls, about"`
	View       int     `yaml:"view" range:"[0,)" doc:"cells that the policy sees to each side of its own; 0 shows the whole map"`
	StepReward float64 `yaml:"step_reward" doc:"reward of each step, such as -0.01"`
}

// Requires implements [trinity.Requirer].
func (n *gridNavigation) Requires() trinity.Requirements {
	return trinity.Requirements{CheckTask: checkBy(n.mapOf)}
}

// mapOf returns the rows of a task's map, or nil if it has none.
func (n *gridNavigation) mapOf(t *trinity.Task) (rows []string, err error) {
	if err := columns(t, map[string]any{"map": &rows}); err != nil || rows == nil {
		return nil, err
	}
	board := strings.Join(rows, "")
	for _, row := range rows {
		if len(row) != len(rows[0]) || strings.Trim(row, "SG#_") != "" {
			return nil, fmt.Errorf("column \"map\": want rows of equal length of S, G, # and _, got %q", row)
		}
	}
	switch {
	case strings.Count(board, "S") != 1 || strings.Count(board, "G") != 1:
		return nil, errors.New("column \"map\": want one start S and one goal G")
	case !reaches(grid{len(rows), len(rows[0])}, board):
		return nil, errors.New("column \"map\": no path leads from S to G")
	}
	return rows, nil
}

// OpenEnvironment implements [trinity.EnvironmentOpener].
func (n *gridNavigation) OpenEnvironment(_ context.Context, t *trinity.Task) (trinity.Environment, error) {
	rows, err := n.mapOf(t)
	return &navigation{walk: walk{args: &n.tabular}, grid: n, rows: rows}, err
}

// navigation is one episode.
type navigation struct {
	walk
	grid *gridNavigation
	rows []string // nil: drawn
}

// Reset implements [trinity.Environment].
func (n *navigation) Reset(_ context.Context, seed uint64) (trinity.Observation, error) {
	rows := n.rows
	if rows == nil {
		rows = n.grid.draw(rand.New(rand.NewPCG(seed, 0)))
	}
	return n.start(n.grid.rules(rows), seed), nil
}

// draw draws a map with a path.
func (n *gridNavigation) draw(random *rand.Rand) (rows []string) {
	g, board := grid{n.Size, n.Size}, ""
	for walls := n.Walls; board == "" || !reaches(g, board); walls *= 0.99 { // fewer walls, so that a path comes soon
		cells := make([]byte, g.rows*g.columns)
		for i := range cells {
			cells[i] = '_'
			if random.Float64() < walls {
				cells[i] = '#'
			}
		}
		places := random.Perm(len(cells))
		cells[places[0]], cells[places[1]] = 'S', 'G'
		board = string(cells)
	}
	for row := range g.rows {
		rows = append(rows, board[row*g.columns:(row+1)*g.columns])
	}
	return rows
}

// reaches reports whether a path leads from the start to the goal.
func reaches(g grid, board string) bool {
	seen := make([]bool, len(board))
	for open := []int{strings.IndexByte(board, 'S')}; len(open) > 0; {
		cell := open[len(open)-1]
		open = open[:len(open)-1]
		if seen[cell] || board[cell] == '#' {
			continue
		}
		if board[cell] == 'G' {
			return true
		}
		seen[cell] = true
		open = append(open, g.move(cell, 1, 0), g.move(cell, 0, 1), g.move(cell, -1, 0), g.move(cell, 0, -1))
	}
	return false
}

// rules returns the process on a map.
func (n *gridNavigation) rules(rows []string) *markov {
	g, board := grid{len(rows), len(rows[0])}, strings.Join(rows, "")
	begin := make([]float64, len(board))
	begin[strings.IndexByte(board, 'S')] = 1
	moves := [][2]int{{-1, 0}, {0, 1}, {1, 0}, {0, -1}}
	at := func(cell int) string { return fmt.Sprintf("%d, %d", cell/g.columns+1, cell%g.columns+1) }
	return &markov{
		actions: []string{"Up", "Right", "Down", "Left"},
		begin:   begin,
		next: func(state, action int) []transition {
			cell := g.move(state, moves[action][0], moves[action][1])
			switch board[cell] {
			case 'G':
				return certain(cell, 1+n.StepReward, true)
			case '#':
				cell = state
			}
			return certain(cell, n.StepReward, false)
		},
		succeeded: func(state int) bool { return board[state] == 'G' },
		name:      func(state int) string { return strings.Join(rows, "/") + " " + strconv.Itoa(state) },
		show: func(state int) []string {
			shown := []byte(strings.ReplaceAll(board, "S", "_"))
			for cell := range shown {
				down, right := cell/g.columns-state/g.columns, cell%g.columns-state%g.columns
				if n.View > 0 && max(down, -down, right, -right) > n.View {
					shown[cell] = '?'
				}
			}
			return []string{"{map}", g.draw(string(shown), state), "{position}", at(state), "{goal}", at(strings.IndexByte(board, 'G'))}
		},
	}
}
