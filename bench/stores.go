package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/buffer"
	"github.com/trinity-go/trinity/internal/experience"
	"github.com/trinity-go/trinity/registry"
)

const (
	storeBatch  = 64              // experiences that are put and taken at once
	storeTime   = 1 * time.Second // of a run, at least
	recoverable = 100_000         // experiences of the log that a run recovers
)

// experiences are of a prompt of 128 tokens and an answer of 384, with their text; every token of the answer has the same advantage.
func experiences(n int) trinity.Group {
	const prompt, whole = 128, 512
	rng := rand.New(rand.NewPCG(1, 2))
	g := make(trinity.Group, n)
	for i := range g {
		e := &trinity.Experience{
			ID: trinity.ExperienceID{Task: "taskset/1", Run: i}, PromptLen: prompt, Tokens: make([]int32, whole), Mask: make([]bool, whole),
			Logprobs: make([]float32, whole), Advantages: make([]float32, whole), Prompt: strings.Repeat("q", 400), Response: strings.Repeat("a", 1200),
			Temperature: 1, Reward: trinity.Reward{Value: 1, Valid: true},
		}
		for t := range e.Tokens {
			e.Tokens[t] = rng.Int32N(49152)
			if t >= prompt {
				e.Mask[t], e.Logprobs[t], e.Advantages[t] = true, -rng.Float32(), 0.5
			}
		}
		g[i] = e
	}
	return g
}

// repeat calls batch, which handles storeBatch experiences, until the time of a run has passed.
func repeat(batch func() error) (sample, error) {
	var took []time.Duration
	begin := time.Now()
	for time.Since(begin) < storeTime {
		start := time.Now()
		if err := batch(); err != nil {
			return sample{}, err
		}
		took = append(took, time.Since(start))
	}
	rate := float64(storeBatch*len(took)) / time.Since(begin).Seconds()
	slices.Sort(took)
	return sample{Value: rate, P99: took[len(took)*99/100].Seconds() * 1e3}, nil
}

// coding is experiences to bytes, or back.
type coding struct {
	exps   trinity.Group
	data   [][]byte
	decode bool
}

func newEncoding(*assignment) (task, error) { return newCoding(false) }

func newDecoding(*assignment) (task, error) { return newCoding(true) }

func newCoding(decode bool) (task, error) {
	c := &coding{exps: experiences(storeBatch), data: make([][]byte, storeBatch), decode: decode}
	return c, c.encodeAll()
}

func (c *coding) encodeAll() (err error) {
	for i, e := range c.exps {
		if c.data[i], err = experience.Append(c.data[i][:0], e); err != nil {
			return err
		}
	}
	return nil
}

func (c *coding) decodeAll() error {
	for _, data := range c.data {
		if _, err := experience.Decode(data); err != nil {
			return err
		}
	}
	return nil
}

func (c *coding) run(int) (sample, error) {
	batch := c.encodeAll
	if c.decode {
		batch = c.decodeAll
	}
	s, err := repeat(batch)
	for _, data := range c.data {
		s.Bytes += len(data) / storeBatch
	}
	return s, err
}

// storing is batches that are put into a buffer and taken again.
type storing struct {
	buffer trinity.Buffer
	sink   trinity.Sink
	exps   trinity.Group
	step   int64
	size   func() (bytes int64, err error) // of what the buffer has written; nil if it writes nothing
}

func newMemoryQueue(*assignment) (task, error) {
	return newStoring(buffer.NewQueue(storeBatch, 0, nil), nil), nil
}

func newDurableQueue(a *assignment) (task, error) {
	log, err := buffer.OpenLog(filepath.Join(a.Dir, "log"))
	if err != nil {
		return nil, err
	}
	return newStoring(buffer.NewQueue(storeBatch, 1<<30, log), func() (int64, error) { return sizeOfFiles(log.String()) }), nil
}

func newSQLite(a *assignment) (task, error) {
	if err := os.MkdirAll(a.Dir, 0o755); err != nil {
		return nil, err
	}
	opener, err := registry.Buffers.Build("sql")
	if err != nil {
		return nil, err
	}
	b, err := opener.OpenBuffer(context.Background(), trinity.BufferSpec{Name: "bench", Path: "sqlite:///" + filepath.Join(a.Dir, "x.db"), Capacity: storeBatch})
	if err != nil {
		return nil, err
	}
	return newStoring(b, func() (int64, error) { return sizeOfFiles(a.Dir) }), nil
}

func newStoring(b trinity.Buffer, size func() (int64, error)) *storing {
	return &storing{buffer: b, sink: b.Sink("explorer"), exps: experiences(storeBatch), size: size}
}

func (s *storing) run(int) (sample, error) {
	ctx := context.Background()
	before, err := s.written()
	if err != nil {
		return sample{}, err
	}
	first := s.step
	out, err := repeat(func() error {
		s.step++
		for _, e := range s.exps {
			e.ID.Step = s.step
		}
		d := trinity.Delivery{Groups: []trinity.Group{s.exps}, Cursor: []byte("1")}
		if err := s.sink.Put(ctx, d); err != nil {
			return err
		}
		got, err := s.buffer.Take(ctx, trinity.Want{N: storeBatch})
		taken := got.Experiences()
		if err == nil && len(taken) != storeBatch {
			err = fmt.Errorf("took %d of %d experiences", len(taken), storeBatch)
		}
		return err
	})
	if err != nil {
		return out, err
	}
	after, err := s.written()
	out.Bytes = int(after-before) / int(storeBatch*(s.step-first))
	return out, err
}

func (s *storing) written() (int64, error) {
	if s.size == nil {
		return 0, nil
	}
	return s.size()
}

// sizeOfFiles is that of all files of a directory, in bytes.
func sizeOfFiles(dir string) (int64, error) {
	entries, err := os.ReadDir(dir)
	var size int64
	for _, e := range entries {
		info, infoErr := e.Info()
		if infoErr != nil {
			return 0, errors.Join(err, infoErr)
		}
		size += info.Size()
	}
	return size, err
}

// recovery is the time until a killed run has its first batch again.
type recovery struct{ dir string }

func newRecovery(a *assignment) (task, error) {
	r := &recovery{filepath.Join(a.Dir, "log")}
	log, err := buffer.OpenLog(r.dir)
	if err != nil {
		return nil, err
	}
	sink, exps := buffer.NewQueue(recoverable, 0, log).Sink("explorer"), experiences(10*storeBatch)
	for step := range int64(recoverable / len(exps)) {
		for _, e := range exps {
			e.ID.Step = step
		}
		if err := sink.Put(context.Background(), trinity.Delivery{Groups: []trinity.Group{exps}}); err != nil {
			return nil, err
		}
	}
	return r, log.Close()
}

func (r *recovery) run(int) (sample, error) {
	start := time.Now()
	log, err := buffer.OpenLog(r.dir)
	if err != nil {
		return sample{}, err
	}
	q := buffer.NewQueue(recoverable, 64<<20, log)
	if err := q.Restore(trinity.SourceState{}); err != nil {
		return sample{}, err
	}
	if _, err := q.Take(context.Background(), trinity.Want{N: storeBatch}); err != nil {
		return sample{}, err
	}
	return sample{Value: time.Since(start).Seconds()}, log.Close()
}
