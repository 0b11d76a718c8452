package trinity

import "sync"

// calls counts a Model's calls. The seed of a call follows from the rollout's seed, the prompt's
// tokens and how often that prompt came before. So parallel calls draw the same tokens whichever
// comes first.
type calls struct {
	mu      sync.Mutex
	begun   int            // calls so far
	asked   map[uint64]int // calls so far with a prompt, by the prompt's seed
	sampled int            // tokens that the policy wrote
	lost    int            // further ones, in calls that gave no answer
	prompts int            // tokens of the prompts of all calls but the first
	reused  int            // of them, those that the sampler had computed before
}

// begin counts a call, and returns its turn and its seed.
func (c *calls) begin(seed uint64, prompt []int32) (turn int, hash uint64) {
	for _, token := range prompt {
		seed = mix(seed, uint64(token))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked == nil {
		c.asked = map[uint64]int{}
	}
	turn, before := c.begun, c.asked[seed]
	c.begun++
	c.asked[seed]++
	return turn, mix(seed, uint64(before))
}

// lose counts the tokens of a call that gave no answer.
func (c *calls) lose(tokens int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost += tokens
}

// answered counts the tokens of a call.
func (c *calls) answered(turn, prompt int, answer *Completion) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sampled += len(answer.Tokens)
	if turn > 0 {
		c.prompts += prompt
		c.reused += answer.Reused
	}
}
