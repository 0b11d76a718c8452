package run_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/dataset"
	"github.com/trinity-go/trinity/internal/run/feed"
	"github.com/trinity-go/trinity/internal/run/settle"
)

// sourcesOf returns what a configuration names as its data, by key.
func sourcesOf(t *testing.T, dir, text string) map[string]dataset.Entry {
	t.Helper()
	cfg, err := config.Parse("config.yaml", []byte(text), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]dataset.Entry{}
	for _, d := range feed.DataSources(cfg.Settled()[0], dir) {
		all[d.Key] = d
	}
	return all
}

// files lists a directory.
func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		names = append(names, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

const explores = `
checkpoint_root_dir: /nowhere
project: p
name: r
mode: both
model: {model_path: m, max_model_len: 64}
algorithm: {algorithm_type: grpo, repeat_times: 2}
buffer:
  batch_size: 1
  total_steps: 1
  explorer_input:
    default_workflow_type: simple_workflow
    default_reward_fn_type: math_reward
    tasksets:
      - {name: here, path: DIR/tasks.jsonl, format: {prompt_key: q, response_key: a}}
      - {name: gone, path: DIR/gone.jsonl}
      - {name: sql, storage_type: sql, path: "postgresql://u:***@host/db"}
`

// The data of a run are what its configuration names and what it keeps. Those of a copied run are beside
// the copy. Looking writes nothing.
func TestDataSources(t *testing.T) {
	dir := t.TempDir()
	job := filepath.Join(dir, "copied")
	write(t, filepath.Join(dir, "tasks.jsonl"), "{}\n")
	write(t, filepath.Join(job, "buffer/experience_buffer/0.log"), "")
	write(t, filepath.Join(job, "buffer/explorer_output.jsonl/step-000000001.jsonl"), "")
	write(t, filepath.Join(job, "buffer/a-explorer_output.jsonl/step-000000001.jsonl"), "")
	before := files(t, dir)
	all := sourcesOf(t, job, strings.ReplaceAll(explores, "DIR", dir))
	for key, want := range map[string]struct{ kind, path, problem string }{
		"buffer.explorer_input.tasksets.0":                                           {"tasks", dir + "/tasks.jsonl", ""},
		"buffer.explorer_input.tasksets.1":                                           {"tasks", dir + "/gone.jsonl", "no such file"},
		"buffer.explorer_input.tasksets.2":                                           {"tasks", "postgresql://u:***@host/db", "its password"},
		"buffer.trainer_input.experience_buffer":                                     {"log", job + "/buffer/experience_buffer", ""},
		"data_processor.experience_pipeline.input_save_path":                         {"experience", job + "/buffer/explorer_output.jsonl", ""},
		"data_processor.experience_pipeline.input_save_path.a-explorer_output.jsonl": {"experience", job + "/buffer/a-explorer_output.jsonl", ""},
	} {
		got, ok := all[key]
		if !ok || got.Kind != want.kind || got.Path != want.path || (got.Problem == "") != (want.problem == "") ||
			!strings.Contains(got.Problem, want.problem) {
			t.Errorf("%s is %+v, want %v", key, got, want)
		}
	}
	if got := all["buffer.explorer_input.tasksets.0"].Format; got.PromptKey != "q" || got.ResponseKey != "a" {
		t.Errorf("the format is %+v", got)
	}
	if after := files(t, dir); !slices.Equal(before, after) {
		t.Errorf("the look has changed %v to %v", before, after)
	}
}

// A run finds its own rows in a database that runs share by its word.
func TestDataSourcesInADatabase(t *testing.T) {
	dir := t.TempDir()
	text := strings.NewReplacer("DIR", dir, "mode: both", "mode: explore").Replace(explores) + `
  trainer_input: {experience_buffer: {storage_type: sql}}
data_processor: {experience_pipeline: {output_save_path: "sqlite:///` + dir + `/kept.db"}}
`
	const store, kept = "buffer.trainer_input.experience_buffer", "data_processor.experience_pipeline.output_save_path"
	if got := sourcesOf(t, dir, text)[store]; !strings.Contains(got.Problem, "no name in this database yet") {
		t.Errorf("without a word: %+v", got)
	}
	write(t, filepath.Join(dir, "buffer/store_word"), "WORD")
	all := sourcesOf(t, dir, text)
	if got := all[store]; got.Path != "sqlite:///"+dir+"/buffer/experience_buffer.db" ||
		got.Options.Subset != "SELECT * FROM trinity_experiences WHERE buffer = 'p/r/experience_buffer-WORD' ORDER BY number" {
		t.Errorf("the buffer is %+v", got)
	}
	if got := all[kept].Options.Subset; got != "SELECT * FROM trinity_archive WHERE archive LIKE 'p/r/%output-WORD' ORDER BY id" {
		t.Errorf("the archive is %s", got)
	}
}

func TestOpenText(t *testing.T) {
	model := filepath.Join(t.TempDir(), "m")
	text := strings.NewReplacer("DIR", "x", "model_path: m", "model_path: "+model).Replace(explores)
	cfg, err := config.Parse("config.yaml", []byte(text), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := settle.OpenText(cfg.Settled()[0]); err == nil || !strings.Contains(err.Error(), "is not on this machine") {
		t.Errorf("without a model: %v", err)
	}
	if err := os.CopyFS(model, os.DirFS("../../examples/quickstart/model")); err != nil {
		t.Fatal(err)
	}
	if r, err := settle.OpenText(cfg.Settled()[0]); err != nil || !r.HasTemplate() {
		t.Errorf("got %v, %v", r, err)
	}
}
