package trainer

import (
	"slices"

	"github.com/trinity-go/trinity"
)

// microBatches cuts experiences, in order, into pieces of at most maxTokens tokens each (at least one experience), counting a prompt that
// consecutive experiences share once: engines compute it once.
func microBatches(exps []*trinity.Experience, maxTokens int) [][]*trinity.Experience {
	var out [][]*trinity.Experience
	start, tokens := 0, 0
	for i, e := range exps {
		cost := len(e.Tokens)
		if i > start && samePrompt(exps[i-1], e) {
			cost -= e.PromptLen
		}
		if i > start && tokens+cost > maxTokens {
			out = append(out, exps[start:i])
			start, tokens, cost = i, 0, len(e.Tokens)
		}
		tokens += cost
	}
	if start < len(exps) {
		out = append(out, exps[start:])
	}
	return out
}

func samePrompt(a, b *trinity.Experience) bool {
	return a.PromptLen == b.PromptLen && slices.Equal(a.Tokens[:a.PromptLen], b.Tokens[:b.PromptLen])
}

// miniBatches cuts a batch, in order, into optimizer steps of size experiences.
func miniBatches(exps []*trinity.Experience, size int) [][]*trinity.Experience {
	if size <= 0 {
		return [][]*trinity.Experience{exps}
	}
	return slices.Collect(slices.Chunk(exps, size))
}
