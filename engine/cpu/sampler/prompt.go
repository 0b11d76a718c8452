package sampler

import "slices"

// prompt is the K/V of a prompt, computed or being computed, that all completions of it share.
type prompt struct {
	tokens   []int32
	hash     uint64
	rows     extent
	done     int       // tokens computed
	users    int       // sequences that read it
	outdated bool      // computed with weights that were replaced: no new sequence may use it
	hidden   []float32 // [H] normalised last hidden state, input of the head; valid once complete
	used     int64     // step of the last use

	headRow  int   // row of the logits that follow the prompt,
	headStep int64 // in this step
}

func (p *prompt) complete() bool { return p.done == len(p.tokens) }

// minCopied is the fewest common first tokens that are worth copying from another prompt.
const minCopied = 8

// promptCache finds prompts and makes room for new ones.
type promptCache struct {
	rows    extents
	prompts []*prompt // in order of arrival
}

// find is the prompt of these tokens, nil if there is none that may be used.
func (c *promptCache) find(hash uint64, tokens []int32) *prompt {
	for _, p := range c.prompts {
		if p.hash == hash && !p.outdated && slices.Equal(p.tokens, tokens) {
			return p
		}
	}
	return nil
}

// similar is the prompt with the most computed tokens that tokens begins with, and how many; the last token is never
// among them, since its hidden state is wanted.
func (c *promptCache) similar(tokens []int32) (best *prompt, common int) {
	for _, p := range c.prompts {
		if p.outdated {
			continue
		}
		if n := commonPrefix(p.tokens[:p.done], tokens[:len(tokens)-1]); n > common {
			best, common = p, n
		}
	}
	if common < minCopied {
		return nil, 0
	}
	return best, common
}

func commonPrefix(a, b []int32) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// take is n rows; prompts without users make room, the one longest unused first.
func (c *promptCache) take(n int) (extent, bool) {
	for {
		if x, ok := c.rows.take(grains(n)); ok {
			return x, true
		}
		if !c.evict() {
			return extent{}, false
		}
	}
}

// evict drops the prompt that was not used for the longest time.
func (c *promptCache) evict() bool {
	oldest := -1
	for i, p := range c.prompts {
		if p.users == 0 && (oldest < 0 || p.used < c.prompts[oldest].used) {
			oldest = i
		}
	}
	if oldest < 0 {
		return false
	}
	c.rows.give(c.prompts[oldest].rows)
	c.prompts = slices.Delete(c.prompts, oldest, oldest+1)
	return true
}

// leave ends one use of p. What nobody can use any more goes at once.
func (c *promptCache) leave(p *prompt, step int64) {
	p.users--
	p.used = step
	if p.users == 0 && (p.outdated || !p.complete()) {
		c.drop(p)
	}
}

func (c *promptCache) drop(p *prompt) {
	c.rows.give(p.rows)
	i := slices.Index(c.prompts, p)
	c.prompts = slices.Delete(c.prompts, i, i+1)
}

// outdate is called when weights were replaced. A prompt that is still being computed, from which no token was sampled,
// starts again; others stay for the sequences that read them.
func (c *promptCache) outdate() {
	for _, p := range slices.Clone(c.prompts) {
		switch {
		case p.users == 0:
			c.drop(p)
		case p.complete():
			p.outdated = true
		default:
			p.done = 0
		}
	}
}
