package sampler

import (
	"fmt"
	"slices"
)

// extent is a run of rows of the K/V cache.
type extent struct{ start, len int }

// extents hands out rows of the K/V cache, first fit, so that low rows are reused before untouched ones.
type extents struct {
	free []extent // by start; neighbours are merged
}

func newExtents(rows int) extents { return extents{free: []extent{{0, rows}}} }

// take is a run of n rows, or false when no free run is long enough.
func (e *extents) take(n int) (extent, bool) {
	for i, f := range e.free {
		if f.len < n {
			continue
		}
		if f.len == n {
			e.free = slices.Delete(e.free, i, i+1)
		} else {
			e.free[i] = extent{f.start + n, f.len - n}
		}
		return extent{f.start, n}, true
	}
	return extent{}, false
}

// give returns a run that take handed out.
func (e *extents) give(x extent) {
	if x.len == 0 {
		return
	}
	i, _ := slices.BinarySearchFunc(e.free, x.start, func(f extent, start int) int { return f.start - start })
	if i > 0 && e.free[i-1].start+e.free[i-1].len > x.start || i < len(e.free) && x.start+x.len > e.free[i].start {
		panic(fmt.Sprintf("sampler: K/V rows [%d, %d) freed twice", x.start, x.start+x.len))
	}
	e.free = slices.Insert(e.free, i, x)
	if i+1 < len(e.free) && x.start+x.len == e.free[i+1].start {
		e.free[i].len += e.free[i+1].len
		e.free = slices.Delete(e.free, i+1, i+2)
	}
	if i > 0 && e.free[i-1].start+e.free[i-1].len == e.free[i].start {
		e.free[i-1].len += e.free[i].len
		e.free = slices.Delete(e.free, i, i+1)
	}
}

// available is the number of free rows.
func (e *extents) available() int {
	n := 0
	for _, f := range e.free {
		n += f.len
	}
	return n
}
