package monitor

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/trinity-go/trinity"
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
func (n *Newest) Gauges(labels []Label) (all []Gauge) {
	byName := func(a, b newestKey) int {
		return cmp.Or(strings.Compare(a.name, b.name), strings.Compare(a.role, b.role))
	}
	for _, key := range slices.SortedFunc(maps.Keys(n.values), byName) {
		all = append(all, Gauge{Name: key.name, Labels: append(slices.Clone(labels), Label{"role", key.role}), Value: n.values[key]})
	}
	return all
}

// Gauge is a value for Prometheus.
type Gauge struct {
	Name   string // that Prometheus takes, as [gaugeName] returns it
	Labels []Label
	Value  float64
	Help   string // what it is; "" is the newest value of a run
	Counts bool   // it only grows
}

// Label tells gauges of a name apart.
type Label struct{ Name, Value string }

// WriteGauges answers with gauges in Prometheus's text format. Those of a name come one behind the other.
func WriteGauges(w http.ResponseWriter, gauges []Gauge) {
	slices.SortStableFunc(gauges, func(a, b Gauge) int { return strings.Compare(a.Name, b.Name) })
	var b strings.Builder
	for i, g := range gauges {
		if i == 0 || g.Name != gauges[i-1].Name {
			kind := "gauge"
			if g.Counts {
				kind = "counter"
			}
			fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n", g.Name, cmp.Or(g.Help, "Newest value of the run."), g.Name, kind)
		}
		b.WriteString(g.Name)
		for k, l := range g.Labels {
			b.WriteByte("{,"[min(k, 1)])
			b.WriteString(l.Name + `="` + labelEscapes.Replace(strings.ToValidUTF8(l.Value, "�")) + `"`)
		}
		if len(g.Labels) > 0 {
			b.WriteByte('}')
		}
		b.WriteString(" " + gaugeNumber(g.Value) + "\n")
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write([]byte(b.String())) // the client may be gone
}

var notGauge = regexp.MustCompile(`[^a-zA-Z0-9]+`)

// gaugeName returns a name that Prometheus takes: trinity_rollout_reward_mean.
func gaugeName(name string) string {
	return "trinity_" + strings.Trim(notGauge.ReplaceAllString(name, "_"), "_")
}

var labelEscapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

func gaugeNumber(v float64) string {
	switch {
	case math.IsInf(v, 1):
		return "+Inf"
	case math.IsInf(v, -1):
		return "-Inf"
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}
