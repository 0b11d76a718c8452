package mathequal

import (
	"bufio"
	"encoding/json"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// gsm8k returns the reference solutions of the test split. It skips the test without the shared
// data.
func gsm8k(t *testing.T) []string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; filepath.Dir(dir) != dir; dir = filepath.Dir(dir) {
		f, err := os.Open(filepath.Join(dir, "shared", "data", "gsm8k", "test.jsonl"))
		if err != nil {
			continue
		}
		defer f.Close()
		var solutions []string
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var row struct{ Answer string }
			if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
				t.Fatal(err)
			}
			solutions = append(solutions, row.Answer)
		}
		return solutions
	}
	t.Skip("shared/data/gsm8k is not beside the repository")
	return nil
}

func TestGSM8KAnswersAreFoundInTheirUsualForms(t *testing.T) {
	for _, solution := range gsm8k(t) {
		gold, ok := Hashed(solution)
		n, isNumber := decimal(strings.ReplaceAll(gold, ",", ""))
		if !ok || !isNumber {
			t.Errorf("no number after #### in %q", solution)
			continue
		}
		wrong := new(big.Rat).Add(n, big.NewRat(1, 1)).FloatString(2)
		for _, reply := range []string{
			solution, "The answer is " + gold + ".", "\\boxed{" + gold + "}", "$" + gold, "It costs $" + gold + ".00 in all.",
			"<think>1+1=3</think><answer>" + gold + "</answer>",
			"So we get x = " + gold, gold + " apples", "Total: **" + gold + "**", "$\\boxed{" + gold + "\\text{ dollars}}$",
			"That makes $" + gold + "$.",
		} {
			if answer := Answer(reply); !Equal(answer, gold) {
				t.Errorf("Answer(%q) = %q, which is not %q", reply, answer, gold)
			} else if Equal(answer, wrong) {
				t.Errorf("Answer(%q) = %q equals %q", reply, answer, wrong)
			}
		}
	}
}
