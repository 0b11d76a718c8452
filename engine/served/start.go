package served

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/trinity-go/trinity"
)

// own is a server that the run has started. Requests go to its name, and the name leads to the
// address at which it answers now.
type own struct {
	program trinity.Program
	address atomic.Value // string, HOST:PORT
	ended   atomic.Bool  // since the pool has asked last
}

// name is the host of the server's URL.
func (o *own) name() string { return o.program.Name }

// owned are the servers that a sampler has started.
type owned struct {
	programs trinity.Programs
	servers  []*own
	say      func(string)
	end      context.CancelFunc
	keeping  sync.WaitGroup
}

// start starts servers at the same time and waits until all answer.
func start(ctx context.Context, spec trinity.SamplerSpec, programs []trinity.Program) (*owned, error) {
	running, end := context.WithCancel(context.Background())
	o := &owned{programs: spec.Place.Programs, say: spec.Say, end: end}
	if o.say == nil {
		o.say = func(string) {}
	}
	started := make([]trinity.Running, len(programs))
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
func (o *owned) stop(r trinity.Running) {
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	if err := r.Stop(ctx); err != nil {
		o.say(err.Error())
	}
}

// keep starts a server again whenever it has ended. Its weights are the pool's business, which finds
// that the server has lost them.
func (o *owned) keep(ctx context.Context, s *own, r trinity.Running) {
	for r != nil {
		select {
		case <-ctx.Done():
		case <-r.Gone():
		}
		if ctx.Err() != nil {
			o.stop(r)
			return
		}
		o.say(fmt.Sprintf("%v; it is started again", r.Err()))
		o.stop(r)
		r = o.startAgain(ctx, s)
	}
}

// startAgain starts a server until it answers. It returns nil if ctx ends before.
func (o *owned) startAgain(ctx context.Context, s *own) trinity.Running {
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		r, err := o.programs.Start(ctx, s.program)
		switch {
		case err == nil:
			s.ended.Store(true)
			s.address.Store(r.Address())
			return r
		case ctx.Err() == nil:
			o.say(err.Error())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
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

// here reports whether all servers are on this machine.
func (o *owned) here() bool {
	for _, url := range o.urls() {
		if !isHere(o.addressOf(url)) {
			return false
		}
	}
	return true
}
