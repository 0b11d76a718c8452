package monitor

import (
	"math"
	"strings"

	"github.com/trinity-go/trinity"
)

// series holds the last values of a metric.
type series []float64

// seriesLength bounds a series, also on wider terminals.
const seriesLength = 120

func (s *series) add(m trinity.Metrics, name string) {
	if v, ok := m[name]; ok {
		*s = append(*s, v)
		*s = (*s)[max(0, len(*s)-seriesLength):]
	}
}

// text returns the newest value, a sparkline of at most width values, and their range.
func (s series) text(width int) string {
	last := s[max(0, len(s)-width):]
	text := number(s[len(s)-1])
	lo, hi := bounds(last)
	if len(last) < 2 || lo > hi {
		return text
	}
	return text + "  " + sparkline(last) + "  " + number(lo) + " … " + number(hi)
}

var levels = []rune("▁▂▃▄▅▆▇█")

// sparkline draws each value as one block, lowest to highest. Values that are not finite are gaps.
func sparkline(v []float64) string {
	lo, hi := bounds(v)
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

// bounds returns the least and the greatest finite value; lo > hi if there is none.
func bounds(v []float64) (lo, hi float64) {
	lo, hi = math.Inf(1), math.Inf(-1)
	for _, x := range v {
		if isFinite(x) {
			lo, hi = min(lo, x), max(hi, x)
		}
	}
	return lo, hi
}

func isFinite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
