package environment

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Environments.Register("gomoku",
		"The policy plays X and begins; who has `line` stones in a row, a column or a diagonal has won. It writes the row and the column of "+
			"its next stone, from 1. The opponent follows from the seed. Reward: 1 for a win, draw_reward for a full board, else 0; what is no "+
			"move costs a try, and the last one loses. Words of the messages: {board}, {size}, {line}, {moves}, which are those since the "+
			"policy's last one. Metrics: success; valid, the share of replies that are a move.",
		func() trinity.EnvironmentOpener {
			return &gomoku{Size: 9, Line: 5, Opponent: "fair", DrawReward: 0.5, Tries: 3,
				Ask: "Play gomoku with me on {size} × {size} fields: {line} stones in a row, a column or a diagonal win. You are X. Think " +
					"first, then write the row and the column of your stone between ``` and ```, such as ```2 3```.\n\n{board}",
				Tell: "{moves}\n\n{board}"}
		})
}

// gomoku is the game.
type gomoku struct {
	Size       int     `yaml:"size" range:"[3,25]" doc:"rows and columns of the board"`
	Line       int     `yaml:"line" doc:"stones in a line that win; 3 on a board of 3 is tic-tac-toe"`
	Opponent   string  `yaml:"opponent" enum:"weak|fair" doc:"fair completes its lines and blocks those of the policy"`
	DrawReward float64 `yaml:"draw_reward" doc:"reward of a full board without a line"`
	Tries      int     `yaml:"tries" range:"[1,)" doc:"replies that are no move at most; the last one loses"`
	Ask        string  `yaml:"ask" doc:"first message to the policy"`
	Tell       string  `yaml:"tell" doc:"message after each move"`
}

// Validate checks the arguments.
func (g *gomoku) Validate() error {
	if g.Line < 3 || g.Line > g.Size {
		return fmt.Errorf("line: want 3 to the size %d, got %d", g.Size, g.Line)
	}
	return nil
}

// OpenEnvironment implements [trinity.EnvironmentOpener].
func (g *gomoku) OpenEnvironment(context.Context, *trinity.Task) (trinity.Environment, error) {
	return &placing{args: g}, nil
}

// The fields of a board.
const (
	emptyField = '.'
	ownStone   = 'X'
	otherStone = 'O'
)

// placing is one episode.
type placing struct {
	inMemory
	args          *gomoku
	board         []byte
	random        *rand.Rand
	replies, read int
}

// Reset implements [trinity.Environment].
func (p *placing) Reset(_ context.Context, seed uint64) (trinity.Observation, error) {
	p.board = []byte(strings.Repeat(string(emptyField), p.args.Size*p.args.Size))
	p.random, p.replies, p.read = rand.New(rand.NewPCG(seed, 0)), 0, 0
	return p.says(p.args.Ask, ""), nil
}

// says returns what the policy reads.
func (p *placing) says(text, moves string) trinity.Observation {
	var board strings.Builder
	board.WriteString("  ")
	for column := range p.args.Size {
		fmt.Fprintf(&board, " %2d", column+1)
	}
	for cell, field := range p.board {
		if cell%p.args.Size == 0 {
			fmt.Fprintf(&board, "\n%2d", cell/p.args.Size+1)
		}
		fmt.Fprintf(&board, "  %c", field)
	}
	return says(text, string(p.board), "{board}", board.String(), "{size}", strconv.Itoa(p.args.Size), "{line}", strconv.Itoa(p.args.Line),
		"{moves}", moves)
}

// twoNumbers is how a reply names a field.
var twoNumbers = regexp.MustCompile(`^\D*(\d{1,2})\D+(\d{1,2})\D*$`)

// field returns the field that a reply names, or -1 if no stone can be put there.
func (p *placing) field(reply string) int {
	parts := twoNumbers.FindStringSubmatch(fenced(reply))
	if parts == nil {
		return -1
	}
	row, _ := strconv.Atoi(parts[1]) // the pattern makes sure that these are numbers
	column, _ := strconv.Atoi(parts[2])
	if row < 1 || row > p.args.Size || column < 1 || column > p.args.Size || p.board[(row-1)*p.args.Size+column-1] != emptyField {
		return -1
	}
	return (row-1)*p.args.Size + column - 1
}

// longest returns how many stones would be in a line with one at a field, and how many empty
// fields that line could still grow into.
func (p *placing) longest(cell int, stone byte) (stones, open int) {
	for _, step := range [][2]int{{0, 1}, {1, 0}, {1, 1}, {1, -1}} {
		count, free := 1, 0
		for _, way := range []int{-1, 1} {
			row, column := cell/p.args.Size+way*step[0], cell%p.args.Size+way*step[1]
			for ; p.holds(row, column, stone); row, column = row+way*step[0], column+way*step[1] {
				count++
			}
			if p.holds(row, column, emptyField) {
				free++
			}
		}
		if count > stones || count == stones && free > open {
			stones, open = count, free
		}
	}
	return stones, open
}

func (p *placing) holds(row, column int, what byte) bool {
	return row >= 0 && row < p.args.Size && column >= 0 && column < p.args.Size && p.board[row*p.args.Size+column] == what
}

// answer puts the opponent's stone, and returns its field.
func (p *placing) answer() int {
	var best []int
	for cell, most := 0, -1; cell < len(p.board); cell++ {
		if p.board[cell] != emptyField {
			continue
		}
		worth := 0
		if p.args.Opponent == "fair" {
			mine, open := p.longest(cell, otherStone)
			theirs, opens := p.longest(cell, ownStone)
			worth = max(6*min(mine, p.args.Line)+open+1, 6*min(theirs, p.args.Line)+opens)
			if mine >= p.args.Line {
				worth *= 2 // a win comes before a block
			}
		}
		if worth > most {
			best, most = nil, worth
		}
		if worth == most {
			best = append(best, cell)
		}
	}
	cell := best[p.random.IntN(len(best))]
	p.board[cell] = otherStone
	return cell
}

// play makes the policy's move and the opponent's. It returns what to tell, and the reward of a game
// that has ended.
func (p *placing) play(cell int) (moves string, reward float64, ended bool) {
	full := func() bool { return !strings.ContainsRune(string(p.board), emptyField) }
	won, _ := p.longest(cell, ownStone)
	p.board[cell] = ownStone
	switch {
	case won >= p.args.Line:
		return "You have won.", 1, true
	case full():
		return "The board is full.", p.args.DrawReward, true
	}
	answer := p.answer()
	moves = fmt.Sprintf("I play %d %d.", answer/p.args.Size+1, answer%p.args.Size+1)
	if lost, _ := p.longest(answer, otherStone); lost >= p.args.Line {
		return moves + " You have lost.", 0, true
	}
	if full() {
		return moves + " The board is full.", p.args.DrawReward, true
	}
	return moves, 0, false
}

// Step implements [trinity.Environment].
func (p *placing) Step(_ context.Context, a trinity.Action) (out trinity.Outcome, err error) {
	p.replies++
	moves, reward := "That is no move: name the row and the column of an empty field.", 0.0
	if cell := p.field(a.Text); cell >= 0 {
		p.read++
		moves, reward, out.Done = p.play(cell)
	} else {
		out.Done = p.replies-p.read == p.args.Tries
	}
	out.Observation = p.says(p.args.Tell, moves)
	out.Metrics = map[string]float64{
		"success": asNumber(strings.HasPrefix(moves, "You have won")), "valid": float64(p.read) / float64(p.replies)}
	if out.Done {
		out.Reward = &reward
	}
	return out, nil
}
