package tinker

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/internal/serve/web"
)

// work is what the service counts of a key, by the gauge that says so and its further label.
type work struct{ gauge, label, value string }

// The gauges, each with its help.
const (
	requestGauge = "trinity_service_requests_total"
	tokenGauge   = "trinity_service_tokens_total"
	modelGauge   = "trinity_service_models"
	waitingGauge = "trinity_service_waiting_requests"
)

var helps = map[string]string{
	requestGauge: "Requests of a key since the service began, by the API.",
	tokenGauge:   "Tokens that the service has computed for a key since the service began.",
	modelGauge:   "Models of a key: those in memory, and those out of it, on the disk alone.",
	waitingGauge: "Requests of a key that wait for others.",
}

// countRequest counts a request of a key by the API to which its path belongs.
func (a *account) countRequest(key, path string) {
	for _, api := range []string{"/api/v1", "/v1"} {
		if strings.HasPrefix(path, api+"/") {
			a.count(key, work{requestGauge, "api", api}, 1)
		}
	}
}

func tokensOf(kind string) work { return work{tokenGauge, "kind", kind} }

var (
	trainedTokens = tokensOf("trained") // of both passes
	scoredTokens  = tokensOf("scored")  // of forward alone
	readTokens    = tokensOf("prompt")
	sampledTokens = tokensOf("sampled")
)

// count adds to what a key has used since the service began.
func (a *account) count(key string, what work, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.used[key] == nil {
		a.used[key] = map[work]int64{}
	}
	a.used[key][what] += int64(n)
}

// usage returns what keys have used.
func (a *account) usage() map[string]map[work]int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := map[string]map[work]int64{}
	for key, used := range a.used {
		out[key] = maps.Clone(used)
	}
	return out
}

// usage tells Prometheus what keys use of a service.
type usage struct{ server *Server }

// metrics answers Prometheus. A key sees its own numbers. Who sends no key, or TRINITY_TOKEN, sees those of all keys.
func (u *usage) metrics(w http.ResponseWriter, r *http.Request) {
	s := u.server
	all, asks := s.train.account.usage(), Owner(r.Context())
	set := func(key string, what work, n int) {
		if all[key] == nil {
			all[key] = map[work]int64{}
		}
		all[key][what] += int64(n)
	}
	for _, m := range modelsOf(s) {
		state, owner := "out", m.session.owner
		if m.inMemory.Load() {
			state = "loaded"
		}
		set(owner, work{modelGauge, "state", state}, 1)
		m.mu.Lock()
		set(owner, work{waitingGauge, "for", "training"}, len(m.held))
		m.mu.Unlock()
	}
	for _, b := range s.opts.Bases {
		for key, n := range b.queue.waiting() {
			set(key, work{waitingGauge, "for", "sampling"}, n)
		}
	}
	var gauges []web.Gauge
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if asks != "" && asks != key {
			continue
		}
		for _, what := range slices.SortedFunc(maps.Keys(all[key]), func(a, b work) int { return strings.Compare(a.value, b.value) }) {
			labels := []web.Label{{Name: "key", Value: key}, {Name: what.label, Value: what.value}}
			gauges = append(gauges, web.Gauge{
				Name: what.gauge, Labels: labels, Value: float64(all[key][what]),
				Help: helps[what.gauge], Counts: strings.HasSuffix(what.gauge, "_total"),
			})
		}
	}
	web.WriteGauges(w, gauges)
}

// waiting returns how many turns of each key are waited for.
func (q *queue) waiting() map[string]int {
	q.account.mu.Lock()
	defer q.account.mu.Unlock()
	out := map[string]int{}
	for _, l := range q.lanes {
		out[l.keyName] += len(l.turns)
	}
	return out
}
