package environment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Environments.Register("frozen_lake",
		"The policy walks over a frozen lake (P) to the goal (G) and must not step into a hole (O); on slippery ice it may slip "+
			"aside. Rules and maps are Gymnasium's FrozenLake-v1, with its draws for equal seeds. Reward: 1 at the goal, else 0. "+
			"Columns of a row may give the map: desc, map_name, or size, p and seed of a random one. Words of the messages: {map}, "+
			"{position} (row by row from 0), {steps} that are left, {actions}, {action}. Metrics: success; valid, the share of the "+
			"replies that name an action.",
		func() trinity.EnvironmentOpener {
			return &frozenLake{MapName: "4x4", IsSlippery: true, SuccessRate: 1.0 / 3, Size: 8, P: 0.8, tabular: tabular{
				Ask: "You are P on a frozen lake. Reach the goal G and step into no hole O; _ is ice.{slippery}\n" + howToAct +
					" You have {steps} steps.\n\n{map}",
				Tell: "{map}\nSteps left: {steps}", Unread: unread, MaxSteps: 100}}
		})
}

// frozenLake is the lake.
type frozenLake struct {
	tabular     `yaml:",inline"`
	MapName     string   `yaml:"map_name" doc:"4x4, 8x8, or generated: a random map for each seed"`
	Desc        []string `yaml:"desc" doc:"rows of the map instead: S start, F ice, H hole, G goal"`
	IsSlippery  bool     `yaml:"is_slippery" doc:"the policy may slip to either side of where it wants to go"`
	SuccessRate float64  `yaml:"success_rate" range:"[0,1]" doc:"on slippery ice, probability of going where the policy wants to go"`
	Size        int      `yaml:"size" range:"[2,64]" doc:"rows and columns of a random map"`
	P           float64  `yaml:"p" range:"(0,1]" doc:"probability that a cell of a random map is ice"`
	RandomStart bool     `yaml:"random_start" doc:"a random map has its start and goal anywhere, as in Trinity-RFT, not in two corners"`
	PathLimit   int      `yaml:"path_limit" range:"[0,)" doc:"steps after which the search for a path through a map turns back; 0: none"`
}

var lakes = map[string][]string{
	"4x4": {"SFFF", "FHFH", "FFFH", "HFFG"},
	"8x8": {"SFFFFFFF", "FFFFFFFF", "FFFHFFFF", "FFFFFHFF", "FFFHFFFF", "FHHFFFHF", "FHFFHFHF", "FFFHFFFG"},
}

// Validate checks the arguments.
func (l *frozenLake) Validate() error {
	if _, known := lakes[l.MapName]; !known && l.MapName != "generated" {
		return fmt.Errorf("map_name: want 4x4, 8x8 or generated, got %q", l.MapName)
	}
	if l.Desc != nil {
		return validMap(l.Desc)
	}
	return nil
}

func validMap(rows []string) error {
	for _, row := range rows {
		if len(row) != len(rows[0]) || strings.Trim(row, "SFHG") != "" {
			return fmt.Errorf("desc: want rows of equal length of S, F, H and G, got %q", row)
		}
	}
	if all := strings.Join(rows, ""); !strings.Contains(all, "S") || !strings.Contains(all, "G") {
		return errors.New("desc: the map needs a start S and a goal G")
	}
	return nil
}

// Requires implements [trinity.Requirer].
func (l *frozenLake) Requires() trinity.Requirements {
	return trinity.Requirements{CheckTask: checkBy(l.of)}
}

// lake is the lake of a task.
type lake struct {
	walk
	frozenLake
	seed *uint64 // of a random map; nil: the episode's
}

// of returns the lake of a task: the arguments, and the row's columns over them.
func (l *frozenLake) of(t *trinity.Task) (*lake, error) {
	own := &lake{frozenLake: *l}
	if err := columns(t, map[string]any{
		"desc": &own.Desc, "map_name": &own.MapName, "size": &own.Size, "p": &own.P, "seed": &own.seed,
	}); err != nil {
		return nil, err
	}
	_, named := t.Row["map_name"]
	_, sized := t.Row["size"]
	if sized && !named {
		own.MapName = "generated"
	}
	own.walk.args = &own.frozenLake.tabular
	return own, registry.Validate(&own.frozenLake)
}

// OpenEnvironment implements [trinity.EnvironmentOpener].
func (l *frozenLake) OpenEnvironment(_ context.Context, t *trinity.Task) (trinity.Environment, error) {
	return l.of(t)
}

// Reset implements [trinity.Environment].
func (l *lake) Reset(ctx context.Context, seed uint64) (trinity.Observation, error) {
	rows := l.Desc
	if rows == nil {
		rows = lakes[l.MapName]
	}
	if rows == nil {
		mapSeed := seed
		if l.seed != nil {
			mapSeed = *l.seed
		}
		var err error
		if rows, err = l.draw(ctx, mapSeed); err != nil {
			return trinity.Observation{}, err
		}
	}
	return l.start(l.rules(rows), seed), nil
}

// draw draws a map with a path from the start to the goal, cell by cell as Gymnasium and, with
// random_start, Trinity-RFT do.
func (l *frozenLake) draw(ctx context.Context, seed uint64) ([]string, error) {
	random := newNumpyRandom(seed)
	ice := l.P / (l.P + (1 - l.P)) // numpy.random.choice divides by the sum, which rounding may keep from being 1
	place := func() int { return random.below(uint32(l.Size)) }
	for ctx.Err() == nil {
		board := []byte(strings.Repeat("F", l.Size*l.Size))
		for i := range board {
			if random.float64() >= ice {
				board[i] = 'H'
			}
		}
		start, goal := 0, len(board)-1
		if l.RandomStart {
			for start, goal = 0, 0; start == goal; {
				start, goal = place()*l.Size+place(), place()*l.Size+place()
			}
		}
		board[start], board[goal] = 'S', 'G'
		if !hasPath(grid{l.Size, l.Size}, board, start, l.PathLimit) {
			continue
		}
		var rows []string
		for row := range slices.Chunk(board, l.Size) {
			rows = append(rows, string(row))
		}
		return rows, nil
	}
	return nil, fmt.Errorf("no map of size %d and p %g with a path was found: raise p", l.Size, l.P)
}

// hasPath reports whether a depth-first search finds the goal. With a limit it turns back from cells
// that it reaches after more steps. The order of the search decides which maps have a path then; it
// is Trinity-RFT's.
func hasPath(g grid, board []byte, start, limit int) bool {
	type visit struct{ cell, steps int }
	seen := make([]bool, len(board))
	for open := []visit{{start, 0}}; len(open) > 0; {
		v := open[len(open)-1]
		open = open[:len(open)-1]
		if seen[v.cell] || limit > 0 && v.steps > limit {
			continue
		}
		seen[v.cell] = true
		for _, beside := range []int{g.move(v.cell, 1, 0), g.move(v.cell, 0, 1), g.move(v.cell, -1, 0), g.move(v.cell, 0, -1)} {
			switch board[beside] {
			case 'G':
				return true
			case 'H':
			default:
				open = append(open, visit{beside, v.steps + 1})
			}
		}
	}
	return false
}

// rules returns the process on a map.
func (l *frozenLake) rules(rows []string) *markov {
	g, board := grid{len(rows), len(rows[0])}, strings.Join(rows, "")
	begin := make([]float64, len(board))
	for i := range begin {
		if board[i] == 'S' {
			begin[i] = 1 / float64(strings.Count(board, "S"))
		}
	}
	shown := strings.NewReplacer("H", "O", "S", "_", "F", "_")
	moves := [][2]int{{0, -1}, {1, 0}, {0, 1}, {-1, 0}}
	return &markov{
		actions: []string{"Left", "Down", "Right", "Up"},
		begin:   begin,
		next: func(state, action int) []transition {
			if strings.IndexByte("GH", board[state]) >= 0 {
				return certain(state, 0, true)
			}
			to := func(action int, p float64) transition {
				cell := g.move(state, moves[action%4][0], moves[action%4][1])
				t := transition{p: p, state: cell, ends: strings.IndexByte("GH", board[cell]) >= 0}
				if board[cell] == 'G' {
					t.reward = 1
				}
				return t
			}
			if !l.IsSlippery {
				return []transition{to(action, 1)}
			}
			aside := (1 - l.SuccessRate) / 2
			return []transition{to(action+3, aside), to(action, l.SuccessRate), to(action+1, aside)}
		},
		succeeded: func(state int) bool { return board[state] == 'G' },
		name:      func(state int) string { return strings.Join(rows, "/") + " " + strconv.Itoa(state) },
		show: func(state int) []string {
			slippery := ""
			if l.IsSlippery {
				slippery = " The ice is slippery: you may slip to either side of where you want to go."
			}
			return []string{"{map}", g.draw(shown.Replace(board), state), "{position}", strconv.Itoa(state), "{slippery}", slippery}
		},
	}
}
