package reward

import (
	"encoding/json"
	"math"
	"os"
	"testing"
)

// Similarities are those of rapidfuzz, NLTK and rouge-score, which testdata/similarity.py has recorded.
func TestTextSimilarities(t *testing.T) {
	text, err := os.ReadFile("testdata/similarity.json")
	if err != nil {
		t.Fatal(err)
	}
	var rows [][3]json.RawMessage
	if err := json.Unmarshal(text, &rows); err != nil || len(rows) < 60 {
		t.Fatal(len(rows), err)
	}
	for _, row := range rows {
		var a, b string
		want := map[string]float64{}
		for i, into := range []any{&a, &b, &want} {
			if err := json.Unmarshal(row[i], into); err != nil {
				t.Fatal(err)
			}
		}
		for name, measure := range similarities {
			if got := measure(a, b); math.Abs(got-want[name]) > 1e-9 {
				t.Errorf("%s of %q and %q is %g, want %g", name, a, b, got, want[name])
			}
		}
	}
}
