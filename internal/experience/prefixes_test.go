package experience

import (
	"math/rand/v2"
	"testing"
)

// TestPrefixesCountEachPrefixOnce compares with a set of all prefixes.
func TestPrefixesCountEachPrefixOnce(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		var p Prefixes
		all, sequences := map[string]bool{}, [][]int32{nil}
		for range 1 + r.IntN(30) {
			from := sequences[r.IntN(len(sequences))]
			sequence := append([]int32(nil), from[:r.IntN(len(from)+1)]...)
			for range r.IntN(12) {
				sequence = append(sequence, r.Int32N(3))
			}
			sequences = append(sequences, sequence)
			p.Add(sequence)
			text := ""
			for _, token := range sequence {
				text += string('a' + token)
				all[text] = true
			}
			if p.Tokens() != len(all) {
				t.Fatalf("seed %d: %d tokens of %v, want %d", seed, p.Tokens(), sequences, len(all))
			}
		}
	}
}
