package studio

import (
	"bytes"
	"fmt"
	"net/http"
	"time"

	"github.com/trinity-go/trinity/internal/serve/web"
)

// Times of a live page.
const (
	look      = 200 * time.Millisecond // between looks at a run's files
	stateLook = time.Second            // between looks at its state
	breath    = 15 * time.Second       // between comments, which show that the server lives
	patience  = 30 * time.Second       // for a browser that does not read
	maxEvents = 50                     // records of one look; of more only the last are told
)

// live tells of every new record of a run, and of its state when that changes, until the page leaves.
func (s *curves) live(w http.ResponseWriter, r *http.Request) error {
	f, err := s.runs.open(r.PathValue("run"))
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/event-stream")
	l := stream{w: w, control: http.NewResponseController(w)}
	word, state := r.URL.Query().Get("since"), []byte(nil)
	var stateAt, toldAt time.Time
	tick := time.NewTicker(s.every)
	defer tick.Stop()
	for first := word == ""; ; first = false {
		var events []event
		read, err := s.read(f.dir, nil, word)
		if err != nil {
			return nil // the run is gone, and the page asks for it again
		}
		if !first {
			events = read.events()
		}
		word = read.at.String()
		for _, e := range events {
			e.Cursor = word
			l.send("step", e)
		}
		if now := time.Now(); now.Sub(stateAt) >= stateLook || len(events) > 0 {
			stateAt = now
			run, _ := f.summary()
			if run == nil {
				return nil
			}
			if text, err := web.Encode(run); err == nil && !bytes.Equal(text, state) {
				state = text
				l.send("state", run)
			}
		}
		if now := time.Now(); now.Sub(toldAt) >= breath {
			toldAt = now
			l.write(": the studio is here\n\n")
		}
		if l.err != nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return nil
		}
	}
}

// event tells of a new record.
type event struct {
	Step   int64  `json:"step"`
	Role   string `json:"role"`
	Cursor string `json:"cursor"` // after it, and after those that came with it
}

// events returns the records that the reader lacks.
func (r *reading) events() (events []event) {
	for i := range r.files {
		f := &r.files[i]
		for record := max(r.since[i], len(f.Steps)-maxEvents); record < len(f.Steps); record++ {
			events = append(events, event{Step: f.Steps[record], Role: f.Role(record)})
		}
	}
	return events
}

// stream writes events to a page.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	err     error // the page has left
}

func (l *stream) send(name string, data any) {
	text, err := web.Encode(data)
	if err != nil {
		text = fmt.Appendf(nil, "{%q:%q}", "error", err.Error())
	}
	l.write(fmt.Sprintf("event: %s\ndata: %s\n\n", name, text))
}

func (l *stream) write(text string) {
	if l.err != nil {
		return
	}
	_ = l.control.SetWriteDeadline(time.Now().Add(patience)) // a recorder of tests has none
	if _, l.err = fmt.Fprint(l.w, text); l.err == nil {
		l.err = l.control.Flush()
	}
}
