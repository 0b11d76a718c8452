package fleet

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/serve/web"
	"github.com/trinity-go/trinity/weights"
)

// Server is the trainer's side: it puts the deliveries of explorers in other processes into the
// buffer, and serves the weights.
type Server struct {
	Buffer    trinity.Buffer
	Weights   *weights.Shelf
	Style     string        // synchronizer.sync_style
	Algorithm string        // algorithm.algorithm_type
	Stage     string        // "" if the run has no stages
	Explorer  string        // explorer.name: the explorer of a run that was in mode both before
	Token     string        // that every request must carry
	Dir       string        // of the run: the names of the explorers and the trainer's address
	Lease     time.Duration // how long an explorer keeps its name without a sign of life
	Timeout   time.Duration // synchronizer.sync_timeout: how long the trainer waits for explorers at the end
	// The trainer resumes after Step. TotalSteps is its last step, 0 if it ends with its explorers.
	Step, TotalSteps int64
	Say              func(string) // receives lines for people
	Note             func(string) // receives lines for the log: which explorer has which weights

	// Lane opens a trace for the spans of explorers; nil keeps none. It may return an error.
	Lane func() (Lane, error)

	word      string // random, of the process
	now       func() time.Time
	lanes     lanes
	known     explorers
	newcomers newcomers
}

// fixed is the sync_style in which every step has its own version.
const fixed = "fixed"

// NewToken returns a random token.
func NewToken() string { return rand.Text() }

// Open reads which explorers an earlier process had, and makes the buffer wait for them.
func (s *Server) Open(ctx context.Context) error {
	s.word, s.now = rand.Text(), time.Now
	s.known.mu.Lock()
	s.known.byName = map[string]*explorer{}
	err := s.recall(ctx)
	s.known.mu.Unlock()
	if err != nil {
		return err
	}
	return s.updateNewcomers(ctx)
}

// recall expects the explorers that an earlier process had. The lock is held.
func (s *Server) recall(ctx context.Context) error {
	entries, err := readExplorers(s.Dir)
	if err != nil {
		return err
	}
	if entries == nil && s.Step == 0 {
		return nil
	}
	if entries == nil { // the run was in mode both so far
		entries = map[string]entry{s.Explorer: {}}
	}
	extended, err := s.isExtended()
	if err != nil {
		return err
	}
	for name, entry := range entries {
		e := s.known.add(name, s.Buffer)
		e.has = entry.holding
		switch {
		case extended: // the buffer is open again, also for explorers that have closed
			_, err = e.resume(ctx, 0)
		case entry.Closed:
			e.closed = true
			err = e.sink.Close(ctx)
		default:
			err = e.sink.Pause(ctx, 0) // the buffer waits for it
		}
		if err != nil {
			return err
		}
	}
	if !extended {
		return nil
	}
	return s.known.write(s.Dir) // before trainer.json no longer says that the run has ended
}

// isExtended reports whether the run had ended and has more steps now. If a run ended before its
// last step, the same command does not extend it, because its explorers have no more steps.
func (s *Server) isExtended() (bool, error) {
	before, err := readAddress(filepath.Join(s.Dir, AddressFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	switch {
	case err != nil || !before.Ended || s.TotalSteps > 0 && s.Step >= s.TotalSteps:
		return false, err
	case s.TotalSteps == before.TotalSteps:
		s.Say(fmt.Sprintf("the run has ended at step %d, with all experiences of its explorers: "+
			"to extend it, set trainer.total_steps to another number above that, "+
			"raise the explorers' total_steps or total_epochs, and start the trainer before them", s.Step))
		return false, nil
	}
	return true, nil
}

// Publish publishes the engine's weights as a version and removes versions that nobody needs. It
// waits for no explorer.
func (s *Server) Publish(ctx context.Context, version int64) error {
	if err := s.Weights.Publish(ctx, version); err != nil {
		return err
	}
	floor := int64(math.MaxInt64)
	if s.Style == fixed { // an explorer may ask for any version after the one that it uses
		s.known.mu.Lock()
		floor = s.known.oldestInUse()
		s.known.mu.Unlock()
	}
	return s.Weights.Tidy(floor)
}

// Explorers describes the explorers for people: who they are, when the trainer last heard from
// them, and which shares nobody has.
func (s *Server) Explorers() string { return s.known.String() }

// Serve listens on an address, writes it to the run's directory, and answers explorers while train
// runs. When train succeeds, Serve tells the explorers, and waits for them until stop ends. When
// train fails, the explorers wait for a trainer that resumes the run.
func (s *Server) Serve(ctx, stop context.Context, listen string, train func(context.Context) error) error {
	listener, err := web.Listen(ctx, listen, s.Token)
	if err != nil {
		return fmt.Errorf("trainer.listen_address: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	at := address{URL: "http://" + listener.Addr().String(), Token: s.Token, Host: host, PID: os.Getpid(), Word: s.word}
	serving, closing := context.WithCancel(context.Background())
	limit := max(s.Timeout, time.Minute) // explorers wait as long for a large delivery and for weights
	server := &web.Server{Handler: s.Handler(serving), Read: limit, Write: limit}
	eg, ctx := errgroup.WithContext(ctx)
	watching, enough := context.WithCancel(ctx)
	eg.Go(func() error { return s.watch(watching) })
	eg.Go(func() error {
		if err := server.Serve(serving, listener); err != nil {
			return fmt.Errorf("serving explorers: %w", err)
		}
		return nil
	})
	eg.Go(func() error {
		defer enough()
		defer closing()
		if err := at.write(s.Dir); err != nil {
			return err
		}
		s.Say("waits for explorers at " + at.URL)
		if err := train(ctx); err != nil {
			return err
		}
		err := errors.Join(s.Buffer.Close(), s.end(ctx, stop))
		at.Token, at.Ended, at.TotalSteps = "", true, s.TotalSteps
		if err := errors.Join(err, at.write(s.Dir)); err != nil {
			return err
		}
		return s.Weights.Clear()
	})
	defer s.closeLanes()
	return eg.Wait()
}

// end tells the explorers that the trainer publishes nothing more, and waits until those that are
// connected have closed. stop ends this wait without an error, because the run has ended.
func (s *Server) end(ctx, stop context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.Timeout, fmt.Errorf("synchronizer.sync_timeout of %v passed", s.Timeout))
	defer cancel()
	s.Weights.End()
	defer time.AfterFunc(reportAfter, func() {
		s.known.mu.Lock()
		defer s.known.mu.Unlock()
		if present := s.known.present(); present != "" && stop.Err() == nil {
			s.Say("training has ended; the trainer waits until these explorers know, or until Ctrl-C: " + present)
		}
	}).Stop()
	defer context.AfterFunc(stop, func() {
		s.known.mu.Lock()
		defer s.known.mu.Unlock()
		s.known.changed.Signal()
	})()
	err := s.known.await(ctx, func() bool { return stop.Err() != nil || s.known.present() == "" })
	if err != nil {
		return fmt.Errorf("training has ended; waiting until the explorers know: %w: %s", err, s.Explorers())
	}
	s.known.mu.Unlock()
	return nil
}

// Handler answers explorers. At the end of ctx it answers the requests that wait for something.
func (s *Server) Handler(ctx context.Context) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/explorers/{name}", s.handleJoin)
	mux.HandleFunc("POST /v1/explorers/{name}/alive", func(w http.ResponseWriter, r *http.Request) { s.handleAlive(ctx, w, r) })
	mux.HandleFunc("POST /v1/explorers/{name}/using", s.handleUsing)
	mux.HandleFunc("PUT /v1/explorers/{name}/deliveries/{n}", s.handlePut)
	mux.HandleFunc("PUT /v1/explorers/{name}/images/{digest}", s.handleImage)
	mux.HandleFunc("POST /v1/explorers/{name}/spans", s.handleSpans)
	mux.HandleFunc("POST /v1/explorers/{name}/pause", s.handlePause)
	mux.HandleFunc("POST /v1/explorers/{name}/close", s.handleClose)
	versions := s.Weights.Handler(ctx, refuse)
	mux.Handle("GET /v1/versions", versions)
	mux.Handle("GET /v1/versions/", versions)
	return web.Guard(s.demandToken(mux), s.Token, refuse)
}
