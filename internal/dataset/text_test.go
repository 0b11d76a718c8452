package dataset

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
)

// Text that is not UTF-8 would reach the model with U+FFFD in the place of letters.
func TestRowsMustBeUTF8(t *testing.T) {
	type row struct {
		A string `parquet:"a"`
		B string `parquet:"b"`
	}
	var table strings.Builder
	if err := parquet.Write(&table, []row{{"x", "y"}, {"x", "caf\xe9"}}); err != nil {
		t.Fatal(err)
	}
	dir := write(t, map[string]string{
		"a.jsonl":              "{\"a\": \"é\"}\n{\"a\": 1, \"b\": \"caf\xe9 x\"}\n",
		"b.json":               "[{\"a\": 1},\n{\"b\": [{\"c\": \"caf\xe9\"}]}]",
		"c.csv":                "a,b\nx,y\nx,caf\xe9\n",
		"d.csv":                "a,caf\xe9\nx,y\n",
		"e.parquet":            table.String(),
		"tasks/instruction.md": "",
		"f/t/instruction.md":   "caf\xe9",
	})
	db, err := sql.Open("sqlite", filepath.Join(dir, "g.db"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(`CREATE TABLE rows (a TEXT); INSERT INTO rows VALUES ('x'), (CAST(X'636166E9' AS TEXT))`); err != nil {
		t.Fatal(err)
	}
	db.Close()
	for path, want := range map[string]string{
		"a.jsonl":   "a.jsonl:2: column b: the byte 0xe9 is not UTF-8: save the file as UTF-8",
		"b.json":    "b.json:2: column b",
		"c.csv":     "c.csv:3: column b: the byte 0xe9",
		"d.csv":     "d.csv:1: the name of column 2: the byte 0xe9",
		"e.parquet": "e.parquet, row 1: column b: the byte 0xe9",
		"f":         "instruction.md: the byte 0xe9",
		"g.db":      "row 2: column a: the byte 0xe9",
	} {
		o := Options{TaskDir: path == "f"}
		url := filepath.Join(dir, path)
		if path == "g.db" {
			url, o.Subset = "sqlite:///"+url, "rows"
		}
		d, err := Open(t.Context(), url, o)
		if err == nil {
			_, err = d.Row(0)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}
