package run_test

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// inTables writes the rows of JSON lines files to tables of their names, and returns the URL.
func (p project) inTables(t *testing.T, columns string, names ...string) (url string) {
	t.Helper()
	file := filepath.Join(p.dir, "rows.db")
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, name := range names {
		if _, err := db.Exec(fmt.Sprintf("CREATE TABLE %s (id INTEGER PRIMARY KEY, %s)", name, columns)); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(read(t, filepath.Join(p.dir, name+".jsonl"))) {
			row := map[string]any{}
			if err := json.Unmarshal([]byte(line), &row); err != nil {
				t.Fatal(err)
			}
			var values []any
			for column := range strings.FieldsSeq(columns) {
				values = append(values, row[strings.Trim(column, ",")])
			}
			marks := strings.TrimSuffix(strings.Repeat("?,", len(values)), ",")
			if _, err := db.Exec(fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", name, columns, marks), values...); err != nil {
				t.Fatal(err)
			}
		}
	}
	return "sqlite:///" + filepath.ToSlash(file)
}

// Rows of a database train as the rows of a file do.
func TestRowsOfADatabaseTrainAsThoseOfAFile(t *testing.T) {
	for name, c := range map[string]struct{ yaml, section, columns, table string }{
		"demonstrations": {sft, "buffer.trainer_input.experience_buffer", "question, response", "sft"},
		"tasks":          {rl, "buffer.explorer_input.taskset", "question, answer", "train"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := newProject(t, tiny, c.yaml)
			table := file.copyOf(t)
			url := table.inTables(t, c.columns, c.table)
			if _, err := file.run(t); err != nil {
				t.Fatal(err)
			}
			if _, err := table.run(t, c.section+".storage_type=sql", c.section+".path="+url, c.section+".subset_name="+c.table); err != nil {
				t.Fatal(err)
			}
			results(t, table.dir).sameAs(t, results(t, file.dir))
		})
	}
}
