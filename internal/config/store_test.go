package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestStores(t *testing.T) {
	const storage, path = storeKey + ".storage_type", storeKey + ".path"
	for _, c := range []struct {
		name      string
		overrides []string
		store     string
		where     string // end of its path
	}{
		{"a file of the run's own", []string{storage + "=sql"}, "sql", "/buffer/experience_buffer.db"},
		{"a server", []string{storage + "=sql", path + "=postgresql://ann:secret@host/db"}, "sql", "@host/db"},
		{"Trinity-RFT's queue in a database", []string{"mode=explore", path + "=sqlite:///gsm8k.db"}, "sql", "sqlite:///gsm8k.db"},
		{"the queue of one process", []string{path + "=sqlite:///gsm8k.db"}, "queue", "sqlite:///gsm8k.db"},
	} {
		cfg, err := Parse("c.yaml", []byte(base), Options{Overrides: c.overrides})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		b := cfg.Buffer.TrainerInput.ExperienceBuffer
		if b.StorageType != c.store || !strings.HasSuffix(b.Path, c.where) {
			t.Errorf("%s: %s at %s, want %s at …%s", c.name, b.StorageType, b.Path, c.store, c.where)
		}
		text, err := cfg.YAML()
		if err != nil || strings.Contains(text, "secret") {
			t.Errorf("%s: the effective configuration has the password, or %v", c.name, err)
		}
		if json, err := cfg.MarshalJSON(); err != nil || strings.Contains(string(json), "secret") {
			t.Errorf("%s: the effective configuration in JSON has the password, or %v", c.name, err)
		}
	}
}

// A key that chooses among several files, tables or stores is unused if there is only one.
func TestUnusedChoicesOfASinglePlace(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "one.jsonl")
	if err := os.WriteFile(file, []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const taskset, buffer = "buffer.explorer_input.taskset.", "buffer.trainer_input.experience_buffer."
	for _, c := range []struct {
		text, key, value string
		more             []string
		unused           string // part of the reason, "" where the key is used
	}{
		{base, taskset + "split", "test", []string{taskset + "path=" + file}, "the path is one file"},
		{base, taskset + "subset_name", "foo", []string{taskset + "path=" + file}, "the path is one file"},
		{base, taskset + "split", "test", []string{taskset + "path=" + dir}, ""},
		{base, taskset + "subset_name", "foo", []string{taskset + "path=" + dir}, ""},
		{base, taskset + "split", "test", []string{taskset + "path=org/set"}, ""},
		{base, taskset + "split", "test", []string{taskset + "path=sqlite:///rows.db"}, "a database has no splits"},
		{base, taskset + "subset_name", "foo", []string{taskset + "path=sqlite:///rows.db"}, ""},
		{base, taskset + "split", "test", []string{taskset + "path=" + dir, taskset + "storage_type=task_dir"}, "neither splits nor subsets"},
		{offlineBase, buffer + "split", "test", []string{buffer + "path=" + file}, "the path is one file"},
		{offlineBase, buffer + "subset_name", "foo", []string{buffer + "path=" + file}, "the path is one file"},
		{base, buffer + "path", "foo.db", nil, "the queue is kept in buffer.cache_dir"},
		{offlineBase, buffer + "path", file, nil, ""},
	} {
		cfg := mustParse(t, c.text, Options{Overrides: append(c.more, c.key+"="+c.value)})
		reason := ""
		for _, n := range cfg.settled[0].Unused() {
			if n.Key == c.key {
				reason = n.Reason
			}
		}
		if !strings.Contains(reason, c.unused) || c.unused == "" && reason != "" {
			t.Errorf("%s=%s with %v: %q, want %q", c.key, c.value, c.more, reason, c.unused)
		}
	}
}

// The retries of a storage have the names of a plug-in's retries.
func TestRetriesOfPluginsAreTheirOwn(t *testing.T) {
	const taskset = "buffer.explorer_input.taskset"
	for key, want := range map[string]string{
		taskset + ".max_retry_times": taskset, taskset + ".max_retry_interval": taskset, pipelineKey + ".max_retry_times": pipelineKey,
		taskset + ".reward_fn_args.max_retry_times": "", taskset + ".workflow_args.max_retry_interval": "", "explorer.max_retry_times": "",
	} {
		if owner, ok := retries(key); ok != (want != "") || ok && owner != want {
			t.Errorf("%s belongs to %q, %v; want %q", key, owner, ok, want)
		}
	}
}

func TestReplayBuffer(t *testing.T) {
	on := func(args string) string { return replayKey + "={enable: true" + args + "}" }
	c := mustParse(t, base, Options{Overrides: []string{on(", reuse_cooldown_time: 0")}})
	if r := c.settled[0].Buffer.TrainerInput.ExperienceBuffer.ReplayBuffer; r.PriorityFn != "linear_decay" || *r.ReuseCooldownTime != 0 {
		t.Errorf("%+v", r)
	}
	if slices.ContainsFunc(c.settled[0].Unused(), func(n Note) bool { return strings.HasPrefix(n.Key, replayKey) }) {
		t.Errorf("not used: %v", c.settled[0].Unused())
	}
	for _, c := range []struct {
		override, key, words string
	}{
		{on(", priority_fn: linear"), replayKey + ".priority_fn", "unknown priority function"},
		{on(", priority_fn_args: {sigma: 1}"), replayKey + ".priority_fn_args.sigma", "unknown argument"},
		{on(", reuse_cooldown_time: -1"), replayKey + ".reuse_cooldown_time", "at least 0"},
	} {
		expectError(t, base, c.override, c.key, c.words, false)
	}
}

// Without a trainer, nobody reads the replay buffer.
func TestReplayBufferOfAnotherMode(t *testing.T) {
	for mode, unused := range map[string]bool{"bench": true, "explore": true, "train": false} {
		c := mustParse(t, base, Options{Overrides: []string{"mode=" + mode, "buffer.train_batch_size=8", replayKey + ".enable=true"}})
		if got := slices.ContainsFunc(c.settled[0].Unused(), func(n Note) bool { return n.Key == replayKey+".enable" }); got != unused {
			t.Errorf("mode %s: not used is %v, want %v", mode, got, unused)
		}
	}
}
