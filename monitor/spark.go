package monitor

import (
	"math"
	"strings"
)

// curve holds a metric over a whole run in a bounded number of bins: each is the mean of span
// consecutive steps.
type curve struct {
	total int64 // steps of the run; 0 if unknown
	span  int64 // steps of a bin
	bins  []bin

	last   float64
	lo, hi float64 // of all finite values
}

// bin is a sum of finite values and their number.
type bin struct {
	sum float64
	n   int
}

// curveBins bounds a curve. Wider terminals do not show more.
const curveBins = 240

func newCurve(total int64) *curve {
	return &curve{total: total, span: max(1, (total+curveBins-1)/curveBins), lo: math.Inf(1), hi: math.Inf(-1)}
}

// add adds the value of a step, counted from 1.
func (c *curve) add(step int64, v float64) {
	c.last = v
	at := max(0, step-1) / c.span
	for ; at >= curveBins; at = max(0, step-1) / c.span {
		c.halve()
	}
	for int64(len(c.bins)) <= at {
		c.bins = append(c.bins, bin{})
	}
	if isFinite(v) {
		c.bins[at].sum += v
		c.bins[at].n++
		c.lo, c.hi = min(c.lo, v), max(c.hi, v)
	}
}

// halve joins pairs of bins.
func (c *curve) halve() {
	for i := range c.bins {
		if i%2 == 0 {
			c.bins[i/2] = c.bins[i]
		} else {
			c.bins[i/2].sum += c.bins[i].sum
			c.bins[i/2].n += c.bins[i].n
		}
	}
	c.bins = c.bins[:(len(c.bins)+1)/2]
	c.span *= 2
}

// text returns the newest value, a sparkline of at most width columns for the whole run, and the
// range of all values. If the number of steps is known, a column stands for the same steps from the
// first step to the last.
func (c *curve) text(width int) string {
	text := number(c.last)
	values := c.columns(width)
	if len(values) < 2 || c.lo > c.hi {
		return text
	}
	return text + "  " + sparkline(values, c.lo, c.hi) + "  " + number(c.lo) + " … " + number(c.hi)
}

// columns returns the means of at most width columns; NaN for a column without a value.
func (c *curve) columns(width int) []float64 {
	all := max(int64(len(c.bins)), (c.total+c.span-1)/c.span)
	per := max(1, (int(all)+width-1)/width)
	var out []float64
	for from := 0; from < len(c.bins); from += per {
		var of bin
		for _, b := range c.bins[from:min(from+per, len(c.bins))] {
			of.sum, of.n = of.sum+b.sum, of.n+b.n
		}
		out = append(out, of.sum/float64(of.n)) // NaN for 0/0
	}
	return out
}

var levels = []rune("▁▂▃▄▅▆▇█")

// sparkline draws each value as one block, lo lowest and hi highest. Values that are not finite are
// gaps.
func sparkline(v []float64, lo, hi float64) string {
	var b strings.Builder
	for _, x := range v {
		switch {
		case !isFinite(x):
			b.WriteByte(' ')
		case hi == lo:
			b.WriteRune(levels[len(levels)/2])
		default:
			b.WriteRune(levels[int((x/2-lo/2)/(hi/2-lo/2)*float64(len(levels)-1)+0.5)])
		}
	}
	return b.String()
}

func isFinite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
