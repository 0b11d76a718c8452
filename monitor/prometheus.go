package monitor

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/serve/web"
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
	values map[gauge]float64
}

// gauge is a time series, whose name is one that Prometheus takes.
type gauge struct{ name, role string }

// Open implements [Opener].
func (p *prometheus) Open(run Run) error {
	p.run, p.token, p.values, p.ended = run, os.Getenv("TRINITY_METRICS_TOKEN"), map[gauge]float64{}, make(chan struct{})
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
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = io.WriteString(w, p.page()) // the client is gone
	})
	return web.Guard(mux, p.token, refuse)
}

// Log implements [trinity.Monitor].
func (p *prometheus) Log(_ context.Context, r trinity.Record) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, v := range r.Metrics {
		p.values[gauge{prometheusName(name), r.Role}] = v
	}
	if !isEvaluation(r.Metrics) {
		p.values[gauge{"trinity_step", r.Role}] = float64(r.Step)
	}
	return nil
}

// page returns the values in Prometheus's text format.
func (p *prometheus) page() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := slices.SortedFunc(maps.Keys(p.values), func(a, b gauge) int {
		return cmp.Or(strings.Compare(a.name, b.name), strings.Compare(a.role, b.role))
	})
	var b strings.Builder
	last := ""
	for _, s := range all {
		if s.name != last {
			fmt.Fprintf(&b, "# HELP %s Newest value of the run.\n# TYPE %s gauge\n", s.name, s.name)
			last = s.name
		}
		fmt.Fprintf(&b, "%s{project=%s,run=%s,role=%s} %s\n", s.name, label(p.run.Project), label(p.run.Name), label(s.role),
			prometheusNumber(p.values[s]))
	}
	return b.String()
}

// Close implements [trinity.Monitor].
func (p *prometheus) Close() error {
	p.stop()
	<-p.ended
	return nil
}

var notPrometheus = regexp.MustCompile(`[^a-zA-Z0-9]+`)

// prometheusName returns a name that Prometheus takes: trinity_rollout_reward_mean.
func prometheusName(name string) string {
	return "trinity_" + strings.Trim(notPrometheus.ReplaceAllString(name, "_"), "_")
}

var labelEscapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

func label(value string) string {
	return `"` + labelEscapes.Replace(strings.ToValidUTF8(value, "�")) + `"`
}

func prometheusNumber(v float64) string {
	switch {
	case math.IsInf(v, 1):
		return "+Inf"
	case math.IsInf(v, -1):
		return "-Inf"
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}
