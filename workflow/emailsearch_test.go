package workflow

import (
	"database/sql"
	"encoding/json"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

// mailFile makes the mail of two inboxes.
func mailFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "mail 1.db")
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	_, err = db.Exec(`
CREATE TABLE emails (id INTEGER PRIMARY KEY, message_id TEXT UNIQUE, subject TEXT, from_address TEXT, date TEXT, body TEXT, file_name TEXT);
CREATE TABLE recipients (email_id INTEGER, recipient_address TEXT, recipient_type TEXT);
INSERT INTO emails VALUES (1, '<a@x>', 'Lunch', 'bo@x', '2001-03-01 09:00:00', 'The "blue room" is booked for Friday.', ''),
 (2, '<b@x>', 'Re: Lunch', 'ann@x', '2001-03-02 09:00:00', 'Friday is fine. See you in the blue room.', ''),
 (3, '<c@x>', 'Lunch', 'eve@x', '2001-03-03 09:00:00', 'A secret lunch on Friday.', '');
INSERT INTO recipients VALUES (1, 'ann@x', 'to'), (1, 'cy@x', 'CC'), (2, 'bo@x', 'to'), (3, 'bo@x', 'to');
CREATE VIRTUAL TABLE emails_fts USING fts5(subject, body, content='emails', content_rowid='id');
INSERT INTO emails_fts (rowid, subject, body) SELECT id, subject, body FROM emails;`)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// The tools read only the mail of one inbox.
func TestMailbox(t *testing.T) {
	box, err := openMailbox(mailFile(t))
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	for args, want := range map[string]string{
		`{"keywords": ["lunch"]}`:                              "<b@x> <a@x>",
		`{"keywords": ["Friday", "lunch"], "max_results": 1}`:  "<b@x>",
		`{"keywords": ["\"blue room\""]}`:                      "<b@x> <a@x>",
		`{"keywords": ["lunch"], "from_addr": "bo@x"}`:         "<a@x>",
		`{"keywords": ["lunch"], "to_addr": "cy@x"}`:           "<a@x>",
		`{"keywords": ["lunch"], "sent_after": "2001-03-02"}`:  "<b@x>",
		`{"keywords": ["lunch"], "sent_before": "2001-03-02"}`: "<a@x>",
		`{"keywords": ["secret"]}`:                             "",
		`{"keywords": ["lunch\" OR subject:\"x"]}`:             "",
		`{}`: "error",
		`{"keywords": ["lunch"], "max_results": 11}`: "error",
		`{"keywords": ["lunch"], "max_results": 0}`:  "error",
	} {
		var a mailArgs
		if err := json.Unmarshal([]byte(args), &a); err != nil {
			t.Fatal(err)
		}
		hits, err := box.search(t.Context(), "ann@x", a)
		var ids []string
		for _, h := range hits {
			ids = append(ids, h.MessageID)
		}
		got := strings.Join(ids, " ")
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%s finds %q, %v, want %q", args, got, err, want)
		}
	}
	m, err := box.message(t.Context(), "ann@x", "<a@x>")
	if err != nil || m.CC[0] != "cy@x" || m.To[0] != "ann@x" || m.Subject != "Lunch" || !strings.Contains(m.Body, "booked") {
		t.Errorf("%+v, %v", m, err)
	}
	if _, err := box.message(t.Context(), "ann@x", "<c@x>"); err == nil || !strings.Contains(err.Error(), "there is no message") {
		t.Errorf("a message of another inbox: %v", err)
	}
}

// clerk reads "name {json}" on a line of its own as a call.
type clerk struct{ calling }

func (c clerk) Read(tokens []int32, _ json.RawMessage) (trinity.Message, []trinity.ToolCall, error) {
	m := trinity.Message{Role: "assistant", Content: c.Decode(tokens)}
	var calls []trinity.ToolCall
	for line := range strings.Lines(m.Content) {
		if name, args, ok := strings.Cut(strings.TrimSpace(line), " {"); ok {
			calls = append(calls, trinity.ToolCall{Name: name, Arguments: json.RawMessage("{" + args)})
		}
	}
	return m, calls, nil
}

// A file of Trinity-RFT names no database. It is read, and its first row says what is missing.
func TestEmailSearchNeedsMail(t *testing.T) {
	for database, want := range map[string]string{"": "database: name the SQLite file", "nowhere.db": "database: stat nowhere.db"} {
		err := trinity.RequirementsOf(build(t, "email_search_workflow", map[string]any{"database": database})).CheckTask(task())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("database %q: %v, want %q", database, err, want)
		}
	}
}

func TestEmailSearch(t *testing.T) {
	file := mailFile(t)
	const (
		search = `search_emails {"keywords": ["lunch"]}`
		open   = `read_email {"message_id": "<a@x>"}`
		answer = `generate_response {"answer": "Friday", "sources": ["<a@x>"]}`
	)
	for _, c := range []struct {
		name    string
		args    map[string]any
		verdict string
		replies []string
		reward  float64
		metrics map[string]float64
	}{
		{"finds it", nil, "true", []string{search, open, answer}, 1 + 0.3 + 0.1 + 0.1*0.7, map[string]float64{
			"answer_correct": 1, "sources_correct": 1, "found_email": 1, "read_email": 1, "tool_error_rate": 0}},
		{"answers without sources", nil, "I think: True.", []string{search, "On Friday."}, 1 + 0.1*0.8, map[string]float64{"answer_correct": 1}},
		{"is wrong", nil, "false", []string{search, answer}, -0.8, map[string]float64{"answer_correct": 0, "found_email": 1, "read_email": 0}},
		{"does not know", nil, "unread", []string{search, `generate_response {"answer": "I don't know", "sources": []}`}, 0.1, nil},
		{"does not end", map[string]any{"max_turns": 2}, "", []string{search}, -1, nil},
		{"calls wrongly", nil, "true", []string{`fly {"a": 1}`, `read_email {"message_id": "<c@x>"}`, "Friday"}, 1 + 0.1*0.7,
			map[string]float64{"tool_error_rate": 2. / 3}},
		{"is compared with the reference", map[string]any{"llm_as_a_judge": false}, "", []string{"friday"}, 1, nil},
		{"is compared and wrong", map[string]any{"llm_as_a_judge": false}, "", []string{"Monday"}, 0, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := map[string]any{"database": file}
			for k, v := range c.args {
				args[k] = v
			}
			task := &trinity.Task{ID: id.Task, Format: trinity.TaskFormat{PromptKey: "question", ResponseKey: "answer"}, Row: map[string]any{
				"question": "When is lunch?", "answer": "On Friday.", "message_ids": []any{"<a@x>"}, "inbox_address": "ann@x",
				"query_date": "2001-03-09"}}
			w := build(t, "email_search_workflow", args)
			if err := trinity.RequirementsOf(w).CheckTask(task); err != nil {
				t.Fatal(err)
			}
			m, host := model(nil), &court{answer: c.verdict}
			m.Sampler, m.Renderer = &script{replies: c.replies}, clerk{}
			r := rollout(task, m, nil)
			r.Host = host
			exps, err := w.Run(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			e := exps[0]
			if !e.Reward.Valid || math.Abs(e.Reward.Value-c.reward) > 1e-9 {
				t.Errorf("reward %+v, want %g", e.Reward, c.reward)
			}
			for name, want := range c.metrics {
				if e.Metrics[name] != want {
					t.Errorf("metric %s is %g, want %g", name, e.Metrics[name], want)
				}
			}
			read := plain{}.Decode(e.Tokens)
			if !strings.Contains(read, "the mail of ann@x") || !strings.Contains(read, "2001-03-09") {
				t.Errorf("the policy read %q", read)
			}
			if strings.HasPrefix(c.replies[0], "search") && !strings.Contains(read, `{"message_id":"<b@x>","snippet":"Re: <b>Lunch</b>"}`) {
				t.Errorf("the policy read %q", read)
			}
		})
	}
}
