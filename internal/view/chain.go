package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/safetext"
	"github.com/trinity-go/trinity/internal/trace"
)

// late is by how many microseconds the end of a span may come after that of the wait which it ends.
const late = 2000

// does is what a role did.
type does struct{ role, label string }

// chain is the way back through what bounded the time of a run: from the span that ended last to the one
// of the same role that ended last before it, and so on. A wait leads to the role that it was for, and one
// for a slot of the model to the call that had the slot. Had another part been faster, the run would have
// taken as long.
type chain struct {
	seconds  map[does]float64
	spans    map[string][]trace.Span // of each role, without the parts of rollouts; each list by its ends
	calls    map[string][]trace.Span // of the model, by each role
	parts    map[string][]trace.Span // of each rollout
	rollouts map[string]trace.Span
	role     string
	at       int64 // µs since 1970; what ended later has been gone through
}

// chain goes the way back through all spans.
func (p *Perf) chain() map[does]float64 {
	c := &chain{
		map[does]float64{}, map[string][]trace.Span{}, map[string][]trace.Span{}, map[string][]trace.Span{}, map[string]trace.Span{}, "", 0,
	}
	for _, s := range slices.SortedStableFunc(slices.Values(p.spans), byEnd) {
		evaluated, evaluates := strings.CutPrefix(s.Role, trinity.RoleEvaluation)
		switch rollout := s.Role + s.ID; {
		case evaluates && s.Kind == trinity.SpanEvaluation: // with all its rollouts
			role := trinity.RoleExplorer + evaluated // which does it
			c.spans[role] = append(c.spans[role], s)
		case evaluates:
		case s.Kind == trinity.SpanRollout:
			c.rollouts[rollout] = s
			c.spans[s.Role] = append(c.spans[s.Role], s)
		case s.ID == "":
			c.spans[s.Role] = append(c.spans[s.Role], s)
		default:
			c.parts[rollout] = append(c.parts[rollout], s)
			if s.Kind == trinity.SpanCall {
				c.calls[s.Role] = append(c.calls[s.Role], s)
			}
		}
	}
	for _, role := range slices.Sorted(maps.Keys(c.spans)) { // the trainer last, with which a step ends
		spans := c.spans[role]
		if end := spans[len(spans)-1].End; end >= c.at {
			c.role, c.at = role, end
		}
	}
	for waited := int64(0); ; {
		s, ok := takeBefore(c.spans, c.role, c.at, waited)
		if !ok {
			return c.seconds
		}
		c.reach(s.End, "between its spans")
		role, ok := c.roleFor(s)
		switch waited = 0; {
		case ok:
			c.role, waited = role, late
		case s.Kind == trinity.SpanRollout:
			c.rollout(s)
		default:
			c.reach(s.Begin, labelOf(s))
		}
	}
}

// reach goes back to a time, and counts for the role what was before it on the way.
func (c *chain) reach(end int64, label string) {
	if end < c.at {
		c.seconds[does{c.role, label}] += float64(c.at-end) / 1e6
		c.at = end
	}
}

// rollout goes back to the begin of a rollout, or of one that had its slot of the model before.
func (c *chain) rollout(s trace.Span) {
	for {
		part, ok := takeBefore(c.parts, s.Role+s.ID, c.at, 0)
		if !ok {
			c.reach(s.Begin, labelOf(s))
			return
		}
		c.reach(part.End, labelOf(s))
		if part.Kind == trinity.SpanWait {
			if call, ok := takeBefore(c.calls, s.Role, c.at, late); ok {
				c.reach(call.End, labelOf(part))
				if of, ok := c.rollouts[s.Role+call.ID]; ok {
					s = of
				}
				part = call
			}
		}
		c.reach(part.Begin, labelOf(part))
	}
}

// takeBefore takes from a list of spans the one that ended last before a time and began before it, and
// all after that. The end may be some microseconds after the time.
func takeBefore(lists map[string][]trace.Span, key string, ns, after int64) (s trace.Span, ok bool) {
	spans := lists[key]
	n := endedBy(spans, ns+after)
	for n > 0 && spans[n-1].Begin >= ns {
		n--
	}
	if n == 0 {
		return s, false
	}
	lists[key] = spans[:n-1]
	return spans[n-1], true
}

// endedBy returns how many spans, which are in the order of their ends, had ended at a time.
func endedBy(spans []trace.Span, ns int64) int {
	n, _ := slices.BinarySearchFunc(spans, ns+1, func(s trace.Span, t int64) int { return cmp.Compare(s.End, t) })
	return n
}

// roleFor returns the role that a wait is for; of several explorers, the one that ended something last
// before the end of the wait.
func (c *chain) roleFor(s trace.Span) (role string, ok bool) {
	if s.Kind != trinity.SpanWait {
		return "", false
	}
	newest := int64(0)
	for _, other := range slices.Sorted(maps.Keys(c.spans)) {
		spans := c.spans[other]
		n := endedBy(spans, c.at+late)
		if other != c.role && n > 0 && strings.HasPrefix(other, s.For) && spans[n-1].End > newest {
			newest, role, ok = spans[n-1].End, other, true
		}
	}
	return role, ok
}

// bounds writes the chain, what took longest first.
func (p *Perf) bounds(out *strings.Builder, whole float64) {
	chain := p.chain()
	all := slices.SortedFunc(maps.Keys(chain), func(a, b does) int {
		return cmp.Or(cmp.Compare(chain[b], chain[a]), strings.Compare(a.role, b.role), strings.Compare(a.label, b.label))
	})
	what, head, per := "run", "", 0
	if p.step > 0 {
		what = "step"
	} else if per = len(p.trainSteps()); per > 0 {
		head = "ms a train step\t"
	}
	fmt.Fprintf(out, "\ncritical path of the %s: each part of it began when another had ended\n", what)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "role\twhat\tseconds\tof the whole\t%s\n", head)
	for _, of := range all {
		if chain[of] < whole/1000 {
			continue
		}
		fmt.Fprintf(t, "%s\t%s\t%.2f\t%.1f %%\t", safetext.Printable(of.role), safetext.Printable(of.label), chain[of], 100*chain[of]/whole)
		if per > 0 {
			fmt.Fprintf(t, "%s\t", digits(1000*chain[of]/float64(per)))
		}
		fmt.Fprintln(t)
	}
	t.Flush()
}
