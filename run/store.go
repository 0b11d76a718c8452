package run

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"github.com/gofrs/flock"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/buffer"
	"github.com/trinity-go/trinity/database"
	"github.com/trinity-go/trinity/durable"
	"github.com/trinity-go/trinity/experience/archive"
	"github.com/trinity-go/trinity/registry"
)

// store makes the buffer between explorers and trainer, which has room for capacity rollouts.
func (s *stage) store(capacity int) (_ trinity.Buffer, err error) {
	if s.cfg.SharedStore() {
		return s.sharedStore(capacity)
	}
	if s.written, err = durable.OpenLog(filepath.Join(s.cfg.Buffer.CacheDir, experienceLog)); err != nil {
		return nil, err
	}
	own := s.cfg.Buffer.TrainerInput.ExperienceBuffer
	memory, reading := int64(own.CapacityMb)<<20, buffer.Reading{ByRollout: s.cfg.CountsRollouts(), TakeTimeout: seconds(own.MaxReadTimeout)}
	if !own.ReplayBuffer.Enable {
		queue := buffer.NewQueue(capacity, memory, s.written)
		queue.Reading, queue.PutTimeout = reading, seconds(s.cfg.Synchronizer.SyncTimeout)
		return queue, nil
	}
	replay := &own.ReplayBuffer
	priority, err := registry.PriorityFuncs.Build(replay.PriorityFn, replay.PriorityFnArgs)
	if err != nil {
		return nil, fmt.Errorf("buffer.trainer_input.experience_buffer.replay_buffer.priority_fn: %w", err)
	}
	options := buffer.ReplayOptions{
		Capacity: own.Capacity, Memory: memory, Priority: priority, Seed: int64(s.cfg.Seed),
		Reading: reading, Lockstep: s.cfg.Synchronizer.SyncStyle == "fixed",
	}
	if replay.ReuseCooldownTime != nil {
		cooldown := seconds(*replay.ReuseCooldownTime)
		options.Cooldown = &cooldown
	}
	return buffer.NewReplay(options, s.written), nil
}

// sharedStore opens a buffer that is a program of its own.
func (s *stage) sharedStore(capacity int) (trinity.Buffer, error) {
	own := s.cfg.Buffer.TrainerInput.ExperienceBuffer
	opener, err := registry.Buffers.Build(own.StorageType)
	if err != nil {
		return nil, err
	}
	word, err := s.word()
	if err != nil {
		return nil, err
	}
	b, err := opener.OpenBuffer(s.stop, trinity.BufferSpec{
		Name: path.Join(s.cfg.Project, s.cfg.Group, s.cfg.Name, own.Name+"-"+word), Path: own.Path,
		Capacity: capacity, ByRollout: s.cfg.CountsRollouts(), TakeTimeout: seconds(own.MaxReadTimeout), PutTimeout: seconds(s.cfg.Synchronizer.SyncTimeout),
		Retries: own.MaxRetryTimes, RetryInterval: seconds(float64(own.MaxRetryInterval)), Stop: s.stop, Say: s.say,
	})
	if err != nil {
		return nil, fmt.Errorf("buffer.trainer_input.experience_buffer: %w", err)
	}
	return b, nil
}

// kept makes the copy of the input or output of the pipeline.
func (s *stage) kept(ctx context.Context, to, what string) (*archive.Writer, error) {
	own, err := s.asWriter(what)
	if err != nil {
		return nil, err
	}
	w, err := s.archive(ctx, to, own)
	if err != nil {
		return nil, fmt.Errorf("data_processor.experience_pipeline.%s_save_path: %w", what, err)
	}
	return w, nil
}

// archive opens the run's archive in a database, or locks that in a file.
func (s *stage) archive(ctx context.Context, to string, own archive.Run) (*archive.Writer, error) {
	if !database.IsURL(to) {
		w := archive.New(to, own)
		return w, w.Lock()
	}
	address, err := database.Parse(to)
	if err != nil {
		return nil, err
	}
	p := &s.cfg.DataProcessor.ExperiencePipeline
	return archive.InDatabase(ctx, address, own.Name, database.Options{Retries: p.MaxRetryTimes, Interval: seconds(float64(p.MaxRetryInterval)), Stop: s.stop, Say: s.say})
}

// asWriter is the run as one that writes an archive, which is called by its name, and by that of the explorer where it is one of several.
func (s *stage) asWriter(what string) (archive.Run, error) {
	word, err := s.word()
	if err != nil {
		return archive.Run{}, err
	}
	name := what + "-" + word
	if oneOfSeveral(s.cfg) {
		name = s.cfg.Explorer.Name + "-" + name
	}
	return archive.Run{Name: path.Join(s.cfg.Project, s.cfg.Group, s.cfg.Name, name), Dir: s.cfg.CheckpointJobDir, Say: s.say}, nil
}

// word is a random one that the run's directory keeps, by which a shared store, or an archive, tells its experiences from those of a run of the same name whose
// directory was removed.
func (s *stage) word() (string, error) {
	file := filepath.Join(s.cfg.Buffer.CacheDir, "store_word")
	if err := durable.MkdirAll(s.cfg.Buffer.CacheDir, 0o755); err != nil {
		return "", err
	}
	lock := flock.New(filepath.Join(s.cfg.Buffer.CacheDir, ".lock_store_word")) // explorer and trainer may begin at once
	if err := lock.Lock(); err != nil {
		return "", err
	}
	defer lock.Unlock()
	word, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		word = []byte(rand.Text()[:8])
		err = durable.WriteFile(file, word)
	}
	return string(word), err
}
