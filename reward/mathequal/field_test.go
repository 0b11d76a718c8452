package mathequal

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// field returns the lines of a file of a kind under shared/data/field.
func field(t *testing.T, kind, file string) []string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; filepath.Dir(dir) != dir; dir = filepath.Dir(dir) {
		f, err := os.Open(filepath.Join(dir, "shared", "data", "field", kind, file))
		if err != nil {
			continue
		}
		defer f.Close()
		var lines []string
		for s := bufio.NewScanner(f); s.Scan(); {
			lines = append(lines, s.Text())
		}
		return lines
	}
	t.Skip("shared/data/field/" + kind + " is not beside the repository")
	return nil
}

func TestPairsOfTheField(t *testing.T) {
	for _, kind := range strings.Fields("math-space math-dress math-several math-domain math-sets math-notation") {
		t.Run(kind, func(t *testing.T) {
			expected := field(t, kind, "expected")
			for i, line := range field(t, kind, "input.jsonl") {
				var pair struct{ Gold, Answer string }
				if err := json.Unmarshal([]byte(line), &pair); err != nil {
					t.Fatal(err)
				}
				want := expected[i] == "1"
				if got := Equal(Answer(pair.Answer), Truth(pair.Gold)); got != want {
					t.Errorf("gold %q, answer %q: got %v, want %v; found answer %q", pair.Gold, pair.Answer, got, want, Answer(pair.Answer))
				}
			}
		})
	}
}
