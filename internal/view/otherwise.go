package view

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/safetext"
	"github.com/trinity-go/trinity/internal/trace"
)

// PrintOtherwise writes what a train step gives with other settings, beside what it gave.
func PrintOtherwise(w io.Writer, settings string, was, is trinity.Metrics, wasRows, isRows []trace.Row) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "\n\tas trained\twith %s\n", safetext.Printable(settings))
	before, after := effectOf(wasRows), effectOf(isRows)
	fmt.Fprintf(t, "tokens to learn\t%d\t%d\n", before.learned, after.learned)
	fmt.Fprintf(t, "of them clipped\t%d\t%d\n", before.clipped, after.clipped)
	same := 0
	names := slices.Sorted(maps.Keys(is))
	for _, name := range names {
		old, known := was[name]
		switch {
		case !isReproducible(name):
		case known && old == is[name]:
			same++
		case known:
			fmt.Fprintf(t, "%s\t%.6g\t%.6g\n", name, old, is[name])
		default:
			fmt.Fprintf(t, "%s\t–\t%.6g\n", name, is[name])
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%d other metrics are the same\n%s", same, cosines(wasRows, isRows))
	return err
}

// effect counts tokens that the optimizer steps of a train step see.
type effect struct{ learned, clipped int }

func effectOf(rows []trace.Row) (e effect) {
	for i := range rows {
		if r := &rows[i]; r.Update >= 0 {
			learned, clipped := learnedFrom(r.Mask, r.Advantages, r.DLogprob)
			e.learned, e.clipped = e.learned+learned, e.clipped+clipped
		}
	}
	return e
}

// cosines compares the derivatives of the loss by the log-probabilities of all tokens, as vectors, for
// each optimizer step.
func cosines(was, is []trace.Row) string {
	others := placesOf(is)
	type sums struct{ both, was, is float64 }
	byUpdate := map[int64]*sums{}
	add := func(update int64, a, b []float32) {
		if update < 0 {
			return
		}
		s := byUpdate[update]
		if s == nil {
			s = &sums{}
			byUpdate[update] = s
		}
		for t := range max(len(a), len(b)) {
			var x, y float64
			if t < len(a) {
				x = float64(a[t])
			}
			if t < len(b) {
				y = float64(b[t])
			}
			s.both, s.was, s.is = s.both+x*y, s.was+x*x, s.is+y*y
		}
	}
	for at, row := range placed(was) {
		var other []float32
		if o, ok := others[at]; ok {
			other = o.DLogprob
			delete(others, at)
		}
		add(at.update, row.DLogprob, other)
	}
	for at, row := range others {
		add(at.update, nil, row.DLogprob)
	}
	var out strings.Builder
	out.WriteString("cosine of dLoss/dlogprob of all tokens to the recorded one, as a stand-in for the gradient's")
	for i, update := range slices.Sorted(maps.Keys(byUpdate)) {
		s := byUpdate[update]
		sep := ", "
		if i == 0 {
			sep = ": "
		}
		cosine := "none, because one of them is 0"
		if s.was > 0 && s.is > 0 {
			cosine = fmt.Sprintf("%.6f", s.both/math.Sqrt(s.was*s.is))
		}
		fmt.Fprintf(&out, "%s%s (optimizer step %d)", sep, cosine, update)
	}
	return out.String() + "\n"
}
