package served

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/trinity-go/trinity/engine"
)

// own is a server that the run has started. Requests go to its name, and the name leads to the
// address at which it answers now.
type own struct {
	program engine.Program
	address atomic.Value // string, HOST:PORT
	ended   atomic.Bool  // since the pool has asked last
	starts  atomic.Int64 // after the first one
	vain    atomic.Int64 // ends since it was last of use
	lost    atomic.Value // error, why it is not started again
}

// name is the host of the server's URL.
func (o *own) name() string { return o.program.Name }

// owned are the servers that a sampler has started.
type owned struct {
	programs engine.Programs
	servers  []*own
	say      func(string)
	end      context.CancelFunc
	keeping  sync.WaitGroup
	turn     *turn // of the servers' GPUs
	pause    time.Duration
	pool     atomic.Pointer[pool] // learns of servers that are not started again; nil until they have been opened
}

// start starts servers at the same time and waits until all answer.
func start(ctx context.Context, spec engine.SamplerSpec, programs []engine.Program) (*owned, error) {
	running, end := context.WithCancel(context.Background())
	o := &owned{programs: spec.Start.Place.Programs, say: spec.Say, end: end, turn: &turn{}, pause: firstPause}
	if o.say == nil {
		o.say = func(string) {}
	}
	started := make([]engine.Running, len(programs))
	all, starting := errgroup.WithContext(ctx) // the first failure gives up those that still start
	for i, p := range programs {
		o.servers = append(o.servers, &own{program: p})
		all.Go(func() (err error) {
			started[i], err = o.programs.Start(starting, p)
			return err
		})
	}
	err := all.Wait()
	for i, r := range started {
		switch {
		case r == nil:
		case err != nil:
			o.stop(r)
		default:
			o.servers[i].address.Store(r.Address())
			o.keeping.Go(func() { o.keep(running, o.servers[i], r) })
		}
	}
	if err != nil {
		end()
		return nil, err
	}
	return o, nil
}

// stopTime is the time that the end of a server may take.
const stopTime = time.Minute

// stop ends a server, also if the run has ended.
func (o *owned) stop(r engine.Running) {
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	if err := r.Stop(ctx); err != nil {
		o.say(err.Error())
	}
}

// keep starts a server again whenever it has ended. Its weights are the pool's business, which finds
// that the server has lost them.
func (o *owned) keep(ctx context.Context, s *own, r engine.Running) {
	for r != nil {
		select {
		case <-ctx.Done():
		case <-r.Gone():
		}
		if ctx.Err() != nil {
			o.stop(r)
			return
		}
		why := r.Err()
		o.stop(r)
		r = o.startAgain(ctx, s, why)
	}
}

// mostStarts are the starts of a server that ends each time before it has been of use.
const mostStarts = 6

// startAgain starts a server until it answers, at once and then after growing pauses. It returns nil if
// ctx ends before, or if the server has been started in vain too often.
func (o *owned) startAgain(ctx context.Context, s *own, why error) engine.Running {
	for {
		vain := int(s.vain.Add(1))
		if vain == mostStarts {
			s.lost.Store(fmt.Errorf("%w; it was started %d times and has never been of use since: it is not started again", why, mostStarts))
			o.say(fmt.Sprint(s.lost.Load()))
			o.pool.Load().wakeAll()
			return nil
		}
		o.say(fmt.Sprintf("%v; it is started again", why))
		if vain > 1 && rest(ctx, o.pause<<(vain-2)) != nil || o.turn.beginStart(ctx) != nil {
			return nil
		}
		r, err := o.programs.Start(ctx, s.program)
		o.turn.end()
		switch {
		case err == nil:
			s.ended.Store(true)
			s.starts.Add(1)
			s.address.Store(r.Address())
			return r
		case ctx.Err() != nil:
			return nil
		}
		why = err
	}
}

// isOfUse notes that a server has taken weights or answered a request. o may be nil.
func (o *owned) isOfUse(url string) {
	if s := o.find(url); s != nil {
		s.vain.Store(0)
	}
}

// lost returns why a server is not started again, nil if it is. o may be nil.
func (o *owned) lost(url string) error {
	if s := o.find(url); s != nil {
		err, _ := s.lost.Load().(error)
		return err
	}
	return nil
}

// close ends the servers.
func (o *owned) close() {
	if o == nil {
		return
	}
	o.end()
	o.keeping.Wait()
}

// urls are the addresses of the servers for the pool.
func (o *owned) urls() (all []string) {
	for _, s := range o.servers {
		all = append(all, "http://"+s.name())
	}
	return all
}

// endedSince reports whether a server has ended since it was asked last. o may be nil.
func (o *owned) endedSince(url string) bool {
	s := o.find(url)
	return s != nil && s.ended.Swap(false)
}

// starts returns how often a server has been started again.
func (o *owned) starts(url string) int64 {
	if s := o.find(url); s != nil {
		return s.starts.Load()
	}
	return 0
}

// addressOf returns the URL at which a server answers now. o may be nil.
func (o *owned) addressOf(url string) string {
	if s := o.find(url); s != nil {
		return "http://" + s.address.Load().(string)
	}
	return url
}

// find returns the server with a URL of urls; nil if o has none.
func (o *owned) find(url string) *own {
	if o == nil {
		return nil
	}
	for _, s := range o.servers {
		if url == "http://"+s.name() {
			return s
		}
	}
	return nil
}

// lead makes a transport find the servers by their names.
func (o *owned) lead(t *http.Transport) {
	if o == nil {
		return
	}
	byName := map[string]*own{}
	for _, s := range o.servers {
		byName[net.JoinHostPort(s.name(), "80")] = s
	}
	dial := t.DialContext
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if s := byName[address]; s != nil {
			address = s.address.Load().(string)
		}
		return dial(ctx, network, address)
	}
	t.Proxy = nil // it would look the names up
}

// isHere reports whether a server is on this machine; of servers that the run has started, whether all are.
// o may be nil.
func (o *owned) isHere(url string) bool {
	if o == nil {
		return isHere(url)
	}
	return !slices.ContainsFunc(o.urls(), func(url string) bool { return !isHere(o.addressOf(url)) })
}
