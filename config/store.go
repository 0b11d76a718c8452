package config

import (
	"os"
	"strings"

	"github.com/trinity-go/trinity/internal/database/dburl"
	"github.com/trinity-go/trinity/registry"
)

const (
	storeKey  = "buffer.trainer_input.experience_buffer"
	replayKey = storeKey + ".replay_buffer"
)

// StorePlace is implemented by a buffer plug-in that decides where it may be stored.
type StorePlace interface {
	// DefaultPath returns the path of a named buffer whose file sets no path. dir is the directory of
	// the run's buffers.
	DefaultPath(dir, name string) string
	// CheckPath returns an error for a path that the buffer does not support.
	CheckPath(path string) error
}

// store checks that the experience buffer fits its store.
func (r *rules) store() {
	b := r.Buffer.TrainerInput.ExperienceBuffer
	if !r.SharedStore {
		return
	}
	if s, ok := registry.Buffers.Default(b.StorageType).(StorePlace); ok {
		if err := s.CheckPath(b.Path); err != nil {
			r.fail(storeKey+".path", err.Error(), "")
		}
	}
	if b.ReplayBuffer.Enable {
		r.fail(replayKey+".enable", "a database gives the oldest experiences first, each once", "set storage_type to queue")
	}
}

var unusedOfBuffers = []unusedKey{
	{storeKey + ".format.workflow_key", always("only rows of tasksets have workflows")},
	{storeKey + ".format.reward_fn_key", always("only rows of tasksets have reward functions")},
	{storeKey + ".path", func(s *Settled, _ string) string {
		switch {
		case s.Buffer.TrainerInput.ExperienceBuffer.StorageType != "queue":
			return ""
		case s.Trains:
			return "the queue is kept in buffer.cache_dir"
		}
		return "the trainer keeps the queue in its own buffer.cache_dir"
	}},
	{replayKey, unless(func(s *Settled) bool { return s.replay().Enable }, "replay is off")},
	{replayKey, unless(trains, "only the trainer reads it")},
	{"buffer", withoutRetries},
	{pipelineKey, withoutRetries},
}

// withoutRetries is the reason of a number of attempts to reach a storage that is no server.
func withoutRetries(s *Settled, key string) string {
	if owner, isRetry := retries(key); isRetry && !s.remote(owner) {
		return "nothing is read over a network here"
	}
	return ""
}

// retries returns the section of a key that counts or spaces attempts to reach a storage. ok is
// false for any other key, such as an argument of a plug-in.
func retries(key string) (owner string, ok bool) {
	owner, ok = strings.CutSuffix(strings.TrimSuffix(key, "_times"), ".max_retry")
	if !ok {
		owner, ok = strings.CutSuffix(key, ".max_retry_interval")
	}
	return owner, ok && (owner == pipelineKey || strings.HasPrefix(owner, "buffer.") && !strings.Contains(owner, "_args"))
}

// remote reports whether the storage of a section is a server, which may be lost and come back.
func (s *Settled) remote(owner string) bool {
	if owner == pipelineKey {
		return s.copiesInDatabase()
	}
	if owner == storeKey && s.SharedStore {
		return true
	}
	for _, d := range s.datasets() {
		if d.key == owner {
			return dburl.IsURL(d.path)
		}
	}
	return false
}

// storedRows is a section that names rows: a taskset or a dataset.
type storedRows struct{ key, storage, path string }

func (s *Settled) datasets() []storedRows {
	var all []storedRows
	for _, t := range s.Data.Tasksets {
		all = append(all, storedRows{t.Key, t.StorageType, t.Path})
	}
	for _, b := range s.Besides() {
		all = append(all, storedRows{b.Key, b.StorageType, b.Path})
	}
	if b := s.Buffer.TrainerInput.ExperienceBuffer; s.ReadsDataset {
		all = append(all, storedRows{storeKey, b.StorageType, b.Path})
	}
	return all
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// tables checks that the path is a database URL if the storage is a database.
func (r *rules) tables() {
	for _, d := range r.datasets() {
		if !registry.Buffers.Has(d.storage) && !dburl.IsURL(d.path) {
			continue
		}
		if _, err := dburl.Parse(d.path); err != nil {
			r.fail(d.key+".path", err.Error(), "")
		}
	}
}

// replay returns the replay settings of the experience buffer.
func (s *Settled) replay() *ReplayBuffer { return &s.Buffer.TrainerInput.ExperienceBuffer.ReplayBuffer }
