package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/experience/ledger"
)

// The record of a step names what each part dropped, in order, and what is left. An error of the
// ledger ends the step.
func TestTheLedgerNamesWhatEachPartDrops(t *testing.T) {
	groups := func() (out []trinity.Group) {
		for _, task := range []string{"a", "b"} {
			var g trinity.Group
			for run := range 3 {
				g = append(g, &trinity.Experience{ID: trinity.ExperienceID{Step: 7, Task: task, Run: run}})
			}
			out = append(out, g)
		}
		return out
	}
	first := part(func(g []trinity.Group) ([]trinity.Group, trinity.Metrics, error) { // the first rollout of each group
		return []trinity.Group{g[0][1:], g[1][1:]}, nil, nil
	})
	swap := part(func(g []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
		return []trinity.Group{g[1], g[0]}, nil, nil
	})
	second := part(func(g []trinity.Group) ([]trinity.Group, trinity.Metrics, error) { return g[:1], nil, nil })
	for _, c := range []struct {
		name  string
		parts []Operator
		want  string
	}{
		{"nothing is dropped", nil, `{"step":7,"explored":["7/a/0..2/0","7/b/0..2/0"]}`},
		{"another order", []Operator{{"swap", swap}}, `{"step":7,"explored":["7/a/0..2/0","7/b/0..2/0"],"put":["7/b/0..2/0","7/a/0..2/0"]}`},
		{"two parts drop", []Operator{{"first", first}, {"swap", swap}, {"second", second}},
			`{"step":7,"explored":["7/a/0..2/0","7/b/0..2/0"],"put":["7/b/1..2/0"],` +
				`"dropped":{"first":["7/a/0/0","7/b/0/0"],"second":["7/a/1..2/0"]}}`},
	} {
		var got []byte
		p := Pipeline{Operators: c.parts, Say: func(string) {}, Ledger: func(s ledger.Step) (err error) {
			got, err = json.Marshal(s)
			return err
		}}
		if _, _, err := p.Process(t.Context(), 7, groups()); err != nil || string(got) != c.want {
			t.Errorf("%s: %s\nwant %s, %v", c.name, got, c.want, err)
		}
	}
	full := errors.New("no space left")
	p := Pipeline{Ledger: func(ledger.Step) error { return full }}
	if _, _, err := p.Process(context.Background(), 7, groups()); !errors.Is(err, full) {
		t.Error(fmt.Sprint(err))
	}
}
