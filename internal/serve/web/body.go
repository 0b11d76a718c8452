package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"golang.org/x/sync/semaphore"
)

// Limits of the memory of bodies that have begun to arrive. Small bodies always have room, so slow
// clients cannot keep others out.
const (
	smallBody = 64 << 10         // bytes of each body that do not count
	maxLarge  = 256 << 20        // bytes of all other parts together, but for one body that is larger
	roomWait  = 20 * time.Second // for which a body waits for its turn
)

// room is the memory of the bodies that a process receives. A body that promises its length takes
// that much before it arrives, in turn, and all of it if it is larger: so it arrives whole, and no
// two wait for each other. Other bodies take what they send, while nobody waits.
type room struct {
	taken *semaphore.Weighted
	size  int64
	wait  time.Duration
}

var bodies = newRoom(maxLarge, roomWait)

func newRoom(size int64, wait time.Duration) *room {
	return &room{taken: semaphore.NewWeighted(size), size: size, wait: wait}
}

var errNoRoom = errors.New("other large requests take all the room: try again later")

// Body returns the body of a request, of up to limit bytes. If there is an error, status is the one
// to reply with: 413 for a body that is too long, 408 for one that is too slow, 503 if other large
// bodies take all the room, and else 400.
func Body(w http.ResponseWriter, r *http.Request, limit int64) (data []byte, status int, err error) {
	return bodies.read(w, r, limit)
}

func (m *room) read(w http.ResponseWriter, r *http.Request, limit int64) (data []byte, status int, err error) {
	if r.ContentLength > limit {
		return nil, http.StatusRequestEntityTooLarge, fmt.Errorf("the request has %d bytes, more than %d", r.ContentLength, limit)
	}
	in := &arriving{Reader: http.MaxBytesReader(w, r.Body, limit), room: m}
	defer in.leave()
	waited, err := in.enter(r.Context(), r.ContentLength)
	if waited {
		renewDeadlines(w, r)
	}
	if err == nil {
		data, err = io.ReadAll(in)
	}
	switch {
	case err == nil:
		return data, http.StatusOK, nil
	case errors.Is(err, errNoRoom):
		return nil, http.StatusServiceUnavailable, err
	case errors.As(err, new(*http.MaxBytesError)):
		return nil, http.StatusRequestEntityTooLarge, fmt.Errorf("the request has more than %d bytes", limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, http.StatusRequestTimeout, errors.New("the request did not come in time")
	}
	return nil, http.StatusBadRequest, fmt.Errorf("reading the request: %w", err)
}

// renewDeadlines gives a body that has waited for its turn the server's whole time.
func renewDeadlines(w http.ResponseWriter, r *http.Request) {
	server, ok := r.Context().Value(http.ServerContextKey).(*http.Server)
	if !ok {
		return
	}
	control, now := http.NewResponseController(w), time.Now()
	if server.ReadTimeout > 0 {
		_ = control.SetReadDeadline(now.Add(server.ReadTimeout)) // it has the old one on an error
	}
	if server.WriteTimeout > 0 {
		_ = control.SetWriteDeadline(now.Add(server.WriteTimeout))
	}
}

// arriving is a body that counts in a room until leave.
type arriving struct {
	io.Reader
	room          *room
	read, counted int64
	promised      bool
}

// enter takes the room that a body of length bytes needs, and reports whether it had to wait. A body
// of unknown length, -1, takes none yet.
func (a *arriving) enter(ctx context.Context, length int64) (waited bool, err error) {
	large := min(length-smallBody, a.room.size)
	if a.promised = length >= 0; large <= 0 {
		return false, nil
	}
	if !a.room.taken.TryAcquire(large) {
		waited = true
		ctx, cancel := context.WithTimeout(ctx, a.room.wait)
		defer cancel()
		if a.room.taken.Acquire(ctx, large) != nil {
			return waited, errNoRoom
		}
	}
	a.counted = large
	return waited, nil
}

func (a *arriving) Read(p []byte) (int, error) {
	n, err := a.Reader.Read(p)
	if a.promised {
		return n, err
	}
	a.read += int64(n)
	if more := max(0, a.read-smallBody) - a.counted; more > 0 {
		if !a.room.taken.TryAcquire(more) {
			return n, errNoRoom
		}
		a.counted += more
	}
	return n, err
}

func (a *arriving) leave() { a.room.taken.Release(a.counted) }
