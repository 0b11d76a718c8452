package studio

import (
	"net/http"
	"path/filepath"
	"strings"

	"github.com/trinity-go/trinity"
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
func (s *runs) gauges(w http.ResponseWriter, _ *http.Request) error {
	runs, _, err := s.list("") // the list of runs tells what is damaged
	if err != nil {
		return err
	}
	counts := map[State]int{}
	var all []web.Gauge
	for i, run := range runs {
		if counts[run.State]++; i < maxScraped {
			all = append(all, s.gaugesOf(run)...)
		}
	}
	for state, n := range counts {
		all = append(all, web.Gauge{Name: "trinity_runs", Labels: []web.Label{{Name: "state", Value: string(state)}}, Value: float64(n)})
	}
	all = append(all, web.Gauge{Name: "trinity_runs_left_out", Value: float64(max(0, len(runs)-maxScraped))})
	web.WriteGauges(w, all)
	return nil
}

// gaugesOf returns the newest values of a run, and its state.
func (s *runs) gaugesOf(run *Run) (all []web.Gauge) {
	name := run.Name
	if run.Stage != "" {
		name += "/" + run.Stage
	}
	var labels []web.Label
	add := func(name, value string) {
		if len(value) > maxLabel {
			value = value[:maxLabel]
		}
		labels = append(labels, web.Label{Name: name, Value: value})
	}
	add("project", run.Project)
	add("run", name)
	add("group", run.Group)
	labels = append(labels, web.Label{Name: "id", Value: run.ID}) // whole: it tells the runs apart
	state := append(labels[:len(labels):len(labels)], web.Label{Name: "state", Value: string(run.State)})
	all = append(all, web.Gauge{Name: "trinity_run_state", Labels: state, Value: 1})
	f, err := s.open(run.ID)
	if err != nil {
		return nil // it is gone meanwhile
	}
	beyond := 0
	for _, d := range rundir.Monitors(f.dir) {
		own := labels[:len(labels):len(labels)]
		if d != filepath.Join(f.dir, rundir.Monitor) {
			own = append(own, web.Label{Name: "explorer", Value: filepath.Base(d)})
		}
		gauges, left := f.gaugesIn(d, own) // the list of runs tells what cannot be read
		all, beyond = append(all, gauges...), beyond+left
	}
	if beyond > 0 {
		all = append(all, web.Gauge{Name: "trinity_values_left_out", Labels: labels, Value: float64(beyond)})
	}
	return all
}

// newest has the newest values of a metrics.jsonl, up to a mark.
type newest struct {
	monitor.Newest
	rundir.Position
}

// gaugesIn returns the newest values in a monitor directory, and how many values are beyond the bound. It
// reads what came since the last time.
func (k *runFiles) gaugesIn(dir string, labels []web.Label) (gauges []web.Gauge, beyond int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.newest[dir] == nil {
		k.newest[dir] = &newest{}
	}
	n := k.newest[dir]
	f, info, isSame, err := n.Open(dir)
	if err != nil {
		return nil, 0
	}
	defer f.Close()
	if !isSame {
		n.Newest, n.At.Offset = monitor.Newest{Max: maxGauges}, max(0, info.Size()-newestRead)
	}
	var pairs []rundir.Pair
	_ = rundir.EachLine(f, n.At.Offset, info.Size(), func(line []byte, end int64) { // what cannot be read comes next time
		n.At.Offset = end
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
	n.At = rundir.MarkAt(f, n.At.Offset)
	return n.Gauges(labels), n.Beyond
}
