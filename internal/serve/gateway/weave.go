package gateway

import (
	"slices"

	"github.com/trinity-go/trinity"
)

// weave joins replies to sequences. Each reply comes as an experience whose prompt is all that the
// policy read. A reply continues another one if its prompt begins with all tokens of the other.
// Training learns each reply once, in the first sequence that has it.
func weave(replies []*trinity.Experience) (sequences []*trinity.Experience) {
	before, continued := stems(replies)
	learnt := map[*trinity.Experience][]bool{}
	for _, last := range replies {
		if continued[last] {
			continue
		}
		var path []*trinity.Experience
		for e := last; e != nil; e = before[e] {
			path = append(path, e)
		}
		slices.Reverse(path)
		sequences = append(sequences, join(path, nil, learnt))
	}
	return sequences
}

// stems returns the longest reply that each reply continues, and the replies that are continued.
func stems(replies []*trinity.Experience) (before map[*trinity.Experience]*trinity.Experience, continued map[*trinity.Experience]bool) {
	sorted := slices.Clone(replies)
	slices.SortStableFunc(sorted, func(a, b *trinity.Experience) int { return slices.Compare(a.Tokens, b.Tokens) })
	before, continued = map[*trinity.Experience]*trinity.Experience{}, map[*trinity.Experience]bool{}
	var prefixes []*trinity.Experience // of the sequence at hand: in this order they come right before it
	for _, e := range sorted {
		prefixes = slices.DeleteFunc(prefixes, func(p *trinity.Experience) bool {
			return len(p.Tokens) > len(e.Tokens) || !slices.Equal(p.Tokens, e.Tokens[:len(p.Tokens)])
		})
		for _, p := range slices.Backward(prefixes) {
			if len(p.Tokens) <= e.PromptLen && p.Temperature == e.Temperature && seesFirst(e, p.Images) { // an experience has one temperature
				before[e], continued[p] = p, true
				break
			}
		}
		prefixes = append(prefixes, e)
	}
	return before, continued
}

// seesFirst reports whether the first images of an experience are these. Images of one size have the same tokens.
func seesFirst(e *trinity.Experience, images []trinity.Image) bool {
	return len(e.Images) >= len(images) && slices.Equal(e.Images[:len(images)], images)
}

// join returns the sequence of replies, each of which continues the one before. wanted are the tokens of its response that
// it learns; nil is all that the policy sampled. What an earlier sequence learns is context in this one.
func join(path []*trinity.Experience, wanted []bool, learnt map[*trinity.Experience][]bool) *trinity.Experience {
	out := *path[len(path)-1]
	out.ID.Turn, out.Prompt, out.PromptLen = path[0].ID.Turn, path[0].Prompt, path[0].PromptLen
	out.Mask, out.Logprobs = make([]bool, len(out.Tokens)), make([]float32, len(out.Tokens))
	out.EnvironmentLen = len(out.Tokens) - out.PromptLen
	for _, e := range path {
		if learnt[e] == nil {
			learnt[e] = make([]bool, len(e.Tokens)-e.PromptLen)
		}
		for i, before := e.PromptLen, learnt[e]; i < len(e.Tokens); i++ {
			if before[i-e.PromptLen] || !e.Mask[i] {
				continue
			}
			out.EnvironmentLen--
			if wanted != nil && !wanted[i-out.PromptLen] {
				continue
			}
			before[i-e.PromptLen], out.Mask[i], out.Logprobs[i] = true, true, e.Logprobs[i]
			out.Versions = [2]int64{min(out.Versions[0], e.Versions[0]), max(out.Versions[1], e.Versions[1])}
		}
	}
	return &out
}
