package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Row is one workload, measured. Ratio is how many times as fast ours is as theirs, whatever the unit.
type Row struct {
	Workload string   `json:"workload"`
	Peer     string   `json:"peer"` // "" when none was measured
	Ours     float64  `json:"ours"` // medians, in the unit
	Theirs   *float64 `json:"theirs"`
	Ratio    *float64 `json:"ratio"`
	Unit     string   `json:"unit"`
	Limit    *float64 `json:"limit"`                 // of the machine, in the unit
	Share    float64  `json:"share"`                 // of the limit that ours reaches
	ByPhase  *float64 `json:"by_phase,omitempty"`    // limit if the phases of a step follow one another
	OfPhases float64  `json:"of_by_phase,omitempty"` // share of that limit

	Turns *ratios `json:"turns,omitempty"` // of --compare: by the time of turns
	CPU   *ratios `json:"cpu,omitempty"`   // by the processor time

	Kernels      string   `json:"kernels"`       // of our side: avx512, avx2 …
	Why          string   `json:"why,omitempty"` // there are no figures of the peer
	Runs         int      `json:"runs"`
	DType        string   `json:"dtype,omitempty"`
	OurRuns      []sample `json:"our_runs"`
	TheirRuns    []sample `json:"their_runs,omitempty"`
	OurRSS       int64    `json:"our_peak_rss"` // bytes; 0 is unknown
	TheirRSS     int64    `json:"their_peak_rss,omitempty"`
	PeerVersions string   `json:"peer_versions,omitempty"`
	Limits       limits   `json:"limits"`
	Machine      machine  `json:"machine"`
	LoadAfter    string   `json:"load_after"`
	Command      string   `json:"command"`
}

// add runs a side once.
func (r *Row) add(runs *[]sample, of side) error {
	s, err := of.run()
	*runs = append(*runs, s)
	return err
}

// giveUp notes why the peer's figures are missing, in one line.
func (r *Row) giveUp(err error) {
	r.Why, r.TheirRuns = strings.Join(strings.Fields(err.Error()), " "), nil
	fmt.Fprintf(os.Stderr, "%s: %s: %s\n", r.Workload, r.Peer, r.Why)
}

// conclude computes medians, ratio and share.
func (r *Row) conclude() {
	r.Ours = median(values(r.OurRuns))
	if r.Limit != nil {
		r.Share = r.times(r.Ours, *r.Limit)
	}
	if r.ByPhase != nil {
		r.OfPhases = r.times(r.Ours, *r.ByPhase)
	}
	if len(r.TheirRuns) > 0 {
		theirs := median(values(r.TheirRuns))
		ratio := r.times(r.Ours, theirs)
		r.Theirs, r.Ratio = &theirs, &ratio
	}
}

// compare computes how the ratio of two builds differs from turn to turn.
func (r *Row) compare() {
	r.Turns = ratiosOf(r.costs(r.OurRuns, false), r.costs(r.TheirRuns, false))
	r.CPU = ratiosOf(r.costs(r.OurRuns, true), r.costs(r.TheirRuns, true))
}

// costs are the time of the same work in each run, of the clock or of the processor.
func (r *Row) costs(runs []sample, processor bool) (costs []float64) {
	for _, s := range runs {
		switch {
		case !processor:
			costs = append(costs, r.times(1, s.Value))
		case s.Cost > 0:
			costs = append(costs, s.Cost)
		default:
			costs = append(costs, s.CPU)
		}
	}
	return costs
}

// times is how many times as fast a is as b.
func (r *Row) times(a, b float64) float64 {
	if slices.Contains([]string{"s", "ms", "%", "MB"}, r.Unit) {
		a, b = b, a
	}
	if b == 0 {
		return 0
	}
	return a / b
}

func values(runs []sample) []float64 {
	var out []float64
	for _, s := range runs {
		out = append(out, s.Value)
	}
	return out
}

// median is the middle value, or the mean of the two in the middle; 0 of none.
func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	n := len(v)
	switch {
	case n == 0:
		return 0
	case n%2 == 1:
		return v[n/2]
	}
	return (v[n/2-1] + v[n/2]) / 2
}

var columns = []string{"workload", "peer", "ours", "theirs", "ratio", "target", "unit",
	"limit", "share", "by phase", "share", "peak RSS", "n", "kernels", "foreign"}

// cells are what a table shows of a row.
func (r *Row) cells() []string {
	name, peer, theirs, ratio := r.Workload, "–", "–", "–"
	if r.DType != "" {
		name += " " + r.DType
	}
	if r.Peer != "" {
		peer = r.Peer
	}
	if r.Theirs != nil && r.Ratio != nil {
		theirs, ratio = number(*r.Theirs), fmt.Sprintf("%.2f×", *r.Ratio)
	}
	if r.Turns != nil {
		ratio = r.Turns.String()
	}
	if r.CPU != nil {
		ratio += ", processor " + r.CPU.String()
	}
	cells := []string{name, peer, number(r.Ours), theirs, ratio, r.target(), r.Unit}
	cells = append(cells, ofLimit(r.Limit, r.Share)...)
	cells = append(cells, ofLimit(r.ByPhase, r.OfPhases)...)
	return append(cells, r.memory(), strconv.Itoa(r.Runs), r.Kernels, percent(r.Machine.Foreign))
}

// ofLimit are a limit and our share of it; dashes if there is none.
func ofLimit(limit *float64, share float64) []string {
	if limit == nil {
		return []string{"–", "–"}
	}
	return []string{number(*limit), percent(share)}
}

// target is the ratio that the row's peer is to be beaten by, or what ours is to reach in the unit.
func (r *Row) target() string {
	w := find(r.Workload)
	if w == nil {
		return "–"
	}
	if w.goal > 0 {
		return number(w.goal)
	}
	if w.proof > 0 {
		return "proof ≤ " + percent(w.proof)
	}
	for _, rival := range w.rivals {
		if rival.name == r.Peer && rival.target > 0 {
			return fmt.Sprintf("%.2f×", rival.target)
		}
	}
	return "–"
}

// printTable aligns columns.
func printTable(out io.Writer, rows []Row) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(columns, "\t"))
	for i := range rows {
		fmt.Fprintln(w, strings.Join(rows[i].cells(), "\t"))
	}
	return w.Flush()
}

func percent(v float64) string {
	if v < 0 {
		return "?"
	}
	return fmt.Sprintf("%.0f %%", 100*v)
}

// number has three digits or so.
func number(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

func (r *Row) memory() string {
	s := gigabytes(r.OurRSS)
	if r.TheirRSS > 0 {
		s += " / " + gigabytes(r.TheirRSS)
	}
	return s
}

func gigabytes(bytes int64) string {
	if bytes == 0 {
		return "?"
	}
	return fmt.Sprintf("%.2f GB", float64(bytes)/1e9)
}
