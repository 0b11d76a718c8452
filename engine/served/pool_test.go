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
	silent  bool // hangs when it is asked for its weights
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

func (s *scripted) named() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.weights
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

func (s *scripted) tokenize(context.Context, string) ([]int32, error) { return nil, s.fails }

func (s *scripted) release(context.Context) {}

func (s *scripted) load(ctx context.Context, _, name string, _ bool) error {
	s.call(name)
	if s.loads != nil {
		return s.loads(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fails
}

func (s *scripted) has(ctx context.Context, name string) (bool, error) {
	if s.silent {
		<-ctx.Done()
		return false, context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case retry.IsTemporary(s.fails):
		return false, s.fails
	}
	return s.weights == name, nil
}

// serving returns a sampler over n scripted servers, and what it says.
func serving(n int) (s *sampler, at []*scripted, said func() string) {
	var mu sync.Mutex
	var lines []string
	s = newSampler(&servers{patience: time.Minute, limit: time.Minute, mark: "run", say: func(line string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, line)
	}}, checker{vocab: 100, length: 100, record: true})
	s.idle, s.loader.files = func() {}, func(string) error { return nil }
	for i := range n {
		at = append(at, &scripted{product: fmt.Sprint("product ", i)})
		one := &server{url: fmt.Sprint("url", i), endpoint: at[i]}
		one.seen = time.Now()
		s.pool.servers.all = append(s.pool.servers.all, one)
	}
	return s, at, func() string {
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(lines, "; ")
	}
}

func (s *sampler) try(ctx context.Context) error {
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
			if n := s.pool.servers.all[0].failures; n != c.counts {
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
// the newest ones again.
func TestRestartedServerGetsItsWeightsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, at, said := serving(2)
		defer s.Close()
		if err := s.LoadWeights(t.Context(), "/dir", 1); err != nil {
			t.Fatal(err)
		}
		at[0].call("first")
		time.Sleep(2 * idleTime) // without a request that could have failed
		for range 4 {
			if err := s.try(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if at[0].count() > 0 || !strings.Contains(said(), "it has restarted") {
			t.Errorf("asked %d times, said %q", at[0].count(), said())
		}
		time.Sleep(2 * firstPause)
		for range 4 {
			if err := s.try(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if at[0].named() != "run-1" || at[0].count() == 0 || !strings.HasSuffix(said(), "url0 is back") {
			t.Errorf("weights %q, asked %d times, said %q", at[0].named(), at[0].count(), said())
		}
	})
}

// A server that does not know its adapter any more has restarted: the request waits until it has it
// again. What the request itself brings on is its error, as before.
func TestRefusedBecauseOfARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, at, said := serving(1)
		defer s.Close()
		if err := s.LoadWeights(t.Context(), "/dir", 1); err != nil {
			t.Fatal(err)
		}
		at[0].call("first")
		at[0].set(&retry.StatusError{Code: 404, Status: "404 Not Found"})
		loads := 0
		at[0].loads = func(context.Context) error {
			loads++
			at[0].set(nil)
			return nil
		}
		if err := s.try(t.Context()); err != nil || at[0].named() != "run-1" || loads != 1 || !strings.HasSuffix(said(), "is back") {
			t.Errorf("%v with weights %q after %d loads, said %q", err, at[0].named(), loads, said())
		}
		before := said()
		at[0].set(&retry.StatusError{Code: 400, Status: "400 Bad Request"})
		if err := s.try(t.Context()); err == nil || !strings.Contains(err.Error(), "400 Bad Request") || said() != before {
			t.Errorf("%v, said %q", err, said())
		}
	})
}

// A server that has died of a load gets the newest version when it has restarted, although the load counts
// as failed. One that has not restarted waits for a later version.
func TestServerThatDiedOfALoad(t *testing.T) {
	for restarts, want := range map[bool]string{true: "run-2", false: "run-1"} {
		synctest.Test(t, func(t *testing.T) {
			s, at, _ := serving(2)
			defer s.Close()
			if err := s.LoadWeights(t.Context(), "/dir", 1); err != nil {
				t.Fatal(err)
			}
			at[0].loads = func(context.Context) error {
				at[0].call("run-1")
				at[0].loads = nil
				return &retry.StatusError{Code: 500, Status: "500 Internal Server Error"}
			}
			if err := s.LoadWeights(t.Context(), "/dir", 2); err != nil {
				t.Fatal(err)
			}
			if restarts {
				at[0].call("first")
			}
			time.Sleep(10 * mostPause)
			synctest.Wait()
			if got := at[0].named(); got != want {
				t.Errorf("restarts %t: it has %q, want %q", restarts, got, want)
			}
		})
	}
}

// Weights wait for a server as requests do. After the patience the error names each server.
func TestWeightsWaitForAServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, at, _ := serving(2)
		defer s.Close()
		for _, one := range at {
			one.set(errDown)
		}
		failed := (*trinity.EngineError)(nil)
		begun := time.Now()
		err := s.LoadWeights(t.Context(), "/dir", 1)
		if took := time.Since(begun); took < time.Minute || took > 2*time.Minute { // of the bubble's clock
			t.Errorf("gave up after %v", took)
		}
		if !errors.As(err, &failed) || !strings.Contains(err.Error(), "no server has taken version 1 for 1m0s: product 0 at url0: ") ||
			!strings.Contains(err.Error(), "product 1 at url1: ") || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("got %v", err)
		}
		loaded, answered := make(chan error, 1), make(chan error, 1)
		go func() { loaded <- s.LoadWeights(t.Context(), "/dir", 1) }()
		time.Sleep(40 * time.Second)
		go func() { answered <- s.try(t.Context()) }()
		at[1].set(nil)
		if err := <-loaded; err != nil || at[1].named() != "run-1" {
			t.Errorf("%v with weights %q", err, at[1].named())
		}
		if err := <-answered; err == nil || !strings.Contains(err.Error(), "no server has answered") {
			t.Error("the patience of requests begins with the loss of the last server:", err)
		}
		if err := s.try(t.Context()); err != nil {
			t.Error(err)
		}
		at[1].set(errDown)
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(20*time.Second, func() { cancel(errors.New("interrupted")) })
		if err := s.LoadWeights(ctx, "/dir", 2); err == nil || !strings.Contains(err.Error(), "interrupted (product 0 at url0: ") {
			t.Errorf("got %v", err)
		}
	})
}

// Servers that are left out are asked at once whether they take weights: one that hangs does not use up
// the time of the others.
func TestServersAreReachedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, at, _ := serving(3)
		defer s.Close()
		for i, here := range s.pool.servers.all {
			here.out, at[i].silent = i < 2, i == 0
		}
		if got := s.loader.reachable(t.Context()); len(got) != 2 || got[0] != s.pool.servers.all[1] || got[1] != s.pool.servers.all[2] {
			t.Errorf("reached %d servers", len(got))
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
		here := s.pool.servers.all[0]
		s.loader.proofs.unproven(here, 5, "run-5")
		here.version = 5
		s.loader.proofs.proved(s.pool.servers.all)
	}
	out, err := s.Sample(t.Context(), trinity.Prompt{Tokens: []int32{1}}, trinity.SamplingParams{MaxTokens: 1})
	if err != nil || out[0].Versions != [2]int64{0, 5} {
		t.Errorf("got %+v, %v", out, err)
	}
}

// A request that a restarted server has refused is sent again, also if the server has got its weights
// between the refusal and the look at it.
func TestARefusalBeforeTheServerWasBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, at, _ := serving(1)
		defer s.Close()
		if err := s.LoadWeights(t.Context(), "dir", 1); err != nil {
			t.Fatal(err)
		}
		at[0].during = func() { // the server has restarted: it refuses the first two requests that came together
			switch at[0].count() {
			case 1:
				time.Sleep(time.Minute) // its refusal is late
			case 2:
				at[0].call("")
				at[0].set(nil)
			}
		}
		at[0].set(&retry.StatusError{Code: 404, Status: "404 Not Found"})
		late := make(chan error, 1)
		go func() { late <- s.try(t.Context()) }()
		synctest.Wait()
		if err := s.try(t.Context()); err != nil || at[0].named() != "run-1" {
			t.Errorf("%v with weights %q", err, at[0].named())
		}
		if err := <-late; err != nil {
			t.Errorf("the request whose refusal was late: %v", err)
		}
	})
}
