package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/experience"
	"github.com/trinity-go/trinity/internal/failpoint"
	"github.com/trinity-go/trinity/serve/web"
)

const (
	maxDelivery = 1 << 30 // bytes
	maxRequest  = 1 << 16 // bytes, of all others
)

var (
	failReceived  = failpoint.New("remote.received")  // when the trainer has a request
	failDelivered = failpoint.New("remote.delivered") // when a delivery is in the buffer, and not acknowledged
	failReply     = failpoint.New("remote.reply")     // when a request is done, before the explorer is told
)

// demandToken refuses requests without the token.
func (s *Server) demandToken(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !web.Authorized(r, s.Token) {
			web.WriteJSON(w, http.StatusUnauthorized, refusal{"the token is not the trainer's"})
			return
		}
		if err := failReceived.Hit(""); err != nil {
			answer(w, nil, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// answer replies with body, or with what err says.
func answer(w http.ResponseWriter, body any, err error) {
	status := http.StatusInternalServerError
	switch {
	case err == nil:
		if err = failReply.Hit(""); err == nil {
			web.WriteJSON(w, http.StatusOK, body)
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
	case errors.Is(err, errBad):
		status = http.StatusBadRequest
	}
	web.WriteJSON(w, status, refusal{err.Error()})
}

// read decodes a small body.
func read(w http.ResponseWriter, r *http.Request, into any) error {
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err == nil {
		err = json.Unmarshal(data, into) // which refuses text after the value, as a decoder of a stream does not
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errBad, err)
	}
	return nil
}

func (s *Server) handleJoin(w http.ResponseWriter, r *http.Request) {
	var j joining
	if err := read(w, r, &j); err != nil {
		answer(w, nil, err)
		return
	}
	told, err := s.join(r.Context(), r.PathValue("name"), j)
	answer(w, told, err)
}

// as finds whose request it is.
func (s *Server) as(r *http.Request) (*explorer, context.Context, error) {
	return s.of(r.PathValue("name"), r.Header.Get(sessionHeader))
}

func (s *Server) handleAlive(w http.ResponseWriter, r *http.Request) {
	e, session, err := s.as(r)
	if err == nil {
		s.alive(r.Context(), e, session)
		err = context.Cause(session)
	}
	answer(w, struct{}{}, err)
}

func (s *Server) handleUsing(w http.ResponseWriter, r *http.Request) {
	var u using
	e, session, err := s.as(r)
	if err == nil {
		err = read(w, r, &u)
	}
	if err == nil {
		err = s.inSession(session, func() { s.uses(e, u) })
	}
	answer(w, struct{}{}, err)
}

func (s *Server) handlePut(w http.ResponseWriter, r *http.Request) {
	e, session, err := s.as(r)
	if err != nil {
		answer(w, nil, err)
		return
	}
	n, err := strconv.ParseInt(r.PathValue("n"), 10, 64)
	if err != nil || n < 1 {
		answer(w, nil, fmt.Errorf("%w: %q is no number of a delivery", errBad, r.PathValue("n")))
		return
	}
	d, err := readDelivery(w, r)
	if err == nil {
		err = s.put(r.Context(), e, session, n, d)
	}
	answer(w, struct{}{}, err)
}

// readDelivery reads a body of a known length into one piece.
func readDelivery(w http.ResponseWriter, r *http.Request) (trinity.Delivery, error) {
	if r.ContentLength < 0 || r.ContentLength > maxDelivery {
		return trinity.Delivery{}, fmt.Errorf("%w: a delivery of %d bytes; it may have %d: use a smaller buffer.batch_size", errConflict, r.ContentLength, maxDelivery)
	}
	data := make([]byte, r.ContentLength)
	if _, err := io.ReadFull(r.Body, data); err != nil {
		return trinity.Delivery{}, fmt.Errorf("%w: %w", errBad, err)
	}
	d, err := experience.DecodeDelivery(data)
	if err != nil {
		err = fmt.Errorf("%w: %w", errBad, err)
	}
	return d, err
}

// put adds delivery n of an explorer, unless it is there.
func (s *Server) put(ctx context.Context, e *explorer, session context.Context, n int64, d trinity.Delivery) error {
	e.work.Lock()
	defer e.work.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(session, func() { cancel(context.Cause(session)) })()
	if err := context.Cause(session); err != nil {
		return err
	}
	switch {
	case n <= e.delivered:
		return nil
	case n > e.delivered+1:
		return fmt.Errorf("%w: delivery %d of explorer %s comes after delivery %d: those between are lost", errConflict, n, e.name, e.delivered)
	}
	if err := e.sink.Put(ctx, d); err != nil {
		return err
	}
	e.delivered = n
	return failDelivered.Hit("")
}

func (s *Server) handlePause(w http.ResponseWriter, r *http.Request) {
	var p pausing
	e, session, err := s.as(r)
	if err == nil {
		err = read(w, r, &p)
	}
	if err == nil {
		err = s.pause(r.Context(), e, session, p.Until)
	}
	answer(w, struct{}{}, err)
}

// pause notes until which version an explorer puts nothing.
func (s *Server) pause(ctx context.Context, e *explorer, session context.Context, until int64) error {
	e.work.Lock()
	defer e.work.Unlock()
	if err := s.inSession(session, func() { e.Paused = until }); err != nil {
		return err
	}
	return e.pause(ctx, until)
}

func (s *Server) handleClose(w http.ResponseWriter, r *http.Request) {
	e, session, err := s.as(r)
	if err == nil {
		err = s.close(e, session)
	}
	answer(w, struct{}{}, err)
}

// close notes that an explorer puts nothing more.
func (s *Server) close(e *explorer, session context.Context) (err error) {
	e.work.Lock()
	defer e.work.Unlock()
	if err := context.Cause(session); err != nil {
		return err
	}
	if err := e.sink.Close(); err != nil {
		return err
	}
	if replaced := s.inSession(session, func() { // if it is, the other is about to open the sink again
		e.closed = true
		s.signal()
		s.Say("explorer " + e.String())
		err = s.remember()
	}); replaced != nil {
		return replaced
	}
	return err
}

func (s *Server) handleVersion(w http.ResponseWriter, r *http.Request) {
	min, err := strconv.ParseInt(r.FormValue("min"), 10, 64)
	if err != nil {
		answer(w, nil, fmt.Errorf("%w: min: %w", errBad, err))
		return
	}
	found, ok, err := s.version(r.Context(), min, r.FormValue("unlike"), r.FormValue("newest") == "true")
	if err == nil && !ok {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	answer(w, found, err)
}

func (s *Server) handleFile(w http.ResponseWriter, r *http.Request) {
	version, err := strconv.ParseInt(r.PathValue("version"), 10, 64)
	s.mu.Lock()
	path, ok := s.file(version, r.PathValue("file"))
	s.mu.Unlock()
	if err != nil || !ok {
		http.NotFound(w, r)
		return
	}
	http.ServeFile(w, r, path)
}
