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
	tr, err := s.training(ctx, source, int64(value(0, s.cfg.Buffer.TotalSteps, s.cfg.Trainer.TotalSteps)), false)
	if err != nil {
		return err
	}
	if err := beginning(tr.From, queue); err != nil {
		return err
	}
	server, note, err := s.server(queue, opts.Stage)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, note.Close()) }()
	server.Step, server.TotalSteps = tr.From.Step, tr.TotalSteps
	if tr.From.Step == 0 {
		if err := s.offer(ctx, 0); err != nil {
			return err
		}
	}
	if err := server.Open(ctx, tr.From.Published, tr.From.IsCurrent()); err != nil {
		return err
	}
	tr.Publisher = publishing{s, server}
	tr.Checkpointer = announcing{&trimming{Checkpointer: tr.Checkpointer, queue: queue}, server}
	err = server.Serve(ctx, stop, s.cfg.Trainer.ListenAddress, func(ctx context.Context) error { return trainer.New(tr).Run(ctx, stop) })
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

// publishing is a Publisher for explorers of other processes. The engine keeps the version too, so that a checkpoint is the same as in mode both.
type publishing struct {
	*stage
	server *fleet.Server
}

// Publish implements trainer.Publisher.
func (p publishing) Publish(ctx context.Context, version int64) error {
	return errors.Join(p.server.Publish(ctx, version), p.offer(ctx, version))
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

// beginning restores the queue from the beginning of its log if there is no checkpoint, which would say where to start.
func beginning(at trainer.Progress, queue trinity.Buffer) error {
	if at.Step > 0 {
		return nil
	}
	return queue.Restore(trinity.SourceState{})
}
