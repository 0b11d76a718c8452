package torch

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/model"
)

// cutting is an engine that cuts batches into rows of so many tokens.
func cutting(ranks, most int) *workerModel {
	return &workerModel{
		worker: &worker{ranks: ranks}, cfg: &model.Config{NumHeads: 2, NumKVHeads: 2}, spec: engine.TrainerSpec{MicroTokens: most},
	}
}

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
		e := cutting(c.ranks, 10)
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
		p := newPiece(rows, 0, cutting(rows, 0).cfg)
		for i := range 200 {
			p.add(slices.Repeat([]int32{int32(i)}, r.IntN(30)))
			_, load := spread(p.lengths, rows)
			for most := load - 3; most < load+3; most++ {
				p.most = most
				if got := p.fits(); got != (load <= most) {
					t.Fatalf("%v on %d rows of %d: fits is %v, and a row has %d", p.lengths, rows, most, got, load)
				}
			}
		}
	}
	exps := make([]*trinity.Experience, 5000)
	for i := range exps {
		exps[i] = &trinity.Experience{Tokens: make([]int32, 4), Mask: []bool{false, false, false, true}}
	}
	e := cutting(2, 4*len(exps))
	if n := testing.AllocsPerRun(1, func() { e.Cut(exps, 1) }); n > 100 {
		t.Errorf("%v allocations for a piece of %d experiences: it was spread again and again", n, len(exps))
	}
}

// grouped returns groups of replies to prompts of their own, all trained.
func grouped(groups, prompt, reply int) (xs []*trinity.Experience) {
	for g := range groups {
		stem := slices.Repeat([]int32{int32(g)}, prompt)
		for i := range 8 {
			x := &trinity.Experience{Tokens: append(slices.Clone(stem), slices.Repeat([]int32{int32(100 + i)}, reply)...)}
			x.Mask = append(make([]bool, prompt), slices.Repeat([]bool{true}, reply)...)
			xs = append(xs, x)
		}
	}
	return xs
}

// Layers with state along a row must see each sequence whole, those of a teacher, too.
func TestCutWithoutStems(t *testing.T) {
	own, teacher := cutting(1, 360), cutting(1, 360)
	own.whole = true
	teacher.teachers = map[string]*workerModel{"t": {whole: true}}
	for _, e := range []*workerModel{own, teacher} {
		xs := grouped(1, 100, 10)
		var got []int
		for _, piece := range e.Cut(xs, 1) {
			got = append(got, len(piece))
		}
		if fmt.Sprint(got) != "[3 3 2]" {
			t.Errorf("pieces %v of 8 sequences of 110 tokens in rows of 360", got)
		}
		if b := newBatch(xs, e); len(b.ranks) != len(xs) {
			t.Errorf("%d of %d sequences have a rank", len(b.ranks), len(xs))
		}
	}
}

// A row has a stem once, so it holds more replies; each rank gets as many of a group as balance the rows.
func TestCutCountsStemsOnce(t *testing.T) {
	for _, c := range []struct {
		ranks, groups, prompt, reply, most int
		want                               string
	}{
		{1, 4, 100, 10, 180, "[8 8 8 8]"},
		{1, 4, 100, 10, 179, "[7 1 7 1 7 1 7 1]"},
		{1, 4, 100, 10, 360, "[16 16]"},
		{1, 4, 15, 10, 100, "[4 4 4 4 4 4 4 4]"}, // too short to be shared
		{1, 2, 100, 10, 100, "[1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1]"},
		{2, 2, 100, 10, 280, "[16]"},
		{1, 1, 100, 1, 150, "[2 2 2 2]"}, // of keys and values a row has at most twice its tokens
	} {
		e, xs := cutting(c.ranks, c.most), grouped(c.groups, c.prompt, c.reply)
		if c.want != "[2 2 2 2]" {
			e.cfg.NumHeads = 1000
		}
		var got []int
		for _, piece := range e.Cut(xs, 1) {
			got = append(got, len(piece))
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("%+v: pieces %v", c, got)
		}
	}
	e, xs := cutting(2, 1000), grouped(1, 100, 10)
	if got := newBatch(xs, e).ranks; fmt.Sprint(got) != "[0 1 0 1 0 1 0 1]" {
		t.Errorf("the ranks of a group are %v", got)
	}
	short := grouped(1, 10, 5)
	if got := newBatch(short, e).ranks; fmt.Sprint(got) != "[0 1 0 1 0 1 0 1]" {
		t.Errorf("the ranks of short sequences are %v", got)
	}
}

// The rows of a piece are as many as the prefixes that are different.
func TestForestCountsPrefixes(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 20 {
		var f forest
		different, all := map[string]bool{}, [][]int32{}
		for range 12 {
			tokens := slices.Repeat([]int32{9}, shortestStem)
			if len(all) > 0 {
				old := all[r.IntN(len(all))]
				tokens = slices.Clone(old[:shortestStem+r.IntN(len(old)-shortestStem+1)])
			}
			for range r.IntN(6) {
				tokens = append(tokens, r.Int32N(3))
			}
			f.add(tokens, f.stem(tokens))
			all = append(all, tokens)
			for n := range tokens {
				different[fmt.Sprint(tokens[:n+1])] = true
			}
		}
		if f.rows != len(different) {
			t.Fatalf("%d rows for %d prefixes", f.rows, len(different))
		}
	}
}
