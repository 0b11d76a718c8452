package torch

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
)

// Each rank gets a row that it can hold; units stay together.
func TestCut(t *testing.T) {
	of := func(lengths ...int) (xs []*trinity.Experience) {
		for _, n := range lengths {
			x := &trinity.Experience{Tokens: make([]int32, n+3), Mask: make([]bool, n+3)}
			if n > 1 {
				x.Mask[n-1] = true
			}
			xs = append(xs, x)
		}
		return xs
	}
	for _, c := range []struct {
		ranks, unit int
		lengths     []int
		want        string
	}{
		{1, 1, []int{5, 5, 5, 3}, "[2 2]"},
		{2, 1, []int{5, 5, 5, 3}, "[4]"},
		{2, 1, []int{8, 8, 8}, "[2 1]"},
		{1, 2, []int{3, 3, 3, 3, 3, 3}, "[2 2 2]"},
		{1, 1, []int{30, 2, 30}, "[1 1 1]"}, // longer than a row may be
		{2, 1, []int{0, 0, 9}, "[3]"},
	} {
		e := &workerModel{worker: &worker{ranks: c.ranks}, spec: engine.TrainerSpec{MicroTokens: 10}}
		var got []int
		for _, piece := range e.Cut(of(c.lengths...), c.unit) {
			got = append(got, len(piece))
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("ranks %d, units of %d, %v: pieces %v, want %s", c.ranks, c.unit, c.lengths, got, c.want)
		}
	}
}

// A piece is spread only near its limit, because that sorts all of it.
func TestCutSpreadsSeldom(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for rows := 1; rows < 5; rows++ {
		var p piece
		for range 200 {
			p.add(int32(r.IntN(30)))
			_, load := spread(p.lengths, rows)
			for most := load - 3; most < load+3; most++ {
				if got := p.fits(rows, most); got != (load <= most) {
					t.Fatalf("%v on %d rows of %d: fits is %v, and a row has %d", p.lengths, rows, most, got, load)
				}
			}
		}
	}
	exps := make([]*trinity.Experience, 5000)
	for i := range exps {
		exps[i] = &trinity.Experience{Tokens: make([]int32, 4), Mask: []bool{false, false, false, true}}
	}
	e := &workerModel{worker: &worker{ranks: 2}, spec: engine.TrainerSpec{MicroTokens: 4 * len(exps)}}
	if n := testing.AllocsPerRun(1, func() { e.Cut(exps, 1) }); n > 100 {
		t.Errorf("%v allocations for a piece of %d experiences: it was spread again and again", n, len(exps))
	}
}
