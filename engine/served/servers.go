package served

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

// servers are those of a sampler: one list, which the parts of the sampler share with its lock.
type servers struct {
	all      []*server
	own      *owned // nil if they run already
	say      func(string)
	patience time.Duration // that all of them may be gone
	limit    time.Duration // of a load, of falling asleep and of waking
	adapter  bool          // the policy is an adapter
	shares   bool          // they share GPUs with the engine that trains
	mark     string        // begins the names of weights of this sampler

	mu      sync.Mutex
	weights string // name of the weights that all must have; "" until the first load
}

// server is one of the servers.
type server struct {
	url string
	endpoint
	state
	digestState
}

// state is what is known of a server at one time. The lock of the servers guards it.
type state struct {
	traffic
	weightState
	proof
	sleepState
}

// name is how errors call a server.
func (s *server) name() string { return s.about().product + " at " + s.url }

// now returns the state of a server.
func (l *servers) now(s *server) state {
	l.mu.Lock()
	defer l.mu.Unlock()
	return s.state
}

// nameOf is how the servers call a version of this run. A server that has weights of another name has
// restarted, or another run has given it weights.
func (l *servers) nameOf(version int64) string { return l.mark + "-" + strconv.FormatInt(version, 10) }

func (l *servers) versionOf(name string) (int64, bool) {
	digits, ok := strings.CutPrefix(name, l.mark+"-")
	version, err := strconv.ParseInt(digits, 10, 64)
	return version, ok && err == nil
}

// wanted returns the name of the weights that all must have.
func (l *servers) wanted() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.weights
}

// atOnce calls do for all servers of a list at the same time and returns their errors.
func atOnce(list []*server, do func(*server) error) []error {
	errs := make([]error, len(list))
	var all sync.WaitGroup
	for i, s := range list {
		all.Go(func() { errs[i] = do(s) })
	}
	all.Wait()
	return errs
}

// within returns a context that ends after a time with an error.
func within(ctx context.Context, limit time.Duration, format string, args ...any) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf(format, args...))
}

// rest waits. It returns an error if ctx ends before.
func rest(ctx context.Context, pause time.Duration) error {
	select {
	case <-time.After(pause):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
