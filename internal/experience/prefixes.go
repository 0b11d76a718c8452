package experience

import "slices"

// Prefixes counts the tokens of sequences, those of a common prefix once. The zero value has no
// sequences.
type Prefixes struct {
	sorted [][]int32
	tokens int
}

// Add adds a sequence and keeps it. It compares the sequence with a few others only.
func (p *Prefixes) Add(tokens []int32) {
	at, _ := slices.BinarySearchFunc(p.sorted, tokens, slices.Compare)
	shared := 0
	for _, neighbour := range p.sorted[max(0, at-1):min(at+1, len(p.sorted))] { // no other has more in common
		shared = max(shared, CommonPrefix(neighbour, tokens))
	}
	p.tokens += len(tokens) - shared
	p.sorted = slices.Insert(p.sorted, at, tokens)
}

// Tokens returns the number of tokens to compute: the number of different prefixes, from 1 token to
// whole sequences.
func (p *Prefixes) Tokens() int { return p.tokens }

// CommonPrefix returns the number of first tokens that a and b have in common.
func CommonPrefix(a, b []int32) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
