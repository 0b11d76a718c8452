package config

import (
	"strings"
	"testing"
)

// Copies in databases may share one database, retry after a failure, and appear without their
// passwords.
func TestCopiesInDatabases(t *testing.T) {
	const url = "postgresql://ann:s3cret@host/rft"
	const retries = pipelineKey + ".max_retry_times=9"
	cfg, err := Parse("c.yaml", []byte(base), Options{Overrides: []string{pipelineKey + ".input_save_path=" + url,
		pipelineKey + ".output_save_path=" + url, retries}})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := cfg.Plan(Facts{})
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for _, f := range planned[[]FilePlan](plan.Stages[0], "files") {
		if strings.Contains(f.Path, "s3cret") {
			t.Errorf("the plan has the password: %s", f.Path)
		}
		if f.Path == "postgresql://ann:***@host/rft" {
			shown++
		}
	}
	text, err := cfg.YAML()
	if err != nil || strings.Contains(text, "s3cret") || shown != 2 {
		t.Errorf("the plan has %d copies, the effective configuration is %s, %v", shown, text, err)
	}
	unused := func(overrides ...string) bool {
		cfg, err := Parse("c.yaml", []byte(base), Options{Overrides: overrides})
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range cfg.settled[0].Unused() {
			if n.Key == pipelineKey+".max_retry_times" {
				return true
			}
		}
		return false
	}
	if unused(retries, pipelineKey+".output_save_path=sqlite:///kept.db") || !unused(retries, pipelineKey+".output_save_path=kept.jsonl") {
		t.Error("max_retry_times is of copies in databases")
	}
}
