package served

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trinity-go/trinity"
)

// own is a server that the run has started. Requests go to its name, and the name leads to the
// address at which it answers now.
type own struct {
	program trinity.Program
	address atomic.Value // string, HOST:PORT
	pause   time.Duration
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
	started, errs := make([]trinity.Running, len(programs)), make([]error, len(programs))
	var all sync.WaitGroup
	for i, p := range programs {
		o.servers = append(o.servers, &own{program: p, pause: firstPause})
		all.Go(func() { started[i], errs[i] = o.programs.Start(ctx, p) })
	}
	all.Wait()
	err := errors.Join(errs...)
	for i, r := range started {
		switch {
		case r == nil:
		case err != nil:
			err = errors.Join(err, r.Stop(context.Background()))
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

// keep starts a server again whenever it has ended. Its weights are the pool's business, which finds
// that the server has lost them.
func (o *owned) keep(ctx context.Context, s *own, r trinity.Running) {
	for pause := s.pause; ; {
		select {
		case <-ctx.Done():
			if err := r.Stop(context.Background()); err != nil {
				o.say(err.Error())
			}
			return
		case <-r.Gone():
		}
		o.say(fmt.Sprintf("%v; it is started again", r.Err()))
		if err := r.Stop(ctx); err != nil {
			o.say(err.Error())
		}
		next, err := o.programs.Start(ctx, s.program)
		for ; err != nil; pause = min(2*pause, mostPause) {
			o.say(err.Error())
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
			next, err = o.programs.Start(ctx, s.program)
		}
		s.address.Store(next.Address())
		r, pause = next, s.pause
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

// addressOf returns the URL at which a server answers now.
func (o *owned) addressOf(url string) string {
	if o == nil {
		return url
	}
	for _, s := range o.servers {
		if url == "http://"+s.name() {
			return "http://" + s.address.Load().(string)
		}
	}
	return url
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
