package environment

import (
	"database/sql"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/trinitytest"
)

const animals = "CREATE TABLE animal (name TEXT, legs INTEGER, weight REAL);\n" +
	"INSERT INTO animal VALUES ('ant', 6, 0.5), ('cat', 4, 4.0), ('dog', 4, 20), ('emu', 2, NULL);"

// question returns a task about the animals.
func question(setup, reference string) *trinity.Task {
	return &trinity.Task{
		Row:    map[string]any{"prompt": "Which?", "response": reference, "setup": setup},
		Format: trinity.TaskFormat{PromptKey: "prompt", ResponseKey: "response"},
	}
}

func asked(t *testing.T, args map[string]any, task *trinity.Task) (trinity.Environment, trinity.Observation) {
	t.Helper()
	env, err := open(t, "sql", args).OpenEnvironment(t.Context(), task)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { env.Close() })
	first, err := env.Reset(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	return env, first
}

func TestSQLConforms(t *testing.T) {
	trinitytest.Environment(t, trinitytest.EnvironmentOptions{
		Task: question(animals, "SELECT name FROM animal WHERE legs = 4"),
		Act: func(i int, _ trinity.Observation) trinity.Action {
			return trinity.Action{Text: []string{"SELECT * FROM animal", "SELECT nothing", "submit"}[i]}
		},
	}, open(t, "sql", nil))
}

func TestSQLComparesResults(t *testing.T) {
	const four = "SELECT name FROM animal WHERE legs = 4"
	for _, c := range []struct {
		reference, query string
		whole, partial   float64
	}{
		{four, "```sql\nSELECT name AS n FROM animal WHERE legs > 3 AND legs < 5 ORDER BY name DESC;\n```", 1, 1},
		{four + " ORDER BY name", four + " ORDER BY name DESC", 0, 0.5},
		{four + " ORDER BY name", four + " ORDER\nBY 1", 1, 1},
		{"SELECT name FROM (" + four + " ORDER BY name)", four + " ORDER BY name DESC", 1, 1},
		{four, "SELECT name FROM animal WHERE legs >= 4", 0, 2.0 / 3},
		{four, "SELECT name FROM animal WHERE legs = 6", 0, 0},
		{four, "SELECT name, legs FROM animal WHERE legs = 4", 0, 0},
		{"SELECT 4", "SELECT weight FROM animal WHERE name = 'cat'", 1, 1},
		{"SELECT name FROM animal WHERE legs = 9", "SELECT name FROM animal WHERE weight > 99", 1, 1},
		{four, "SELECT", 0, 0},
	} {
		for partial, want := range map[bool]float64{false: c.whole, true: c.partial} {
			env, _ := asked(t, map[string]any{"partial": partial}, question(animals, c.reference))
			_, out := episodeOf(t, env, c.query, "```submit```")
			if !out.Done || *out.Reward != want || out.Metrics["success"] != c.whole {
				t.Errorf("%s, partial %v: %g, %v, want %g", c.query, partial, *out.Reward, out.Metrics, want)
			}
		}
	}
}

func TestSQLShowsResults(t *testing.T) {
	env, first := asked(t, map[string]any{"max_rows": 2, "max_steps": 3}, question(animals, "SELECT 1"))
	if got := first.Messages[0].Content; !strings.Contains(got, "Which?") || !strings.Contains(got, "CREATE TABLE animal (name TEXT") {
		t.Errorf("asks %q", got)
	}
	heard, out := episodeOf(t, env, "SELECT name, weight FROM animal ORDER BY name DESC", "SELECT name FROM animals", "SELECT 1")
	if want := "name | weight\nemu | NULL\ndog | 20\n… and 2 more rows"; heard[0] != want {
		t.Errorf("hears %q, want %q", heard[0], want)
	}
	if !strings.Contains(heard[1], "no such table: animals") {
		t.Errorf("hears %q", heard[1])
	}
	if !out.Done || *out.Reward != 1 || out.Metrics["valid"] != 2.0/3 {
		t.Errorf("after the last step, whose query is right: %+v", out)
	}
}

// No query changes the database, reads another file of this machine or takes its memory.
func TestSQLOnlyReads(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"task.db", "secret.db"} {
		db, err := sql.Open("sqlite", filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Exec(animals); err != nil {
			t.Fatal(err)
		}
		db.Close()
	}
	before, err := os.ReadFile(filepath.Join(folder, "task.db"))
	if err != nil {
		t.Fatal(err)
	}
	task := question("", "SELECT 1")
	task.Row["database"] = "task.db"
	env, _ := asked(t, map[string]any{"folder": folder, "max_steps": 100, "query_timeout": 1}, task)
	for _, query := range []string{
		"DELETE FROM animal", "PRAGMA query_only = 0; DELETE FROM animal",
		"ATTACH '" + folder + "/secret.db' AS other", "SELECT 1; ATTACH '" + folder + "/secret.db' AS other; SELECT * FROM other.animal",
		"VACUUM INTO '" + folder + "/copy.db'", "SELECT load_extension('x')", "SELECT randomblob(100000000)",
		"PRAGMA temp_store = 1", "PRAGMA query_only", "CREATE TEMP TABLE x (y)", "BEGIN", "PRAGMA database_list", "SAVEPOINT x",
		"WITH x AS (SELECT 1) DELETE FROM animal", "EXPLAIN DELETE FROM animal", "ANALYZE", "UPDATE sqlite_master SET sql = ''",
		"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n",
	} {
		if got := step(t, env, query).Messages[0].Content; !strings.HasPrefix(got, "Error: ") {
			t.Errorf("%s: hears %q", query, got)
		}
	}
	after, err := os.ReadFile(filepath.Join(folder, "task.db"))
	if err != nil || string(after) != string(before) {
		t.Errorf("the database has changed: %v", err)
	}
	if names, _ := filepath.Glob(filepath.Join(folder, "*")); len(names) != 2 {
		t.Errorf("the folder has %v", names)
	}
}

// A query is bounded in bytes, seconds and memory, also where SQLite cannot be interrupted.
func TestSQLIsBounded(t *testing.T) {
	const endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
	for timeout, queries := range map[int]map[string]string{
		1: { // these never end by themselves
			endless + "SELECT count(*) FROM n":                                        "Error: the query took longer than 1s",
			"SELECT instr(hex(zeroblob(500000)), hex(zeroblob(250000)) || '1')":       "Error: the query took longer than 1s",
			"SELECT replace(hex(zeroblob(500000)), hex(zeroblob(250000)) || '1', '')": "Error: the query took longer than 1s",
		},
		120: { // these end at another bound, which a slow machine must reach first
			endless + "SELECT zeroblob(1000000) FROM n":                  "Error: the result has more than 16 MiB",
			endless + "SELECT 1 FROM n":                                  "Error: the result has more than 100000 rows",
			"SELECT " + strings.Repeat("zeroblob(9),", 2000) + "1":       "Error: SQL logic error: too many columns in result set (1)",
			"SELECT 1 " + strings.Repeat("-", mostInQuery):               "Error: string or blob too big (18)",
			"SELECT printf('%.40000d', 1)":                               " … (400",
			"PRAGMA table_info(animal)":                                  "1 | legs | INTEGER | 0 | NULL | 0",
			"SELECT name FROM pragma_table_info('animal') WHERE cid = 1": "name\nlegs",
			"SELECT value FROM json_each('[1, 2]')":                      "value\n1\n2",
			"SELECT x'41ff42'":                                           "A\xffB",
		},
	} {
		env, _ := asked(t, map[string]any{"max_steps": 100, "query_timeout": timeout}, question(animals, "SELECT 1"))
		for query, want := range queries {
			got := step(t, env, query).Messages[0].Content
			if !strings.Contains(got, want) || len(got) > mostShown+100 {
				t.Errorf("%.80s: hears %.200q, want %q", query, got, want)
			}
		}
	}
}

// The memory of a query is that of a process of its own.
func TestSQLMemory(t *testing.T) {
	if runtime.GOOS != "linux" || testing.Short() {
		t.Skip("takes 512 MiB; only Linux limits it")
	}
	env, _ := asked(t, map[string]any{"max_steps": 2, "query_timeout": 60}, question(animals, "SELECT 1"))
	got := step(t, env, "SELECT "+strings.Repeat("zeroblob(1000000),", 1500)+"1").Messages[0].Content
	if !strings.HasPrefix(got, "Error: ") || !strings.Contains(got, "memory") {
		t.Errorf("hears %.200q", got)
	}
	if got := step(t, env, "SELECT 1").Messages[0].Content; got != "1\n1" {
		t.Errorf("then hears %q", got)
	}
}

func TestSQLRefusesTasks(t *testing.T) {
	check := trinity.RequirementsOf(open(t, "sql", nil)).CheckTask
	missing := question("", "SELECT 1")
	missing.Row["database"] = filepath.Join(t.TempDir(), "none.db")
	for _, task := range []*trinity.Task{question("", "SELECT 1"), question(animals, ""), missing, {}} {
		if err := check(task); err == nil {
			t.Errorf("row %v is accepted", task.Row)
		}
	}
	for _, task := range []*trinity.Task{question("CREATE", "SELECT 1"), question(animals, "SELECT nothing")} {
		env, err := open(t, "sql", nil).OpenEnvironment(t.Context(), task)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := env.Reset(t.Context(), 1); err == nil {
			t.Errorf("row %v begins", task.Row)
		}
		env.Close()
	}
}
