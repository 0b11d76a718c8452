package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"

	"github.com/trinity-go/trinity"
)

// shelf keeps the environments of a stage that can be used again, while no rollout uses them.
type shelf struct {
	mu     sync.Mutex
	kept   []trinity.Reusable
	closed bool
}

// shelf returns the shelf of the environment with its arguments, which all tasksets share.
func (p *playArgs) shelf(host trinity.Host) (*shelf, error) {
	args, err := json.Marshal(p.opener)
	if err != nil {
		return nil, err
	}
	opened, err := host.Open("environment "+p.Environment+" "+string(args), func(io.Writer) (io.Closer, error) { return &shelf{}, nil })
	if err != nil {
		return nil, err
	}
	return opened.(*shelf), nil
}

// open returns an environment for the rollout's task: one that was kept, or a new one.
func (p *playArgs) open(ctx context.Context, r *trinity.Rollout) (trinity.Environment, error) {
	if !p.reusable.Load() {
		return p.opener.OpenEnvironment(ctx, r.Task)
	}
	s, err := p.shelf(r.Host)
	if err != nil {
		return nil, err
	}
	for env := s.take(); env != nil; env = s.take() {
		if env.Reuse(ctx, r.Task) == nil {
			return env, nil
		}
		_ = env.Close() // a new one says what is wrong
	}
	return p.opener.OpenEnvironment(ctx, r.Task)
}

// keep keeps the environment for a later rollout, and reports whether it does.
func (p *playArgs) keep(r *trinity.Rollout, env trinity.Environment) bool {
	reusable, ok := env.(trinity.Reusable)
	if !ok {
		return false
	}
	p.reusable.Store(true)
	s, err := p.shelf(r.Host)
	return err == nil && s.put(reusable)
}

func (s *shelf) take() trinity.Reusable {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.kept) == 0 {
		return nil
	}
	last := len(s.kept) - 1
	env := s.kept[last]
	s.kept = s.kept[:last]
	return env
}

func (s *shelf) put(env trinity.Reusable) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.kept = append(s.kept, env)
	}
	return !s.closed
}

// Close closes the environments that are kept.
func (s *shelf) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	errs := make([]error, len(s.kept))
	var wg sync.WaitGroup
	for i, env := range s.kept {
		wg.Go(func() { errs[i] = env.Close() })
	}
	wg.Wait()
	return errors.Join(errs...)
}
