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

// wholeUnits cuts experiences into pieces of at most maxTokens tokens, but at least one unit. It
// counts a prefix that experiences of a piece share once, because engines compute it once.
func wholeUnits(exps []*trinity.Experience, maxTokens, unit int) [][]*trinity.Experience {
	var out [][]*trinity.Experience
	var piece experience.Prefixes
	start := 0
	for i := 0; i < len(exps); i += unit {
		next := exps[i:min(i+unit, len(exps))]
		addTo(&piece, next)
		if i > start && piece.Tokens() > maxTokens {
			out = append(out, exps[start:i])
			start, piece = i, experience.Prefixes{}
			addTo(&piece, next)
		}
	}
	if start < len(exps) {
		out = append(out, exps[start:])
	}
	return out
}

func addTo(piece *experience.Prefixes, exps []*trinity.Experience) {
	for _, e := range exps {
		piece.Add(e.Tokens)
	}
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
