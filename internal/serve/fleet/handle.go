package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/experience"
	"github.com/trinity-go/trinity/internal/failpoint"
	"github.com/trinity-go/trinity/internal/serve/web"
	"github.com/trinity-go/trinity/weights"
)

const (
	maxDelivery = 1 << 30 // bytes
	maxRequest  = 1 << 16 // bytes of all other requests
)

var (
	failReceived  = failpoint.New("remote.received")  // when the trainer has received a request
	failDelivered = failpoint.New("remote.delivered") // when a delivery is in the buffer, before the trainer acknowledges it
	failReply     = failpoint.New("remote.reply")     // when the trainer has done what a request asks, before it replies
)

// demandToken refuses requests without the token.
func (s *Server) demandToken(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !web.Authorized(r, s.Token) {
			refuse(w, http.StatusUnauthorized, errors.New("the token is not the trainer's"))
			return
		}
		if err := failReceived.Hit(""); err != nil {
			refuse(w, http.StatusInternalServerError, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// refuse replies with an error.
func refuse(w http.ResponseWriter, status int, err error) {
	web.WriteJSON(w, status, refusal{err.Error()})
}

// answer replies with reply, or with err under its status.
func answer(w http.ResponseWriter, reply any, err error) {
	status := http.StatusInternalServerError
	var body *bodyError
	switch {
	case err == nil:
		if err = failReply.Hit(""); err == nil {
			web.WriteJSON(w, http.StatusOK, reply)
			return
		}
	case errors.Is(err, trinity.ErrEnded):
		status = http.StatusGone
	case errors.Is(err, errConflict), errors.Is(err, errReplaced):
		status = http.StatusConflict
	case errors.Is(err, errNoSession), errors.Is(err, errLapsed):
		status = http.StatusPreconditionFailed
	case errors.Is(err, errStage):
		status = http.StatusServiceUnavailable
	case errors.As(err, &body):
		status = body.status
	case errors.Is(err, errBad):
		status = http.StatusBadRequest
	}
	refuse(w, status, err)
}

// bodyError says why a body did not arrive, with the status that says whether the client tries again.
type bodyError struct {
	status int
	error
}

// Unwrap returns why.
func (e *bodyError) Unwrap() error { return e.error }

// receive returns the body of a request, of at most limit bytes.
func receive(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	data, status, err := web.Body(w, r, limit)
	if err != nil {
		return nil, &bodyError{status, fmt.Errorf("%w: %w", errBad, err)}
	}
	return data, nil
}

// read decodes a small body.
func read(w http.ResponseWriter, r *http.Request, into any) error {
	return readBody(w, r, maxRequest, into)
}

// readBody decodes a body of at most limit bytes.
func readBody(w http.ResponseWriter, r *http.Request, limit int64, into any) error {
	data, err := receive(w, r, limit)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil { // a json.Decoder would accept text after the value
		return fmt.Errorf("%w: %w", errBad, err)
	}
	return nil
}

func (s *Server) handleJoin(w http.ResponseWriter, r *http.Request) {
	came := s.arrive()
	var j joining
	if err := read(w, r, &j); err != nil {
		answer(w, nil, err)
		return
	}
	reply, err := s.join(r.Context(), r.PathValue("name"), j)
	reply.timing = came.timing()
	answer(w, reply, err)
}

// sender returns the explorer and the session of a request.
func (s *Server) sender(r *http.Request) (*explorer, *session, error) {
	return s.requester(r.PathValue("name"), r.Header.Get(sessionHeader))
}

func (s *Server) handleAlive(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	came := s.arrive()
	e, during, err := s.sender(r)
	if err == nil {
		s.hold(r.Context(), ctx, e, during)
		err = during.err()
	}
	answer(w, came.timing(), err)
}

// hold holds a request for a third of the lease. If the connection ends meanwhile, the explorer is
// gone.
func (s *Server) hold(connected, serving context.Context, e *explorer, during *session) {
	timer := time.NewTimer(s.Lease / 3)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-during.over:
	case <-serving.Done():
	case <-connected.Done():
		s.known.mu.Lock()
		defer s.known.mu.Unlock()
		if e.session == during {
			e.gone = true
			s.known.changed.Signal()
		}
	}
}

func (s *Server) handleUsing(w http.ResponseWriter, r *http.Request) {
	var v weights.Version
	e, during, err := s.sender(r)
	if err == nil {
		err = read(w, r, &v)
	}
	if err == nil {
		err = s.inSession(during, func() { s.noteUse(e, v) })
	}
	answer(w, struct{}{}, err)
}

// noteUse notes which weights an explorer uses, and logs whether they are what the trainer
// published. The lock is held.
func (s *Server) noteUse(e *explorer, v weights.Version) {
	e.using = v
	var verdict string
	switch published := s.Weights.Digest(v.Number); published {
	case "":
		verdict = "which this trainer does not have"
	case v.Digest:
		verdict = "as published"
	default:
		verdict = "but " + short(published) + " was published"
	}
	s.Note(fmt.Sprintf("explorer %s has version %d, sha256 %s, %s", e.name, v.Number, short(v.Digest), verdict))
}

func (s *Server) handlePut(w http.ResponseWriter, r *http.Request) {
	e, during, err := s.sender(r)
	if err != nil {
		answer(w, nil, err)
		return
	}
	n, err := strconv.ParseInt(r.PathValue("n"), 10, 64)
	if err != nil || n < 1 {
		answer(w, nil, fmt.Errorf("%w: %q is not the number of a delivery", errBad, r.PathValue("n")))
		return
	}
	d, err := readDelivery(w, r)
	if err == nil {
		err = s.put(r.Context(), e, during, n, d)
	}
	answer(w, struct{}{}, err)
}

// readDelivery reads a body whose length is known.
func readDelivery(w http.ResponseWriter, r *http.Request) (trinity.Delivery, error) {
	if r.ContentLength < 0 || r.ContentLength > maxDelivery {
		return trinity.Delivery{}, fmt.Errorf("%w: %w", errConflict, tooLarge(r.ContentLength))
	}
	data, err := receive(w, r, maxDelivery)
	if err != nil {
		return trinity.Delivery{}, err
	}
	d, err := experience.DecodeDelivery(data)
	if err != nil {
		err = fmt.Errorf("%w: %w", errBad, err)
	}
	return d, err
}

// tooLarge is the error of a delivery that no trainer takes.
func tooLarge(bytes int64) error {
	return fmt.Errorf("a delivery of %d bytes; it may have %d: use a smaller buffer.batch_size", bytes, maxDelivery)
}

// put adds delivery n of an explorer to the buffer, unless the buffer has it.
func (s *Server) put(ctx context.Context, e *explorer, during *session, n int64, d trinity.Delivery) error {
	e.work.Lock()
	defer e.work.Unlock()
	ctx, cancel := during.within(ctx)
	defer cancel()
	if err := during.err(); err != nil {
		return err
	}
	switch {
	case n <= e.delivered:
		return nil
	case n > e.delivered+1:
		return fmt.Errorf("%w: delivery %d of explorer %s comes after delivery %d: the deliveries between are lost",
			errConflict, n, e.name, e.delivered)
	}
	if err := e.sink.Put(ctx, d); err != nil {
		return err
	}
	e.delivered = n
	return failDelivered.Hit("")
}

func (s *Server) handlePause(w http.ResponseWriter, r *http.Request) {
	var p pausing
	e, during, err := s.sender(r)
	if err == nil {
		err = read(w, r, &p)
	}
	if err == nil {
		err = s.pause(r.Context(), e, during, p.Until)
	}
	answer(w, struct{}{}, err)
}

// pause notes until which version an explorer puts nothing.
func (s *Server) pause(ctx context.Context, e *explorer, during *session, until int64) error {
	e.work.Lock()
	defer e.work.Unlock()
	if err := s.inSession(during, func() { e.Paused = until }); err != nil {
		return err
	}
	return e.pause(ctx, until)
}

func (s *Server) handleClose(w http.ResponseWriter, r *http.Request) {
	e, during, err := s.sender(r)
	if err == nil {
		err = s.close(r.Context(), e, during)
	}
	answer(w, struct{}{}, err)
}

// close notes that an explorer puts nothing more.
func (s *Server) close(ctx context.Context, e *explorer, during *session) (err error) {
	e.work.Lock()
	defer e.work.Unlock()
	if err := during.err(); err != nil {
		return err
	}
	if err := e.sink.Close(ctx); err != nil {
		return err
	}
	if replaced := s.inSession(during, func() { // a process that replaced this one opens the sink again
		e.closed = true
		s.known.changed.Signal()
		s.Say("explorer " + e.String())
		err = s.known.write(s.Dir)
	}); replaced != nil {
		return replaced
	}
	return err
}
