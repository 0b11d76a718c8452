package sampler

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine/cpu/kernel"
	"github.com/trinity-go/trinity/modelfile"
)

// Sampler continues prompts with one model. It implements [trinity.Sampler].
type Sampler struct {
	cfg  modelfile.Config
	opts Options

	mu     sync.Mutex
	wake   sync.Cond // on mu: something was queued, cancelled or closed
	queue  queue     // on mu: not all of their completions are sequences yet, in order of arrival
	nextID int64     // on mu
	closed bool      // on mu
	unfit  error     // on mu: why the weights cannot sample
	stats  Stats     // on mu

	cancelling atomic.Bool // some request is cancelled and not yet let go
	ended      chan struct{}
	freed      error // of giving back the memory; read after ended

	gate     sync.Mutex // held by a step, and by an update
	adapters adapters
	scheduler
}

var _ trinity.Sampler = (*Sampler)(nil)

// Stats count what a sampler did since it was made.
type Stats struct {
	Sampled   int64         // tokens drawn
	Prefilled int64         // tokens of prompts, and of preempted sequences, computed
	Reused    int64         // prompt tokens that were shared or copied instead
	Hits      int64         // completions that found their prompt computed, or being computed
	Prompts   int64         // completions that had to start their prompt
	Preempted int64         // times that a sequence gave up its pages to older ones, to be computed again
	Steps     int64         // passes through the model
	Busy      time.Duration // in steps
	Running   int           // sequences now, preempted ones included
	Queued    int           // requests waiting now
	Cached    int           // tokens that the pages of the K/V cache in use now have room for, retained pages included
}

// New plans a sampler's memory and starts its scheduler. It samples once [Sampler.Update] has given it weights, and holds memory and a
// goroutine until Close.
func New(cfg modelfile.Config, opts Options) (*Sampler, error) {
	opts, err := opts.withDefaults(&cfg)
	if err != nil {
		return nil, err
	}
	s := &Sampler{cfg: cfg, opts: opts, ended: make(chan struct{}), unfit: errors.New("no weights yet: call Update first"), adapters: newAdapters()}
	s.wake.L = &s.mu
	arena := kernel.NewArena()
	model, err := newModel(&s.cfg, opts, arena)
	if err != nil {
		arena.Free()
		return nil, fmt.Errorf("sampler: %w; lower MaxTokens (%d) or MaxSequences (%d)", err, opts.MaxTokens, opts.MaxSequences)
	}
	s.scheduler.init(model, arena, opts)
	go s.run()
	return s, nil
}

// Update replaces the weights, between two steps, with those of the given version. tensor gives them by their Hugging Face names, row-major;
// it is called from this goroutine and its result is not kept. Sequences that are being sampled go on with the new weights. After an error
// every request fails until an Update succeeds, because the weights are of two versions.
func (s *Sampler) Update(version int64, tensor func(name string) ([]float32, error)) error {
	s.gate.Lock()
	defer s.gate.Unlock()
	return s.replaceWeights(version, tensor)
}

// replaceWeights is Update, called with the gate held.
func (s *Sampler) replaceWeights(version int64, tensor func(name string) ([]float32, error)) error {
	if s.isClosed() {
		return fmt.Errorf("sampler: update to version %d: %w", version, ErrClosed)
	}
	err := s.model.weights.load(&s.cfg, s.opts.Pool, tensor)
	if err != nil {
		err = fmt.Errorf("weights of version %d: %w", version, err)
	}
	s.mu.Lock()
	s.unfit = err
	s.mu.Unlock()
	if err != nil {
		s.abandon(err)
		return err
	}
	s.adapters.policy.version, s.adapters.base.version = version, version
	s.outdate(nil)
	return nil
}

// Sample returns p.N completions of a prompt. It queues behind earlier requests while sequences or pages are short, and gives up when
// ctx is done; the error then wraps the context's cause.
func (s *Sampler) Sample(ctx context.Context, prompt trinity.Prompt, p trinity.SamplingParams) ([]trinity.Completion, error) {
	r, err := s.newRequest(prompt.Tokens, p)
	if err != nil {
		return nil, err
	}
	if err := s.enqueue(r); err != nil {
		return nil, err
	}
	return r.wait(ctx, s)
}

func (s *Sampler) enqueue(r *request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	if s.unfit != nil {
		return fmt.Errorf("sampler: %w", s.unfit)
	}
	s.nextID++
	r.id = s.nextID
	s.queue.push(r)
	s.wake.Signal()
	return nil
}

// cancel asks the scheduler to let go of a request.
func (s *Sampler) cancel(r *request) {
	r.cancelled.Store(true)
	s.cancelling.Store(true)
}

// Stats says what the sampler did so far.
func (s *Sampler) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	stats := s.stats
	stats.Queued = s.queue.len()
	return stats
}

// Close fails all requests with [ErrClosed], ends the scheduler and frees the memory.
func (s *Sampler) Close() error {
	s.mu.Lock()
	s.closed = true
	s.wake.Signal()
	s.mu.Unlock()
	<-s.ended
	return s.freed
}

func (s *Sampler) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// run is the scheduler's goroutine.
func (s *Sampler) run() {
	for s.await() {
		s.gate.Lock()
		s.step()
		s.gate.Unlock()
	}
	s.gate.Lock()
	defer s.gate.Unlock()
	s.abandon(ErrClosed)
	s.freed = s.arena.Free()
	close(s.ended)
}

// await returns true once there is something to do, false when the sampler is closed.
func (s *Sampler) await() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.closed && s.queue.len() == 0 && s.stats.Running == 0 {
		s.wake.Wait()
	}
	return !s.closed
}
