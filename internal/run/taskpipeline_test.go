package run_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/run"
	"github.com/trinity-go/trinity/internal/run/settle"
	"github.com/trinity-go/trinity/trinitytest"
)

// prepared is rl on the digits of which a task pipeline has left 20 questions.
var prepared = strings.Replace(rl, "DIR/train.jsonl", "DIR/made", 1) + `
data_processor:
  task_pipeline:
    inputs: [DIR/train.jsonl]
    target_fields: [question, answer]
    operators:
      - name: regex_filter
        args: {pattern: '[0-4]$'}
      - name: document_deduplicator
    top_k: 20
`

// The plan says what a task pipeline would do. The run does it, and the next run finds the result.
func TestATaskPipelineIsPlannedRunAndReused(t *testing.T) {
	p := newProject(t, tiny, prepared)
	plan := planOf(t, p.load(t))
	for _, want := range []string{"1000 rows of " + p.dir + "/train.jsonl", "regex_filter", "the first 20 rows",
		"written to " + p.dir + "/made/output.jsonl"} {
		if !strings.Contains(plan, want) {
			t.Errorf("the plan lacks %q:\n%s", want, plan)
		}
	}
	if strings.Contains(plan, "missing") {
		t.Errorf("the plan misses what is yet to be made:\n%s", plan)
	}
	if _, err := os.Stat(filepath.Join(p.dir, "made")); err == nil {
		t.Error("planning made it")
	}
	if _, err := p.run(t, "buffer.total_steps=null"); err != nil {
		t.Fatal(err)
	}
	if rows := strings.Count(read(t, filepath.Join(p.dir, "made", "output.jsonl")), "\n"); rows != 20 {
		t.Errorf("%d rows were made", rows)
	}
	if n := strings.Count(read(t, filepath.Join(p.job(), "monitor", "metrics.jsonl")), `"rollout/reward/mean"`); n != 6 {
		t.Errorf("%d steps of 3 of the 20 questions", n)
	}
	if plan := planOf(t, p.load(t, "buffer.total_steps=null")); !strings.Contains(plan,
		"was made before with these settings and inputs: 20 of 1000 rows") || !strings.Contains(plan, "20 tasks × total_epochs 1") {
		t.Errorf("the plan afterwards:\n%s", plan)
	}
}

func planOf(t *testing.T, cfg *config.Config) string {
	t.Helper()
	plan, err := cfg.PlanStages(settle.Facts)
	if err != nil {
		t.Fatal(err)
	}
	return plan.String()
}

// Offline algorithms read the output of a task pipeline.
func TestOfflineAlgorithmsReadATaskPipeline(t *testing.T) {
	p := newProject(t, tiny, strings.Replace(sft, "DIR/sft.jsonl", "DIR/made.jsonl", 1))
	recipe := filepath.Join(p.dir, "recipe.yaml")
	write(t, recipe, "project_name: x\nnp: 2\ndataset_path: "+filepath.Join(p.dir,
		"sft.jsonl")+"\ntext_keys: question\nprocess:\n- document_minhash_deduplicator: {jaccard_threshold: 0.99}\n- text_length_filter: "+
		"{min_len: 3}\n")
	if _, err := p.run(t, "data_processor.task_pipeline={config_path: "+recipe+"}", "buffer.total_steps=1"); err != nil {
		t.Fatal(err)
	}
	if text := read(t, filepath.Join(p.dir, "made.jsonl")); strings.Count(text, "\n") == 0 || !strings.Contains(text, `"response":"<answer>`) {
		t.Errorf("it made %s", text)
	}
}

func TestWrongTaskPipelinesAreErrors(t *testing.T) {
	p := newProject(t, tiny, prepared)
	const key = "data_processor.task_pipeline."
	for _, c := range []struct{ override, want string }{
		{key + "operators=[{name: text_lenght_filter}]", `did you mean "text_length_filter"?`},
		{key + "operators=[{name: clean_email_mapper}]", "operators.0.name: the task operator \"clean_email_mapper\" is not built in"},
		{key + "operators=[{args: {}}]", "has no name"},
		{key + "operators=[]", "no operators"},
		{key + "operators=[{name: text_length_filter, args: {min_length: 3}}]", `args.min_length: unknown argument; did you mean "min_len"?`},
		{key + "inputs=[]", "no files to read"},
		{key + "inputs=[" + p.dir + "/made]", "is the output as well"},
		{key + "top_k=0", "leaves nothing"},
		{key + "config_path=r.yaml", "config_path is set as well"},
		{key + "priority_weights={qualty: 1}", `"quality"`},
	} {
		if _, err := config.Load(p.config, config.Options{Overrides: []string{c.override}}); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.override, err, c.want)
		}
	}
	for _, c := range []struct{ override, want string }{
		{key + "inputs=[nowhere.jsonl]", "data_processor.task_pipeline.inputs.0: nowhere.jsonl: no such file or directory"},
		{key + "output={path: " + p.dir + "/sft.jsonl}", "not what a task pipeline wrote"},
	} {
		if _, err := p.run(t, c.override); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.override, err, c.want)
		}
	}
}

// Data-Juicer runs the operators that are not built in, on tasks and on experiences.
func TestDataJuicerRunsItsOperators(t *testing.T) {
	p := newProject(t, tiny, prepared)
	j := trinitytest.NewJuicer(t, func(row map[string]any) (map[string]float64, bool) {
		if q, ok := row["question"].(string); ok {
			return nil, !strings.Contains(q, "9")
		}
		return map[string]float64{"llm_quality_score": 0.5}, true
	})
	const pipelines = "data_processor."
	overrides := []string{
		"buffer.total_steps=1", "service.data_juicer.server_url=" + j.URL,
		pipelines + "task_pipeline.operators=[{name: document_deduplicator}, {name: nine_filter}]",
		pipelines + "experience_pipeline.operators=[{name: data_juicer, args: {operators: [{llm_quality_score_filter: {min_score: 0}}]}}, " +
			"{name: reward_shaping_mapper, args: {reward_shaping_configs: [{stats_key: llm_quality_score, op_type: ADD, weight: 1.0}]}}]",
	}
	if plan := planOf(t, p.load(t, overrides...)); !strings.Contains(plan, "nine_filter, by Data-Juicer") {
		t.Errorf("the plan:\n%s", plan)
	}
	if _, err := p.run(t, overrides...); err != nil {
		t.Fatal(err)
	}
	if text := read(t, filepath.Join(p.dir, "made", "output.jsonl")); strings.Count(text, "\n") != 20 || strings.Contains(text, ` 9`) {
		t.Errorf("made are\n%s", text)
	}
	if metrics := read(t, filepath.Join(p.job(), "monitor", "metrics.jsonl")); !strings.Contains(metrics,
		`"experience_pipeline/reward_diff/mean":0.5`) {
		t.Errorf("the reward got no part of quality: %s", metrics)
	}
	for override, want := range map[string]string{
		"service.data_juicer.server_url=localhost:5005": "want http://host:port",
		"service.data_juicer.server_url=":               "there is no Data-Juicer service",
	} {
		if _, err := config.Load(p.config, config.Options{Overrides: append(overrides, override)}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", override, err)
		}
	}
}

// An interrupt ends the pipeline, however long a model takes.
func TestAnInterruptEndsTheTaskPipeline(t *testing.T) {
	p := newProject(t, tiny, prepared)
	stop, interrupt := context.WithCancelCause(t.Context())
	interrupted := errors.New("interrupted")
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		interrupt(interrupted)
		<-r.Context().Done()
	}))
	defer server.Close()
	cfg := p.load(t, "data_processor.task_pipeline.operators=[{name: llm_quality_score_filter, args: {input_keys: [question], "+
		"field_names: [Q], model_params: {base_url: '"+server.URL+"'}}}]")
	if _, err := run.Run(t.Context(), stop, cfg, run.Options{Say: func(string) {}}); !errors.Is(err, interrupted) {
		t.Errorf("it ended with %v", err)
	}
}
