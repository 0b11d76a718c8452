package monitor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/safetext"
	"github.com/trinity-go/trinity/internal/wait"
)

// Witness is a Monitor that is told of spans and of failed rollouts. It must not block.
type Witness interface {
	Span(trinity.Span)
	Failed(trinity.FailedRollout)
}

// activity is what a display knows of waits and of failed rollouts. It has a lock of its own, because
// the display's may wait for a terminal.
type activity struct {
	mu       sync.Mutex
	waiting  map[string]rundir.Union // by who waits for whom
	newest   map[string]trinity.Span // by role
	failures int
	failed   *trinity.FailedRollout // the newest
}

// waitWindow is for how long waits are kept.
const waitWindow = time.Minute

func (h *activity) span(s trinity.Span) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.newest == nil {
		h.newest, h.waiting = map[string]trinity.Span{}, map[string]rundir.Union{}
	}
	if !s.End.Before(h.newest[s.Role].End) {
		h.newest[s.Role] = s
	}
	if s.Kind != trinity.SpanWait || s.For == "" {
		return
	}
	who := s.Role + " for " + s.For
	all := h.waiting[who]
	all.Add(rundir.Stretch{Begin: s.Begin.UnixMicro(), End: s.End.UnixMicro()})
	oldest := all[len(all)-1].End - waitWindow.Microseconds()
	h.waiting[who] = slices.DeleteFunc(all, func(w rundir.Stretch) bool { return w.End < oldest })
}

func (h *activity) fail(f trinity.FailedRollout) {
	if f.Kind == trinity.DroppedAnswer {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failures++
	if h.failed == nil || !f.Time.Before(h.failed.Time) {
		h.failed = &f
	}
}

// waits says who waited for whom in the minute before now, or since the run began, the longest first.
func (h *activity) waits(began, now time.Time) (words []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	from := now.Add(-waitWindow)
	if from.Before(began) {
		from = began
	}
	sum := map[string]time.Duration{}
	for who, all := range h.waiting {
		// Spans reach the disk apart from the records, so some end after now.
		sum[who] = time.Duration(all.Within(from.UnixMicro(), now.UnixMicro())) * time.Microsecond
	}
	byLength := func(a, b string) int { return cmp.Or(cmp.Compare(sum[b], sum[a]), strings.Compare(a, b)) }
	for _, who := range slices.SortedFunc(maps.Keys(sum), byLength) {
		if share := float64(sum[who]) / float64(max(now.Sub(from), 1)); share >= 0.005 {
			words = append(words, fmt.Sprintf("%s %.0f%%", safetext.Printable(who), 100*share))
		}
	}
	return words
}

// failure says which rollout failed last.
func (h *activity) failure() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failed == nil {
		return ""
	}
	reason, _, _ := strings.Cut(h.failed.Reason, "\n")
	return fmt.Sprintf("%d  step %d, task %s, run %d, by %s: %s", h.failures, h.failed.ID.Step, safetext.Printable(h.failed.ID.Task),
		h.failed.ID.Run, h.failed.Kind, safetext.Printable(reason))
}

// silent says of explorers and the trainer how long nothing is known of them, if that is long, and
// what they did before.
func (h *activity) silent(now time.Time) (words []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, role := range slices.Sorted(maps.Keys(h.newest)) {
		s := h.newest[role]
		since := now.Sub(s.End).Round(time.Second)
		if since < longSilence || strings.HasPrefix(role, trinity.RoleEvaluation) {
			continue
		}
		what := strings.ReplaceAll(string(s.Kind), "_", " ")
		if s.For != "" {
			what += " for " + s.For
		}
		if s.Step > 0 {
			what += fmt.Sprintf(" of step %d", s.Step)
		}
		words = append(words, safetext.Printable(fmt.Sprintf("%s for %s, after: %s", role, wait.Text(since), what)))
	}
	return words
}

// longSilence is after how long silence is worth a word. A span stays in memory for up to two seconds.
const longSilence = 5 * time.Second

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
	return text + safetext.Printable(strings.Join(strings.Fields(s.Response), " "))
}

// ending returns the last characters of a text, which is where a prompt asks.
func ending(text string, most int) string {
	all := []rune(safetext.Printable(strings.Join(strings.Fields(text), " ")))
	if len(all) <= most {
		return string(all)
	}
	return "…" + string(all[len(all)-most+1:])
}
