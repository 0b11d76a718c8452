package rundir

import "slices"

// Stretch is a time, in µs since 1970.
type Stretch struct{ Begin, End int64 }

// Union is stretches in order of time that do not touch one another.
type Union []Stretch

// Add adds a stretch. Time that is in several counts once.
func (u *Union) Add(s Stretch) {
	all := *u
	from := len(all)
	for from > 0 && all[from-1].End >= s.Begin { // most come in order
		from--
	}
	to := from
	for ; to < len(all) && all[to].Begin <= s.End; to++ {
		s.Begin, s.End = min(s.Begin, all[to].Begin), max(s.End, all[to].End)
	}
	if from == to {
		*u = slices.Insert(all, from, s)
		return
	}
	all[from] = s
	*u = slices.Delete(all, from+1, to)
}

// Within returns how much of the time between two others is in the union, in µs.
func (u Union) Within(from, to int64) (sum int64) {
	for _, s := range u {
		sum += max(0, min(s.End, to)-max(s.Begin, from))
	}
	return sum
}
