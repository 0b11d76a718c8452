package served

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Resident implements weights.Resident: the servers keep their weights when a run ends.
func (s *Sampler) Resident() {}

// LoadWeights implements weights.Loader. A server that fails is left out; it is an error if all do.
func (s *Sampler) LoadWeights(ctx context.Context, dir string, version int64) error {
	if s.mayLoad != nil {
		return s.mayLoad
	}
	dir, err := filepath.Abs(dir) // the servers have other working directories
	if err != nil {
		return err
	}
	s.loading.Lock()
	defer s.loading.Unlock()
	late := fmt.Errorf("load_timeout of %v passed", s.loadTimeout)
	limited, cancel := context.WithTimeoutCause(ctx, s.loadTimeout, late)
	defer cancel()
	name, servers := s.nameOf(version), s.pool.reachable(limited)
	errs := make([]error, len(servers))
	var all sync.WaitGroup
	for i, at := range servers {
		all.Go(func() {
			s.pool.unproven(at, version, name)
			errs[i] = s.deliver(limited, at, dir, name, version)
		})
	}
	all.Wait()
	defer s.pool.proved(servers)
	if ctx.Err() != nil {
		return fmt.Errorf("loading version %d into the servers: %w", version, context.Cause(ctx))
	}
	return s.pool.end(name, version, servers, errs)
}

// nameOf is how the servers call a version of this run. A server that has weights of another name has
// restarted, or another run has given it weights.
func (s *Sampler) nameOf(version int64) string { return s.mark + "-" + strconv.FormatInt(version, 10) }

func (s *Sampler) versionOf(name string) (int64, bool) {
	digits, ok := strings.CutPrefix(name, s.mark+"-")
	version, err := strconv.ParseInt(digits, 10, 64)
	return version, ok && err == nil
}

// reachable returns the servers that may take weights: those in use, and those left out that answer.
func (p *pool) reachable(ctx context.Context) (all []*server) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	p.mu.Lock()
	out := map[*server]bool{}
	for _, s := range p.servers {
		out[s] = s.out
	}
	weights := p.weights
	p.mu.Unlock()
	for _, s := range p.servers {
		if out[s] {
			if _, err := s.has(ctx, weights); err != nil {
				continue
			}
		}
		all = append(all, s)
	}
	return all
}

// end brings a version into use on the servers that have loaded it.
func (p *pool) end(name string, version int64, servers []*server, errs []error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(servers) == 0 {
		return fmt.Errorf("no server answers that version %d could be loaded into", version)
	}
	loaded := map[*server]bool{}
	for i, s := range servers {
		if loaded[s] = errs[i] == nil; loaded[s] {
			s.version, s.next = version, version
		}
	}
	if !anyTrue(loaded) {
		return errors.New(oneLine(errs))
	}
	p.weights = name
	for i, s := range servers {
		if loaded[s] {
			p.takeBack(s)
			continue
		}
		s.suspect, s.why = true, errs[i]
		p.leaveOut(s)
	}
	for _, s := range p.servers {
		s.suspect = s.suspect || !loaded[s] // it lacks this version
	}
	return nil
}

// oneLine joins the errors of several servers.
func oneLine(errs []error) string {
	var all []string
	for _, err := range errs {
		all = append(all, err.Error())
	}
	return strings.Join(all, "; ")
}

func anyTrue(of map[*server]bool) bool {
	for _, is := range of {
		if is {
			return true
		}
	}
	return false
}

// versions returns the versions that a server may sample with now.
func (p *pool) versions(s *server) [2]int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return [2]int64{s.version, s.next}
}

// loaded reports whether the servers have weights that load gave them.
func (p *pool) loaded() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.weights != ""
}

// computed notes that a server has a sequence in its cache.
func (p *pool) computed(prompt, reply []int32, at *server) {
	if len(p.servers) < 2 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.places.remember(append(append([]int32{}, prompt...), reply...), at)
}
