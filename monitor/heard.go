package monitor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/config"
)

// Witness is a Monitor that is told of spans and of failed rollouts. It must not block.
type Witness interface {
	Span(trinity.Span)
	Failed(trinity.FailedRollout)
}

// heard is what a display knows of waits and of failed rollouts. It has a lock of its own, because
// the display's may wait for a terminal.
type heard struct {
	mu       sync.Mutex
	spans    []trinity.Span          // waits of the last minute, in the order in which they ended
	newest   map[string]trinity.Span // by role
	failures int
	failed   *trinity.FailedRollout // the newest
}

// The bounds of what is kept.
const (
	waitWindow = time.Minute
	maxWaits   = 4096
)

func (h *heard) span(s trinity.Span) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.newest == nil {
		h.newest = map[string]trinity.Span{}
	}
	if !s.End.Before(h.newest[s.Role].End) {
		h.newest[s.Role] = s
	}
	if s.Kind == trinity.SpanWait && s.For != "" {
		h.spans = append(h.spans, s)
		h.spans = slices.Delete(h.spans, 0, max(0, len(h.spans)-maxWaits))
	}
}

func (h *heard) fail(f trinity.FailedRollout) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failures++
	if h.failed == nil || !f.Time.Before(h.failed.Time) {
		h.failed = &f
	}
}

// waits says who waited for whom in the minute before now, the longest first. Waits at the same time,
// as rollouts have them, count once.
func (h *heard) waits(now time.Time) (words []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	from := now.Add(-waitWindow)
	h.spans = slices.DeleteFunc(h.spans, func(s trinity.Span) bool { return s.End.Before(from) })
	slices.SortStableFunc(h.spans, func(a, b trinity.Span) int { return a.Begin.Compare(b.Begin) })
	type wait struct {
		who   string
		sum   time.Duration
		until time.Time
	}
	var all []*wait
	for _, s := range h.spans {
		who := s.Role + " for " + s.For
		i := slices.IndexFunc(all, func(w *wait) bool { return w.who == who })
		if i < 0 {
			i = len(all)
			all = append(all, &wait{who: who, until: from})
		}
		if w := all[i]; s.End.After(w.until) {
			begin := s.Begin
			if begin.Before(w.until) {
				begin = w.until
			}
			w.sum += s.End.Sub(begin)
			w.until = s.End
		}
	}
	slices.SortStableFunc(all, func(a, b *wait) int { return cmp.Compare(b.sum, a.sum) })
	for _, w := range all {
		if share := float64(w.sum) / float64(waitWindow); share >= 0.005 {
			words = append(words, fmt.Sprintf("%s %.0f%%", config.Printable(w.who), 100*share))
		}
	}
	return words
}

// failure says which rollout failed last.
func (h *heard) failure() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failed == nil {
		return ""
	}
	reason, _, _ := strings.Cut(h.failed.Reason, "\n")
	return fmt.Sprintf("%d  step %d, task %s, run %d, by %s: %s", h.failures, h.failed.ID.Step, config.Printable(h.failed.ID.Task),
		h.failed.ID.Run, h.failed.Kind, config.Printable(reason))
}

// last returns the newest span of each role.
func (h *heard) last() map[string]trinity.Span {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := map[string]trinity.Span{}
	for role, s := range h.newest {
		out[role] = s
	}
	return out
}

// worst returns the answer with the lowest reward among samples.
func worst(samples []trinity.Sample) string {
	if len(samples) == 0 {
		return ""
	}
	s := slices.MinFunc(samples, func(a, b trinity.Sample) int { return cmp.Compare(a.Reward, b.Reward) })
	text := fmt.Sprintf("reward %s  ", number(s.Reward))
	if s.Prompt != "" {
		text += ending(s.Prompt, 40) + " → "
	}
	return text + config.Printable(strings.Join(strings.Fields(s.Response), " "))
}

// ending returns the last characters of a text, which is where a prompt asks.
func ending(text string, most int) string {
	all := []rune(config.Printable(strings.Join(strings.Fields(text), " ")))
	if len(all) <= most {
		return string(all)
	}
	return "…" + string(all[len(all)-most+1:])
}
