package monitor

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/serve/web"
)

func init() {
	Monitors.Register("prometheus", "Serves the newest value of each metric at /metrics for Prometheus. "+
		"An address that other machines can reach needs a token in TRINITY_METRICS_TOKEN.",
		func() trinity.Monitor { return &prometheus{Addr: "127.0.0.1:9464"} })
}

// prometheus serves the newest values until the run ends. A run goes on if the port is in use.
type prometheus struct {
	Addr string `yaml:"metrics_addr" doc:"address to serve at; without a host, the loopback interface"`

	run   Run
	token string
	stop  context.CancelFunc
	ended chan struct{} // closed when the server has ended

	mu     sync.Mutex
	newest Newest
}

// Open implements [Opener].
func (p *prometheus) Open(run Run) error {
	p.run, p.token, p.newest, p.ended = run, os.Getenv("TRINITY_METRICS_TOKEN"), Newest{}, make(chan struct{})
	var ctx context.Context
	ctx, p.stop = context.WithCancel(context.Background())
	l, err := web.Listen(ctx, p.Addr, p.token)
	if err != nil {
		close(p.ended)
		if run.Say != nil {
			run.Say(fmt.Sprintf("monitor prometheus: %v; the run goes on without /metrics", err))
		}
		return nil
	}
	go func() {
		defer close(p.ended)
		s := web.Server{Handler: p.handler(), Read: 10 * time.Second, Write: time.Minute}
		if err := s.Serve(ctx, l); err != nil && run.Say != nil {
			run.Say(fmt.Sprintf("monitor prometheus: %v; the run goes on without /metrics", err))
		}
	}()
	return nil
}

func (p *prometheus) handler() http.Handler {
	refuse := func(w http.ResponseWriter, status int, err error) { http.Error(w, err.Error(), status) }
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		if p.token != "" && !web.Authorized(r, p.token) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			refuse(w, http.StatusUnauthorized, fmt.Errorf("want the token of TRINITY_METRICS_TOKEN"))
			return
		}
		p.mu.Lock()
		gauges := p.newest.Gauges([]web.Label{{Name: "project", Value: p.run.Project}, {Name: "run", Value: p.run.Name}})
		p.mu.Unlock()
		web.WriteGauges(w, gauges)
	})
	return web.Guard(mux, p.token, refuse)
}

// Log implements [trinity.Monitor].
func (p *prometheus) Log(_ context.Context, r trinity.Record) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.newest.Add(r)
	return nil
}

// Close implements [trinity.Monitor].
func (p *prometheus) Close() error {
	p.stop()
	<-p.ended
	return nil
}
