package environment

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Environments.Register("cod_grid_navigation",
		"The policy moves like a rook over a square grid of cells with costs from 0 to 99, from a start to a goal, which it must reach with the "+
			"last of a given number of moves. It sees the costs near cells that it has entered. The tasks of a pack have one grid, and what was "+
			"seen stays seen. Start, goal and number of moves follow from the row's seed. Reward: 1 less the mean cost of the cells entered / "+
			"100 if the last move ends at the goal, else 0; a move that cannot be made ends the task. Words of the messages: {grid}, {position} "+
			"(row, column, from 0), {goal}, {moves} that are left, {radius}, {happened}. Metrics: success, cost.",
		func() trinity.EnvironmentOpener {
			return &costGrid{MinSize: 12, MaxSize: 16, Hills: 6, MinScale: 0.1, MaxScale: 0.35, MinRounds: 6, MaxRounds: 10, Radius: 1,
				Ask: "You move over a square grid from {position} to {goal} (row, column, both from 0). You make exactly {moves} moves, and the last " +
					"one must end at the goal. A move goes straight along a row or a column, over any number of cells, and enters all of them, the last " +
					"one included. Each cell has a cost from 0 to 99. You cannot see it before you have been within {radius} cells of it; ? is " +
					"unknown. Costs stay as they are in later tasks. Your reward at the goal is 1 less the mean cost of the cells that you entered / " +
					"100; anywhere else it is 0, and so it is after a move that cannot be made.\n" +
					"Think first, then write the cell to move to between ``` and ```, such as ```2, 5```.\n\n{grid}",
				Tell: "{happened}\nYou are at {position}, the goal is {goal}. Moves left: {moves}\n\n{grid}"}
		})
}

// costGrid is the grid.
type costGrid struct {
	MinSize   int     `yaml:"grid_min_size" range:"[2,64]" doc:"rows and columns at least"`
	MaxSize   int     `yaml:"grid_max_size" range:"[2,64]" doc:"rows and columns at most"`
	Hills     int     `yaml:"landscape_num_components" range:"[2,1000]" doc:"hills of cost"`
	MinScale  float64 `yaml:"landscape_min_scale" range:"(0,)" doc:"width of a hill at least, as a share of the grid's"`
	MaxScale  float64 `yaml:"landscape_max_scale" range:"(0,)" doc:"width of a hill at most"`
	MinRounds int     `yaml:"min_rounds" range:"[1,1000]" doc:"moves of a task at least"`
	MaxRounds int     `yaml:"max_rounds" range:"[1,1000]" doc:"moves of a task at most"`
	Radius    int     `yaml:"reveal_radius" range:"[0,)" doc:"cells around an entered one whose costs are seen then"`
	Ask       string  `yaml:"ask" required:"write the message to the policy" doc:"first message to the policy"`
	Tell      string  `yaml:"tell" required:"write the message to the policy" doc:"message after each move"`
}

// Validate checks the arguments.
func (g *costGrid) Validate() error {
	switch {
	case g.MaxSize < g.MinSize:
		return fmt.Errorf("grid_min_size and grid_max_size: want min ≤ max, got %d and %d", g.MinSize, g.MaxSize)
	case g.MaxScale < g.MinScale:
		return fmt.Errorf("landscape_min_scale and landscape_max_scale: want min ≤ max, got %g and %g", g.MinScale, g.MaxScale)
	case g.MaxRounds < g.MinRounds:
		return fmt.Errorf("min_rounds and max_rounds: want min ≤ max, got %d and %d", g.MinRounds, g.MaxRounds)
	}
	return nil
}

// Requires implements [trinity.Requirer].
func (g *costGrid) Requires() trinity.Requirements {
	return trinity.Requirements{CheckTask: checkBy(placeOf)}
}

// OpenEnvironment implements [trinity.EnvironmentOpener].
func (g *costGrid) OpenEnvironment(ctx context.Context, t *trinity.Task) (trinity.Environment, error) {
	r := &rook{args: g}
	return r, r.Reuse(ctx, t)
}

// rook is one episode.
type rook struct {
	inMemory
	args *costGrid
	task place

	grid
	costs []int  // nil before the first episode of a pack
	drawn uint64 // seed of costs
	seen  []bool

	at, goal, moves int // moves that are left
	entered, sum    int // cells, and their costs
}

// Reuse implements [trinity.Reusable]. The later tasks of a pack keep its grid.
func (r *rook) Reuse(_ context.Context, t *trinity.Task) (err error) {
	if r.task, err = placeOf(t); r.task.index == 0 {
		r.costs = nil
	}
	return err
}

// Reset implements [trinity.Environment].
func (r *rook) Reset(_ context.Context, seed uint64) (trinity.Observation, error) {
	own, unknowns := r.task.seeds(seed)
	if r.costs == nil || r.task.index == 0 || r.drawn != unknowns {
		r.draw(newNumpyRandom(unknowns))
		r.drawn = unknowns
	}
	random := newNumpyRandom(own)
	r.entered, r.sum, r.moves = 0, 0, random.between(r.args.MinRounds, r.args.MaxRounds)
	for r.at, r.goal = 0, 0; r.at == r.goal; { // a walk of so many moves shows that the goal can be reached
		r.at = random.below(uint32(r.rows))*r.columns + random.below(uint32(r.columns))
		r.goal = r.at
		for range r.moves {
			row, column := r.goal/r.columns, r.goal%r.columns
			if random.below(2) == 0 {
				column = other(random, column, r.columns)
			} else {
				row = other(random, row, r.rows)
			}
			r.goal = row*r.columns + column
		}
	}
	return r.says(r.args.Ask, ""), nil
}

// other draws a number below n that is not the given one.
func other(random *numpyRandom, not, n int) int {
	v := random.below(uint32(n - 1))
	if v >= not {
		v++
	}
	return v
}

// draw draws a grid: a sum of Gaussian hills of any direction, squared so that valleys are cheap.
func (r *rook) draw(random *numpyRandom) {
	size := random.between(r.args.MinSize, r.args.MaxSize)
	r.grid = grid{size, size}
	height := make([]float64, size*size)
	for range r.args.Hills {
		top, left := random.float64(), random.float64()
		long := random.uniform(r.args.MinScale, r.args.MaxScale)
		short := random.uniform(r.args.MinScale, long)
		sin, cos := math.Sincos(random.uniform(0, math.Pi))
		weight := random.uniform(0.8, 1.2)
		for cell := range height {
			down, right := float64(cell/size)/float64(size-1)-top, float64(cell%size)/float64(size-1)-left
			along, across := (cos*down+sin*right)/long, (cos*right-sin*down)/short
			height[cell] += weight * math.Exp(-(along*along+across*across)/2)
		}
	}
	lowest, highest := math.Inf(1), math.Inf(-1)
	for _, h := range height {
		lowest, highest = min(lowest, h), max(highest, h)
	}
	r.costs, r.seen = make([]int, len(height)), make([]bool, len(height))
	for cell, h := range height {
		share := (h - lowest) / max(highest-lowest, math.SmallestNonzeroFloat64)
		r.costs[cell] = int(math.RoundToEven(99 * share * share))
	}
}

func (r *rook) says(text, happened string) trinity.Observation {
	cell := func(at int) string { return fmt.Sprintf("%d, %d", at/r.columns, at%r.columns) }
	grid := r.picture()
	return says(text, fmt.Sprintf("%d %d %d %s", r.at, r.goal, r.moves, grid), "{grid}", grid, "{position}", cell(r.at),
		"{goal}", cell(r.goal), "{moves}", strconv.Itoa(r.moves), "{radius}", strconv.Itoa(r.args.Radius), "{happened}", happened)
}

// picture returns the grid with numbers of rows and columns, and ? for costs that were not seen.
func (r *rook) picture() string {
	var text strings.Builder
	text.WriteString("    ")
	for column := range r.columns {
		fmt.Fprintf(&text, "%3d", column)
	}
	for cell, cost := range r.costs {
		if cell%r.columns == 0 {
			fmt.Fprintf(&text, "\n%3d ", cell/r.columns)
		}
		shown := "?"
		if r.seen[cell] {
			shown = strconv.Itoa(cost)
		}
		fmt.Fprintf(&text, "%3s", shown)
	}
	return text.String()
}

var cellPattern = regexp.MustCompile(`^\s*\(?\s*(\d{1,3})\s*,\s*(\d{1,3})\s*\)?\s*$`)

// Step implements [trinity.Environment].
func (r *rook) Step(_ context.Context, a trinity.Action) (out trinity.Outcome, err error) {
	reward := 0.0
	named := cellPattern.FindStringSubmatch(fenced(a.Text))
	wrong := ""
	var row, column int
	if named == nil {
		wrong = "the reply names no cell"
	} else {
		row, _ = strconv.Atoi(named[1])
		column, _ = strconv.Atoi(named[2])
		wrong = r.wrong(row, column)
	}
	var happened string
	if wrong != "" {
		happened, out.Done = "The move cannot be made: "+wrong+". The task is over.", true
	} else {
		path := r.enter(row, column)
		r.moves--
		happened = fmt.Sprintf("You entered %s. The mean cost so far is %.2f.", path, float64(r.sum)/float64(r.entered))
		out.Done = r.moves == 0
	}
	success := 0.0
	if wrong == "" && out.Done && r.at == r.goal {
		success, reward = 1, 1-float64(r.sum)/(100*float64(r.entered))
		happened += " You are at the goal."
	} else if wrong == "" && out.Done {
		happened += " You are not at the goal."
	}
	out.Observation = r.says(r.args.Tell, happened)
	out.Reward = &reward
	out.Metrics = map[string]float64{"success": success, "cost": float64(r.sum) / float64(max(1, r.entered))}
	return out, nil
}

// wrong returns why a move to a cell cannot be made, or "".
func (r *rook) wrong(row, column int) string {
	switch {
	case row >= r.rows || column >= r.columns:
		return fmt.Sprintf("%d, %d is outside of the grid", row, column)
	case row*r.columns+column == r.at:
		return "you are there"
	case row != r.at/r.columns && column != r.at%r.columns:
		return fmt.Sprintf("%d, %d is neither in your row nor in your column", row, column)
	}
	return ""
}

// enter moves to a cell and returns the costs of the cells on the way.
func (r *rook) enter(row, column int) string {
	var way []string
	for to := row*r.columns + column; r.at != to; {
		y, x := r.at/r.columns, r.at%r.columns
		r.at = r.move(r.at, sign(row-y), sign(column-x))
		r.entered, r.sum = r.entered+1, r.sum+r.costs[r.at]
		way = append(way, fmt.Sprintf("%d, %d (cost %d)", r.at/r.columns, r.at%r.columns, r.costs[r.at]))
		for cell := range r.seen {
			down, right := cell/r.columns-r.at/r.columns, cell%r.columns-r.at%r.columns
			r.seen[cell] = r.seen[cell] || max(down, -down, right, -right) <= r.args.Radius
		}
	}
	return strings.Join(way, ", ")
}

func sign(n int) int { return max(-1, min(1, n)) }
