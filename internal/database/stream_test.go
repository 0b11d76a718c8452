package database

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestIsQuery(t *testing.T) {
	for from, want := range map[string]bool{
		"questions": false, "select": false, "with": false, "select_best": false, "Selection": false, "with.questions": false, "select1": false,
		"selectä": false, "": false,
		"select ": false, "select -- which": false, "two words": false,
		"SELECT x FROM t": true, "select\n\tx\nFROM t": true, "SELECT\tx": true, "select*from t": true, "SELECT(1)": true,
		`select"x"from t`: true, "select/* all */x": true,
		"WITH a AS (SELECT 1) SELECT * FROM a": true, "with\r\na as (select 1) select 1": true,
		"  \n SELECT 1": true, "-- ours\nSELECT 1": true, "/* ours\n */ -- and theirs\n\nSELECT 1": true, "(SELECT 1)": true,
		"( (\n-- in\nSELECT 1))": true,
		"-- only said":           false, "/* SELECT 1": false, "-- SELECT\nquestions": false,
	} {
		if got := isQuery(from); got != want {
			t.Errorf("%q: %v, want %v", from, got, want)
		}
	}
}

// Queries may have any layout.
func TestStreamOfQueries(t *testing.T) {
	db := openTest(t, "sqlite:///"+filepath.ToSlash(filepath.Join(t.TempDir(), "a.db")), Options{})
	for _, s := range []string{"CREATE TABLE t (id INTEGER PRIMARY KEY, x TEXT)", "INSERT INTO t (x) VALUES ('a'), ('b')"} {
		if _, err := db.pool.Exec(s); err != nil {
			t.Fatal(err)
		}
	}
	for _, from := range []string{"t", "SELECT\n  x\nFROM t ORDER BY id\n", "SELECT\tx FROM t", "SELECT x FROM t; -- all",
		"-- ours\nSELECT x FROM t", "/* ours */ WITH a AS (SELECT x FROM t) SELECT * FROM a"} {
		rows := 0
		err := db.Stream(t.Context(), from, func([]Column) error { rows++; return nil })
		if err != nil || rows != 2 {
			t.Errorf("%q: %d rows, %v; want 2", from, rows, err)
		}
	}
}

// A query of another hand writes nothing, whatever statements it has, and makes no value without bounds.
func TestStreamConfinesQueries(t *testing.T) {
	dir := t.TempDir()
	url := "sqlite:///" + filepath.ToSlash(filepath.Join(dir, "a.db"))
	db := openTest(t, url, Options{})
	for _, s := range []string{"CREATE TABLE t (x TEXT)", "INSERT INTO t VALUES ('a')"} {
		if _, err := db.pool.Exec(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = openTest(t, url, Options{ReadOnly: true, Untouched: true})
	other := filepath.ToSlash(filepath.Join(dir, "other.db"))
	for query, want := range map[string]string{
		"SELECT 1; ATTACH DATABASE '" + other + "' AS o; CREATE TABLE o.t (x); SELECT 1": "too many attached databases",
		"SELECT 1 WHERE 0; COMMIT; VACUUM INTO '" + other + "'":                          "too many attached databases",
		"SELECT 1; DELETE FROM t":               "readonly database",
		"SELECT printf('%.*c', 100000000, 'x')": "too big",
	} {
		if err := db.Stream(t.Context(), query, func([]Column) error { return nil }); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", query, err, want)
		}
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("the directory has %v, %v", files, err)
	}
}
