package trainer

import (
	"fmt"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/experience"
)

// microBatches cuts experiences, in order, into pieces that the engine computes at once. It never
// separates the experiences of a unit. An engine that is a Cutter cuts itself; otherwise a piece
// has at most maxTokens tokens, or one unit.
func microBatches(trainer engine.Trainer, exps []*trinity.Experience, maxTokens, unit int) ([][]*trinity.Experience, error) {
	cutter, ok := trainer.(Cutter)
	if !ok {
		return wholeUnits(exps, maxTokens, unit), nil
	}
	pieces := cutter.Cut(exps, unit)
	next := 0
	for _, piece := range pieces {
		for _, e := range piece {
			if next == len(exps) || e != exps[next] {
				return nil, fmt.Errorf("the engine %T cut %d experiences into pieces that do not hold each of them once, in order", trainer, len(exps))
			}
			next++
		}
		if len(piece) == 0 || next%unit != 0 && next < len(exps) {
			return nil, fmt.Errorf("the engine %T cut %d experiences behind experience %d: a piece must hold whole units of %d",
				trainer, len(exps), next, unit)
		}
	}
	if next < len(exps) {
		return nil, fmt.Errorf("the engine %T cut %d experiences into pieces that hold only %d", trainer, len(exps), next)
	}
	return pieces, nil
}

// pieceCost is what a piece costs beside its tokens, in tokens: the engine packs all weights once more, and
// adds to the whole gradient.
const pieceCost = 40

// wholeUnits cuts experiences into pieces of at most maxTokens tokens, but at least one unit. It
// counts a prefix that experiences of a piece share once, because engines compute it once. Of all such cuts
// it returns one that costs the least: a group keeps its prompt, unless another piece would cost more.
func wholeUnits(exps []*trinity.Experience, maxTokens, unit int) (out [][]*trinity.Experience) {
	least := make([]int, len(exps)+unit) // cost of the experiences from i on
	end := make([]int, len(exps))        // of their first piece
	// A piece that begins earlier ends no later. So one pass knows of each experience that a piece may
	// hold how many first tokens it shares with those before it in the piece.
	shared := make([]int, len(exps))
	for start := (len(exps) - 1) / unit * unit; start >= 0; start -= unit {
		tokens := 0
		for i := start; i < len(exps); i += unit {
			to := min(i+unit, len(exps))
			for j := i; j < to; j++ {
				for _, e := range exps[start:min(start+unit, j)] {
					shared[j] = max(shared[j], experience.CommonPrefix(e.Tokens, exps[j].Tokens))
				}
				tokens += len(exps[j].Tokens) - shared[j]
			}
			if i > start && tokens > maxTokens {
				break
			}
			if cost := tokens + pieceCost + least[i+unit]; i == start || cost <= least[start] {
				least[start], end[start] = cost, to
			}
		}
	}
	for start := 0; start < len(exps); start = end[start] {
		out = append(out, exps[start:end[start]])
	}
	return out
}

// miniBatches cuts a batch, in order, into optimizer steps of size experiences; size 0 means one
// step. If the batch mixes rollouts and demonstrations, every step gets its share of both: their
// number stays the same, and their sizes are as even as possible.
func miniBatches(exps []*trinity.Experience, size int) [][]*trinity.Experience {
	if size <= 0 {
		return [][]*trinity.Experience{exps}
	}
	experts := 0
	for _, e := range exps {
		if e.IsExpert {
			experts++
		}
	}
	rollouts := len(exps) - experts
	if experts == 0 || rollouts == 0 {
		return slices.Collect(slices.Chunk(exps, size))
	}
	steps := make([][]*trinity.Experience, (len(exps)+size-1)/size)
	expert, rollout := 0, 0
	for _, e := range exps {
		var at int
		if e.IsExpert {
			at = expert * len(steps) / experts
			expert++
		} else { // rounded the other way, so that steps come out even
			rollout++
			at = (rollout*len(steps) - 1) / rollouts
		}
		steps[at] = append(steps[at], e)
	}
	return steps
}
