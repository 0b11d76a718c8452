package served

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/retry"
)

func (s *scripted) scores(bool) bool { return true }

func (s *scripted) score(_ context.Context, tokens []int32) ([]float32, error) {
	scores := make([]float32, len(tokens)-1)
	for i := range scores {
		scores[i] = -float32(i+1) / 4
	}
	return scores, nil
}

// Servers score a prompt for who asks, under the policy alone.
func TestServersScoreAPrompt(t *testing.T) {
	s, _, _ := serving(2)
	defer s.Close()
	for _, c := range []struct {
		asks, adapter bool
		want          []float32
	}{{true, false, []float32{-0.25, -0.5}}, {false, false, nil}, {true, true, nil}} {
		s.pool.servers.adapter = c.adapter
		p := trinity.SamplingParams{N: 2, MaxTokens: 1, ScorePrompt: c.asks}
		out, err := s.Sample(t.Context(), trinity.Prompt{Tokens: []int32{1, 2, 3}}, p)
		if err != nil || !slices.Equal(out[0].Prompt.Logprobs, c.want) || !slices.Equal(out[1].Prompt.Logprobs, c.want) {
			t.Errorf("asks %v, of an adapter %v: %+v, %v", c.asks, c.adapter, out, err)
		}
	}
}

var errStale = errors.New("it still has version 0")

// provingWhen lets the servers prove versions as fails says, by address and version; it counts the proofs.
func (s *sampler) provingWhen(fails map[string]func(proof int) bool) map[string]*int {
	counts := map[string]*int{}
	for _, at := range s.pool.servers.all {
		counts[at.url] = new(int)
	}
	s.checkBy(func(_ context.Context, _ int64, copy string, _ engine.ScoreTokens) error {
		n := counts[copy]
		*n++
		if f := fails[copy]; f != nil && f(*n) {
			return errStale
		}
		return nil
	})
	return counts
}

func (s *sampler) checkBy(check engine.CheckCopy) {
	s.Prove(engine.Proving{Alone: true, Check: check})
}

// A version that is not proven is delivered again.
func TestVersionIsDeliveredAgain(t *testing.T) {
	s, at, said := serving(1)
	defer s.Close()
	proofs := s.provingWhen(map[string]func(int) bool{"url0": func(n int) bool { return n < 3 }})
	if err := s.LoadWeights(t.Context(), "/dir", 1); err != nil || *proofs["url0"] != 3 {
		t.Errorf("after %d proofs: %v", *proofs["url0"], err)
	}
	if want := "product 0 at url0: version 1 is delivered again: it still has version 0"; strings.Count(said(), want) != 2 {
		t.Errorf("said %q, want twice %q", said(), want)
	}
	if err := s.try(t.Context()); err != nil || at[0].weights != "run-1" {
		t.Errorf("with weights %s: %v", at[0].weights, err)
	}
}

// A server that cannot prove a version gets no request until it has proven a later one, whatever it
// says of its weights. Without another server, that is an error.
func TestServerThatProvesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, at, _ := serving(2)
		defer s.Close()
		s.provingWhen(map[string]func(int) bool{"url0": func(n int) bool { return n <= mostDeliveries }})
		if err := s.LoadWeights(t.Context(), "/dir", 1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * mostPause) // it is looked at
		for range 4 {
			if err := s.try(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if at[0].count() != 0 {
			t.Errorf("the server was asked %d times", at[0].count())
		}
		if err := s.LoadWeights(t.Context(), "/dir", 2); err != nil {
			t.Fatal(err)
		}
		for range 4 {
			if err := s.try(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if at[0].count() == 0 {
			t.Error("the server was not asked after it had proven a version")
		}
	})
	s, _, _ := serving(1)
	defer s.Close()
	s.provingWhen(map[string]func(int) bool{"url0": func(int) bool { return true }})
	err := s.LoadWeights(t.Context(), "/dir", 7)
	if err == nil || err.Error() != "product 0 at url0: version 7, delivered 3 times: it still has version 0" {
		t.Errorf("got %v", err)
	}
}

// What a server answers while its version is not proven waits for the proof, and is asked again if that
// fails.
func TestAnswersWaitForTheProof(t *testing.T) {
	for _, proven := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s, at, _ := serving(1)
			defer s.Close()
			s.pool.servers.patience = time.Second
			checking, checked := make(chan struct{}), make(chan error)
			s.checkBy(func(context.Context, int64, string, engine.ScoreTokens) error {
				checking <- struct{}{}
				return <-checked
			})
			loaded := make(chan error, 1)
			go func() { loaded <- s.LoadWeights(t.Context(), "/dir", 1) }()
			<-checking
			answered := make(chan error, 1)
			go func() { answered <- s.try(t.Context()) }()
			synctest.Wait()
			if at[0].count() != 1 || len(answered) != 0 {
				t.Fatalf("%d requests, %d answers before the proof", at[0].count(), len(answered))
			}
			if proven {
				checked <- nil
				if err := errors.Join(<-loaded, <-answered); err != nil || at[0].count() != 1 {
					t.Errorf("after the proof: %d requests, %v", at[0].count(), err)
				}
				return
			}
			checked <- errStale
			for range mostDeliveries - 1 {
				<-checking
				checked <- errStale
			}
			if err := <-loaded; err == nil {
				t.Error("the version was loaded without a proof")
			}
			if err := <-answered; err == nil || !strings.Contains(err.Error(), "nothing proves that it has the weights") {
				t.Errorf("the answer of an unproven version: %v", err)
			}
		})
	}
}

// An answer with weights that a later delivery had to put right is thrown away, whatever proves right
// afterwards. That is no failure of the server.
func TestAnswersBeforeADeliveryThatIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, at, said := serving(1)
		defer s.Close()
		checking, checked := make(chan struct{}), make(chan error)
		s.checkBy(func(context.Context, int64, string, engine.ScoreTokens) error {
			checking <- struct{}{}
			return <-checked
		})
		loaded, answered := make(chan error, 1), make(chan error, 4)
		go func() { loaded <- s.LoadWeights(t.Context(), "/dir", 1) }()
		<-checking
		for range cap(answered) {
			go func() { answered <- s.try(t.Context()) }()
		}
		synctest.Wait()
		checked <- errStale
		<-checking
		checked <- nil
		if err := <-loaded; err != nil {
			t.Fatal(err)
		}
		for range cap(answered) {
			if err := <-answered; err != nil {
				t.Error(err)
			}
		}
		if n := at[0].count(); n != 2*cap(answered) || strings.Contains(said(), "left out") {
			t.Errorf("%d requests for %d answers, said %q", n, cap(answered), said())
		}
	})
}

// What a server answers while it fails to load a version is thrown away, and it stays left out although
// it calls its weights by the name of the new ones.
func TestAnswersOfAServerThatCannotLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, at, _ := serving(2)
		defer s.Close()
		loading, fails := make(chan struct{}), make(chan error)
		at[0].loads = func(context.Context) error {
			loading <- struct{}{}
			return <-fails
		}
		loaded, answered := make(chan error, 1), make(chan error, 1)
		go func() { loaded <- s.LoadWeights(t.Context(), "/dir", 1) }()
		<-loading
		go func() { answered <- s.try(t.Context()) }()
		synctest.Wait()
		fails <- errors.New("500 no space")
		if err := errors.Join(<-loaded, <-answered); err != nil {
			t.Error(err)
		}
		time.Sleep(10 * mostPause) // it is looked at
		for range 4 {
			if err := s.try(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if at[0].count() != 1 || at[1].count() != 5 || at[0].weights != "run-1" {
			t.Errorf("%d and %d requests", at[0].count(), at[1].count())
		}
		if why := fmt.Sprint(s.pool.servers.all[0].why); !strings.Contains(why, "500 no space") {
			t.Errorf("it is left out because of %q", why)
		}
	})
}

// A server that does not end to load is left out when load_timeout has passed. What its caller ends is
// no failure of servers.
func TestServerThatHangsInALoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, at, _ := serving(2)
		defer s.Close()
		at[0].loads = func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		if err := s.LoadWeights(t.Context(), "/dir", 1); err != nil {
			t.Error(err)
		}
		why := fmt.Sprint(s.pool.servers.all[0].why)
		if !strings.Contains(why, "url0: loading version 1 from /dir: load_timeout of 1m0s passed") {
			t.Errorf("it is left out because of %q", why)
		}
		for range 4 {
			if err := s.try(t.Context()); err != nil {
				t.Error(err)
			}
		}
		at[1].loads = at[0].loads
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errors.New("interrupted")) })
		if err := s.LoadWeights(ctx, "/dir", 2); err == nil || err.Error() != "loading version 2 into the servers: interrupted" {
			t.Error(err)
		}
	})
}

// A server that has the new weights already, and waits for the proof, has not restarted. What tells the
// weights of the last token alone says nothing of the first ones.
func TestRequestsInALongLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, at, said := serving(1)
		defer s.Close()
		if err := s.LoadWeights(t.Context(), "/dir", 1); err != nil {
			t.Fatal(err)
		}
		loaded := make(chan error, 1)
		var once sync.Once
		at[0].during = func() {
			once.Do(func() { go func() { loaded <- s.LoadWeights(t.Context(), "/dir", 2) }() })
			time.Sleep(time.Second)
		}
		checked := make(chan error)
		s.Prove(engine.Proving{Alone: true, Check: func(context.Context, int64, string, engine.ScoreTokens) error { return <-checked }})
		at[0].tells = "run-2"
		answered := make(chan [2]int64, 2)
		ask := func() {
			out, err := s.Sample(t.Context(), trinity.Prompt{Tokens: []int32{1}}, trinity.SamplingParams{MaxTokens: 1})
			if err != nil {
				t.Error(err)
			}
			answered <- out[0].Versions
		}
		go ask()
		synctest.Wait()
		time.Sleep(2 * idleTime)
		go ask()
		time.Sleep(2 * time.Second)
		checked <- nil
		if err := <-loaded; err != nil || said() != "" {
			t.Errorf("%v, said %q", err, said())
		}
		if a, b := <-answered, <-answered; a != [2]int64{1, 2} || b != a {
			t.Errorf("versions %v and %v", a, b)
		}
	})
}

// vLLM scores prompts of a model with adapters only if it has nothing else to do.
func TestWhenVLLMScores(t *testing.T) {
	for _, c := range []struct{ lora, alone, want bool }{{false, false, true}, {true, true, true}, {true, false, false}} {
		s, _, said := serving(1)
		s.pool.servers.all[0].endpoint = &vllmServer{liveServer: liveServer{lora: c.lora}}
		s.Prove(engine.Proving{Alone: c.alone, Check: func(context.Context, int64, string, engine.ScoreTokens) error { return errStale }})
		proves := s.loader.proofs.prove(t.Context(), s.pool.servers.all[0], 1) != nil
		if proves != c.want || proves == strings.Contains(said(), "nothing proves") {
			t.Errorf("%+v: proves %t, said %q", c, proves, said())
		}
	}
}

// digesting is a server that tells digests, or why it does not.
type digesting struct {
	*scripted
	fails error
}

func (d digesting) digests(context.Context) (map[string]string, error) {
	return map[string]string{"w": "1"}, d.fails
}

// A server that has ended when it is asked for its digests does not fail the load. One that refuses does.
func TestServerEndsBeforeItsDigests(t *testing.T) {
	refused := &retry.StatusError{Code: http.StatusBadRequest}
	for _, c := range []struct {
		fails   error
		said    string
		covered float64
	}{
		{nil, "", 1},
		{retry.Temporary(errors.New("connection reset")), "digests of version 1 are not compared: connection reset", 0},
		{refused, "", 2},
	} {
		s, at, said := serving(2)
		covered := 2.0
		s.Prove(engine.Proving{Alone: true, Digests: 1, Covered: func(share float64) { covered = share }})
		s.pool.servers.all[0].endpoint = digesting{at[0], c.fails}
		s.pool.servers.all[1].endpoint = digesting{at[1], nil}
		err := s.LoadWeights(t.Context(), "/dir", 1)
		if (err != nil) != (c.fails == error(refused)) || !strings.Contains(said(), c.said) || covered != c.covered {
			t.Errorf("%v: %v, covered %v, said %q", c.fails, err, covered, said())
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
