package database

import (
	"slices"
	"strings"
	"testing"
)

// A statement has a bounded number of rows and bytes, because servers refuse long packets.
func TestFitting(t *testing.T) {
	mib := func(n int) []any { return []any{1, strings.Repeat("x", n<<19), make([]byte, n<<19)} }
	for name, c := range map[string]struct {
		rows [][]any
		want int
	}{
		"few":                           {slices.Repeat([][]any{mib(0)}, 3), 3},
		"many":                          {slices.Repeat([][]any{mib(0)}, 100), 64},
		"as many bytes as there may be": {slices.Repeat([][]any{mib(2)}, 2), 2},
		"too many bytes":                {slices.Repeat([][]any{mib(2)}, 3), 2},
		"a long one":                    {[][]any{mib(5), mib(0)}, 1},
		"a long one behind others":      {[][]any{mib(0), mib(0), mib(5)}, 2},
	} {
		if got := fitting(c.rows); got != c.want {
			t.Errorf("%s: %d rows, want %d", name, got, c.want)
		}
	}
}
