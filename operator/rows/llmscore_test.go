package rows

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/trinity-go/trinity"
)

// answers is an AnswerStore in memory.
type answers struct{ sync.Map }

func (a *answers) Answer(key string) ([]byte, bool, error) {
	v, ok := a.Load(key)
	if !ok {
		return nil, false, nil
	}
	return v.([]byte), true, nil
}

func (a *answers) Put(key string, answer []byte) error {
	a.Store(key, answer)
	return nil
}

// model is a server for the test. It passes requests to answer and counts them.
type model struct {
	mu    sync.Mutex
	asked int
	last  map[string]any // body of the last request
	auth  string
}

func serveModel(t *testing.T, answer func(n int, user string) (status int, content string)) (*model, args) {
	m := &model{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.asked++
		m.last, m.auth = nil, r.Header.Get("Authorization")
		if err := json.Unmarshal(data, &m.last); err != nil || r.URL.Path != "/v1/chat/completions" {
			t.Errorf("%s: %s, %v", r.URL.Path, data, err)
		}
		user := m.last["messages"].([]any)[1].(map[string]any)["content"].(string)
		status, content := answer(m.asked, user)
		w.Header().Set("Retry-After", "0.001")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]any{"choices": []any{map[string]any{"message": map[string]any{"content": content}}}})
	}))
	t.Cleanup(s.Close)
	return m, args{"model_params": args{"base_url": s.URL + "/v1", "api_key": "secret", "max_retries": 2, "timeout": 20},
		"api_or_hf_model": "judge", "min_score": 0.0}
}

func scores(n ...any) string {
	out := args{}
	for i, d := range []string{"linguistic_complexity", "conceptual_depth", "prior_knowledge", "step_complexity", "ambiguity"}[:len(n)] {
		out[d] = n[i]
	}
	for i, d := range []string{"accuracy", "grammar", "informativeness", "coherence"}[:min(4, len(n))] {
		out[d] = n[i]
	}
	data, _ := json.Marshal(args{"dimension_scores": out, "rationale": "because {it} is so"})
	return string(data)
}

// scoring returns arguments for a server that scores every text by its length.
func scoring(t *testing.T) args {
	_, a := serveModel(t, func(_ int, user string) (int, string) {
		n := 1 + len(user)%5
		return 200, scores(n, n, n, n, n)
	})
	return a
}

func TestModelScoresRows(t *testing.T) {
	m, a := serveModel(t, func(_ int, user string) (int, string) {
		if strings.Contains(user, "2+2") {
			return 200, "Here it is:\n```json\n" + scores(1, 1, 1, 2, 1) + "\n```"
		}
		return 200, "{thinking} " + scores(5, 5, 4, 5, 3.5)
	})
	a["input_keys"], a["field_names"] = []any{"question", "meta.answer"}, []any{"Question", "Answer"}
	a["min_score"], a["sampling_params"] = 0.5, args{"temperature": 0}
	rows := []*trinity.TaskRow{
		row(args{"question": "2+2?", "meta": args{"answer": "4"}}), row(args{"question": "Riemann?", "meta": args{"answer": []any{"{data}"}}}),
	}
	if got := left(t, build(t, "llm_difficulty_score_filter", a), rows); !slices.Equal(got, []int{1}) {
		t.Errorf("kept %v", got)
	}
	if easy, hard := rows[0].Stats["llm_difficulty_score"], rows[1].Stats["llm_difficulty_score"]; easy != 6.0/25 || hard != 22.5/25 {
		t.Errorf("scores are %v and %v, want 0.24 and 0.9", easy, hard)
	}
	if record := rows[1].Stats["llm_difficulty_record"].(map[string]any); record["rationale"] != "because {it} is so" {
		t.Errorf("the record is %v", record)
	}
	if m.last["model"] != "judge" || m.last["temperature"] != 0.0 || m.auth != "Bearer secret" {
		t.Errorf("request %v, authorization %q", m.last, m.auth)
	}
	r := build(t, "llm_difficulty_score_filter", a).(*llmDifficulty)
	body, err := r.question(rows[1])
	if want := `# Data\n'''\n**Question**\nRiemann?\n\n**Answer**\n[\"{data}\"]\n'''`; err != nil || !strings.Contains(string(body), want) {
		t.Errorf("the question is %s, %v", body, err)
	}
}

// The operator asks again after an answer without scores, retries temporary failures of the server,
// and asks nothing twice that has scores.
func TestModelIsAskedAgainOnlyWithoutScores(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer func(n int) (int, string)
		asked  int
		kept   bool
		err    string
	}{
		{"at once", func(int) (int, string) { return 200, scores(3, 3, 3, 3) }, 1, true, ""},
		{"no JSON first", func(n int) (int, string) {
			return 200, []string{"no idea", `{"dimension_scores": {"accuracy": 7}}`, scores(3, 3, 3, 3)}[n-1]
		}, 3, true, ""},
		{"never", func(int) (int, string) { return 200, "" }, 6, false, ""},
		{"busy", func(n int) (int, string) { return []int{429, 503, 200}[n-1], scores(3, 3, 3, 3) }, 3, true, ""},
		{"down", func(int) (int, string) { return 500, "" }, 3, false, "attempt 3: 500"},
		{"refused", func(int) (int, string) { return 401, "" }, 1, false, "attempt 1: 401"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, a := serveModel(t, func(n int, _ string) (int, string) { return c.answer(n) })
			store, said := &answers{}, ""
			for range 2 { // the second time the store has the answer
				op := build(t, "llm_quality_score_filter", a)
				op.(ToolUser).UseTools(Tools{Answers: store, Parallel: 1, Say: func(s string) { said = s }})
				kept, err := op.Process(t.Context(), texts("x"))
				if c.err != "" {
					if err == nil || !strings.Contains(err.Error(), c.err) {
						t.Fatalf("got %v, want %q", err, c.err)
					}
					break
				}
				if err != nil || (len(kept) == 1) != c.kept {
					t.Fatalf("kept %d rows, %v", len(kept), err)
				}
			}
			if m.asked != c.asked {
				t.Errorf("asked %d times, want %d", m.asked, c.asked)
			}
			if dropped := strings.HasPrefix(said,
				"rows.jsonl:1: dropped, because judge gave no scores in 3 answers"); dropped == (c.kept || c.err != "") {
				t.Errorf("logged %q", said)
			}
		})
	}
}

// The next run asks a repaired model again about the rows that it could not score. The log names a
// few of these rows and counts the others.
func TestUnreadableAnswersAreNotStored(t *testing.T) {
	mended := false
	m, a := serveModel(t, func(int, string) (int, string) {
		if mended {
			return 200, scores(3, 3, 3, 3)
		}
		return 200, "I cannot rate this."
	})
	a["try_num"] = 1
	store := &answers{}
	run := func() (kept int, said []string) {
		op := build(t, "llm_quality_score_filter", a)
		op.(ToolUser).UseTools(Tools{Answers: store, Parallel: 1, Say: func(s string) { said = append(said, s) }})
		for _, block := range [][]*trinity.TaskRow{texts("a", "b"), texts("c", "d", "e")} {
			rows, err := op.Process(t.Context(), block)
			if err != nil {
				t.Fatal(err)
			}
			kept += len(rows)
		}
		op.(interface{ Finish() }).Finish()
		return kept, said
	}
	kept, said := run()
	if kept != 0 || m.asked != 5 || len(said) != 4 || !strings.HasPrefix(said[3],
		"dropped 5 rows in all, because judge gave no scores in 1 answers") {
		t.Errorf("kept %d rows after %d questions, logged %q", kept, m.asked, said)
	}
	mended = true
	if kept, said = run(); kept != 5 || m.asked != 10 || len(said) != 0 {
		t.Errorf("repaired: kept %d rows after %d questions, logged %q", kept, m.asked, said)
	}
	if kept, _ = run(); kept != 5 || m.asked != 10 {
		t.Errorf("again: kept %d rows after %d questions", kept, m.asked)
	}
}

func TestMissingServerAddressIsAnError(t *testing.T) {
	t.Setenv("OPENAI_BASE_URL", "")
	_, err := build(t, "llm_quality_score_filter", nil).Process(t.Context(), texts("x"))
	if err == nil || !strings.Contains(err.Error(), "OPENAI_BASE_URL") {
		t.Error(err)
	}
}

func TestAtFindsTexts(t *testing.T) {
	for _, c := range []struct {
		answer, path, want, err string
	}{
		{`{"a": [{"b": "x"}]}`, "a.0.b", "x", ""},
		{`{"a": [{"b": null}]}`, "a.0.b", "", ""},
		{`{"a": [{"b": "x"}]}`, "a.1.b", "", "no text at a.1.b"},
		{`{"a": [{"b": "x"}]}`, "a.0.c", "", "no text at a.0.c"},
		{`{"a": 3}`, "a", "", "no text at a"},
		{`<html>`, "a", "", "not JSON"},
	} {
		got, err := at([]byte(c.answer), c.path)
		if got != c.want || (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("at %s of %s: got %q, %v", c.path, c.answer, got, fmt.Sprint(err))
		}
	}
}
