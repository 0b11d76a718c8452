package rundir

import (
	"cmp"
	"slices"
)

// Point is a value of a metric. Its time is in ms since 1970.
type Point struct {
	Step, Time int64
	Value      float64
	IsKnown    bool // to a reader who has the older ones
}

// ByStep sorts points by step, and puts in place of several of a step, which several explorers give, their
// mean with the last of the times. It leaves out the points of steps of which the reader knows all. The result is
// in place of points.
func ByStep(points []Point) []Point {
	byStep := func(a, b Point) int { return cmp.Compare(a.Step, b.Step) }
	if !slices.IsSortedFunc(points, byStep) {
		slices.SortStableFunc(points, byStep)
	}
	out := points[:0]
	for begin := 0; begin < len(points); {
		p, n := points[begin], 1.0
		for begin++; begin < len(points) && points[begin].Step == p.Step; begin++ {
			next := points[begin]
			n++
			p.Value = p.Value*((n-1)/n) + next.Value/n // without an overflow
			p.Time, p.IsKnown = max(p.Time, next.Time), p.IsKnown && next.IsKnown
		}
		if !p.IsKnown {
			out = append(out, p)
		}
	}
	return out
}
