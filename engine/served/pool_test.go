package served

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/retry"
)

// scripted is a server whose failure the test sets.
type scripted struct {
	product string
	mu      sync.Mutex
	fails   error
	hangs   bool
	weights string
	asked   int
	tells   string                      // name of the weights that sampled the last token; "" is not told
	during  func()                      // called while a token is sampled; nil does nothing
	loads   func(context.Context) error // called while weights are loaded; nil returns fails
}

func (s *scripted) set(fails error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails = fails
}

func (s *scripted) call(weights string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.weights = weights
}

func (s *scripted) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

func (s *scripted) about() about { return about{product: s.product} }

func (s *scripted) sample(ctx context.Context, _ *query) (*answer, error) {
	s.mu.Lock()
	s.asked++
	fails, hangs := s.fails, s.hangs
	s.mu.Unlock()
	if s.during != nil {
		s.during()
	}
	if hangs {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	a := &answer{tokens: []int32{1}, logprobs: []float32{-1}, finish: "length"}
	if s.tells != "" {
		a.weights, a.last = []string{s.tells}, true
	}
	return a, fails
}

func (s *scripted) release(context.Context) {}

func (s *scripted) load(ctx context.Context, _, name string) error {
	s.call(name)
	if s.loads != nil {
		return s.loads(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fails
}

func (s *scripted) has(_ context.Context, name string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.weights == name, s.fails
}

// serving returns a sampler over n scripted servers, and what it says.
func serving(n int) (s *Sampler, at []*scripted, said func() string) {
	var mu sync.Mutex
	var lines []string
	var all []*server
	for i := range n {
		at = append(at, &scripted{product: fmt.Sprint("product ", i)})
		all = append(all, &server{url: fmt.Sprint("url", i), endpoint: at[i], seen: time.Now()})
	}
	s = &Sampler{vocab: 100, length: 100, record: true, loadTimeout: time.Minute, mark: "run", idle: func() {}}
	s.pool = newPool(all, time.Minute, func(line string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, line)
	})
	s.pool.look = s.look
	return s, at, func() string {
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(lines, "; ")
	}
}

func (s *Sampler) try(ctx context.Context) error {
	_, err := s.Sample(ctx, trinity.Prompt{Tokens: []int32{1, 2}}, trinity.SamplingParams{MaxTokens: 1})
	return err
}

var errDown = retry.Temporary(errors.New("connection refused"))

// A server that fails three times in a row is left out. It is looked at with growing pauses until it
// answers. Meanwhile no request fails.
func TestFailingServerIsLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, at, said := serving(2)
		defer s.Close()
		at[0].set(errDown)
		for range 9 {
			if err := s.try(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if want := "product 0 at url0 is left out: connection refused"; at[0].count() != 3 || said() != want {
			t.Errorf("asked %d times, said %q; want 3 and %q", at[0].count(), said(), want)
		}
		time.Sleep(100 * time.Second)
		synctest.Wait()
		if n := at[0].count() - 3; n < 5 || n > 8 { // after 1, 3, 7, 15, 31, 61 and 91 s
			t.Errorf("looked at %d times in 100 s", n)
		}
		at[0].set(nil)
		time.Sleep(mostPause)
		synctest.Wait()
		if !strings.HasSuffix(said(), "product 0 at url0 is back") {
			t.Errorf("said %q", said())
		}
	})
}

// If no server is left, requests wait; after the patience the error names each with its last failure.
func TestAllServersAreGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, at, _ := serving(2)
		defer s.Close()
		at[0].set(errDown)
		at[1].set(retry.Temporary(errors.New("503 the queue is full")))
		begun := time.Now()
		err := s.try(t.Context())
		failed := (*trinity.EngineError)(nil)
		if !errors.As(err, &failed) || !strings.Contains(err.Error(), "no server has answered for 1m0s: product 0 at url0: connection") ||
			!strings.Contains(err.Error(), "refused; product 1 at url1: 503") || strings.Contains(err.Error(), "\n") {
			t.Errorf("got %v", err)
		}
		if took := time.Since(begun); took < time.Minute || took > 2*time.Minute { // of the bubble's clock
			t.Errorf("gave up after %v", took)
		}
		go func() {
			time.Sleep(10 * time.Second)
			at[1].set(nil)
		}()
		if err := s.try(t.Context()); !errors.As(err, &failed) {
			t.Errorf("a later request waits again: %v", err)
		}
		time.Sleep(10*time.Second + mostPause)
		if err := s.try(t.Context()); err != nil {
			t.Error("a server is back:", err)
		}
	})
}

// What a caller ends, or a request brings on itself, is no failure of the server.
func TestWhatCountsAsFailure(t *testing.T) {
	late := &trinity.RolloutError{Kind: trinity.FailedTimeout, Err: errors.New("max_timeout passed")}
	for _, c := range []struct {
		name   string
		fails  error
		hangs  bool
		cause  error // that ends the context after a second; nil if nothing does
		counts int
		want   string
	}{
		{"refused", errors.New("400 bad prompt"), false, nil, 0, "400 bad prompt"},
		{"wrong", wrongf("no ids"), false, nil, 0, "no ids"},
		{"cancelled", nil, true, errors.New("the step ended"), 0, "the step ended"},
		{"late", nil, true, late, 1, "max_timeout passed"},
		{"works", nil, false, nil, 0, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, at, _ := serving(1)
			defer s.Close()
			at[0].fails, at[0].hangs = c.fails, c.hangs
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			if c.cause != nil {
				time.AfterFunc(time.Second, func() { cancel(c.cause) })
			}
			err := s.try(ctx)
			if got := fmt.Sprint(err); c.want == "" && err != nil || !strings.Contains(got, c.want) || at[0].count() != 1 {
				t.Errorf("%s: %v after %d requests, want %q after one", c.name, err, at[0].count(), c.want)
			}
			if n := s.pool.servers[0].failures; n != c.counts {
				t.Errorf("%s: %d failures, want %d", c.name, n, c.counts)
			}
		})
	}
}

// A server that hangs has half of the request's time; then another one answers.
func TestHangingServerIsReplacedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, at, _ := serving(2)
		defer s.Close()
		at[0].hangs = true
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := s.try(ctx); err != nil || at[0].count() != 1 || at[1].count() != 1 {
			t.Errorf("%v after %d and %d requests", err, at[0].count(), at[1].count())
		}
	})
}

// A server that has restarted samples with other weights: it gets no request until it has been given
// the newest ones.
func TestRestartedServerGetsNoRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, at, said := serving(2)
		defer s.Close()
		if err := s.LoadWeights(t.Context(), "/dir", 1); err != nil {
			t.Fatal(err)
		}
		at[0].call("first")
		time.Sleep(2 * idleTime) // without a request that could have failed
		before := at[0].count()
		for range 4 {
			if err := s.try(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if at[0].count() != before || !strings.Contains(said(), "it has restarted") {
			t.Errorf("asked %d times, said %q", at[0].count()-before, said())
		}
		if err := s.LoadWeights(t.Context(), "/dir", 2); err != nil {
			t.Fatal(err)
		}
		for range 4 {
			if err := s.try(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if at[0].weights != "run-2" || at[0].count() == before || !strings.HasSuffix(said(), "url0 is back") {
			t.Errorf("weights %q, asked %d times, said %q", at[0].weights, at[0].count()-before, said())
		}
	})
}

// A server that cannot load a version is left out. If none can, that is an error.
func TestServersThatCannotLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, at, _ := serving(2)
		defer s.Close()
		at[1].set(errors.New("500 no such file"))
		if err := s.LoadWeights(t.Context(), "/dir", 1); err != nil {
			t.Fatal(err)
		}
		at[1].set(nil)
		at[1].call("half")
		for range 4 {
			if err := s.try(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if at[1].count() != 0 {
			t.Errorf("the server that failed was asked %d times", at[1].count())
		}
		at[0].set(errors.New("500 no such file"))
		at[1].set(errors.New("500 no space"))
		if err := s.LoadWeights(t.Context(), "/dir", 2); err == nil || strings.Contains(err.Error(), "\n") ||
			!strings.Contains(err.Error(), "product 0 at url0: loading version 2 from /dir: 500 no such file") {
			t.Errorf("got %v", err)
		}
	})
}

// A group and a conversation return to the server that has computed their beginning, unless it has
// much more to do. Other requests go to the least loaded one.
func TestRequestsReturnToTheirPrefix(t *testing.T) {
	s, _, _ := serving(2)
	defer s.Close()
	p := s.pool
	prompt := func(first, n int) (tokens []int32) {
		for i := range n {
			tokens = append(tokens, int32(first*1000+i))
		}
		return tokens
	}
	first, _ := p.choose(prompt(1, 40), nil)
	other, _ := p.choose(prompt(2, 40), nil)
	if other == first {
		t.Error("both requests went to one server")
	}
	for range slack {
		if at, _ := p.choose(prompt(1, 40), nil); at != first {
			t.Error("a rollout left the server of its group")
		}
	}
	p.computed(prompt(1, 40), prompt(3, 20), first)
	first.inFlight = 2
	if at, _ := p.choose(slices.Concat(prompt(1, 40), prompt(3, 20), prompt(4, 20)), nil); at != first {
		t.Error("a conversation left its server")
	}
	if at, _ := p.choose(slices.Concat(prompt(1, 40), prompt(5, 80)), nil); at != other {
		t.Error("a prompt of which a third is known did not go to the least loaded server")
	}
	first.inFlight = other.inFlight + slack + 1
	if at, _ := p.choose(prompt(1, 40), nil); at != other {
		t.Error("a busy server got another request")
	}
}

// Tokens that may have been sampled by two versions name both: the older one when the request began,
// and the newer one as soon as a server begins to load it.
func TestVersionsOfTokensDuringALoad(t *testing.T) {
	s, at, _ := serving(1)
	defer s.Close()
	at[0].during = func() {
		here := s.pool.servers[0]
		s.pool.unproven(here, 5, "run-5")
		here.version = 5
		s.pool.proved(s.pool.servers)
	}
	out, err := s.Sample(t.Context(), trinity.Prompt{Tokens: []int32{1}}, trinity.SamplingParams{MaxTokens: 1})
	if err != nil || out[0].Versions != [2]int64{0, 5} {
		t.Errorf("got %+v, %v", out, err)
	}
}
