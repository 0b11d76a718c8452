package studio

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/trace"
)

// spans are the spans of a trace in memory, in lanes.
type spans struct {
	words       []string // of all names, by number
	numbers     map[string]int32
	lanes       []*lane
	waits       map[[2]int32][]stretch // by the numbers of who waited and for whom; in order
	first, last int64                  // µs since 1970
	damaged     []string
}

// lane is what one role did, one after the other. Lanes of what a role did at once have numbers.
type lane struct {
	role, name string
	spans      []compact // by their begin
}

// compact is a span whose words have numbers.
type compact struct {
	begin, end, step         int64
	role, kind, name, of, id int32
}

// stretch is a time in µs since 1970.
type stretch struct{ begin, end int64 }

// maxLanes is how many lanes a role has for what it does of one kind at once. In the last one they
// overlap.
const maxLanes = 8

// word returns the number of a word.
func (s *spans) word(text string) int32 {
	n, ok := s.numbers[text]
	if !ok {
		n = int32(len(s.words))
		s.numbers[text], s.words = n, append(s.words, text)
	}
	return n
}

// readSpans reads the spans of a trace. What cannot be read is a line in damaged.
func readSpans(dir string) *spans {
	s := &spans{numbers: map[string]int32{}, waits: map[[2]int32][]stretch{}}
	all, err := trace.MapSpans(dir, func(o *trace.Span) compact {
		return compact{
			o.Begin, max(o.Begin, o.End), o.Step, // the clock may have been set
			s.word(o.Role), s.word(string(o.Kind)), s.word(o.Name), s.word(o.For), s.word(o.ID),
		}
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.damaged = strings.Split(err.Error(), "\n")
	}
	s.numbers = nil
	s.order(all)
	return s
}

// order puts spans into lanes.
func (s *spans) order(all []compact) {
	slices.SortStableFunc(all, func(a, b compact) int { return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(b.end, a.end)) })
	lanes := map[[2]int32][]*lane{}
	for i, c := range all {
		if i == 0 {
			s.first, s.last = c.begin, c.end
		}
		s.last = max(s.last, c.end)
		group := [2]int32{c.role, c.kind}
		if s.words[c.role] == trinity.RoleTrainer { // it does one thing at a time
			group[1] = -1
		}
		lanes[group] = place(lanes[group], c)
		if s.words[c.kind] == string(trinity.SpanWait) {
			key := [2]int32{c.role, c.of}
			s.waits[key] = cover(s.waits[key], stretch{c.begin, c.end})
		}
	}
	for group, of := range lanes {
		for i, l := range of {
			l.role = s.words[group[0]]
			if l.name = l.role; group[1] >= 0 {
				l.name = s.words[group[1]]
			}
			if i > 0 {
				l.name = fmt.Sprintf("%s %d", l.name, i+1)
			}
		}
		s.lanes = append(s.lanes, of...)
	}
	slices.SortFunc(s.lanes, func(a, b *lane) int {
		// The trainer comes first, and evaluations come last.
		return cmp.Or(strings.Compare(b.role, a.role), cmp.Compare(a.spans[0].begin, b.spans[0].begin), strings.Compare(a.name, b.name))
	})
}

// place adds a span to the first lane that is free.
func place(lanes []*lane, c compact) []*lane {
	for i, l := range lanes {
		if l.spans[len(l.spans)-1].end <= c.begin || i+1 == maxLanes {
			l.spans = append(l.spans, c)
			return lanes
		}
	}
	return append(lanes, &lane{spans: []compact{c}})
}

// cover adds a stretch that does not begin before the others. Time that is in several counts once.
func cover(all []stretch, s stretch) []stretch {
	if n := len(all); n > 0 && s.begin <= all[n-1].end {
		all[n-1].end = max(all[n-1].end, s.end)
		return all
	}
	return append(all, s)
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

// shownLane is a lane as the page draws it.
type shownLane struct {
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
	for _, c := range l.spans {
		if c.end < from || c.begin > to {
			continue
		}
		p := int64(float64(max(c.begin, from)-from) / pixel)
		if p != at {
			at, begun = p, len(shown)
		}
		kind, narrow := s.words[c.kind], float64(c.end-c.begin) < pixel
		same := slices.IndexFunc(shown[begun:], func(o Shown) bool { return narrow && o.Kind == kind && 1000*(o.End-o.Begin) < 2*pixel })
		if same < 0 && len(shown)-begun == perPixel {
			same = perPixel - 1
		}
		if same >= 0 {
			o := &shown[begun+same]
			o.N++
			o.End = max(o.End, float64(c.end)/1000)
			continue
		}
		shown = append(shown, Shown{
			kind, s.words[c.name], s.words[c.of], c.step, s.words[c.id], float64(c.begin) / 1000, float64(c.end) / 1000, 1,
		})
	}
	return shown
}

// waited returns the seconds between two times that each role waited for another.
func (s *spans) waited(from, to int64) map[string]float64 {
	waits := map[string]float64{}
	for key, all := range s.waits {
		sum := int64(0)
		for _, w := range all {
			sum += max(0, min(w.end, to)-max(w.begin, from))
		}
		if sum > 0 {
			waits[s.words[key[0]]+" waits for "+s.words[key[1]]] = float64(sum) / 1e6
		}
	}
	return waits
}

// maxWidth is the most pixels that a page has.
const maxWidth = 1 << 14

// spans answers with the spans between two times, as they can be drawn.
func (s *Server) spans(r *http.Request) (any, error) {
	dir, err := s.traceDir(r)
	if err != nil {
		return nil, err
	}
	all, err := s.spanCache.read(dir)
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
	lanes := []shownLane{}
	for _, l := range all.lanes {
		lanes = append(lanes, shownLane{l.role, l.name, all.within(l, from, to, width)})
	}
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
