package sampler

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/modelfile"
)

var _ trinity.AdapterLoader = (*Sampler)(nil)

// adapters are the adapters that requests may name.
type adapters struct {
	policy *adapter            // of requests that name none
	base   *adapter            // the model's own weights
	named  map[string]*adapter // on Sampler.mu
	roots  int64               // given out; on Sampler.mu
}

func newAdapters() adapters {
	return adapters{policy: &adapter{root: -1}, base: &adapter{name: trinity.BaseAdapter, root: -2}, named: map[string]*adapter{}, roots: 2}
}

// UpdateAdapter replaces, between two steps, the adapter of the policy, which requests that name no adapter sample; the model's own weights
// stay. tensor gives the tensors of lora.Tensors by name, row-major; it is called from this goroutine, and what it returns is not kept.
// The new one may have any rank. Sequences that are being sampled go on with the new adapter. After an error the old one is still there.
func (s *Sampler) UpdateAdapter(version int64, lora *modelfile.LoRA, tensor func(name string) ([]float32, error)) error {
	return s.setAdapter("", version, lora, tensor)
}

// SetAdapter adds an adapter, or replaces the one of that name as UpdateAdapter does. At most Options.MaxAdapters are held, of a rank of at
// most Options.MaxAdapterRank; each takes 4·rank·(inputs + outputs) bytes for every linear map that it adapts.
func (s *Sampler) SetAdapter(name string, version int64, lora *modelfile.LoRA, tensor func(name string) ([]float32, error)) error {
	if name == "" || name == trinity.BaseAdapter {
		return fmt.Errorf("sampler: an adapter cannot be called %q, which stands for the model itself; choose another name", name)
	}
	return s.setAdapter(name, version, lora, tensor)
}

func (s *Sampler) setAdapter(name string, version int64, lora *modelfile.LoRA, tensor func(name string) ([]float32, error)) error {
	if name != "" && lora.Rank > s.opts.MaxAdapterRank {
		return fmt.Errorf("sampler: adapter %q has rank %d; the sampler takes up to %d", name, lora.Rank, s.opts.MaxAdapterRank)
	}
	weights, err := pack(&s.cfg, s.opts.Pool, lora, tensor)
	if err != nil {
		return fmt.Errorf("sampler: adapter %q, version %d: %w", name, version, err)
	}
	s.gate.Lock()
	defer s.gate.Unlock()
	a, err := s.placeOf(name)
	if err != nil {
		return err
	}
	a.weights, a.version = weights, version
	s.outdate(a)
	return nil
}

// placeOf finds the adapter of a name, or makes room for it.
func (s *Sampler) placeOf(name string) (*adapter, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fmt.Errorf("sampler: adapter %q: %w", name, ErrClosed)
	}
	if name == "" {
		return s.adapters.policy, nil
	}
	a, ok := s.adapters.named[name]
	if !ok {
		if n := len(s.adapters.named); n >= s.opts.MaxAdapters {
			return nil, fmt.Errorf("sampler: adapter %q: %d adapters are loaded, which is the most: drop one, or raise MaxAdapters", name, n)
		}
		s.adapters.roots++
		a = &adapter{name: name, root: -s.adapters.roots}
		s.adapters.named[name] = a
	}
	return a, nil
}

// LoadAdapter implements trinity.AdapterLoader.
func (s *Sampler) LoadAdapter(_ context.Context, name, dir string, version int64) error {
	file, err := modelfile.OpenAdapter(dir, &s.cfg)
	if err != nil {
		return err
	}
	defer file.Close()
	return s.SetAdapter(name, version, &file.LoRA, file.Float32)
}

// DropAdapter implements trinity.AdapterLoader. Requests that were made with the adapter end with it.
func (s *Sampler) DropAdapter(_ context.Context, name string) error {
	s.gate.Lock()
	defer s.gate.Unlock()
	s.mu.Lock()
	a, ok := s.adapters.named[name]
	delete(s.adapters.named, name)
	s.mu.Unlock()
	if !ok {
		return s.unknown(name)
	}
	s.outdate(a)
	return nil
}

// Adapters implements trinity.AdapterLoader.
func (s *Sampler) Adapters() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.adapters.named))
}

// adapterOf finds what a request names.
func (s *Sampler) adapterOf(name string) (*adapter, error) {
	switch name {
	case "":
		return s.adapters.policy, nil
	case trinity.BaseAdapter:
		return s.adapters.base, nil
	}
	s.mu.Lock()
	a, ok := s.adapters.named[name]
	s.mu.Unlock()
	if !ok {
		return nil, s.unknown(name)
	}
	return a, nil
}

func (s *Sampler) unknown(name string) error {
	loaded := "none is loaded"
	if names := s.Adapters(); len(names) > 0 {
		loaded = "loaded are " + strings.Join(names, ", ")
	}
	return fmt.Errorf("sampler: %w %q; %s", trinity.ErrUnknownAdapter, name, loaded)
}
