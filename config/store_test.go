package config

import (
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
		{"a Redis server", []string{storage + "=redis", path + "=redis://:secret@host:6379/0"}, "redis", "@host:6379/0"},
		{"a queue on a Redis server", []string{"mode=explore", path + "=rediss://host/1"}, "redis", "rediss://host/1"},
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
