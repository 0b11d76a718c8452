package dataset

import (
	"database/sql"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// sqliteFile creates a database with statements, and returns its URL.
func sqliteFile(t *testing.T, statements ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "data.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, s := range statements {
		if _, err := db.Exec(s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	return "sqlite:///" + filepath.ToSlash(path)
}

func TestDatabaseTables(t *testing.T) {
	url := sqliteFile(t,
		"CREATE TABLE questions (id INTEGER PRIMARY KEY, question TEXT, answer REAL, hard BOOLEAN, meta JSON, pic BLOB, missing TEXT)",
		`INSERT INTO questions VALUES (2, 'b?', 0.5, 1, '{"a": [1, 2.5]}', x'ff00', NULL), (1, 'a?', 4, 0, '[]', 'text', NULL)`,
		"CREATE TABLE task (id INTEGER PRIMARY KEY, raw_task JSON)",
		`INSERT INTO task (raw_task) VALUES ('{"question": "q", "n": 1}')`,
		`CREATE TABLE "odd "" name" (x)`, `INSERT INTO "odd "" name" VALUES ('z'), ('a')`,
	)
	for subset, want := range map[string][]map[string]any{
		"questions": {
			{"id": int64(1), "question": "a?", "answer": int64(4), "hard": false, "meta": []any{}, "pic": "text", "missing": nil},
			{"id": int64(2), "question": "b?", "answer": 0.5, "hard": true, "meta": map[string]any{"a": []any{int64(1), 2.5}}, "pic": "/wA=",
				"missing": nil},
		},
		"task":       {{"question": "q", "n": int64(1)}},
		`odd " name`: {{"x": "z"}, {"x": "a"}},
		"SELECT question AS q FROM questions ORDER BY id DESC": {{"q": "b?"}, {"q": "a?"}},
	} {
		for _, held := range []int64{0, 1} {
			d, err := Open(t.Context(), url, Options{Subset: subset, Scratch: t.TempDir(), held: held})
			if err != nil {
				t.Errorf("%s: %v", subset, err)
				continue
			}
			var got []map[string]any
			for i := range d.Len() {
				row, err := d.Row(i)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, row)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %v, want %v", subset, got, want)
			}
			if !strings.Contains(d.Where(0), "data.db, "+subset+", row 1") {
				t.Errorf("row 0 is said to be at %q", d.Where(0))
			}
		}
	}
}

func TestDatabaseErrors(t *testing.T) {
	url := sqliteFile(t, "CREATE TABLE task (id INTEGER PRIMARY KEY, raw_task JSON)", "INSERT INTO task (raw_task) VALUES ('[1]')",
		"CREATE TABLE one (x)")
	for subset, words := range map[string]string{
		"":                                     "set subset_name to a table or to a query",
		"none":                                 "no such table: none",
		"task":                                 "row 1: ",
		"SELECT 1 AS a, 2 AS a":                "two columns are named a",
		"WITH x AS (SELECT 1) DELETE FROM one": "readonly",
	} {
		_, err := Open(t.Context(), url, Options{Subset: subset})
		if err == nil || !strings.Contains(err.Error(), words) || !strings.Contains(err.Error(), "data.db") {
			t.Errorf("%q: %v; want an error with %q", subset, err, words)
		}
	}
	if _, err := Open(t.Context(), "sqlite:////none/such.db", Options{Subset: "x"}); err == nil ||
		!strings.Contains(err.Error(), "no such file") {
		t.Errorf("a file that is not there: %v", err)
	}
}
