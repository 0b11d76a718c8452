package environment

import (
	"compress/gzip"
	"encoding/json"
	"math"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

// recorded is what testdata/record_gymnasium.py wrote, by environment.
type recorded struct {
	Args     map[string]any
	Table    [][][][]any // by state and action: results of probability, state, reward and whether the episode ends
	Episodes []struct {
		Seed    string
		States  [][]int
		Actions []int
		Rewards []float64
		Ended   bool
	}
}

type recordedMap struct {
	Size int
	P    float64
	Seed string
	Rows []string
}

func gymnasium(t *testing.T, key string, into any) {
	t.Helper()
	file, err := os.Open("testdata/gymnasium.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	text, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]json.RawMessage
	if err := json.NewDecoder(text).Decode(&all); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(all[key], into); err != nil {
		t.Fatal(err)
	}
}

func seedOf(t *testing.T, text string) uint64 {
	t.Helper()
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return seed
}

// holdsToGymnasium plays the recorded episodes with the names of the actions, and compares every
// transition. state returns what Gymnasium calls the state.
func holdsToGymnasium(t *testing.T, name string, actions []string, state func(trinity.Environment) []int) {
	t.Helper()
	var cases []recorded
	gymnasium(t, name, &cases)
	for _, c := range cases {
		if p := processOf(t, name, c.Args); p != nil && c.Table != nil {
			holdsToTable(t, c, p)
		}
		env, err := open(t, name, c.Args).OpenEnvironment(t.Context(), &trinity.Task{})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range c.Episodes {
			seen, err := env.Reset(t.Context(), seedOf(t, e.Seed))
			if got := state(env); err != nil || !slices.Equal(got, e.States[0]) || seen.State == "" {
				t.Fatalf("%v, seed %s: begins in %v, want %v; %v", c.Args, e.Seed, got, e.States[0], err)
			}
			for i, action := range e.Actions {
				out, err := env.Step(t.Context(), trinity.Action{Text: "I go.\n```" + actions[action] + "```"})
				if err != nil {
					t.Fatal(err)
				}
				ends := e.Ended && i == len(e.Actions)-1
				if got := state(env); !slices.Equal(got, e.States[i+1]) || *out.Reward != e.Rewards[i] || out.Done != ends {
					t.Fatalf("%v, seed %s, step %d, %s: %v, reward %v, done %v; want %v, %v, %v", c.Args, e.Seed, i, actions[action],
						got, *out.Reward, out.Done, e.States[i+1], e.Rewards[i], ends)
				}
			}
		}
	}
}

// processOf returns the rules of an environment with a table, else nil.
func processOf(t *testing.T, name string, args map[string]any) *markov {
	t.Helper()
	env, err := open(t, name, args).OpenEnvironment(t.Context(), &trinity.Task{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := env.Reset(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if w := walkOf(env); w != nil {
		return w.process
	}
	return nil
}

func walkOf(env trinity.Environment) *walk {
	switch e := env.(type) {
	case *lake:
		return &e.walk
	case *cliff:
		return &e.walk
	case *ride:
		return &e.walk
	default:
		return nil
	}
}

func holdsToTable(t *testing.T, c recorded, p *markov) {
	t.Helper()
	for state, actions := range c.Table {
		for action, want := range actions {
			got := p.next(state, action)
			same := len(got) == len(want)
			for i := range min(len(got), len(want)) {
				w := transition{want[i][0].(float64), int(want[i][1].(float64)), want[i][2].(float64), want[i][3].(bool)}
				same = same && math.Abs(got[i].p-w.p) < 1e-15 && got[i].state == w.state && got[i].reward == w.reward && got[i].ends == w.ends
			}
			if !same {
				t.Fatalf("%v, state %d, action %d: %v, want %v", c.Args, state, action, got, want)
			}
		}
	}
}

func tabularState(env trinity.Environment) []int { return []int{walkOf(env).state} }

func TestFrozenLakeHoldsToGymnasium(t *testing.T) {
	holdsToGymnasium(t, "frozen_lake", []string{"Left", "Down", "Right", "Up"}, tabularState)
}

func TestFrozenLakeDrawsMapsOfGymnasium(t *testing.T) {
	var maps []recordedMap
	gymnasium(t, "maps", &maps)
	for _, m := range maps {
		l := &frozenLake{Size: m.Size, P: m.P}
		if got, err := l.draw(t.Context(), seedOf(t, m.Seed)); err != nil || !reflect.DeepEqual(got, m.Rows) {
			t.Errorf("size %d, p %g, seed %s: %q, %v, want %q", m.Size, m.P, m.Seed, got, err, m.Rows)
		}
	}
	if len(maps) == 0 {
		t.Error("no maps are recorded")
	}
}

// Maps with a start and a goal anywhere are those of Trinity-RFT: numpy.random.default_rng(seed) draws
// the cells, then the rows and columns of start and goal until they differ.
func TestFrozenLakeDrawsMapsOfTrinityRFT(t *testing.T) {
	for _, m := range []struct {
		size  int
		p     float64
		seed  uint64
		limit int
		rows  string
	}{
		{2, 0.6, 3, 8, "GF SF"},
		{4, 0.7, 42, 8, "FFFF FHHF HHFF FFGS"},
		{6, 0.8, 860, 3, "FFFHFH HHHHHF HFFHFF HHGFFF FFFFFS FFHHFF"},
		{8, 0.7, 6, 8, "HFFFHHHF FFHHFHFH FHFFFFFH FFFHFHFF HHFFFFHH FFHFHFHF FFGFHFFF SFFFFFFF"},
		{9, 0.61, 54886, 8, "FFFHFHFFF FHFFHFFFF FFFFFFHFF HGFFFFFFF FFFFHFFHH FFFFFFHHF FSFFFFFFF FHFFHHHFH HFHHFHHHH"},
	} {
		l := &frozenLake{Size: m.size, P: m.p, RandomStart: true, PathLimit: m.limit}
		got, err := l.draw(t.Context(), m.seed)
		if err != nil || strings.Join(got, " ") != m.rows {
			t.Errorf("size %d, p %g, seed %d: %q, %v, want %q", m.size, m.p, m.seed, got, err, m.rows)
		}
	}
}

func TestCliffWalkingHoldsToGymnasium(t *testing.T) {
	holdsToGymnasium(t, "cliff_walking", []string{"Up", "Right", "Down", "Left"}, tabularState)
}

func TestTaxiHoldsToGymnasium(t *testing.T) {
	holdsToGymnasium(t, "taxi", []string{"South", "North", "East", "West", "Pickup", "Dropoff"}, tabularState)
}

func TestBlackjackHoldsToGymnasium(t *testing.T) {
	holdsToGymnasium(t, "blackjack", []string{"Stick", "Hit"}, func(env trinity.Environment) []int {
		h := env.(*hand)
		sum, usable := h.player.sum()
		ace := 0
		if usable {
			ace = 1
		}
		return []int{sum, h.dealer[0], ace}
	})
}
