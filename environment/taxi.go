package environment

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Environments.Register("taxi",
		"The policy drives a taxi over 5 × 5 cells with walls, picks up a passenger at one of four stands and drops the passenger off at "+
			"another. Rules are Gymnasium's Taxi-v4, with its draws for equal seeds. Reward: 20 for the delivery, -10 for a pickup or dropoff that "+
			"is impossible, else -1. Words of the messages: {map}, {row}, {column}, {passenger}, {destination}, {steps} that are left, {actions}, "+
			"{action}. Metrics: success; valid, the share of the replies that name an action.",
		func() trinity.EnvironmentOpener {
			return &taxi{RainyProbability: 0.8, FickleProbability: 0.3, tabular: tabular{
				Ask: "You drive a taxi on this map; the stands are R, G, Y and B, and nobody passes a wall |.\n\n{map}\n\nPick the passenger up " +
					"and drop them off at the destination, in few steps. " + howToAct + "\n\n" + whereTheTaxiIs,
				Tell: whereTheTaxiIs, Unread: unread, UnreadReward: -10, MaxSteps: 200}}
		})
}

const whereTheTaxiIs = "Taxi: row {row}, column {column}. Passenger: {passenger}. Destination: {destination}."

// taxi is the game.
type taxi struct {
	tabular           `yaml:",inline"`
	IsRainy           bool    `yaml:"is_rainy" doc:"the taxi may skid to either side of where it drives"`
	RainyProbability  float64 `yaml:"rainy_probability" range:"[0,1]" doc:"in rain, probability of driving where the policy wants to"`
	FicklePassenger   bool    `yaml:"fickle_passenger" doc:"the passenger may choose another destination at the first move after the pickup"`
	FickleProbability float64 `yaml:"fickle_probability" range:"[0,1]" doc:"probability that a fickle passenger does so"`
}

// OpenEnvironment implements [trinity.EnvironmentOpener].
func (t *taxi) OpenEnvironment(context.Context, *trinity.Task) (trinity.Environment, error) {
	return &ride{walk: walk{args: &t.tabular}, taxi: t, rules: t.rules()}, nil
}

// ride is one episode.
type ride struct {
	walk
	taxi   *taxi
	rules  *markov
	fickle bool // the passenger will choose another destination
}

// Reset implements [trinity.Environment].
func (r *ride) Reset(_ context.Context, seed uint64) (trinity.Observation, error) {
	first := r.start(r.rules, seed)
	r.fickle = r.taxi.FicklePassenger && r.random.float64() < r.taxi.FickleProbability
	r.after = func(before, state int) int {
		was, is := taxiAt(before), taxiAt(state)
		if !r.fickle || was.passenger != inTaxi || was.cell == is.cell {
			return state
		}
		r.fickle = false
		others := slices.DeleteFunc([]int{0, 1, 2, 3}, func(stand int) bool { return stand == was.destination })
		is.destination = others[r.random.below(3)]
		return is.state()
	}
	return first, nil
}

// taxiState is what a state stands for.
type taxiState struct {
	cell                   int
	passenger, destination int // stands
}

const inTaxi = 4 // the passenger's place while they ride

func taxiAt(state int) taxiState {
	return taxiState{cell: state / 20, passenger: state / 4 % 5, destination: state % 4}
}

func (s taxiState) state() int { return (s.cell*5+s.passenger)*4 + s.destination }

var (
	taxiGrid   = grid{5, 5}
	taxiMap    = []string{"|R: | : :G|", "| : | : : |", "| : : : : |", "| | : | : |", "|Y| : |B: |"}
	taxiStands = []int{0, 4, 20, 23}
	standNames = []string{"R", "G", "Y", "B", "in the taxi"}
	// taxiMoves are the actions that drive: rows down and columns to the right, then the same for the
	// left-hand and the right-hand side.
	taxiMoves = [][3][2]int{
		{{1, 0}, {0, 1}, {0, -1}}, {{-1, 0}, {0, -1}, {0, 1}}, {{0, 1}, {-1, 0}, {1, 0}}, {{0, -1}, {1, 0}, {-1, 0}},
	}
)

// rules returns the process.
func (t *taxi) rules() *markov {
	begin := make([]float64, 500)
	for state := range begin {
		if s := taxiAt(state); s.passenger != inTaxi && s.passenger != s.destination {
			begin[state] = 1.0 / 300
		}
	}
	return &markov{
		actions: []string{"South", "North", "East", "West", "Pickup", "Dropoff"},
		begin:   begin,
		next: func(state, action int) []transition {
			s := taxiAt(state)
			switch action {
			case 4:
				return s.pickup()
			case 5:
				return s.dropoff()
			}
			return t.drive(s, taxiMoves[action])
		},
		succeeded: func(int) bool { return true }, // only a delivery ends an episode
		name:      func(state int) string { return "state " + strconv.Itoa(state) },
		show: func(state int) []string {
			s := taxiAt(state)
			edge := "+---------+"
			return []string{"{map}", edge + "\n" + strings.Join(taxiMap, "\n") + "\n" + edge,
				"{row}", strconv.Itoa(s.cell / 5), "{column}", strconv.Itoa(s.cell % 5),
				"{passenger}", standNames[s.passenger], "{destination}", standNames[s.destination]}
		},
	}
}

// drive returns where the taxi may be after a move. In rain it skids only if the way ahead is free.
func (t *taxi) drive(s taxiState, moves [3][2]int) []transition {
	to := func(cell int, p float64) transition {
		s := s
		s.cell = cell
		return transition{p: p, state: s.state(), reward: -1}
	}
	ahead := s.beside(moves[0])
	if !t.IsRainy {
		return []transition{to(ahead, 1)}
	}
	left, right := s.cell, s.cell
	if ahead != s.cell {
		left, right = s.skid(moves[1]), s.skid(moves[2])
	}
	aside := (1 - t.RainyProbability) / 2
	return []transition{to(ahead, t.RainyProbability), to(left, aside), to(right, aside)}
}

// beside returns the cell that a move leads to.
func (s taxiState) beside(move [2]int) int {
	row, column := s.cell/5, s.cell%5
	if move[1] != 0 && taxiMap[row][2*column+1+move[1]] != ':' {
		return s.cell
	}
	return taxiGrid.move(s.cell, move[0], move[1])
}

// skid returns the cell that a skid leads to. Gymnasium looks for the wall on the near side of the
// cell that the taxi comes to.
func (s taxiState) skid(move [2]int) int {
	to := taxiGrid.move(s.cell, move[0], move[1])
	if move[1] != 0 && taxiMap[to/5][2*(to%5)+1-move[1]] != ':' {
		return s.cell
	}
	return to
}

func (s taxiState) pickup() []transition {
	if s.passenger == inTaxi || taxiStands[s.passenger] != s.cell {
		return certain(s.state(), -10, false)
	}
	s.passenger = inTaxi
	return certain(s.state(), -1, false)
}

func (s taxiState) dropoff() []transition {
	stand := slices.Index(taxiStands, s.cell)
	if s.passenger != inTaxi || stand < 0 {
		return certain(s.state(), -10, false)
	}
	s.passenger = stand
	if stand == s.destination {
		return certain(s.state(), 20, true)
	}
	return certain(s.state(), -1, false)
}
