package mathequal

import (
	"testing"
)

// BenchmarkVerdict measures what a reward does with a reply: find the answer and compare it.
func BenchmarkVerdict(b *testing.B) {
	pairs := rows(b, "pairs.tsv")
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		row := pairs[i%len(pairs)]
		Equal(Answer(row[2]), Truth(row[1]))
	}
}
