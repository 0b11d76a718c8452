package feed

import (
	"context"
	"fmt"
	"path"
	"path/filepath"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/buffer"
	"github.com/trinity-go/trinity/internal/database/dburl"
	"github.com/trinity-go/trinity/internal/experience/archive"
	"github.com/trinity-go/trinity/internal/run/record"
	"github.com/trinity-go/trinity/internal/wait"
	"github.com/trinity-go/trinity/registry"
)

// OpenStore opens the buffer between explorers and trainer, with room for capacity rollouts.
func (s *Reader) OpenStore(ctx context.Context, capacity int) (trinity.Buffer, error) {
	if s.SharedStore {
		return s.sharedStore(ctx, capacity)
	}
	log, err := buffer.OpenLog(filepath.Join(s.Buffer.CacheDir, LogDir))
	if err != nil {
		return nil, err
	}
	own := s.Buffer.TrainerInput.ExperienceBuffer
	memory, timeout := int64(own.CapacityMb)<<20, wait.Seconds(own.MaxReadTimeout+s.TaskWait())
	if !own.ReplayBuffer.Enable {
		queue := buffer.NewQueue(capacity, memory, log)
		queue.TakeTimeout, queue.PutTimeout = timeout, wait.Seconds(s.Synchronizer.SyncTimeout)
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
		cooldown := wait.Seconds(*replay.ReuseCooldownTime)
		options.Cooldown = &cooldown
	}
	return buffer.NewReplay(options, log), nil
}

// sharedStore opens the buffer of a plug-in.
func (s *Reader) sharedStore(ctx context.Context, capacity int) (trinity.Buffer, error) {
	own := s.Buffer.TrainerInput.ExperienceBuffer
	opener, err := registry.Buffers.Build(own.StorageType)
	if err != nil {
		return nil, err
	}
	word, err := record.Word(s.Settled)
	if err != nil {
		return nil, err
	}
	b, err := opener.OpenBuffer(ctx, trinity.BufferSpec{
		Name: path.Join(s.Project, s.Group, s.Name, own.Name+"-"+word), Path: own.Path,
		Capacity: capacity, Memory: int64(own.CapacityMb) << 20,
		TakeTimeout: wait.Seconds(own.MaxReadTimeout + s.TaskWait()), PutTimeout: wait.Seconds(s.Synchronizer.SyncTimeout),
		Retries: own.MaxRetryTimes, RetryInterval: wait.Seconds(float64(own.MaxRetryInterval)), Say: s.Say,
	})
	if err != nil {
		return nil, fmt.Errorf("buffer.trainer_input.experience_buffer: %w", err)
	}
	return b, nil
}

// Kept opens the archive of the experiences that enter (what is "input") or leave ("output") the
// pipeline.
func (s *Reader) Kept(ctx context.Context, path, what string) (*archive.Writer, error) {
	w, err := s.archive(ctx, path, what)
	if err != nil {
		return nil, fmt.Errorf("data_processor.experience_pipeline.%s_save_path: %w", what, err)
	}
	return w, nil
}

// archive opens an archive in files or in a database.
func (s *Reader) archive(ctx context.Context, path, what string) (*archive.Writer, error) {
	if !dburl.IsURL(path) {
		dir, err := record.OwnDir(s.Settled, path)
		if err != nil {
			return nil, err
		}
		return archive.New(dir, s.CheckpointJobDir)
	}
	name, err := record.ArchiveName(s.Settled, what)
	if err != nil {
		return nil, err
	}
	p := &s.DataProcessor.ExperiencePipeline
	return archive.InDatabase(ctx, path, name, p.MaxRetryTimes, wait.Seconds(float64(p.MaxRetryInterval)), s.Say)
}

// LogDir is the directory of the queue's log in buffer.cache_dir.
const LogDir = "experience_buffer"

// Sink opens the archive in files that an explorer without a trainer writes, in a directory.
func (s *Reader) Sink() (sink *archive.Sink, dir string, err error) {
	if dir, err = record.OwnDir(s.Settled, s.Buffer.ExperienceFile()); err != nil {
		return nil, "", err
	}
	return archive.NewSink(dir, s.CheckpointJobDir), dir, nil
}
