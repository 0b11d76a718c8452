package served

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/retry"
)

// Resident implements weights.Resident: the servers keep their weights when a run ends.
func (s *Sampler) Resident() {}

// version is one version of the weights.
type version struct {
	number int64
	name   string // as the servers call it
	dir    string
	from   engine.WeightSender // nil if the version is in dir
}

// LoadWeights implements weights.Loader. A server that fails is left out. If all fail, that is an error,
// and if none answers, LoadWeights waits as long as requests do.
func (s *Sampler) LoadWeights(ctx context.Context, dir string, number int64) error {
	if s.mayLoad != nil {
		return s.mayLoad
	}
	dir, err := filepath.Abs(dir) // the servers have other working directories
	if err != nil {
		return err
	}
	if err := s.files(dir); err != nil {
		return fmt.Errorf("version %d is given to no server: %w", number, err)
	}
	return s.bring(ctx, version{number: number, name: s.nameOf(number), dir: dir})
}

// bring brings a version into use.
func (s *Sampler) bring(ctx context.Context, v version) error {
	s.loading.Lock()
	defer s.loading.Unlock()
	if s.shares {
		s.pool.turn.set(false, true) // the servers have the GPUs again, and requests wait for the proof
	}
	begun := time.Now()
	for pause := s.pool.pause; ; pause = min(2*pause, mostPause) {
		err := s.loadIntoAll(ctx, v)
		if err == nil {
			s.newest = v
			s.pool.turn.set(false, false)
			return nil
		}
		if !errors.Is(err, errGone) {
			return err
		}
		if err := s.pool.hopeless(); err != nil {
			return err
		}
		if time.Since(begun) > s.pool.patience {
			return &trinity.EngineError{Err: fmt.Errorf("no server has taken version %d for %v: %s", v.number, s.pool.patience, s.pool.told())}
		}
		if err := s.pool.rest(ctx, pause); err != nil {
			return fmt.Errorf("loading version %d into the servers: %w (%s)", v.number, err, s.pool.told())
		}
	}
}

// errGone is the failure of a load if no server answers.
var errGone = errors.New("no server answers")

// loadIntoAll loads a version into the servers that answer.
func (s *Sampler) loadIntoAll(ctx context.Context, v version) error {
	limited, cancel := s.limitLoad(ctx)
	defer cancel()
	servers := s.pool.reachable(limited)
	errs := make([]error, len(servers))
	var all sync.WaitGroup
	for i, at := range servers {
		all.Go(func() {
			s.pool.unproven(at, v.number, v.name)
			errs[i] = s.deliver(limited, at, v)
		})
	}
	all.Wait()
	defer s.pool.proved(servers)
	if ctx.Err() != nil {
		return fmt.Errorf("loading version %d into the servers: %w", v.number, context.Cause(ctx))
	}
	if err := s.pool.end(v, servers, errs); err != nil {
		return err
	}
	return s.compareDigests(limited, v, loaded(servers, errs))
}

// loaded returns the servers that have no error.
func loaded(servers []*server, errs []error) (all []*server) {
	for i, s := range servers {
		if errs[i] == nil {
			all = append(all, s)
		}
	}
	return all
}

// limitLoad returns a context that ends when load_timeout has passed.
func (s *Sampler) limitLoad(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, s.loadTimeout, fmt.Errorf("load_timeout of %v passed", s.loadTimeout))
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
	ctx, cancel := context.WithTimeout(ctx, reachTime)
	defer cancel()
	p.mu.Lock()
	out := map[*server]bool{}
	for _, s := range p.servers {
		out[s] = s.out
	}
	weights := p.weights
	p.mu.Unlock()
	answers := make([]error, len(p.servers))
	var asked sync.WaitGroup
	for i, s := range p.servers {
		if out[s] {
			asked.Go(func() { _, answers[i] = s.has(ctx, weights) })
		}
	}
	asked.Wait()
	for i, s := range p.servers {
		if answers[i] == nil {
			all = append(all, s)
		}
	}
	return all
}

// reachTime is the time that a server which is left out has to show that it may take weights.
const reachTime = 5 * time.Second

// end brings a version into use on the servers that have loaded it. It returns errGone if none answered.
func (p *pool) end(v version, servers []*server, errs []error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	loaded, gone := map[*server]bool{}, true
	for i, s := range servers {
		if loaded[s] = errs[i] == nil; loaded[s] {
			s.version, s.next, s.holds = v.number, v.number, v.name
		}
		gone = gone && isGone(errs[i])
	}
	if anyTrue(loaded) {
		p.weights = v.name
	} else if !gone {
		return several(errs)
	}
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
	if gone {
		return errGone
	}
	return nil
}

// isGone reports whether no server answered, only something between, or nothing.
func isGone(err error) bool {
	switch statusOf(err) {
	case 0, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return retry.IsTemporary(err)
	}
	return false
}

// several is an error whose text is one line. It keeps its causes, since one may be a trinity.LostError.
type several []error

func (s several) Error() string { return oneLine(s) }

// Unwrap returns the errors.
func (s several) Unwrap() []error { return s }

// both returns two errors as one, in one line. Either may be nil.
func both(err, then error) error {
	switch {
	case err == nil:
		return then
	case then == nil:
		return err
	}
	return several{err, then}
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
