package served

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/retry"
)

// loader gives the servers their weights.
type loader struct {
	pool   *pool
	proofs proofs
	sleep  sleepControl
	others others

	loading sync.Mutex
	newest  version                // that the servers have loaded last; loading guards it
	mayLoad error                  // why the servers cannot be given weights; nil if they may
	files   func(dir string) error // refuses a directory without weights of the model

	sending sync.Mutex    // a sender gives weights to one server at a time
	bucket  int64         // bytes that a sender sends at once
	phase   time.Duration // that a phase of a handover may take
}

// weightState is which weights a server has.
type weightState struct {
	version int64  // of its weights
	weights string // name of its weights; "" until the first load
	next    int64  // version that is being loaded; version otherwise
	coming  string // name of the weights that are being loaded; "" otherwise
}

// took notes that a server has loaded a version. The lock is held.
func (w *weightState) took(v version) { w.version, w.next, w.weights = v.number, v.number, v.name }

// version is one version of the weights.
type version struct {
	number int64
	name   string // as the servers call it
	dir    string
	from   engine.WeightSender // nil if the version is in dir
}

// LoadWeights implements weights.Loader. A server that fails is left out. If all fail, that is an error,
// and if none answers, LoadWeights waits as long as requests do.
func (s *sampler) LoadWeights(ctx context.Context, dir string, number int64) error {
	l := &s.loader
	if l.mayLoad != nil {
		return l.mayLoad
	}
	dir, err := filepath.Abs(dir) // the servers have other working directories
	if err != nil {
		return err
	}
	if err := l.files(dir); err != nil {
		return fmt.Errorf("version %d is given to no server: %w", number, err)
	}
	return l.bring(ctx, version{number: number, dir: dir})
}

// bring gives a version its name and brings it into use.
func (l *loader) bring(ctx context.Context, v version) error {
	v.name = l.pool.servers.nameOf(v.number)
	l.loading.Lock()
	defer l.loading.Unlock()
	if l.pool.servers.shares {
		l.pool.turn.set(false, true) // the servers have the GPUs again, and requests wait for the proof
	}
	begun := time.Now()
	for pause := l.pool.pause; ; pause = min(2*pause, mostPause) {
		err := l.loadIntoAll(ctx, v)
		if err == nil {
			l.newest = v
			l.pool.turn.set(false, false)
			return nil
		}
		if !errors.Is(err, errGone) {
			return err
		}
		if err := l.pool.hopeless(); err != nil {
			return err
		}
		if patience := l.pool.servers.patience; time.Since(begun) > patience {
			return &trinity.EngineError{Err: fmt.Errorf("no server has taken version %d for %v: %s", v.number, patience, l.pool.reasons())}
		}
		if err := rest(ctx, pause); err != nil {
			return fmt.Errorf("loading version %d into the servers: %w (%s)", v.number, err, l.pool.reasons())
		}
	}
}

// errGone is the failure of a load if no server answers.
var errGone = errors.New("no server answers")

// loadIntoAll loads a version into the servers that answer.
func (l *loader) loadIntoAll(ctx context.Context, v version) error {
	limited, cancel := l.limitLoad(ctx)
	defer cancel()
	servers := l.reachable(limited)
	errs := atOnce(servers, func(s *server) error {
		l.proofs.unproven(s, v.number, v.name)
		return l.deliver(limited, s, v)
	})
	defer l.proofs.proved(servers)
	if ctx.Err() != nil {
		return fmt.Errorf("loading version %d into the servers: %w", v.number, context.Cause(ctx))
	}
	if err := l.end(v, servers, errs); err != nil {
		return err
	}
	return l.proofs.compareDigests(limited, v, loaded(servers, errs))
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
func (l *loader) limitLoad(ctx context.Context) (context.Context, context.CancelFunc) {
	return within(ctx, l.pool.servers.limit, "load_timeout of %v passed", l.pool.servers.limit)
}

// reachable returns the servers that may take weights: those in use, and those left out that answer.
func (l *loader) reachable(ctx context.Context) (all []*server) {
	ctx, cancel := context.WithTimeout(ctx, reachTime)
	defer cancel()
	weights := l.pool.servers.wanted()
	errs := atOnce(l.pool.servers.all, func(s *server) (err error) {
		if l.pool.servers.now(s).out {
			_, err = s.has(ctx, weights)
		}
		return err
	})
	return loaded(l.pool.servers.all, errs)
}

// reachTime is the time that a server which is left out has to show that it may take weights.
const reachTime = 5 * time.Second

// end brings a version into use on the servers that have loaded it. It returns errGone if none answered.
func (l *loader) end(v version, servers []*server, errs []error) error {
	l.pool.servers.mu.Lock()
	defer l.pool.servers.mu.Unlock()
	loaded, some, gone := map[*server]bool{}, false, true
	for i, s := range servers {
		if errs[i] == nil {
			s.took(v)
			loaded[s], some = true, true
		}
		gone = gone && isGone(errs[i])
	}
	if some {
		l.pool.servers.weights = v.name
	} else if !gone {
		return several(errs)
	}
	for i, s := range servers {
		if loaded[s] {
			l.pool.takeBack(s)
			continue
		}
		s.suspect, s.why = true, errs[i]
		l.pool.leaveOut(s)
	}
	for _, s := range l.pool.servers.all {
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
