package workflow

import (
	"database/sql"
	"os"
	"path/filepath"
	"testing"

	"github.com/trinity-go/trinity"
)

// The file and the arguments are in the form of Trinity-RFT's example.
func TestIntercodeSQLReadsItsQuestions(t *testing.T) {
	folder := t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, "zoo"), 0o755); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", filepath.Join(folder, "zoo", "zoo.sqlite"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("CREATE TABLE animal (name TEXT); INSERT INTO animal VALUES ('ant'), ('cat')"); err != nil {
		t.Fatal(err)
	}
	questions := filepath.Join(folder, "questions.json")
	const text = `[{"db": "zoo", "query": "none", "gold": "SELECT 0", "hardness": "easy"},
		{"db": "zoo", "query": "How many?", "gold": "SELECT name FROM animal"}]`
	if err := os.WriteFile(questions, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	task := func(i any) *trinity.Task {
		return &trinity.Task{ID: id.Task, Row: map[string]any{"query_idx": i}, Format: trinity.TaskFormat{PromptKey: "query_idx"}}
	}
	args := map[string]any{"data_path": questions, "database_folder": folder, "max_env_steps": 2, "image_name": "docker-env-sql"}
	for _, c := range []struct {
		submits bool
		says    string
		reward  float64
	}{
		{true, "SELECT name FROM animal", 1}, {false, "SELECT name FROM animal", 0}, {true, "SELECT name FROM animal LIMIT 1", 0.5},
	} {
		args["auto_submit"] = c.submits
		exps, err := build(t, "intercode_sql_workflow", args).Run(t.Context(), rollout(task(1), model(&parrot{says: c.says}), nil))
		if err != nil || len(exps) != 1 {
			t.Fatal(err, len(exps))
		}
		if e := exps[0]; !e.Reward.Valid || e.Reward.Value != c.reward || e.Metrics["turns"] != 2 {
			t.Errorf("%+v: %+v, %v", c, e.Reward, e.Metrics)
		}
	}
	check := trinity.RequirementsOf(build(t, "intercode_sql_workflow", args)).CheckTask
	if err := check(task(0)); err != nil {
		t.Error(err)
	}
	for _, i := range []any{2, "x", nil} {
		if err := check(task(i)); err == nil {
			t.Errorf("index %v is accepted", i)
		}
	}
	args["data_path"] = filepath.Join(folder, "none.json")
	if err := trinity.RequirementsOf(build(t, "intercode_sql_workflow", args)).CheckTask(task(0)); err == nil {
		t.Error("a file that is not there is accepted")
	}
}
