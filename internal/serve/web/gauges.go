package web

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Gauge is a value for Prometheus.
type Gauge struct {
	Name   string // that Prometheus takes
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
