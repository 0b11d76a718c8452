package environment

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Environments.Register("sudoku",
		"The policy solves the Sudoku of the row's column puzzle, 9 × 9 or 4 × 4, row by row with 0 or . for an empty cell. It writes the "+
			"whole grid, between ``` and ``` if it writes anything else, and reads what is wrong until its tries are used up. Reward: 1 if the "+
			"grid keeps the puzzle's numbers and breaks no rule, else 0. Metric: success.",
		func() trinity.EnvironmentOpener {
			return &sudoku{Tries: 1,
				Ask: "Solve this Sudoku; 0 is an empty cell. Think first, then write the whole grid between ``` and ```.\n\n{puzzle}"}
		})
}

// sudoku is the game.
type sudoku struct {
	Tries int    `yaml:"tries" range:"[1,)" doc:"grids that the policy may write"`
	Ask   string `yaml:"ask" doc:"first message to the policy; {puzzle} stands for the grid"`
}

// Requires implements [trinity.Requirer].
func (s *sudoku) Requires() trinity.Requirements {
	return trinity.Requirements{CheckTask: checkBy(puzzleOf)}
}

// puzzleOf returns the cells of a task's puzzle, 0 for an empty one.
func puzzleOf(t *trinity.Task) ([]int, error) {
	text, err := t.Text("puzzle")
	if err != nil {
		return nil, err
	}
	cells := sudokuCells(strings.ReplaceAll(text, ".", "0"))
	if len(cells) != 81 && len(cells) != 16 {
		return nil, fmt.Errorf("column \"puzzle\" has %d cells, want 81 or 16: digits, with 0 or . for an empty cell", len(cells))
	}
	if err := wrongIn(cells); err != nil {
		return nil, fmt.Errorf("column \"puzzle\": %w", err)
	}
	return cells, nil
}

// sudokuCells returns the digits of a text.
func sudokuCells(text string) (cells []int) {
	for _, char := range text {
		if '0' <= char && char <= '9' {
			cells = append(cells, int(char-'0'))
		}
	}
	return cells
}

// sudokuSide returns the number of rows, which is that of the columns.
func sudokuSide(cells []int) int { return int(math.Sqrt(float64(len(cells)))) }

// wrongIn returns the first rule that the numbers above 0 break, or nil if they break none.
func wrongIn(cells []int) error {
	side := sudokuSide(cells)
	box := int(math.Sqrt(float64(side)))
	seen := map[string]bool{}
	for i, n := range cells {
		row, column := i/side, i%side
		if n > side {
			return fmt.Errorf("row %d has a %d, above %d", row+1, n, side)
		}
		for _, place := range []string{
			fmt.Sprintf("row %d", row+1), fmt.Sprintf("column %d", column+1), fmt.Sprintf("box %d", row/box*box+column/box+1),
		} {
			at := fmt.Sprintf("%s has %d", place, n)
			if n > 0 && seen[at] {
				return errors.New(at + " twice")
			}
			seen[at] = true
		}
	}
	return nil
}

// OpenEnvironment implements [trinity.EnvironmentOpener].
func (s *sudoku) OpenEnvironment(_ context.Context, t *trinity.Task) (trinity.Environment, error) {
	puzzle, err := puzzleOf(t)
	return &solving{args: s, puzzle: puzzle}, err
}

// solving is one episode.
type solving struct {
	inMemory
	args   *sudoku
	puzzle []int
	made   int // tries
	heard  string
}

// Reset implements [trinity.Environment].
func (s *solving) Reset(context.Context, uint64) (trinity.Observation, error) {
	s.made, s.heard = 0, ""
	side := sudokuSide(s.puzzle)
	var grid strings.Builder
	for i, n := range s.puzzle {
		fmt.Fprint(&grid, n)
		if i%side == side-1 && i < len(s.puzzle)-1 {
			grid.WriteByte('\n')
		}
	}
	return s.says(s.args.Ask, "{puzzle}", grid.String()), nil
}

func (s *solving) says(text string, words ...string) trinity.Observation {
	return says(text, fmt.Sprint(s.puzzle, s.heard), words...)
}

// Step implements [trinity.Environment].
func (s *solving) Step(_ context.Context, a trinity.Action) (out trinity.Outcome, err error) {
	s.made++
	verdict := s.judge(sudokuCells(fenced(a.Text)))
	won := asNumber(verdict == nil)
	if verdict == nil {
		out.Observation = s.says("Solved.")
	} else {
		s.heard += "\n" + verdict.Error()
		out.Observation = s.says("Not solved: " + verdict.Error() + ".")
	}
	out.Done = verdict == nil || s.made == s.args.Tries
	out.Metrics = map[string]float64{"success": won}
	if out.Done {
		out.Reward = &won
	}
	return out, nil
}

// judge returns what is wrong with a solution, or nil if it is right.
func (s *solving) judge(solution []int) error {
	if len(solution) != len(s.puzzle) {
		return fmt.Errorf("the grid has %d numbers, not %d", len(solution), len(s.puzzle))
	}
	for i, n := range solution {
		if n == 0 || s.puzzle[i] > 0 && n != s.puzzle[i] {
			side := sudokuSide(s.puzzle)
			return fmt.Errorf("row %d, column %d is %d", i/side+1, i%side+1, n)
		}
	}
	return wrongIn(solution)
}
