package run

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/buffer"
	"github.com/trinity-go/trinity/internal/database"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/experience/archive"
	"github.com/trinity-go/trinity/registry"
)

// store opens the buffer between explorers and trainer, which has room for capacity rollouts. The stage closes it.
func (s *stage) store(ctx context.Context, capacity int) (_ trinity.Buffer, err error) {
	s.queue, err = s.openStore(ctx, capacity)
	return s.queue, err
}

func (s *reader) openStore(ctx context.Context, capacity int) (trinity.Buffer, error) {
	if s.SharedStore {
		return s.sharedStore(ctx, capacity)
	}
	log, err := buffer.OpenLog(filepath.Join(s.Buffer.CacheDir, experienceLog))
	if err != nil {
		return nil, err
	}
	own := s.Buffer.TrainerInput.ExperienceBuffer
	memory, timeout := int64(own.CapacityMb)<<20, seconds(own.MaxReadTimeout)
	if !own.ReplayBuffer.Enable {
		queue := buffer.NewQueue(capacity, memory, log)
		queue.TakeTimeout, queue.PutTimeout = timeout, seconds(s.Synchronizer.SyncTimeout)
		return queue, nil
	}
	replay := &own.ReplayBuffer
	priority, err := buffer.PriorityFuncs.Build(replay.PriorityFn, replay.PriorityFnArgs)
	if err != nil {
		return nil, fmt.Errorf("buffer.trainer_input.experience_buffer.replay_buffer.priority_fn: %w", err)
	}
	options := buffer.ReplayOptions{
		Capacity: own.Capacity, Memory: memory, Priority: priority, Seed: int64(s.Seed),
		ByRollout: s.Batch.CountsRollouts, TakeTimeout: timeout, Lockstep: s.Synchronizer.SyncStyle == "fixed",
	}
	if replay.ReuseCooldownTime != nil {
		cooldown := seconds(*replay.ReuseCooldownTime)
		options.Cooldown = &cooldown
	}
	return buffer.NewReplay(options, log), nil
}

// sharedStore opens a buffer that is a plug-in.
func (s *reader) sharedStore(ctx context.Context, capacity int) (trinity.Buffer, error) {
	own := s.Buffer.TrainerInput.ExperienceBuffer
	opener, err := registry.Buffers.Build(own.StorageType)
	if err != nil {
		return nil, err
	}
	word, err := s.word()
	if err != nil {
		return nil, err
	}
	b, err := opener.OpenBuffer(ctx, trinity.BufferSpec{
		Name: path.Join(s.Project, s.Group, s.Name, own.Name+"-"+word), Path: own.Path,
		Capacity: capacity, Memory: int64(own.CapacityMb) << 20, TakeTimeout: seconds(own.MaxReadTimeout), PutTimeout: seconds(s.Synchronizer.SyncTimeout),
		Retries: own.MaxRetryTimes, RetryInterval: seconds(float64(own.MaxRetryInterval)), Say: s.say,
	})
	if err != nil {
		return nil, fmt.Errorf("buffer.trainer_input.experience_buffer: %w", err)
	}
	return b, nil
}

// kept opens the copy of what enters or leaves the pipeline; what is "input" or "output".
func (s *reader) kept(ctx context.Context, path, what string) (*archive.Writer, error) {
	w, err := s.archive(ctx, path, what)
	if err != nil {
		return nil, fmt.Errorf("data_processor.experience_pipeline.%s_save_path: %w", what, err)
	}
	return w, nil
}

func (s *reader) archive(ctx context.Context, path, what string) (*archive.Writer, error) {
	if !database.IsURL(path) {
		dir, err := s.ownDir(path)
		if err != nil {
			return nil, err
		}
		return archive.New(dir)
	}
	address, err := database.Parse(path)
	if err != nil {
		return nil, err
	}
	name, err := s.archiveName(what)
	if err != nil {
		return nil, err
	}
	p := &s.DataProcessor.ExperiencePipeline
	return archive.InDatabase(ctx, address, name, database.Options{Retries: p.MaxRetryTimes, Interval: seconds(float64(p.MaxRetryInterval)), Say: s.say})
}

// ownDir returns the directory of the run's archive at path. A path in the run's directory is the
// run's own. Elsewhere several runs may have the same path, so each writes to a directory below it
// that is named by the run's word; a dataset at path finds it there.
func (s *Settled) ownDir(path string) (string, error) {
	for _, dir := range []string{s.CheckpointJobDir, s.Buffer.CacheDir} {
		if in, err := isBelow(path, dir); err != nil || in {
			return path, err
		}
	}
	word, err := s.word()
	return filepath.Join(path, word+archive.Form(path)), err
}

// isBelow reports whether path lies in dir.
func isBelow(path, dir string) (bool, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return false, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return false, err
	}
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel), nil
}

// archiveName returns the run's name for its archive in a database, which has the archives of many
// runs. It holds the name of the explorer if there are several.
func (s *Settled) archiveName(what string) (string, error) {
	word, err := s.word()
	if err != nil {
		return "", err
	}
	name := what + "-" + word
	if oneOfSeveral(s) {
		name = s.Explorer.Name + "-" + name
	}
	return path.Join(s.Project, s.Group, s.Name, name), nil
}

// word returns a random word that the run's directory keeps. It tells the run's experiences in a
// shared store, and its archives outside of its directory, from those of a run of the same name
// whose directory was removed.
func (s *Settled) word() (string, error) {
	file := filepath.Join(s.Buffer.CacheDir, "store_word")
	if err := durable.MkdirAll(s.Buffer.CacheDir, 0o755); err != nil {
		return "", err
	}
	release, err := durable.Acquire(context.Background(), filepath.Join(s.Buffer.CacheDir, ".lock_store_word")) // explorer and trainer may begin at once
	if err != nil {
		return "", err
	}
	defer release()
	word, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		word = []byte(rand.Text()[:8])
		err = durable.WriteFile(file, word)
	}
	return string(word), err
}
