package weights_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/retry"
	"github.com/trinity-go/trinity/trinitytest"
	"github.com/trinity-go/trinity/weights"
)

// connection is the simplest weights.Trainer: it retries at once.
type connection string

// Try implements weights.Trainer.
func (c connection) Try(ctx context.Context, what string, do func(ctx context.Context, from weights.Getter) error) error {
	for {
		err := do(ctx, c)
		if ctx.Err() != nil {
			return fmt.Errorf("waiting for the trainer to %s: %w", what, context.Cause(ctx))
		}
		if !retry.IsTemporary(err) {
			return err
		}
	}
}

// Loaded implements weights.Trainer.
func (connection) Loaded(context.Context, weights.Version) error { return nil }

// Get implements weights.Getter.
func (c connection) Get(ctx context.Context, path string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, string(c)+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, retry.Temporary(err)
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, retry.Temporary(fmt.Errorf("status %s", resp.Status))
	}
	return resp.Body, nil
}

// GetJSON implements weights.Getter.
func (c connection) GetJSON(ctx context.Context, path string, out any) error {
	body, err := c.Get(ctx, path)
	if err != nil {
		return err
	}
	defer body.Close()
	return json.NewDecoder(body).Decode(out)
}

// trainerSide and explorerSide are the two halves of a weights.Synchronizer over HTTP.
type (
	trainerSide struct {
		weights.Synchronizer
		shelf *weights.Shelf
	}
	explorerSide struct {
		weights.Synchronizer
		follower *weights.Follower
	}
)

func (s trainerSide) Publish(ctx context.Context, v int64) error { return s.shelf.Publish(ctx, v) }
func (s trainerSide) TrainerDone()                               { s.shelf.End() }

func (s explorerSide) ExplorerDone() { s.follower.ExplorerDone() }
func (s explorerSide) Wait(ctx context.Context, min int64, newest bool) (int64, error) {
	return s.follower.Wait(ctx, min, newest)
}

func (s explorerSide) Held(ctx context.Context, do func(int64) error) error {
	return s.follower.Held(ctx, do)
}

func TestShelfAndFollowerAreASynchronizer(t *testing.T) {
	apart := trinitytest.SynchronizerOptions{Apart: true}
	trinitytest.Synchronizer(t, apart, func(t *testing.T, timeout time.Duration) trinitytest.Synchronized {
		s, _, _ := overHTTP(t, timeout, true)
		return s
	})
}

// overHTTP returns a shelf and a follower of it, and the trained engine. If oldest is set, the
// follower gets the oldest version that it may use.
func overHTTP(t *testing.T, timeout time.Duration, oldest bool) (trinitytest.Synchronized, *weights.Follower, *trinitytest.Bandit) {
	trained, sampled := trinitytest.NewBandit(4), trinitytest.NewBandit(4)
	shelf := &weights.Shelf{Dir: t.TempDir(), Engine: trained, Oldest: oldest}
	if err := shelf.Open(t.Context(), 0, true); err != nil {
		t.Fatal(err)
	}
	var loaded atomic.Int64
	load := func(ctx context.Context, dir string, version int64) error {
		loaded.Store(version)
		return sampled.LoadWeights(ctx, dir, version)
	}
	follower := follow(t, shelf, load)
	follower.Timeout = timeout
	return trinitytest.Synchronized{
		Trainer: trainerSide{shelf: shelf}, Explorer: explorerSide{follower: follower}, InUse: loaded.Load,
	}, follower, trained
}

// follow serves a shelf and returns a follower of it.
func follow(t *testing.T, shelf *weights.Shelf, load func(ctx context.Context, dir string, version int64) error) *weights.Follower {
	t.Helper()
	refuse := func(w http.ResponseWriter, status int, err error) { http.Error(w, err.Error(), status) }
	serving, stop := context.WithCancel(context.Background())
	server := httptest.NewServer(shelf.Handler(serving, refuse))
	t.Cleanup(func() { stop(); server.Close() })
	return &weights.Follower{
		Trainer: connection(server.URL), Dir: filepath.Join(t.TempDir(), "weights"), Load: load, Timeout: time.Minute,
	}
}

// A follower that loads each version at once waits while one is held.
func TestFollowWhileAVersionIsHeld(t *testing.T) {
	s, follower, trained := overHTTP(t, time.Minute, false)
	if _, err := follower.Wait(t.Context(), 0, false); err != nil {
		t.Fatal(err)
	}
	following, stop := context.WithCancel(t.Context())
	followed := make(chan error, 1)
	err := follower.Held(t.Context(), func(int64) error {
		trained.Weights[0]++
		if err := s.Trainer.Publish(t.Context(), 1); err != nil {
			return err
		}
		go func() { followed <- follower.Follow(following) }()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond) // in which Follow sees version 1
		defer cancel()
		if v, err := follower.Wait(ctx, 1, false); err == nil || s.InUse() != 0 {
			t.Errorf("while version 0 is held, Wait(1) = %d, %v, with version %d in use", v, err, s.InUse())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if v, err := follower.Wait(t.Context(), 1, false); err != nil || v != 1 {
		t.Errorf("after the release: version %d, %v", v, err)
	}
	stop()
	if err := <-followed; err != nil {
		t.Error(err)
	}
}

// The files of a version stay until the next one is loaded, if the sampler may read them again.
func TestFollowerKeepsFiles(t *testing.T) {
	for _, keep := range []bool{false, true} {
		s, follower, trained := overHTTP(t, time.Minute, false)
		follower.Keep = keep
		for version := range int64(2) {
			if version > 0 {
				trained.Weights[0]++
				if err := s.Trainer.Publish(t.Context(), version); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := follower.Wait(t.Context(), version, false); err != nil {
				t.Fatal(err)
			}
			found, err := filepath.Glob(filepath.Join(follower.Dir, "*"))
			if want := filepath.Join(follower.Dir, strconv.FormatInt(version, 10)); err != nil || keep != slices.Equal(found, []string{want}) {
				t.Errorf("keep %t, version %d: %v, %v", keep, version, found, err)
			}
		}
		follower.Close()
		if _, err := os.Stat(follower.Dir); !os.IsNotExist(err) {
			t.Errorf("keep %t: %v after the end", keep, err)
		}
	}
}

// A run that resumes between two versions needs an engine that keeps the published one.
func TestShelfRefusesAnEngineWithoutTheVersion(t *testing.T) {
	shelf := &weights.Shelf{Dir: t.TempDir(), Engine: struct{ engine.Trainer }{trinitytest.NewBandit(4)}}
	err := shelf.Open(t.Context(), 3, false)
	for _, want := range []string{"version 3 of the weights", "weights_3 nor in the checkpoint", "keeps no published weights"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want one with %q", err, want)
		}
	}
}

// The explorer may end while Follow loads a version, whose files stay until Close.
func TestExplorerEndsWhileAVersionIsLoaded(t *testing.T) {
	shelf := &weights.Shelf{Dir: t.TempDir(), Engine: trinitytest.NewBandit(4)}
	if err := shelf.Open(t.Context(), 0, true); err != nil {
		t.Fatal(err)
	}
	var follower *weights.Follower
	follower = follow(t, shelf, func(_ context.Context, dir string, _ int64) error {
		follower.ExplorerDone()
		_, err := os.Stat(dir)
		return err
	})
	if _, err := follower.Wait(t.Context(), 0, false); err != nil {
		t.Error(err)
	}
}
