package mathequal

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// rows returns the lines of a file in testdata, split at tabs.
func rows(t testing.TB, name string) [][]string {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.Comma, r.LazyQuotes = '\t', true
	all, err := r.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Verdicts are those of math-verify 0.9 but for the differences that testdata/differences.tsv lists:
// gold, answer, who is right (mathequal, math-verify, or convention if both readings are in use), why.
func TestVerdictsAreThoseOfMathVerify(t *testing.T) {
	const least = 3000
	listed := map[[2]string]bool{}
	for _, row := range rows(t, "differences.tsv") {
		if row[3] == "" || !strings.Contains(" mathequal math-verify convention ", " "+row[2]+" ") {
			t.Errorf("%q lacks who is right or why", row)
		}
		listed[[2]string{row[0], row[1]}] = true
	}
	pairs := rows(t, "pairs.tsv")
	different := 0
	for _, row := range pairs {
		kind, gold, answer, want := row[0], row[1], row[2], row[3] == "1"
		pair := [2]string{gold, answer}
		same := Equal(Answer(answer), Truth(gold)) == want
		if !same {
			different++
		}
		switch {
		case same && listed[pair]:
			t.Errorf("%s: %q and %q are listed as a difference, and are none", kind, gold, answer)
		case !same && !listed[pair]:
			t.Errorf("%s: gold %q, answer %q: math-verify says %v", kind, gold, answer, want)
		}
		delete(listed, pair)
	}
	if len(listed) > 0 {
		t.Errorf("differences.tsv lists pairs that are not recorded: %v", listed)
	}
	if len(pairs) < least || different*100 > len(pairs) {
		t.Errorf("%d of %d pairs differ, want at most 1 %% of at least %d", different, len(pairs), least)
	}
}
