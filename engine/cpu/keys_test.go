package cpu

import (
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/config"
)

// Every key in the engine's tables is a key of the configuration, so the tables cannot go stale.
func TestSharedKeysExist(t *testing.T) {
	known := map[string]bool{}
	for _, k := range config.Keys() {
		known[k.Path] = true
	}
	for _, table := range []map[string]string{trainerPlugin{}.Reads(&config.Settled{}), samplerPlugin{}.Reads(&config.Settled{})} {
		for key := range table {
			if !strings.HasPrefix(key, "trainer.trainer_config.") && !strings.Contains(key, ".*") && !known[key] {
				t.Error(key)
			}
		}
	}
}

var (
	_ config.SharedKeys = trainerPlugin{}
	_ config.SharedKeys = samplerPlugin{}
)
