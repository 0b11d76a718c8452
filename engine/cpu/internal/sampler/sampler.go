package sampler

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
	"github.com/trinity-go/trinity/model"
)

// Sampler continues prompts with one model. It implements [trinity.Sampler].
type Sampler struct {
	cfg       model.Config
	opts      Options
	inbox     *inbox
	adapters  *adapters
	gate      sync.Mutex // held during a step or an update of weights; guards scheduler
	scheduler *scheduler
	arena     *kernel.Arena // all memory but that of adapters
	ended     chan struct{} // closed when the scheduler's goroutine ends
	freed     error         // from freeing the memory; valid once ended is closed
}

var _ trinity.Sampler = (*Sampler)(nil)

// Stats count what a sampler has done since New.
type Stats struct {
	Sampled   int64         // tokens drawn
	Prefilled int64         // tokens of prompts and of preempted sequences computed
	Reused    int64         // prompt tokens shared or copied instead of computed
	Hits      int64         // completions whose prompt was already computed or being computed
	Prompts   int64         // completions that had to start their prompt
	Preempted int64         // times that a sequence gave up its pages to older ones, to be recomputed
	Steps     int64         // passes through the model
	Busy      time.Duration // in steps
	Running   int           // sequences now, including preempted ones
	Queued    int           // requests waiting now
	Drafted   int64         // draft tokens verified
	Accepted  int64         // of them, those that were drawn
	Saved     time.Duration // by drafts, estimated
	Cached    int           // tokens that the K/V cache's pages in use now can hold, including idle pages
}

// New takes a sampler's memory and starts its scheduler. It samples after [Sampler.Update] has
// given it weights, and holds memory and a goroutine until Close.
func New(cfg model.Config, opts Options) (*Sampler, error) {
	opts, err := opts.withDefaults(&cfg)
	if err != nil {
		return nil, err
	}
	s := &Sampler{
		cfg: cfg, opts: opts, inbox: newInbox(), adapters: newAdapters(), arena: kernel.NewArena(), ended: make(chan struct{}),
	}
	model, err := newNetwork(&s.cfg, opts, s.arena)
	if err != nil {
		s.arena.Free()
		return nil, fmt.Errorf("sampler: %w; lower MaxTokens (%d) or MaxSequences (%d)", err, opts.MaxTokens, opts.MaxSequences)
	}
	s.scheduler = newScheduler(model, s.inbox, opts)
	go s.run()
	return s, nil
}

// run runs the scheduler until Close.
func (s *Sampler) run() {
	for s.inbox.wait() {
		s.gate.Lock()
		if s.inbox.isResting() {
			s.scheduler.dropCancelled() // their callers wait for it, and the rest may end with the sampler
		} else {
			s.scheduler.step()
		}
		s.gate.Unlock()
	}
	s.gate.Lock()
	defer s.gate.Unlock()
	s.scheduler.abandon(ErrClosed)
	s.freed = s.arena.Free()
	close(s.ended)
}

// Update replaces the weights by those of a version, between two steps. tensor returns them by
// their Hugging Face names, row-major; Update calls it from this goroutine and does not keep the
// result. Running sequences continue with the new weights. After an error the weights are a mixture
// of two versions, so every request fails until an Update succeeds.
func (s *Sampler) Update(version int64, tensor func(name string) ([]float32, error)) error {
	return s.UpdateFrom(version, Weights{Tensor: tensor})
}

// UpdateFrom is Update with weights that may be packed. It ends a rest.
func (s *Sampler) UpdateFrom(version int64, w Weights) error {
	s.gate.Lock()
	defer s.gate.Unlock()
	if err := s.replaceWeights(version, w); err != nil {
		return err
	}
	s.inbox.rest(false)
	return nil
}

// Rest returns once no step runs, and none begins before the next Update: the weights that the sampler reads in place may change.
// Requests wait; one whose context is cancelled ends.
func (s *Sampler) Rest() {
	s.inbox.rest(true)
	s.gate.Lock() // a step under way ends
	defer s.gate.Unlock()
}

// InPlace reports whether the sampler reads the weights of its updates where they are.
func (s *Sampler) InPlace() bool { return s.opts.InPlace }

// replaceWeights is Update; the caller holds the gate.
func (s *Sampler) replaceWeights(version int64, w Weights) error {
	if s.inbox.isClosed() {
		return fmt.Errorf("sampler: update to version %d: %w", version, ErrClosed)
	}
	err := s.scheduler.model.weights.load(&s.cfg, &s.opts, w)
	if err != nil {
		err = fmt.Errorf("weights of version %d: %w", version, err)
	}
	s.inbox.setUnfit(err)
	if err != nil {
		s.scheduler.abandon(err)
		return err
	}
	s.adapters.policy.version, s.adapters.base.version = version, version
	s.outdate(nil)
	return nil
}

// outdate makes the K/V of replaced weights unusable: those of an adapter, or all if a is nil. The
// caller holds the gate.
func (s *Sampler) outdate(a *adapter) {
	if s.opts.KeepAcrossVersions {
		s.adapters.replant(a)
	}
	s.scheduler.outdate(a)
}

// UpdateAdapter replaces the policy's adapter, between two steps; requests that name no adapter use
// it. The model's own weights do not change. tensor returns the tensors of lora.Tensors by name,
// row-major; UpdateAdapter calls it from this goroutine and does not keep the result. The new
// adapter may have any rank. Running sequences continue with it. After an error the old adapter
// remains.
func (s *Sampler) UpdateAdapter(version int64, lora *model.LoRA, tensor func(name string) ([]float32, error)) error {
	return s.setAdapter("", version, lora, tensor)
}

// SetAdapter adds an adapter, or replaces the adapter of that name as UpdateAdapter does. A sampler
// holds at most Options.MaxAdapters, each of at most Options.MaxAdapterRank. An adapter takes
// 4·rank·(inputs + outputs) bytes for every linear map that it adapts.
func (s *Sampler) SetAdapter(name string, version int64, lora *model.LoRA, tensor func(name string) ([]float32, error)) error {
	if name == "" || name == trinity.BaseAdapter {
		return fmt.Errorf("sampler: an adapter cannot be called %q, which is a name for the model itself; choose another name", name)
	}
	if lora.Rank > s.opts.MaxAdapterRank {
		return fmt.Errorf("sampler: adapter %q has rank %d; the sampler takes up to %d", name, lora.Rank, s.opts.MaxAdapterRank)
	}
	return s.setAdapter(name, version, lora, tensor)
}

// setAdapter replaces the adapter of a name, or the policy's adapter if name is "".
func (s *Sampler) setAdapter(name string, version int64, lora *model.LoRA, tensor func(name string) ([]float32, error)) error {
	weights, err := pack(&s.cfg, s.opts.Pool, lora, tensor)
	if err != nil {
		return fmt.Errorf("sampler: adapter %q, version %d: %w", name, version, err)
	}
	s.gate.Lock()
	defer s.gate.Unlock()
	if s.inbox.isClosed() {
		return fmt.Errorf("sampler: adapter %q: %w", name, ErrClosed)
	}
	a, err := s.adapters.findOrAdd(name, s.opts.MaxAdapters)
	if err != nil {
		return err
	}
	a.weights, a.version = weights, version
	s.outdate(a)
	return nil
}

var _ engine.AdapterLoader = (*Sampler)(nil)

// LoadAdapter implements engine.AdapterLoader.
func (s *Sampler) LoadAdapter(_ context.Context, name, dir string, version int64) error {
	file, err := model.OpenAdapter(dir, &s.cfg)
	if err != nil {
		return err
	}
	defer file.Close()
	return s.SetAdapter(name, version, &file.LoRA, file.Float32)
}

// DropAdapter implements engine.AdapterLoader. Requests that use the adapter keep it until they
// end.
func (s *Sampler) DropAdapter(_ context.Context, name string) error {
	s.gate.Lock()
	defer s.gate.Unlock()
	a, err := s.adapters.remove(name)
	if err != nil {
		return err
	}
	s.outdate(a)
	return nil
}

// Adapters implements engine.AdapterLoader.
func (s *Sampler) Adapters() []string { return s.adapters.names() }

// Sample returns p.N completions of a prompt. It waits behind earlier requests while sequences or
// pages are short. If ctx is cancelled, it returns an error that wraps the context's cause.
func (s *Sampler) Sample(ctx context.Context, prompt trinity.Prompt, p trinity.SamplingParams) ([]trinity.Completion, error) {
	if err := engine.CheckPrompt(&prompt, "the embedded engine"); err != nil {
		return nil, err
	}
	r, err := s.newRequest(prompt.Tokens, p)
	if err != nil {
		return nil, err
	}
	r.experts = prompt.Experts
	if err := s.inbox.push(r); err != nil {
		return nil, err
	}
	return r.wait(ctx, s.inbox)
}

// Stats returns what the sampler has done so far.
func (s *Sampler) Stats() Stats { return s.inbox.snapshot() }

// Drafts returns how many draft tokens the steps have verified, how many of them were drawn, and the time
// that these saved, estimated.
func (s *Sampler) Drafts() (verified, accepted int64, saved time.Duration) {
	stats := s.Stats()
	return stats.Drafted, stats.Accepted, stats.Saved
}

// Close fails all requests with [ErrClosed], ends the scheduler and frees the memory.
func (s *Sampler) Close() error {
	s.inbox.close()
	<-s.ended
	return s.freed
}
