package taskset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity/internal/dataset"
	_ "github.com/trinity-go/trinity/operator/rows"
)

type args = map[string]any

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// lines returns the objects in a JSON Lines file.
func lines(t *testing.T, path string) (all []args) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		var row args
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		all = append(all, row)
	}
	return all
}

func host(t *testing.T) Host {
	return Host{
		Open:     func(path string) (*dataset.Dataset, error) { return dataset.Open(t.Context(), path, dataset.Options{}) },
		Parallel: 4, Say: func(s string) { t.Log(s) },
	}
}

// sums returns a recipe that makes three rows from two files.
func sums(t *testing.T) *Recipe {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.jsonl"), `{"question": "one plus one is what?", "answer": 2, "id": 9007199254740993}
{"question": "short", "answer": 1}
{"question": null, "answer": 1}
{"question": "One plus one is what? ", "answer": 2}
`)
	train := filepath.Join(dir, "b", "train.jsonl")
	write(t, train, `{"question": "two and <two> are together?", "answer": 4, "__dj__stats__": {"consumed_cnt": 3}, "priority": null}
{"question": "one plus one is how much?", "answer": 2}
{"answer": 2}
`)
	return &Recipe{
		Inputs: []string{filepath.Join(dir, "a.jsonl"), filepath.Join(dir, "b")}, Fields: []string{"question", "answer"},
		Operators: []Operator{
			{"text_length_filter", args{"min_len": 10}}, {"document_deduplicator", args{"lowercase": true}},
			{"ngram_diversity_scorer", args{"n": 2}},
		},
		Weights: DefaultWeights, TopK: -1, Output: filepath.Join(dir, "out"),
	}
}

func TestMakeWritesTheBestRows(t *testing.T) {
	r := sums(t)
	h, told := host(t), [][2]int64{}
	h.Progress = func(done, total int64) { told = append(told, [2]int64{done, total}) }
	report, err := r.Make(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	if want := "3 of 7 rows in " + r.Output +
		"/output.jsonl: 7 read, target_fields dropped 2, text_length_filter dropped 1, document_deduplicator dropped 1"; report.String() !=
		"task pipeline: "+want {
		t.Errorf("it reports %s", report)
	}
	if len(told) != 7 || told[6] != [2]int64{7, 7} {
		t.Errorf("progress %v", told)
	}
	got := lines(t, r.File())
	// Diversity: all runs are new; "is how" and "how much?" are new of 4; used three times: 0.8·1 −
	// 0.5·3.
	want := []args{
		{"question": "one plus one is what?", "answer": 2.0, "id": 9007199254740992.0,
			"__dj__stats__": args{"text_len": 21.0, "ngram_diversity": 1.0}, "diversity_score": 1.0, "priority": 0.8},
		{"question": "one plus one is how much?", "answer": 2.0, "__dj__stats__": args{"text_len": 25.0, "ngram_diversity": 0.4},
			"diversity_score": 0.4, "priority": 0.32000000000000006},
		{"question": "two and <two> are together?", "answer": 4.0,
			"__dj__stats__": args{"text_len": 27.0, "ngram_diversity": 1.0, "consumed_cnt": 3.0}, "diversity_score": 1.0, "priority": 0.8 - 1.5},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("it writes\n%v\nwant\n%v", got, want)
	}
	if raw, _ := os.ReadFile(r.File()); !strings.Contains(string(raw), "9007199254740993") || !strings.Contains(string(raw), "<two>") {
		t.Errorf("numbers or signs have changed: %s", raw)
	}
	d, err := dataset.Open(t.Context(), r.Output, dataset.Options{})
	if err != nil || d.Len() != 3 {
		t.Errorf("as a dataset it has %v rows, %v", d, err)
	}
}

func TestTopKKeepsTheBestRows(t *testing.T) {
	r := sums(t)
	r.TopK = 1
	report, err := r.Make(t.Context(), host(t))
	if got := lines(t, r.File()); err != nil || len(got) != 1 || got[0]["question"] != "one plus one is what?" ||
		!strings.HasSuffix(report.String(), ", top_k dropped 2") {
		t.Errorf("%v, %v, %v", got, report, err)
	}
}

// The report names weights without effect, also for a reused output. It does not name defaults.
func TestReportNamesIdleWeights(t *testing.T) {
	r := sums(t)
	r.Weights = Weights{Difficulty: 1, Diversity: 1, Quality: -1, UsageFrequency: 1}
	for range 2 {
		report, err := r.Make(t.Context(), host(t))
		if err != nil || !strings.Contains(report.String(),
			"; no row has a score of difficulty, quality, so these priority_weights change nothing") {
			t.Errorf("%v, %v", report, err)
		}
	}
}

// Make reuses an output until its settings or inputs change.
func TestOutputIsReused(t *testing.T) {
	r := sums(t)
	make := func() *Report {
		t.Helper()
		report, err := r.Make(t.Context(), host(t))
		if err != nil {
			t.Fatal(err)
		}
		return report
	}
	first := make()
	again := make()
	if !again.Reused || again.Rows != 3 || again.Read != first.Read {
		t.Errorf("%+v", again)
	}
	later := time.Now().Add(time.Minute)
	if err := os.Chtimes(r.Inputs[0], later, later); err != nil {
		t.Fatal(err)
	}
	if make().Reused {
		t.Error("Make reused the output of a changed input")
	}
	r.TopK = 2
	if report := make(); report.Reused || report.Rows != 2 {
		t.Errorf("%+v after other settings", report)
	}
	m, err := r.manifest()
	if err != nil {
		t.Fatal(err)
	}
	m.Output, m.Before = strings.Repeat("0", 64), m.Output // a kill came before the new output replaced the old one
	data, _ := json.Marshal(m)
	write(t, r.manifestPath(), string(data))
	if make().Reused {
		t.Error("Make reused the output of other settings")
	}
	write(t, r.File(), "{}\n")
	if _, err := r.Make(t.Context(), host(t)); err == nil || !strings.Contains(err.Error(), "not what a task pipeline wrote") {
		t.Error(err)
	}
}

func TestMakeReportsErrors(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(r *Recipe)
		want   string
	}{
		{"foreign output", func(r *Recipe) { write(t, r.File(), "{}\n") }, "not what a task pipeline wrote"},
		{"no input", func(r *Recipe) { r.Inputs[0] += "x" }, "no such file"},
		{"nothing left", func(r *Recipe) { r.Operators[0].Args["min_len"] = 1000 },
			"leaves no rows of a.jsonl, b: 7 read, target_fields dropped 2, text_length_filter dropped 5"},
		{"no text", func(r *Recipe) { r.Fields = nil }, `text_length_filter: ` + "a.jsonl:1: no field \"text\""},
		{"no such operator", func(r *Recipe) { r.Operators[0].Name = "text_lenght_filter" }, `did you mean "text_length_filter"?`},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := sums(t)
			c.change(r)
			_, err := r.Make(t.Context(), host(t))
			if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), filepath.Dir(r.Inputs[0])+"/", ""), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// Make names the process for which it waits.
func TestMakeWaitsForAnotherProcess(t *testing.T) {
	for _, c := range []struct {
		name   string
		other  func(*testing.T, *Recipe)
		reused bool
	}{
		{"which makes it", func(t *testing.T, r *Recipe) {
			if _, err := r.make(t.Context(), host(t)); err != nil {
				t.Error(err)
			}
		}, true},
		{"which fails", func(*testing.T, *Recipe) {}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, lines := sums(t), []string{}
			if err := os.MkdirAll(r.work(), 0o755); err != nil {
				t.Fatal(err)
			}
			lock, err := r.lock(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			h := host(t)
			h.Say = func(line string) {
				lines = append(lines, line)
				c.other(t, r)
				lock.Release()
			}
			report, err := r.Make(t.Context(), h)
			if err != nil || report.Rows != 3 || report.Reused != c.reused {
				t.Errorf("%v, %v", report, err)
			}
			if want := fmt.Sprintf("waiting for process %d on ", os.Getpid()); len(lines) != 1 || !strings.Contains(lines[0], want) {
				t.Errorf("it says %q, want %q", lines, want)
			}
		})
	}
	r, stopped := sums(t), errors.New("stopped")
	if err := os.MkdirAll(r.work(), 0o755); err != nil {
		t.Fatal(err)
	}
	lock, err := r.lock(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	ctx, stop := context.WithCancelCause(t.Context())
	h := host(t)
	h.Say = func(string) { stop(stopped) }
	if _, err := r.Make(ctx, h); !errors.Is(err, stopped) {
		t.Errorf("stopped while it waits: %v", err)
	}
}

// A run that stops half way keeps its answers. The next run asks only for the others.
func TestAnswersSurviveAnError(t *testing.T) {
	asked, limit := 0, 3
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked > limit {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprint(w, `{"choices": [{"message": {"content": "{\"dimension_scores\": {\"accuracy\": 5, \"grammar\": 4,`+
			` \"informativeness\": 3, \"coherence\": 4}}"}}]}`)
	}))
	defer server.Close()
	r := sums(t)
	r.Operators = []Operator{{"llm_quality_score_filter", args{
		"input_keys": []any{"question"}, "field_names": []any{"Q"}, "model_params": args{"base_url": server.URL, "max_retries": 0},
	}}}
	h := host(t)
	h.Parallel = 1
	if _, err := r.Make(t.Context(), h); err == nil {
		t.Fatal("a server that refuses did not end it")
	}
	limit = 100
	report, err := r.Make(t.Context(), h)
	if err != nil || report.Rows != 5 || asked != 4+2 { // 5 rows: 3 known ones, and the refused request again
		t.Errorf("%v, %v, asked %d times", report, err, asked)
	}
	if row := lines(t, r.File())[0]; row["quality_score"] != 0.8 || row["priority"] != 0.8 {
		t.Errorf("scores %v", row)
	}
}

func TestManyBlocksKeepTheirOrder(t *testing.T) {
	r := sums(t)
	var b strings.Builder
	for i := range 3*blockRows + 1 {
		fmt.Fprintf(&b, "{\"question\": \"what comes after %d?\", \"answer\": %d}\n", i, i+1)
	}
	write(t, r.Inputs[0], b.String())
	r.Inputs, r.Operators = r.Inputs[:1], nil
	report, err := r.Make(t.Context(), host(t))
	if err != nil || report.Rows != 3*blockRows+1 {
		t.Fatal(report, err)
	}
	if got := lines(t, r.File()); !slices.IsSortedFunc(got, func(a,
		b args) int {
		return int(a["answer"].(float64) - b["answer"].(float64))
	}) {
		t.Error("rows of equal priority changed their order")
	}
}

// A new key does not make the output again.
func TestSecretsAreNoSettings(t *testing.T) {
	digest := func(key, model string) string {
		params := args{"base_url": "http://host", "api_key": key}
		r := Recipe{Operators: []Operator{{Name: "llm_quality_score_filter", Args: args{"api_or_hf_model": model, "model_params": params}}}}
		text, err := r.settings()
		if err != nil {
			t.Fatal(err)
		}
		if params["api_key"] != key {
			t.Errorf("the key of the operator is %v", params["api_key"])
		}
		return text
	}
	if digest("old", "m") != digest("new", "m") || digest("old", "m") == digest("old", "other") {
		t.Error("want the same settings with another key, and other settings with another model")
	}
}
