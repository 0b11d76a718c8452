package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/serve/fleet"
	"github.com/trinity-go/trinity/trainer"
)

// lease is for how long an explorer that is not heard of keeps its name and is waited for.
const lease = 10 * time.Second

// trainOnline trains on what explorers of other processes put into its buffer.
func (s *stage) trainOnline(ctx context.Context, opts Options) (err error) {
	queue, err := s.store(s.groups())
	if err != nil {
		return err
	}
	stop, cancel := withStop(ctx, opts.Stop)
	defer cancel()
	source, err := s.batches(stop, queue)
	if err != nil {
		return err
	}
	tr := s.newTrainer(source)
	tr.TotalSteps = int64(value(0, s.cfg.Buffer.TotalSteps, s.cfg.Trainer.TotalSteps))
	tr.Schedule = schedule(&s.cfg.Algorithm.Optimizer, tr.TotalSteps)
	if err := s.readyTrainer(ctx, tr, source); err != nil {
		return err
	}
	if err := s.beginning(tr, queue); err != nil {
		return err
	}
	server, note, err := s.server(queue, opts.Stage)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, note.Close()) }()
	server.Step, server.TotalSteps = tr.Step(), tr.TotalSteps
	if tr.Step() == 0 {
		if err := s.offer(ctx, 0); err != nil {
			return err
		}
	}
	if err := server.Open(ctx, tr.Published(), tr.Step() == tr.Published()); err != nil {
		return err
	}
	tr.Publish = func(ctx context.Context, version int64) error {
		return errors.Join(server.Publish(ctx, version), s.offer(ctx, version)) // to the engine too: a checkpoint is that of mode both
	}
	save := trimming(queue, tr.Save)
	tr.Save = func(ctx context.Context, step int64, last bool) error {
		defer server.Saved(tr.Published(), tr.Published() == step)
		return save(ctx, step, last)
	}
	err = server.Serve(ctx, stop, s.cfg.Trainer.ListenAddress, func(ctx context.Context) error { return tr.Run(ctx, stop) })
	if trainer.Starved(err) {
		err = fmt.Errorf("%w; %s", err, server.Explorers())
	}
	return err
}

// server makes the trainer's side of explorers of other processes, and the log of what they have.
func (s *stage) server(queue trinity.Buffer, stage string) (*fleet.Server, *os.File, error) {
	note, err := os.OpenFile(filepath.Join(s.cfg.Log.SaveDir, "explorers.log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, nil, err
	}
	write := func(line string) { fmt.Fprintf(note, "%s %s\n", time.Now().Format(time.RFC3339), line) }
	return &fleet.Server{
		Buffer: queue, Style: s.cfg.Synchronizer.SyncStyle, Algorithm: s.cfg.Algorithm.AlgorithmType, Stage: stage, Explorer: s.cfg.Explorer.Name, Token: cmp.Or(os.Getenv(tokenVariable), fleet.NewToken()),
		Dir: s.cfg.CheckpointJobDir, Lease: lease, Timeout: seconds(s.cfg.Synchronizer.SyncTimeout),
		Save: s.engine.SaveModel, SavePublished: s.savePublished, Note: write,
		Say: func(line string) { s.say(line); write(line) },
	}, note, nil
}

// offer has the engine keep the weights of a version, if it can, so that they are in the checkpoint.
func (s *stage) offer(ctx context.Context, version int64) error {
	if engine, ok := s.engine.(trinity.Publisher); ok {
		return engine.Offer(ctx, version)
	}
	return nil
}

// savePublished writes the weights that the checkpoint goes on with.
func (s *stage) savePublished(ctx context.Context, dir string) error {
	engine, ok := s.engine.(trinity.Publisher)
	if !ok {
		return fmt.Errorf("engine %s keeps no published weights", s.cfg.Engines.Train)
	}
	return engine.SavePublished(ctx, dir)
}

// readyTrainer opens the engine and takes up the newest checkpoint.
func (s *stage) readyTrainer(ctx context.Context, tr *trainer.Trainer, source trinity.Source) error {
	if err := s.openEngine(ctx, true, false); err != nil {
		return err
	}
	if err := s.staff(ctx, tr); err != nil {
		return err
	}
	return s.resume(ctx, tr, source)
}

// beginning gives a queue what its log has, where there is no checkpoint to do so: it is all from the run's beginning.
func (s *stage) beginning(tr *trainer.Trainer, queue trinity.Buffer) error {
	if tr.Step() > 0 {
		return nil
	}
	return queue.Restore(trinity.SourceState{})
}
