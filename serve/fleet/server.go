package fleet

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/serve/web"
)

// Server is the trainer as explorers of other processes see it: it has their experiences put into the buffer and gives them weights.
type Server struct {
	Buffer    trinity.Buffer
	Style     string        // synchronizer.sync_style
	Algorithm string        // algorithm.algorithm_type
	Stage     string        // of the run; "" of one without
	Explorer  string        // the run's own, where it was of mode both before
	Token     string        // which every request must bear
	Dir       string        // of the run: published weights, and which explorers there are
	Lease     time.Duration // for which an explorer that is not heard of keeps its name and is waited for
	Timeout   time.Duration // synchronizer.sync_timeout: how long the end waits for explorers
	// Step is the one that the trainer goes on behind, and TotalSteps where it ends, 0 if where its explorers do.
	Step, TotalSteps int64
	Save             func(ctx context.Context, dir string) error // writes the trained weights
	SavePublished    func(ctx context.Context, dir string) error // writes those of the last version, where they are others
	Say              func(string)                                // for people
	Note             func(string)                                // for the log: which explorer has which weights

	gate
	shelf
	absent
	explorers map[string]*explorer
	ended     bool
	closing   context.Context // cancelled when the server is
}

// Open takes up what an earlier process has published and which explorers it had. published is the version that the run goes on with; current says that its
// weights are the trained ones.
func (s *Server) Open(ctx context.Context, published int64, current bool) error {
	s.shelf, s.explorers = shelf{dir: s.Dir}, map[string]*explorer{}
	if err := s.shelf.open(pin{published, current}); err != nil {
		return err
	}
	if _, there := s.newest(published); !there {
		write := s.Save
		if !current {
			write = s.SavePublished
		}
		if err := s.publish(ctx, published, write); err != nil {
			return fmt.Errorf("the weights of version %d, which the checkpoint goes on with, are not in %s, and not in the checkpoint: go on from one of a step with a version of its own: %w", published, s.path(published), err)
		}
	}
	s.mu.Lock()
	err := s.recall(ctx)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return s.expect(ctx)
}

// Publish makes the trained weights a version. It waits for nobody: in sync_style fixed explorers take the oldest version that a step may begin with, and
// otherwise the newest.
func (s *Server) Publish(ctx context.Context, version int64) error {
	return s.publish(ctx, version, s.Save)
}

// publish makes what is written a version.
func (s *Server) publish(ctx context.Context, version int64, write func(ctx context.Context, dir string) error) error {
	err := durable.WriteDir(s.path(version), func(dir string) error {
		if err := write(ctx, dir); err != nil {
			return err
		}
		return durable.Seal(dir)
	})
	if err != nil {
		return fmt.Errorf("publishing version %d: %w", version, err)
	}
	w, err := describe(s.path(version))
	if err != nil {
		return fmt.Errorf("publishing version %d: %w", version, err)
	}
	w.Version = version
	s.mu.Lock()
	defer s.mu.Unlock()
	s.versions = append(slices.DeleteFunc(s.versions, func(old weights) bool { return old.Version == version }), w)
	s.signal()
	return s.tidy(s.floor())
}

// floor is the oldest version that an explorer may ask for; the lock is held.
func (s *Server) floor() int64 {
	if s.Style != fixed {
		return math.MaxInt64
	}
	floor, others := int64(math.MaxInt64), s.others()
	for _, e := range s.explorers {
		if e.there() || !others && !e.closed {
			floor = min(floor, e.Version)
		}
	}
	return floor
}

// fixed is the style in which every step has a version of its own.
const fixed = "fixed"

// Saved notes that a checkpoint was written with a version; current says that its weights are the trained ones.
func (s *Server) Saved(published int64, current bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saved(pin{published, current})
}

// version waits for the one that a step with at least min may begin with, and another than that of the digest unlike; newest asks for that in any style. ok is false when it was not there in
// time.
func (s *Server) version(ctx context.Context, min int64, unlike string, newest bool) (w weights, ok bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, pollWindow, errWindow)
	defer cancel()
	err = s.await(ctx, func() bool {
		if s.Style == fixed && !newest {
			w, ok = s.oldest(min)
		} else {
			w, ok = s.newest(min)
		}
		ok = ok && w.Digest != unlike
		return ok || s.ended || s.closing.Err() != nil
	})
	if errors.Is(err, errWindow) {
		return weights{}, false, nil
	}
	if err != nil {
		return weights{}, false, err
	}
	defer s.mu.Unlock()
	if !ok && s.ended {
		return weights{Ended: true}, true, nil
	}
	return w, ok, nil
}

var errWindow = errors.New("nothing has happened yet")

// end tells explorers that nothing more is published, and waits until those that are there have closed. The run has ended by then, so that a stop ends the wait alone.
func (s *Server) end(ctx, stop context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.Timeout, fmt.Errorf("synchronizer.sync_timeout of %v passed", s.Timeout))
	defer cancel()
	s.mu.Lock()
	s.ended = true
	s.signal()
	s.mu.Unlock()
	defer time.AfterFunc(unsaid, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if present := s.present(); present != "" && stop.Err() == nil {
			s.Say("training has ended; waits until these have taken note, or Ctrl-C: " + present)
		}
	}).Stop()
	defer context.AfterFunc(stop, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.signal()
	})()
	err := s.await(ctx, func() bool { return stop.Err() != nil || s.present() == "" })
	if err != nil {
		return fmt.Errorf("training has ended; waiting for explorers to take note: %w: %s", err, s.Explorers())
	}
	s.mu.Unlock()
	return nil
}

// present says which explorers are there and have not taken note of the end, "" if none are; the lock is held.
func (s *Server) present() string {
	var who []string
	for _, e := range s.explorers {
		if e.there() && !e.gone {
			who = append(who, "explorer "+e.String())
		}
	}
	slices.Sort(who)
	return strings.Join(who, "; ")
}

// Handler answers what explorers ask.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/explorers/{name}", s.handleJoin)
	mux.HandleFunc("POST /v1/explorers/{name}/alive", s.handleAlive)
	mux.HandleFunc("POST /v1/explorers/{name}/using", s.handleUsing)
	mux.HandleFunc("PUT /v1/explorers/{name}/deliveries/{n}", s.handlePut)
	mux.HandleFunc("POST /v1/explorers/{name}/pause", s.handlePause)
	mux.HandleFunc("POST /v1/explorers/{name}/close", s.handleClose)
	mux.HandleFunc("GET /v1/versions", s.handleVersion)
	mux.HandleFunc("GET /v1/versions/{version}/{file...}", s.handleFile)
	return web.Guard(s.demandToken(mux), s.Token, func(w http.ResponseWriter, status int, err error) { web.WriteJSON(w, status, refusal{err.Error()}) })
}
