package monitor

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/serve/web"
)

// Newest has the newest value of each metric, by its role.
type Newest struct {
	Max    int // of values; 0 has no bound
	Beyond int // values that came for others

	values map[newestKey]float64
}

// newestKey names a value as Prometheus does.
type newestKey struct{ name, role string }

// Add takes the values of a record.
func (n *Newest) Add(r trinity.Record) {
	for _, name := range slices.Sorted(maps.Keys(r.Metrics)) { // of two with one name there, the last counts
		n.set(newestKey{gaugeName(name), r.Role}, r.Metrics[name])
	}
	if !isEvaluation(r.Metrics) {
		n.set(newestKey{gaugeName("step"), r.Role}, float64(r.Step))
	}
}

func (n *Newest) set(key newestKey, v float64) {
	if n.values == nil {
		n.values = map[newestKey]float64{}
	}
	if _, known := n.values[key]; !known && n.Max > 0 && len(n.values) >= n.Max {
		n.Beyond++
		return
	}
	n.values[key] = v
}

// Gauges returns the values with labels, and the role as one more.
func (n *Newest) Gauges(labels []web.Label) (all []web.Gauge) {
	byName := func(a, b newestKey) int {
		return cmp.Or(strings.Compare(a.name, b.name), strings.Compare(a.role, b.role))
	}
	for _, key := range slices.SortedFunc(maps.Keys(n.values), byName) {
		own := append(slices.Clone(labels), web.Label{Name: "role", Value: key.role})
		all = append(all, web.Gauge{Name: key.name, Labels: own, Value: n.values[key]})
	}
	return all
}

var notGauge = regexp.MustCompile(`[^a-zA-Z0-9]+`)

// gaugeName returns a name that Prometheus takes: trinity_rollout_reward_mean.
func gaugeName(name string) string {
	return "trinity_" + strings.Trim(notGauge.ReplaceAllString(name, "_"), "_")
}
