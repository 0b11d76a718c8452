package config

import (
	"github.com/trinity-go/trinity/database"
	"github.com/trinity-go/trinity/registry"
)

const storeKey = "buffer.trainer_input.experience_buffer"

// SharedStore reports whether experiences pass through a store that explorer and trainer reach each by itself.
func (c *Config) SharedStore() bool {
	return !c.offline() && registry.Buffers.Has(c.Buffer.TrainerInput.ExperienceBuffer.StorageType)
}

// store holds the experience buffer against what its store needs.
func (r *rules) store() {
	b := r.Buffer.TrainerInput.ExperienceBuffer
	if !r.SharedStore() || b.StorageType != "sql" {
		return
	}
	if _, err := database.Parse(b.Path); err != nil {
		r.fail(storeKey+".path", err.Error(), "")
	}
	if b.ReplayBuffer.Enable {
		r.fail(replayKey+".enable", "a database gives the oldest experiences first, each once", "set storage_type to queue")
	}
}

// unusedOfStore says why the store of the experience buffer has no use for one of its keys; "" if it has.
func (c *Config) unusedOfStore(key string) string {
	switch {
	case key == storeKey+".path" && c.Mode == "both" && !c.SharedStore():
		return "the queue is kept in buffer.cache_dir"
	case key == storeKey+".capacity_mb" && c.SharedStore():
		return "the database keeps what waits"
	case (key == storeKey+".max_retry_times" || key == storeKey+".max_retry_interval") && !c.SharedStore():
		return "the queue is in this process"
	}
	return ""
}
