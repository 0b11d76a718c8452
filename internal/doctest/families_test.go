package doctest

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/model"
)

// The table of families in the guide has a row for each family that this program knows, and its columns say what computes it. With
// -update the test writes these columns; the others, models and vLLM, are written by hand.
func TestTableOfFamiliesIsCurrent(t *testing.T) {
	const (
		path = "../../docs/guide/models.md"
		head = "| `model_type` | embedded engine | GGUF files | models | vLLM |\n|---|---|---|---|---|\n"
	)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(data), head)
	if !found {
		t.Fatalf("%s has no table that begins with\n%s", path, head)
	}
	table, after, _ := strings.Cut(rest, "\n\n")
	byHand := map[string]string{}
	for line := range strings.SplitSeq(table, "\n") {
		cells := strings.SplitN(line, "|", 5)
		if len(cells) < 5 {
			t.Fatalf("%s: %q is no row of the table", path, line)
		}
		byHand[strings.Trim(cells[1], " `")] = cells[4]
	}
	var rows []string
	for _, f := range model.Families() {
		words := map[bool]string{true: "yes", false: "no"}
		text, known := byHand[f.Name]
		if !known {
			text = " | |"
			t.Errorf("%s: say in the row of %s which models it has and whether vLLM samples them", path, f.Name)
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s |%s", f.Name, words[f.Embedded], words[f.GGUF], text))
	}
	want := before + head + strings.Join(rows, "\n") + "\n\n" + after
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o666); err != nil {
			t.Fatal(err)
		}
	} else if want != string(data) {
		line, _ := firstDifference(string(data), want)
		t.Errorf("%s:%d is not current: run go test ./internal/doctest -run Families -update", path, line)
	}
}
