package studio

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/dataset"
	"github.com/trinity-go/trinity/internal/serve/annotate"
)

// keptAnswers writes a run that keeps two answers to a prompt.
func keptAnswers(t *testing.T, dir string) (kept string) {
	t.Helper()
	put(t, dir, "r/monitor/config.yaml", "name: r\nmode: train\nmodel: {model_path: m, max_model_len: 64}\nalgorithm: {algorithm_type: sft}\n"+
		"buffer: {train_batch_size: 4, total_steps: 2, trainer_input: {experience_buffer: {storage_type: file, path: d.jsonl}}}\n")
	var text strings.Builder
	for run, response := range []string{hostileRow, "another"} {
		line, err := json.Marshal(map[string]any{
			"id": map[string]any{"step": 1, "task": "t", "run": run}, "tokens": []int{1, 2}, "mask": []bool{false, true}, "prompt_len": 1,
			"prompt": "p", "response": response,
		})
		if err != nil {
			t.Fatal(err)
		}
		text.Write(append(line, '\n'))
	}
	return put(t, dir, "r/buffer/kept.jsonl", text.String())
}

func below(t *testing.T, dir string) (names []string) {
	t.Helper()
	if err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		names = append(names, path)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return names
}

// People compare the answers that a run kept. Their decisions and training data lie beside the runs.
func TestAnnotations(t *testing.T) {
	dir := t.TempDir()
	kept := keptAnswers(t, dir)
	sources := []dataset.Entry{
		{Key: "kept", Kind: kindExperience, Path: kept}, {Key: "tasks", Kind: dataset.KindTasks, Path: kept, Format: dataset.Format{}},
	}
	server := &Server{Dir: dir, Control: "secret", Annotator: annotate.Shelf{Most: 1 << 20}, Data: Data{
		Sources: func(*config.Settled, string) []dataset.Entry { return sources },
	}}
	s := httptest.NewServer(server.Handler())
	t.Cleanup(s.Close)
	before := below(t, filepath.Join(dir, "r"))
	const begin = `{"run":"r","source":"kept"}`
	for _, c := range []struct {
		token, body string
		status      int
		line        string
		headers     []string
	}{
		{"", begin, 401, "token is missing", nil},
		{"wrong", begin, 401, "token is missing", nil},
		{"secret", begin, 403, "refuses pages of", []string{"Origin", "http://evil.example", "Sec-Fetch-Site", "cross-site"}},
		{"secret", `{"run":"r","source":"none"}`, 404, "has no data", nil},
		{"secret", `{"run":"../r","source":"kept"}`, 404, "there is no run", nil},
		{"secret", `{"run":"r","source":"tasks"}`, 400, "no answers to compare", nil},
	} {
		status, text := answerOf(t, s, "/api/v1/annotations", c.token, c.body, c.headers...)
		if status != c.status || !strings.Contains(text, c.line) {
			t.Errorf("%s %s: %d: %s", c.token, c.body, status, text)
		}
	}
	if status, text := get(t, s, "/api/v1/annotations"); status != 200 || !strings.Contains(text, `"books":[]`) {
		t.Errorf("before: %d %s", status, text)
	}
	var book struct{ ID string }
	for range 2 { // the second time finds it
		status, text := answerOf(t, s, "/api/v1/annotations", "secret", begin)
		if err := json.Unmarshal([]byte(text), &book); err != nil || status != 200 {
			t.Fatalf("%d: %s", status, text)
		}
	}
	status, text := get(t, s, "/api/v1/annotations")
	if status != 200 || strings.Count(text, `"id"`) != 1 || !strings.Contains(text, `"run":"r"`) {
		t.Errorf("the books: %d %s", status, text)
	}
	at := "/annotate/" + book.ID + "/"
	if status, text := get(t, s, at); status != 200 || !strings.Contains(text, "<title>Which answer is better?") {
		t.Errorf("the page: %d %s", status, text)
	}
	for token, want := range map[string]int{"": 401, "wrong": 401} {
		if status, text := answerOf(t, s, at+"api/next", token, `{"annotator":"ann"}`); status != want {
			t.Errorf("the token %q: %d %s", token, status, text)
		}
	}
	if len(server.books.open) > 0 {
		t.Error("a request without the token opened the book")
	}
	if status, text := answerOf(t, s, "/annotate/none/api/next", "secret", `{"annotator":"ann"}`); status != 404 {
		t.Errorf("a book that is not there: %d %s", status, text)
	}
	status, text = answerOf(t, s, at+"api/next", "secret", `{"annotator":"ann"}`)
	var next struct{ Pair struct{ ID string } }
	if err := json.Unmarshal([]byte(text), &next); err != nil || status != 200 || next.Pair.ID == "" {
		t.Fatalf("the pair: %d %s", status, text)
	}
	decision := fmt.Sprintf(`{"annotator":"ann","pair":%q,"verdict":"left"}`, next.Pair.ID)
	if status, text := answerOf(t, s, at+"api/decide", "secret", decision); status != 200 || !strings.Contains(text, `"done":1`) {
		t.Errorf("the decision: %d %s", status, text)
	}
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, ".studio", ".annotations", "r", "*", "dpo.jsonl"))
	if err != nil || len(files) != 1 {
		t.Fatalf("the training data: %q, %v", files, err)
	}
	if data, err := os.ReadFile(files[0]); err != nil || !strings.Contains(string(data), `"chosen"`) {
		t.Errorf("the training data: %s, %v", data, err)
	}
	if after := below(t, filepath.Join(dir, "r")); !slices.Equal(before, after) {
		t.Errorf("the run's directory has changed from %q to %q", before, after)
	}
	shows := httptest.NewServer((&Server{Dir: dir, Annotator: annotate.Shelf{Most: 1 << 20}}).Handler())
	t.Cleanup(shows.Close)
	if status, _ := answerOf(t, shows, at+"api/next", "secret", `{"annotator":"ann"}`); status != 403 {
		t.Errorf("a studio that only shows: %d", status)
	}
}

// The studio opens what `trinity annotate` has begun, unless that is still at it.
func TestAnnotationsOfACommand(t *testing.T) {
	dir := t.TempDir()
	kept := keptAnswers(t, dir)
	q := annotate.Questions{Data: kept, Terms: annotate.Terms{Overlap: 1, Lease: time.Minute}}
	book, _, err := q.Open(t.Context(), filepath.Join(dir, "r/buffer/kept.annotations"))
	if err != nil {
		t.Fatal(err)
	}
	server := &Server{Dir: dir, Control: "secret", Annotator: annotate.Shelf{Most: 1 << 20}}
	s := httptest.NewServer(server.Handler())
	t.Cleanup(s.Close)
	var found struct{ Books []bookAt }
	status, text := get(t, s, "/api/v1/annotations")
	if err := json.Unmarshal([]byte(text), &found); err != nil || status != 200 || len(found.Books) != 1 || found.Books[0].Data != kept {
		t.Fatalf("the books: %d %s", status, text)
	}
	at := "/annotate/" + found.Books[0].ID + "/api/next"
	if status, text := answerOf(t, s, at, "secret", `{"annotator":"ann"}`); status != 500 || !strings.Contains(text, "is open in") {
		t.Errorf("while the command has it: %d %s", status, text)
	}
	if err := book.Close(); err != nil {
		t.Fatal(err)
	}
	if status, text := answerOf(t, s, at, "secret", `{"annotator":"ann"}`); status != 200 {
		t.Errorf("after its end: %d %s", status, text)
	}
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
}

// The studio begins no book through a link that somebody has put in place of its directory.
func TestAnnotationsStayInTheStudiosDirectory(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	source := dataset.Entry{Key: "kept", Kind: kindExperience, Path: keptAnswers(t, dir)}
	if err := os.Symlink(outside, filepath.Join(dir, ownDir)); err != nil {
		t.Skip(err)
	}
	server := &Server{Dir: dir, Control: "secret", Annotator: annotate.Shelf{Most: 1 << 20}, Data: Data{
		Sources: func(*config.Settled, string) []dataset.Entry { return []dataset.Entry{source} },
	}}
	s := httptest.NewServer(server.Handler())
	t.Cleanup(s.Close)
	if status, text := answerOf(t, s, "/api/v1/annotations", "secret", `{"run":"r","source":"kept"}`); status == 200 ||
		!strings.Contains(text, "is no directory") {
		t.Errorf("%d: %s", status, text)
	}
	if names := below(t, outside); len(names) > 1 {
		t.Errorf("outside are %v", names)
	}
}
