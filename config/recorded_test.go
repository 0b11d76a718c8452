package config

import (
	"slices"
	"strings"
	"testing"
)

// Mode train reads a file of experiences as a dataset only for an algorithm that trains on
// rollouts. The file of another algorithm is its own dataset, and a queue belongs to explorers.
func TestRecorded(t *testing.T) {
	train := []string{"mode=train", "buffer.train_batch_size=4", "algorithm.optimizer.lr_scheduler_type=cosine"}
	file := append(slices.Clone(train), storeKey+".storage_type=file")
	cfg, err := Parse("c.yaml", []byte(base), Options{Overrides: append(file, storeKey+".path=kept.parquet", "synchronizer.sync_interval=3")})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := cfg.Plan(Facts{Rows: map[string]int{storeKey: 40}})
	if err != nil || plan.Stages[0].TrainSteps != 10 {
		t.Errorf("%d train steps, %v; want 40 rows / 4", plan.Stages[0].TrainSteps, err)
	}
	if !slices.Contains(cfg.settled[0].Sources(), storeKey+".path") || len(cfg.settled[0].Unused()) != 1 {
		t.Errorf("sources %v, unused %v", cfg.settled[0].Sources(), cfg.settled[0].Unused())
	}
	_, err = Parse("c.yaml", []byte(base), Options{Overrides: file})
	if err == nil || !strings.Contains(err.Error(), "grpo needs a dataset") {
		t.Errorf("without a path: %v", err)
	}
	_, err = Parse("c.yaml", []byte(base), Options{Overrides: []string{"mode=explore", storeKey + ".storage_type=file",
		storeKey + ".path=kept.db"}})
	if err == nil || !strings.Contains(err.Error(), "kept.db does not name a file form of experiences") {
		t.Errorf("a file of no form: %v", err)
	}
	_, err = Parse("c.yaml", []byte(base), Options{Overrides: []string{"mode=explore", storeKey + ".storage_type=file",
		storeKey + ".path=a.jsonl", pipelineKey + ".output_save_path=./a.jsonl"}})
	if err == nil || !strings.Contains(err.Error(), storeKey+".path: is also the path of input_save_path or output_save_path") {
		t.Errorf("rollouts at the path of a copy: %v", err)
	}
	database := append(slices.Clone(file), storeKey+".path=postgresql://ann@host/rft")
	_, err = Parse("c.yaml", []byte(base), Options{Overrides: database})
	if err == nil || !strings.Contains(err.Error(), "write SELECT experience FROM trinity_archive") {
		t.Errorf("a database without saying which rows: %v", err)
	}
	cfg, err = Parse("c.yaml", []byte(base), Options{Overrides: append(database, storeKey+".subset_name=trinity_archive",
		storeKey+".max_retry_times=5", "buffer.total_steps=1")})
	if err != nil || slices.ContainsFunc(cfg.settled[0].Unused(), func(n Note) bool { return strings.HasPrefix(n.Key, storeKey) }) {
		t.Errorf("rows of a database: %v", err)
	}
	_, err = Parse("c.yaml", []byte(base), Options{Overrides: append(train, storeKey+".path=kept.parquet")})
	if err == nil || !strings.Contains(err.Error(), "but their number is not known") {
		t.Errorf("a queue: %v", err)
	}
}
