package trainer

import (
	"slices"

	"github.com/trinity-go/trinity"
)

// provenance is what became of the experiences of a step.
type provenance struct {
	trained []trinity.ExperienceID
	dropped map[string][]trinity.ExperienceID // by who dropped them
}

// train notes the experiences that the step trains on. Without a token to learn from, an experience
// is dropped.
func (f *provenance) train(exps []*trinity.Experience) {
	left := learnable(exps)
	for _, e := range left {
		f.trained = append(f.trained, e.ID)
	}
	f.drop("mask", exps, left)
}

// drop notes the experiences of before that are not among left, unless they were dropped already.
func (f *provenance) drop(who string, before, left []*trinity.Experience) {
	known := map[trinity.ExperienceID]bool{}
	for _, e := range left {
		known[e.ID] = true
	}
	for _, ids := range f.dropped {
		for _, id := range ids {
			known[id] = true
		}
	}
	for _, e := range before {
		if known[e.ID] {
			continue
		}
		if f.dropped == nil {
			f.dropped = map[string][]trinity.ExperienceID{}
		}
		f.dropped[who] = append(f.dropped[who], e.ID)
	}
}

// whoDropped returns who dropped an experience; "" if nobody did.
func (f *provenance) whoDropped(id trinity.ExperienceID) string {
	for who, ids := range f.dropped {
		if slices.Contains(ids, id) {
			return who
		}
	}
	return ""
}

// learnable returns the experiences with tokens to learn from.
func learnable(exps []*trinity.Experience) (out []*trinity.Experience) {
	for _, e := range exps {
		if e.TrainedTokens() > 0 {
			out = append(out, e)
		}
	}
	return out
}
