package config

import (
	"fmt"
	"strings"

	"github.com/trinity-go/trinity/database"
	"github.com/trinity-go/trinity/registry"
)

const storeKey = "buffer.trainer_input.experience_buffer"

// SharedStore reports whether experiences pass through a store that explorer and trainer reach each by itself.
func (c *Config) SharedStore() bool {
	return !c.offline() && registry.Buffers.Has(c.Buffer.TrainerInput.ExperienceBuffer.StorageType)
}

// isRedis reports whether a path is a Redis server's.
func isRedis(path string) bool {
	return strings.HasPrefix(path, "redis://") || strings.HasPrefix(path, "rediss://")
}

// store holds the experience buffer against what its store needs.
func (r *rules) store() {
	b := r.Buffer.TrainerInput.ExperienceBuffer
	if !r.SharedStore() {
		return
	}
	if _, err := database.Parse(b.Path); err != nil && b.StorageType == "sql" {
		r.fail(storeKey+".path", err.Error(), "")
	}
	if b.StorageType == "redis" && !isRedis(b.Path) {
		r.fail(storeKey+".path", fmt.Sprintf("%q is not where a Redis server is", database.Hidden(b.Path)), "write redis://user:password@host:6379/0, or rediss:// with TLS")
	}
	if b.ReplayBuffer.Enable {
		r.fail(replayKey+".enable", "a database gives the oldest experiences first, each once", "set storage_type to queue")
	}
}

// unusedOfStore says why the store of the experience buffer has no use for one of its keys; "" if it has.
func (c *Config) unusedOfStore(key string) string {
	switch {
	case key == storeKey+".path" && c.Buffer.TrainerInput.ExperienceBuffer.StorageType == "queue":
		return "the queue is kept in buffer.cache_dir"
	case key == storeKey+".capacity_mb" && c.SharedStore():
		return "the database keeps what waits"
	case (key == storeKey+".max_retry_times" || key == storeKey+".max_retry_interval") && !c.SharedStore():
		return "the queue is in this process"
	}
	return ""
}
