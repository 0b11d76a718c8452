package dataset

import (
	"compress/gzip"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Rows of files that are not in memory are the same in any order: forwards, backwards, repeated,
// at random.
func TestRowsOfLargeFilesInAnyOrder(t *testing.T) {
	dir := t.TempDir()
	var text strings.Builder
	const rows = 2000
	for i := range rows {
		text.WriteString(strings.Repeat("\n", i%3))
		fmt.Fprintf(&text, "{\"n\": %d, \"fill\": %q}\n", i, strings.Repeat("x", i*7919%500))
	}
	plain, packed := filepath.Join(dir, "a.jsonl"), filepath.Join(dir, "b.jsonl.gz")
	f, err := os.Create(packed)
	if err != nil {
		t.Fatal(err)
	}
	w := gzip.NewWriter(f)
	_, err = w.Write([]byte(text.String()))
	if err := errors.Join(err, w.Close(), f.Close(), os.WriteFile(plain, []byte(text.String()), 0o644)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{plain, packed} {
		d, err := Open(t.Context(), path, Options{held: 1})
		if err != nil || d.Len() != rows {
			t.Fatal(d.Len(), err)
		}
		rng := rand.New(rand.NewPCG(1, 2))
		for k := range 5 * rows {
			i := []int{k, rows - 1 - k%rows, k / 2, rng.IntN(rows), rng.IntN(rows)}[k/rows] % rows
			row, err := d.Row(i)
			if err != nil || row["n"] != int64(i) {
				t.Fatalf("%s, row %d: %v, %v", path, i, row["n"], err)
			}
			if k%7 == 0 { // beside other reads
				if want := fmt.Sprintf(":%d", i+1+i/3*3+[]int{0, 1, 3}[i%3]); !strings.HasSuffix(d.Where(i), want) {
					t.Fatalf("row %d is at %s, want line %s", i, d.Where(i), want)
				}
			}
		}
	}
}
