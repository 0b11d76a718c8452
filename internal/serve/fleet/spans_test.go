package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/trace"
)

// kept is a Lane in memory.
type kept struct {
	mu     sync.Mutex
	spans  []trace.Span
	opened int
	closed int
}

func (k *kept) Line(s trace.Span) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.spans = append(k.spans, s)
}

func (k *kept) Close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed++
	return nil
}

func (k *kept) all() []trace.Span {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.spans)
}

// keepSpans lets a trainer keep spans.
func (tr *trainer) keepSpans() *kept {
	k := &kept{}
	tr.Lane = func() (Lane, error) {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.opened++
		return k, nil
	}
	return k
}

// join returns a client that has joined, in a directory of its own.
func join(t *testing.T, name string, p Place) *Client {
	t.Helper()
	c := client(name, p, time.Minute)
	c.Dir = t.TempDir()
	if _, _, err := c.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

// until waits for a condition.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain for " + what)
		}
	}
}

func rollout(step int64) trinity.Span {
	now := time.Now()
	return trinity.Span{
		Role: trinity.RoleExplorer, Kind: trinity.SpanRollout, Name: "t", Step: step, Begin: now.Add(-time.Second), End: now,
		Experience: trinity.ExperienceID{Step: step, Task: "t"},
	}
}

// Spans arrive in the trainer's time, whatever its clock shows, with the name of the explorer. A clock that
// is set takes no earlier span with it.
func TestSpansLineUp(t *testing.T) {
	tr := train(t, t.TempDir(), fixed, 0)
	tr.Lease = 30 * time.Millisecond // so the explorer asks for the time often
	k := tr.keepSpans()
	var ahead atomic.Int64
	tr.now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	ahead.Store(int64(67 * time.Minute))
	c := join(t, "left", at(tr))
	alive, die := context.WithCancel(t.Context())
	var both sync.WaitGroup
	both.Go(func() { _ = c.Alive(alive) })
	both.Go(func() { _ = c.SendSpans(alive) })
	knows := func(want time.Duration) func() bool {
		return func() bool {
			c.spans.mu.Lock()
			defer c.spans.mu.Unlock()
			best := c.spans.clock.best()
			return (best.ahead - want).Abs() <= best.error
		}
	}
	until(t, "the trainer's time", knows(67*time.Minute))
	first := rollout(1)
	c.Span(first)
	ahead.Store(int64(57 * time.Minute))
	until(t, "the time of a clock that was set back", knows(57*time.Minute))
	second := rollout(2)
	second.Role = trinity.RoleEvaluation
	c.Span(second)
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	die()
	both.Wait()
	spans := k.all()
	if len(spans) != 2 || spans[0].Role != "explorer left" || spans[1].Role != "evaluation left" || spans[0].ID != first.Experience.String() {
		t.Fatalf("got the spans %+v", spans)
	}
	c.spans.mu.Lock()
	worst := time.Duration(0)
	for _, r := range c.spans.clock.readings {
		worst = max(worst, r.error)
	}
	c.spans.mu.Unlock()
	for i, want := range []time.Time{first.End.Add(67 * time.Minute), second.End.Add(57 * time.Minute)} {
		if off := time.UnixMicro(spans[i].End).Sub(want).Abs(); off > worst+time.Second { // a minute and more, if it is wrong
			t.Errorf("span %d is %v off, and half of the longest round trip is %v", i, off, worst)
		}
		if long := spans[i].End - spans[i].Begin; long < 999_999 || long > 1_000_001 {
			t.Errorf("span %d takes %d µs, want a second", i, long)
		}
	}
}

// A clock keeps to the shortest round trip of the last minute, and begins anew when a reading contradicts it.
func TestClock(t *testing.T) {
	begin := time.Unix(1_700_000_000, 0)
	const ms = time.Millisecond
	for _, c := range []struct {
		name         string
		after        time.Duration // of the second round trip, after the first of 10 ms, 1 h ahead
		there, back  time.Duration
		ahead        time.Duration // of the other clock, at the second round trip
		jumped       bool
		want, within time.Duration // of the best reading
	}{
		{"a shorter round trip is better", time.Second, ms, ms, time.Hour, false, time.Hour, ms},
		{"a longer one is not", time.Second, 40 * ms, 60 * ms, time.Hour, false, time.Hour, 5 * ms},
		{"until the other is old", 2 * time.Minute, 40 * ms, 60 * ms, time.Hour, false, time.Hour - 10*ms, 50 * ms},
		{"clocks drift", 50 * time.Second, ms, ms, time.Hour + 8*ms, false, time.Hour + 8*ms, ms},
		{"a clock was set", time.Second, ms, ms, time.Hour - 100*ms, true, time.Hour - 100*ms, ms},
		{"by less than can be seen", time.Second, 5 * ms, 5 * ms, time.Hour + 9*ms, false, time.Hour + 9*ms, 5 * ms},
	} {
		var k clock
		trip := func(sent time.Time, there, back, ahead time.Duration) reading {
			const held = 3 * time.Second
			r, ok := readingOf(sent, sent.Add(there+held+back), timing{sent.Add(there + ahead).UnixMicro(), held.Microseconds()})
			if !ok {
				t.Fatalf("%s: no reading", c.name)
			}
			return r
		}
		k.add(trip(begin, 5*ms, 5*ms, time.Hour))
		second := trip(begin.Add(c.after), c.there, c.back, c.ahead)
		if k.jumped(second) != c.jumped {
			t.Errorf("%s: jumped %v", c.name, !c.jumped)
		}
		if c.jumped {
			k = clock{}
		}
		k.add(second)
		if best := k.best(); (best.ahead-c.want).Abs() > 2*time.Microsecond || (best.error-c.within).Abs() > 3*time.Microsecond {
			t.Errorf("%s: %v ± %v, want %v ± %v", c.name, best.ahead, best.error, c.want, c.within)
		}
	}
	odd := map[string]timing{"older": {}, "longer than the round trip": {1, 2_000_000}, "negative": {1, -1}, "huge": {1, 1 << 62}}
	for name, odd := range odd {
		if r, ok := readingOf(begin, begin.Add(time.Second), odd); ok {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// An explorer sends no spans to a trainer that keeps none, does not know them, or writes to the explorer's
// own directory.
func TestSpansThatNobodyWants(t *testing.T) {
	tr := train(t, t.TempDir(), fixed, 0)
	c := join(t, "left", at(tr))
	c.Span(rollout(1))
	if n := c.spans.count(); n != 0 {
		t.Errorf("%d spans wait for a trainer that keeps none", n)
	}
	k := tr.keepSpans()
	var asked atomic.Int64
	older := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/spans") {
			asked.Add(1)
			http.NotFound(w, r)
			return
		}
		recorded := httptest.NewRecorder()
		tr.Handler(context.Background()).ServeHTTP(recorded, r)
		var reply map[string]any
		if err := json.Unmarshal(recorded.Body.Bytes(), &reply); err != nil {
			t.Error(err)
		}
		for _, key := range []string{"spans", "trainer", "received", "held"} {
			delete(reply, key)
		}
		w.WriteHeader(recorded.Code)
		_ = json.NewEncoder(w).Encode(reply)
	}))
	defer older.Close()
	p := &place{}
	p.url.Store(older.URL)
	c = join(t, "right", p)
	c.Span(rollout(1))
	if err := errors.Join(c.Put(t.Context(), trinity.Delivery{Groups: group(1, 1)}), c.Close(t.Context())); err != nil {
		t.Error(err)
	}
	c = join(t, "third", at(tr))
	c.Dir = tr.Dir
	if err := (address{URL: tr.web.URL, Word: tr.word}).write(tr.Dir); err != nil {
		t.Fatal(err)
	}
	c.Span(rollout(1))
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if asked.Load() > 0 || k.opened > 0 || c.spans.count() > 0 {
		t.Errorf("%d requests, %d lanes, %d spans wait", asked.Load(), k.opened, c.spans.count())
	}
}

// A trainer that does not take spans delays and fails no delivery. What does not fit is counted.
func TestSpansDoNotDelayDeliveries(t *testing.T) {
	tr := train(t, t.TempDir(), fixed, 0)
	tr.keepSpans()
	entered, leave := make(chan struct{}, 100), make(chan struct{})
	inner := tr.Handler(context.Background())
	hanging := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/spans") {
			entered <- struct{}{}
			<-leave
			return
		}
		inner.ServeHTTP(w, r)
	}))
	defer hanging.Close()
	defer close(leave)
	p := &place{}
	p.url.Store(hanging.URL)
	c := join(t, "left", p)
	var said []string
	c.Say = func(line string) { said = append(said, line) }
	for range maxWaiting + 7 {
		c.Span(rollout(1))
	}
	sending, end := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- c.SendSpans(sending) }()
	for n := range int64(3) {
		if err := c.Put(t.Context(), trinity.Delivery{Groups: group(n, 1)}); err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			<-entered // the others are put while the spans hang
		}
	}
	end()
	if err := <-done; err != nil {
		t.Error(err)
	}
	want := fmt.Sprintf("the trainer's trace lacks %d spans of explorer left, which it did not take in time", maxWaiting+7)
	if !slices.Equal(said, []string{want}) {
		t.Errorf("said %q, want %q", said, want)
	}
}

// A batch that comes again, because the reply was lost, is kept once. Another process of the explorer has
// a lane of its own.
func TestBatchesAreNumbered(t *testing.T) {
	tr := train(t, t.TempDir(), fixed, 0)
	k := tr.keepSpans()
	c := join(t, "left", at(tr))
	for range maxSpans + 1 {
		c.Span(rollout(1))
	}
	body, err := c.spans.next()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.request(t.Context(), address{URL: tr.web.URL, Token: token}, http.MethodPost, c.path("/spans"), body, nil); err != nil {
		t.Fatal(err)
	}
	c.sendSpans(t.Context())
	if n := len(k.all()); n != maxSpans+1 || k.opened != 1 || c.spans.count() != 0 {
		t.Errorf("%d spans in %d lanes, want %d in 1; %d wait", n, k.opened, maxSpans+1, c.spans.count())
	}
	tr.known.byName["left"].gone = true
	again := join(t, "left", at(tr))
	again.Span(rollout(1))
	again.sendSpans(t.Context())
	if k.opened != 2 || k.closed != 1 {
		t.Errorf("opened %d lanes, closed %d, want 2 and 1", k.opened, k.closed)
	}
	tr.closeLanes()
	if k.closed != 2 {
		t.Error("a lane stays open")
	}
}

// Whatever an explorer sends as spans, the trainer keeps only what an explorer may have done.
func TestHostileSpans(t *testing.T) {
	tr := train(t, t.TempDir(), fixed, 0)
	k := tr.keepSpans()
	var said []string
	tr.Say = func(line string) { said = append(said, line) }
	c := join(t, "left", at(tr))
	now := time.Now().UnixMicro()
	span := func(format string, args ...any) string {
		fields := fmt.Sprintf(format, args...)
		return fmt.Sprintf(`{"role":"explorer","kind":"rollout","begin":%d,"end":%d%s}`, now-5, now, fields)
	}
	long := strings.Repeat("x", maxText+1)
	good := span(`,"name":"\u001b[2J<script>","unknown":[1]`)
	bad := []string{
		`null`, `{}`, `7`, `[[[[]]]]`, span(`,"role":"trainer"`), span(`,"role":"explorer right"`), span(`,"kind":""`), span(`,"kind":"a b"`),
		span(`,"kind":"%s"`, strings.Repeat("x", 33)), span(`,"step":-1`), span(`,"version":-1`), span(`,"begin":%d`, now+1),
		span(`,"begin":-9000000000000000000`), span(`,"end":9000000000000000000`), span(`,"end":1e30`),
		span(`,"id":"%s"`, long), span(`,"name":"%s"`, long), span(`,"for":"%s"`, long),
	}
	send := func(body string) error {
		return c.request(t.Context(), address{URL: tr.web.URL, Token: token}, http.MethodPost, c.path("/spans"), []byte(body), nil)
	}
	if err := send(`{"number":1,"spans":[` + strings.Join(append(bad, good), ",") + `]}`); err != nil {
		t.Error(err)
	}
	if got := k.all(); len(got) != 1 || got[0].Name != "\x1b[2J<script>" || got[0].Role != "explorer left" {
		t.Errorf("kept %+v", got)
	}
	many := good + strings.Repeat(`,{"role":"explorer","kind":"wait"}`, maxSpans) + "," + good
	if err := send(`{"number":2,"spans":[` + many + `]}`); err != nil {
		t.Error(err)
	}
	if got := k.all(); len(got) != 2 {
		t.Errorf("kept %d spans, want 2: the last one is one too many", len(got))
	}
	for _, body := range []string{"", "{", `{"number":"x"}`, `{"spans":{}}`, `{"number":3,"spans":[]} x`, strings.Repeat(" ", maxBatch+1)} {
		mention(t, send(body), "not understood")
	}
	if err := c.Put(t.Context(), trinity.Delivery{Groups: group(1, 1)}); err != nil {
		t.Error(err)
	}
	said = nil
	tr.closeLanes()
	want := fmt.Sprintf("the trace lacks %d spans of explorer left that it cannot have sent: run the same program on both",
		len(bad)+maxSpans+1)
	if !slices.Equal(said, []string{want}) {
		t.Errorf("said %q, want %q", said, want)
	}
}

// The spans of a whole batch are in files that readers of a trace read.
func TestLanesAreFilesOfATrace(t *testing.T) {
	tr := train(t, t.TempDir(), fixed, 0)
	dir := filepath.Join(tr.Dir, rundir.Traces)
	tr.Lane = func() (Lane, error) {
		return trace.New(trace.Options{Dir: dir, Spans: true, Say: func(line string) { t.Error(line) }})
	}
	for _, name := range []string{"left", "explorer"} {
		c := join(t, name, at(tr))
		c.Span(rollout(1))
		if err := c.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	tr.closeLanes()
	spans, err := trace.ReadSpans(dir)
	if err != nil || len(spans) != 2 || spans[0].Role != "explorer left" || spans[1].Role != "explorer" {
		t.Errorf("%+v, %v", spans, err)
	}
}
