package rows

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/trinity-go/trinity"
)

// docs/guide/tasks.md names the number.
func TestLanguageFilterRecognizesGSM8KAsEnglish(t *testing.T) {
	f, err := os.Open(filepath.Join("..", "..", "..", "shared", "data", "gsm8k", "test.jsonl"))
	if err != nil {
		t.Skip("shared/data/gsm8k is not beside the repository")
	}
	defer f.Close()
	var rows []*trinity.TaskRow
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var fields map[string]any
		if err := json.Unmarshal(lines.Bytes(), &fields); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row(fields))
	}
	kept, err := build(t, "language_filter", args{"lang": []any{"en"}, "text_key": "question"}).Process(t.Context(), rows)
	if err != nil || len(rows) != 1319 || len(kept) != 1316 {
		t.Errorf("%d of %d questions are in English, %v; want 1316 of 1319", len(kept), len(rows), err)
	}
}
