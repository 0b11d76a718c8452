package config

import (
	"fmt"
	"net/url"
	"os"
	"strconv"
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

// isRedisURL reports whether a path says which database of which Redis server.
func isRedisURL(path string) bool {
	u, err := url.Parse(path)
	if err != nil || !isRedis(path) {
		return false
	}
	number := strings.Trim(u.Path, "/")
	_, err = strconv.ParseUint(number, 10, 16)
	return number == "" || err == nil
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
	if b.StorageType == "redis" && !isRedisURL(b.Path) {
		r.fail(storeKey+".path", fmt.Sprintf("%q is not where a Redis server is", b.Path),
			"write redis://user:password@host:6379/0, or rediss:// with TLS; in a password % : / ? # @ are written %25 %3A %2F %3F %23 %40")
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
	}
	if owner, isRetry := retries(key); isRetry && !c.remote(owner) {
		return "nothing is read over a network here"
	}
	return ""
}

// retries is the section of a key that says how often a storage is tried again.
func retries(key string) (owner string, ok bool) {
	owner, ok = strings.CutSuffix(strings.TrimSuffix(key, "_times"), ".max_retry")
	if !ok {
		owner, ok = strings.CutSuffix(key, ".max_retry_interval")
	}
	return owner, ok && (owner == pipelineKey || strings.HasPrefix(owner, "buffer."))
}

// remote reports whether the storage of a section may be lost and come back.
func (c *Config) remote(owner string) bool {
	if owner == pipelineKey {
		return c.copiesInDatabase()
	}
	if owner == storeKey && c.SharedStore() {
		return true
	}
	for _, d := range c.datasets() {
		if d.key == owner {
			return database.IsURL(d.path)
		}
	}
	return false
}

// storedRows is a section that names rows: a taskset or a dataset.
type storedRows struct{ key, storage, path string }

func (c *Config) datasets() []storedRows {
	var all []storedRows
	for _, t := range c.Tasksets() {
		all = append(all, storedRows{t.Key, t.StorageType, t.Path})
	}
	for _, b := range c.Besides() {
		all = append(all, storedRows{b.Key, b.StorageType, b.Path})
	}
	if b := c.Buffer.TrainerInput.ExperienceBuffer; c.readsDataset() {
		all = append(all, storedRows{storeKey, b.StorageType, b.Path})
	}
	return all
}

// unusedOfRows says why rows that come from one place have no use for a key that chooses among several; "" if they have.
func (c *Config) unusedOfRows(key string) string {
	for _, d := range c.datasets() {
		split := key == d.key+".split"
		switch {
		case !split && key != d.key+".subset_name":
		case d.storage == "task_dir":
			return "every folder of the path is a task: there are neither splits nor subsets"
		case split && database.IsURL(d.path):
			return "a database has no splits: subset_name chooses rows"
		case isFile(d.path):
			return "the path is one file, all of whose rows are read: name a directory to choose a split or subset of it"
		}
	}
	return ""
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// tables wants rows in a database where the storage is one.
func (r *rules) tables() {
	for _, d := range r.datasets() {
		if d.storage != "sql" && !database.IsURL(d.path) {
			continue
		}
		if _, err := database.Parse(d.path); err != nil {
			r.fail(d.key+".path", err.Error(), "")
		}
	}
}
