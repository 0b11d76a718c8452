package studio

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/serve/web"
	"github.com/trinity-go/trinity/monitor"
)

// Bounds of what Prometheus gets: each series costs it memory for hours.
const (
	maxScraped = 200     // runs, the newest ones
	maxGauges  = 1000    // values of a metrics.jsonl
	newestRead = 2 << 20 // bytes at the end of a metrics.jsonl that the studio sees for the first time
	maxLabel   = 200     // bytes of a label
)

// gauges answers Prometheus with the newest values of all runs.
func (s *Server) gauges(w http.ResponseWriter, _ *http.Request) {
	runs, _, err := s.list("") // the list of runs tells what is damaged
	if err != nil {
		web.Refuse(w, statusOf(err), err)
		return
	}
	counts := map[State]int{}
	var all []monitor.Gauge
	for i, run := range runs {
		if counts[run.State]++; i < maxScraped {
			all = append(all, s.gaugesOf(run)...)
		}
	}
	for state, n := range counts {
		all = append(all, monitor.Gauge{Name: "trinity_runs", Labels: []monitor.Label{{Name: "state", Value: string(state)}}, Value: float64(n)})
	}
	all = append(all, monitor.Gauge{Name: "trinity_runs_left_out", Value: float64(max(0, len(runs)-maxScraped))})
	monitor.WriteGauges(w, all)
}

// gaugesOf returns the newest values of a run, and its state.
func (s *Server) gaugesOf(run *Run) (all []monitor.Gauge) {
	name := run.Name
	if run.Stage != "" {
		name += "/" + run.Stage
	}
	var labels []monitor.Label
	add := func(name, value string) {
		if len(value) > maxLabel {
			value = value[:maxLabel]
		}
		labels = append(labels, monitor.Label{Name: name, Value: value})
	}
	add("project", run.Project)
	add("run", name)
	add("group", run.Group)
	labels = append(labels, monitor.Label{Name: "id", Value: run.ID}) // whole: it tells the runs apart
	state := append(labels[:len(labels):len(labels)], monitor.Label{Name: "state", Value: string(run.State)})
	all = append(all, monitor.Gauge{Name: "trinity_run_state", Labels: state, Value: 1})
	dir, err := s.dirOf(run.ID)
	if err != nil {
		return nil // it is gone meanwhile
	}
	beyond := 0
	for _, d := range rundir.Monitors(dir) {
		own := labels[:len(labels):len(labels)]
		if d != filepath.Join(dir, rundir.Monitor) {
			own = append(own, monitor.Label{Name: "explorer", Value: filepath.Base(d)})
		}
		gauges, left := s.known(dir).gaugesIn(d, own) // the list of runs tells what cannot be read
		all, beyond = append(all, gauges...), beyond+left
	}
	if beyond > 0 {
		all = append(all, monitor.Gauge{Name: "trinity_values_left_out", Labels: labels, Value: float64(beyond)})
	}
	return all
}

// newest has the newest values of a metrics.jsonl, up to a mark.
type newest struct {
	monitor.Newest
	info os.FileInfo
	at   rundir.Mark
}

// gaugesIn returns the newest values in a monitor directory, and how many values are beyond the bound. It
// reads what came since the last time.
func (k *runCache) gaugesIn(dir string, labels []monitor.Label) (gauges []monitor.Gauge, beyond int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f, size, err := durable.OpenWithin(dir, rundir.MetricsFile)
	if err != nil {
		return nil, 0
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0
	}
	n := k.newest[dir]
	if n == nil || !os.SameFile(n.info, info) || size < n.at.Offset || !n.at.Holds(f) {
		n = &newest{Newest: monitor.Newest{Max: maxGauges}}
		n.at.Offset = max(0, size-newestRead)
	}
	n.info = info
	var pairs []rundir.Pair
	_ = rundir.EachLine(f, n.at.Offset, size, func(line []byte, end int64) { // what cannot be read comes next time
		n.at.Offset = end
		h, found, err := rundir.Scan(line, pairs)
		if pairs = found; line == nil || err != nil { // the first line may be a part of one
			return
		}
		r := trinity.Record{Step: h.Step, Role: strings.ToValidUTF8(string(h.Role), "�"), Metrics: trinity.Metrics{}}
		for _, p := range pairs {
			if v, ok := rundir.ValueOf(p.Value); ok {
				r.Metrics[string(p.Name)] = v
			}
		}
		n.Add(r)
	})
	n.at = rundir.MarkAt(f, n.at.Offset)
	k.newest[dir] = n
	return n.Gauges(labels), n.Beyond
}
