package annotate

import (
	"os"
	"path/filepath"
	"testing"
)

// FuzzRows reads any rows. The pairs that it makes have two different answers.
func FuzzRows(f *testing.F) {
	for _, seed := range []string{
		`{"prompt": "2+2?", "a": "4", "b": ["5", "6"]}`,
		`{"prompt": [{"role": "user", "content": "x"}], "a": ["4", "5"], "b": null}`,
		`{"id": "1/t/0/0/0", "tokens": [1, 2], "mask": [false, true], "prompt_len": 1, "response": "x"}`,
		`{"experience": "AAAA"}`,
	} {
		f.Add([]byte(seed + "\n" + seed))
	}
	f.Fuzz(func(t *testing.T, rows []byte) {
		path := filepath.Join(t.TempDir(), "rows.jsonl")
		if err := os.WriteFile(path, rows, 0o600); err != nil {
			t.Fatal(err)
		}
		data, err := Read(t.Context(), path, Options{PromptKey: "prompt", AnswerKeys: []string{"a", "b"}, PerPrompt: 3})
		if err != nil {
			return
		}
		for _, p := range data.Pairs {
			if p.Answers[0] == p.Answers[1] {
				t.Errorf("one answer twice: %q", p.Answers)
			}
		}
	})
}
