package sampler

import (
	"math/rand/v2"
	"testing"
)

func TestExtentsNeverOverlapAndMerge(t *testing.T) {
	const rows = 500
	rng := rand.New(rand.NewPCG(1, 2))
	e := newExtents(rows)
	owner := make([]bool, rows)
	var held []extent
	for range 5000 {
		if n := 1 + rng.IntN(40); rng.IntN(2) == 0 {
			x, ok := e.take(n)
			if !ok {
				continue
			}
			for r := x.start; r < x.start+x.len; r++ {
				if owner[r] {
					t.Fatalf("row %d handed out twice", r)
				}
				owner[r] = true
			}
			held = append(held, x)
		} else if len(held) > 0 {
			i := rng.IntN(len(held))
			for r := held[i].start; r < held[i].start+held[i].len; r++ {
				owner[r] = false
			}
			e.give(held[i])
			held = append(held[:i], held[i+1:]...)
		}
	}
	used := 0
	for _, x := range held {
		used += x.len
	}
	if e.available() != rows-used {
		t.Errorf("%d rows free, want %d", e.available(), rows-used)
	}
	for _, x := range held {
		e.give(x)
	}
	if x, ok := e.take(rows); !ok || x.start != 0 {
		t.Errorf("after everything was freed: %v, %v; want the whole space", x, ok)
	}
}

func TestExtentsDoubleFreePanics(t *testing.T) {
	e := newExtents(10)
	x, _ := e.take(4)
	e.give(x)
	defer func() {
		if recover() == nil {
			t.Error("freeing twice did not panic")
		}
	}()
	e.give(x)
}
