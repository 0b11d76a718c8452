package studio

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/trace"
)

// spans are the spans of a trace in lanes.
type spans struct {
	words       []string // of all names, by number
	all         []trace.Compact
	lanes       []*lane
	waits       map[[2]int32]rundir.Union // by the numbers of who waited and for whom; in order
	first, last int64                     // µs since 1970
	damaged     []string
}

// lane is what one role did, one after the other. Lanes of what a role did at once have numbers.
type lane struct {
	role, name string
	spans      []int32 // places in all, by begin
	end        int64   // of the last span
}

// maxLanes is how many lanes a role has for what it does of one kind at once. In the last one they
// overlap.
const maxLanes = 8

// spansOf puts spans into lanes.
func spansOf(words []string, all []trace.Compact) *spans {
	s := &spans{words: words, all: all, waits: map[[2]int32]rundir.Union{}}
	lanes := map[[2]int32]*[]*lane{}
	trainer, wait := int32(slices.Index(words, trinity.RoleTrainer)), int32(slices.Index(words, string(trinity.SpanWait)))
	var group [2]int32
	var of *[]*lane // of the group
	for i, at := range byBegin(all) {
		c := &all[at]
		if i == 0 {
			s.first, s.last = c.Begin, c.End
		}
		s.last = max(s.last, c.End)
		key := [2]int32{c.Role, c.Kind}
		if c.Role == trainer { // it does one thing at a time
			key[1] = -1
		}
		if of == nil || key != group {
			if group, of = key, lanes[key]; of == nil {
				of = new([]*lane)
				lanes[key] = of
			}
		}
		place(of, at, c)
		if c.Kind == wait {
			key := [2]int32{c.Role, c.For}
			all := s.waits[key]
			all.Add(rundir.Stretch{Begin: c.Begin, End: c.End})
			s.waits[key] = all
		}
	}
	for group, of := range lanes {
		for i, l := range *of {
			l.role = s.words[group[0]]
			if l.name = l.role; group[1] >= 0 {
				l.name = s.words[group[1]]
			}
			if i > 0 {
				l.name = fmt.Sprintf("%s %d", l.name, i+1)
			}
		}
		s.lanes = append(s.lanes, *of...)
	}
	slices.SortFunc(s.lanes, func(a, b *lane) int {
		// The trainer comes first, and evaluations come last.
		return cmp.Or(strings.Compare(b.role, a.role), cmp.Compare(all[a.spans[0]].Begin, all[b.spans[0]].Begin), strings.Compare(a.name, b.name))
	})
	return s
}

// byBegin returns the places of spans in the order of their begin; of those that begin at once the
// longest comes first. Spans come about in this order, so each lands near its place when they are
// counted by time, and little is left to sort.
func byBegin(all []trace.Compact) []int32 {
	first, last := int64(math.MaxInt64), int64(math.MinInt64)
	for i := range all {
		first, last = min(first, all[i].Begin), max(last, all[i].Begin)
	}
	shift := 0
	for len(all) > 0 && uint64(last-first)>>shift >= uint64(len(all)) {
		shift++
	}
	ends := make([]int32, len(all)+1) // of what begins in a stretch of time
	for i := range all {
		ends[uint64(all[i].Begin-first)>>shift+1]++
	}
	for i := range all {
		ends[i+1] += ends[i]
	}
	places := make([]int32, len(all))
	for i := range all {
		at := &ends[uint64(all[i].Begin-first)>>shift]
		places[*at] = int32(i)
		*at++
	}
	begin := int32(0)
	for _, end := range ends[:len(all)] {
		if end-begin > 1 {
			slices.SortStableFunc(places[begin:end], func(a, b int32) int {
				if all[a].Begin != all[b].Begin {
					return cmp.Compare(all[a].Begin, all[b].Begin)
				}
				return cmp.Compare(all[b].End, all[a].End)
			})
		}
		begin = end
	}
	return places
}

// place adds a span to the first lane that is free.
func place(lanes *[]*lane, at int32, c *trace.Compact) {
	for i, l := range *lanes {
		if l.end <= c.Begin || i+1 == maxLanes {
			l.spans, l.end = append(l.spans, at), c.End
			return
		}
	}
	*lanes = append(*lanes, &lane{spans: []int32{at}, end: c.End})
}

// Shown is a span, or several that are too narrow to be drawn alone. Times are ms since 1970.
type Shown struct {
	Kind  string  `json:"kind"`
	Name  string  `json:"name"`
	For   string  `json:"for"`
	Step  int64   `json:"step"`
	ID    string  `json:"id"` // of the experience
	Begin float64 `json:"begin"`
	End   float64 `json:"end"`
	N     int     `json:"n"`
}

// laneView is a lane as the page draws it.
type laneView struct {
	Role  string  `json:"role"`
	Name  string  `json:"name"`
	Spans []Shown `json:"spans"`
}

// perPixel is how many spans of a lane may begin in a pixel.
const perPixel = 4

// within returns what of a lane is between two times, with at most perPixel spans for each pixel.
func (s *spans) within(l *lane, from, to, width int64) []Shown {
	shown := []Shown{}
	pixel := max(float64(to-from)/float64(width), 1e-3)
	at, begun := int64(-1), 0 // the newest pixel, and the first place in it
	for _, place := range l.spans {
		c := &s.all[place]
		if c.Begin > to {
			break
		}
		if c.End < from {
			continue
		}
		p := int64(float64(max(c.Begin, from)-from) / pixel)
		if p != at {
			at, begun = p, len(shown)
		}
		kind, narrow := s.words[c.Kind], float64(c.End-c.Begin) < pixel
		same := slices.IndexFunc(shown[begun:], func(o Shown) bool { return narrow && o.Kind == kind && 1000*(o.End-o.Begin) < 2*pixel })
		if same < 0 && len(shown)-begun == perPixel {
			same = perPixel - 1
		}
		if same >= 0 {
			o := &shown[begun+same]
			o.N++
			o.End = max(o.End, float64(c.End)/1000)
			continue
		}
		shown = append(shown, Shown{
			kind, s.words[c.Name], s.words[c.For], c.Step, s.words[c.ID], float64(c.Begin) / 1000, float64(c.End) / 1000, 1,
		})
	}
	return shown
}

// waited returns the seconds between two times that each role waited for another.
func (s *spans) waited(from, to int64) map[string]float64 {
	waits := map[string]float64{}
	for key, all := range s.waits {
		if sum := all.Within(from, to); sum > 0 {
			waits[s.words[key[0]]+" waits for "+s.words[key[1]]] = float64(sum) / 1e6
		}
	}
	return waits
}

// maxWidth is the most pixels that a page has.
const maxWidth = 1 << 14

// spansIn answers with the spans between two times, as they can be drawn.
func (s *traces) spansIn(r *http.Request, f *runFiles) (any, error) {
	dir, err := f.traces()
	if err != nil {
		return nil, err
	}
	all, err := s.spans.read(dir)
	if err != nil {
		return nil, err
	}
	from, err := instant(r, "from", all.first)
	to, err2 := instant(r, "to", all.last)
	width, err3 := number(r, "width", 1000)
	switch err := errors.Join(err, err2, err3); {
	case err != nil:
		return nil, mistake{err}
	case from > to:
		return nil, mistake{errors.New("from is later than to")}
	case width < 1 || width > maxWidth:
		return nil, mistake{fmt.Errorf("width is %d: want 1 to %d pixels", width, maxWidth)}
	}
	lanes := make([]laneView, len(all.lanes))
	var parts sync.WaitGroup
	for i, l := range all.lanes {
		parts.Go(func() { lanes[i] = laneView{l.role, l.name, all.within(l, from, to, width)} })
	}
	parts.Wait()
	return map[string]any{
		"from": float64(from) / 1000, "to": float64(to) / 1000, "first": float64(all.first) / 1000, "last": float64(all.last) / 1000,
		"lanes": lanes, "waits": all.waited(from, to), "damaged": list(all.damaged),
	}, nil
}

// instant returns a parameter that is a time in ms since 1970, in µs, and fallback if it is not given.
func instant(r *http.Request, name string, fallback int64) (int64, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return fallback, nil
	}
	ms, err := strconv.ParseFloat(text, 64)
	if err != nil || !(math.Abs(ms) < 1e15) {
		return 0, fmt.Errorf("%s is %.40q: want ms since 1970", name, text)
	}
	return int64(1000 * ms), nil
}
