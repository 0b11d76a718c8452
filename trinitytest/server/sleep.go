package server

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
)

// The lies about sleep.
const (
	StallsSleep Lie = "never falls asleep"
	StallsWake  Lie = "never wakes up"
	SleepsOn    Lie = "says that it is awake, and sleeps on"
)

// sleep is what a server has given back of the memory of its GPUs.
type sleep struct {
	mu     sync.Mutex
	parts  []string // that sleep
	inside int      // completions that are computed
	naps   int
}

// parts of the memory, by the names that vLLM and SGLang give them.
const (
	partWeights = "weights"
	partCache   = "kv_cache"
)

// enter begins a completion.
func (s *sleep) enter() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.parts) > 0 {
		return fmt.Errorf("the engine got a request while it sleeps: %q", s.parts)
	}
	s.inside++
	return nil
}

func (s *sleep) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inside--
}

// hasWeights returns an error if the weights sleep.
func (s *sleep) hasWeights() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(s.parts, partWeights) {
		return errors.New("the engine is to load weights while they sleep")
	}
	return nil
}

func (s *sleep) fallAsleep() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.inside > 0:
		return fmt.Errorf("the engine is to sleep with %d requests in flight", s.inside)
	case len(s.parts) > 0:
		return fmt.Errorf("the engine sleeps already: %q", s.parts)
	}
	s.parts, s.naps = []string{partWeights, partCache}, s.naps+1
	return nil
}

// wake wakes one part, and the weights before the cache. It reports whether all is awake.
func (s *sleep) wake(part string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.parts) == 0 || s.parts[0] != part {
		return false, fmt.Errorf("the engine is to wake %q, and %q sleep", part, s.parts)
	}
	s.parts = s.parts[1:]
	return len(s.parts) == 0, nil
}

// Naps returns how often the server has slept, and whether it sleeps now.
func (f *Fake) Naps() (n int, asleep bool) {
	f.sleep.mu.Lock()
	defer f.sleep.mu.Unlock()
	return f.sleep.naps, len(f.sleep.parts) > 0
}

// stalls reports whether a request never gets an answer, after it was given up.
func (f *Fake) stalls(r *http.Request, lie Lie) bool {
	if !f.tells(lie) {
		return false
	}
	_, _ = io.Copy(io.Discard, r.Body) // only then the server notices that the client has gone
	<-r.Context().Done()
	return true
}

// vllmSleep adds the endpoints of a server with --enable-sleep-mode.
func (f *Fake) vllmSleep(mux *http.ServeMux) {
	mux.HandleFunc("POST /sleep", func(w http.ResponseWriter, r *http.Request) {
		if f.stalls(r, StallsSleep) {
			return
		}
		if err := f.sleep.fallAsleep(); err != nil || r.URL.Query().Get("level") != "1" {
			refuse(w, http.StatusInternalServerError, fmt.Sprint(err))
			return
		}
		f.send(w, map[string]any{"status": "sleeping", "level": 1})
	})
	mux.HandleFunc("POST /wake_up", func(w http.ResponseWriter, r *http.Request) {
		if f.stalls(r, StallsWake) {
			return
		}
		awake := true
		for _, tag := range r.URL.Query()["tags"] {
			if f.tells(SleepsOn) {
				continue
			}
			var err error
			if awake, err = f.sleep.wake(tag); err != nil {
				refuse(w, http.StatusInternalServerError, err.Error())
				return
			}
		}
		f.send(w, map[string]string{"status": map[bool]string{true: "awake", false: "sleeping"}[awake]})
	})
}

// sglangSleep adds the endpoints of a server with --enable-memory-saver.
func (f *Fake) sglangSleep(mux *http.ServeMux) {
	change := func(lie Lie, do func(tags []string) error) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			var q struct{ Tags []string }
			if f.stalls(r, lie) || !read(w, r, &q) {
				return
			}
			if err := do(q.Tags); err != nil {
				refuse(w, http.StatusBadRequest, err.Error())
			}
		}
	}
	mux.HandleFunc("POST /release_memory_occupation", change(StallsSleep, func([]string) error { return f.sleep.fallAsleep() }))
	mux.HandleFunc("POST /resume_memory_occupation", change(StallsWake, func(tags []string) (err error) {
		for _, tag := range tags {
			if err == nil && !f.tells(SleepsOn) {
				_, err = f.sleep.wake(tag)
			}
		}
		return err
	}))
}

// isPaused reports whether the server computes nothing, because it is paused or sleeps.
func (f *Fake) isPaused() bool {
	_, asleep := f.Naps()
	return asleep || f.paused.Load()
}
