package process

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Mux keeps copies of a program that answer several questions at once, for as long as the mux is open. A question is
// a line of JSON on the standard input, {"id": 7, "do": "reward", …}. Its answer is a line on the standard output,
// {"id": 7, …}; answers come in any order. {"cancel": 7} asks the program to give a question up, which it answers, too.
type Mux struct {
	atOnce int
	form   Lines
	start  func() (*Process, error)
	slots  chan struct{} // an element for each question in flight
	closed <-chan struct{}
	kill   context.CancelFunc // of all processes; ends closed
	ended  sync.WaitGroup     // of the processes

	mu       sync.Mutex
	copies   []*muxed // nil for one that does not run
	last     uint64   // number of the newest question
	isClosed bool
}

// Question is what a mux asks.
type Question struct {
	Do    string // what is wanted
	Body  any    // an object of JSON, which becomes the question's
	About string // what the program loads before its first answer about it

	// The time for an answer, from when the question has a place, and the time for loading besides it.
	// 0 for Limit sets none.
	Limit, Loading time.Duration
	Late           func(time.Duration) string // says that this time has passed; may be nil
	Waits          func()                     // is called if a copy has loaded for longer than patience; may be nil
}

// muxed is a process of a mux. The mutex of the mux guards all but its channels.
type muxed struct {
	process *Process
	at      int                 // among the copies
	lines   chan []byte         // to the process
	gone    chan struct{}       // closed when its output has ended
	open    map[uint64]*pending // questions without an answer, also those for whose answers nobody waits
	loaded  map[string]bool     // what it has answered about
	because error               // why it was killed; nil if it was not
}

// pending is a question in flight.
type pending struct {
	Question
	id     uint64
	answer chan []byte // one line at most
	failed chan error  // one at most
}

// ToldError is what a program answers instead: {"id": 7, "error": {"kind": "timeout", "reason": "…"}}.
type ToldError struct {
	Kind   string `json:"kind"`
	Reason string `json:"reason"`
}

func (e *ToldError) Error() string { return e.Reason }

// lingering is how long Ask waits for what the program says when it gives up a question.
const lingering = time.Second

// heeding is how long a program may take to give up a question that was cancelled, and patience how long people wait
// before they are told that it loads something.
const heeding, patience = 10 * time.Second, 10 * time.Second

// NewMux returns a mux of this many copies, each of which answers at most atOnce questions at a time. Each starts with
// its first question. form.IsAnswer and form.Cut have no effect.
func NewMux(p Program, copies, atOnce int, form Lines) *Mux {
	ctx, cancel := context.WithCancel(context.Background())
	return &Mux{
		atOnce: atOnce, form: form, slots: make(chan struct{}, copies*atOnce), copies: make([]*muxed, copies),
		start: func() (*Process, error) { return p.Start(ctx) }, closed: ctx.Done(), kill: cancel,
	}
}

// Ask gives a question to the copy with the fewest, and decodes the answer. The end of its time or of ctx cancels it; a
// copy that does not heed this within 10 s is killed. A copy that ends or is killed fails its questions with [ErrEnded]
// and the reason, and starts again with the next. The error of the program is a [ToldError], that of the question's time
// a [context.DeadlineExceeded].
func (m *Mux) Ask(ctx context.Context, q Question, answer any) error {
	body, err := json.Marshal(q.Body)
	if err != nil {
		return err
	}
	select {
	case m.slots <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("%d questions are in flight: %w", cap(m.slots), context.Cause(ctx))
	case <-m.closed:
		return ErrClosed
	}
	x, p, isLoaded, err := m.send(q, body)
	if err != nil {
		<-m.slots
		return err
	}
	if q.Waits != nil && !isLoaded {
		defer time.AfterFunc(patience, func() { m.tell(x, q) }).Stop()
	}
	if q.Limit > 0 {
		limit, late := q.Limit, lateError("no answer in time")
		if !isLoaded {
			limit += q.Loading
		}
		if q.Late != nil {
			late = lateError(q.Late(limit))
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, late)
		defer cancel()
	}
	select {
	case line := <-p.answer:
		var told struct{ Error *ToldError }
		if err := json.Unmarshal(line, &told); err != nil {
			return fmt.Errorf("the answer %.80q is none to %s: %w", line, q.Do, err)
		}
		if told.Error != nil {
			return told.Error
		}
		return json.Unmarshal(line, answer)
	case err := <-p.failed:
		return err
	case <-ctx.Done():
		m.cancel(x, p)
		return p.leave(context.Cause(ctx))
	}
}

// lateError says that there was no answer in time.
type lateError string

func (e lateError) Error() string { return string(e) }
func (e lateError) Unwrap() error { return context.DeadlineExceeded }

// tell says that a copy loads what the question is about, unless it has.
func (m *Mux) tell(x *muxed, q Question) {
	m.mu.Lock()
	isLoaded := x.loaded[q.About]
	m.mu.Unlock()
	if !isLoaded {
		q.Waits()
	}
}

// leave returns an error with what the program says when it gives up a question, such as where it stands.
func (q *pending) leave(because error) error {
	select {
	case line := <-q.answer:
		var told struct{ Error *ToldError }
		if json.Unmarshal(line, &told) == nil && told.Error != nil {
			return fmt.Errorf("%w; %w", because, told.Error)
		}
	case <-q.failed:
	case <-time.After(lingering):
	}
	return because
}

// send writes a question to the copy with the fewest, which it starts if it does not run. It reports whether the copy
// has loaded what the question is about.
func (m *Mux) send(ask Question, body []byte) (*muxed, *pending, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.isClosed {
		return nil, nil, false, ErrClosed
	}
	at := 0
	for i, x := range m.copies {
		if count(x) < count(m.copies[at]) {
			at = i
		}
	}
	if m.copies[at] == nil {
		running, err := m.start()
		if err != nil {
			return nil, nil, false, err
		}
		x := &muxed{
			process: running, at: at, lines: make(chan []byte, backlog*m.atOnce), gone: make(chan struct{}),
			open: map[uint64]*pending{}, loaded: map[string]bool{},
		}
		m.copies[at] = x
		m.ended.Add(1)
		go x.write(m.form.First)
		go m.read(x)
	}
	x := m.copies[at]
	m.last++
	q := &pending{ask, m.last, make(chan []byte, 1), make(chan error, 1)}
	head := fmt.Appendf(nil, `{"id":%d,"do":%q`, q.id, q.Do)
	if string(body) != "{}" {
		head = append(head, ',')
	}
	x.open[q.id] = q
	select {
	case x.lines <- append(append(head, body[1:]...), '\n'):
	default:
		m.stop(x, errors.New("it answers questions that it has not read"))
	}
	return x, q, x.loaded[q.About], nil
}

// backlog is how many lines may wait for a copy, by question in flight: the question, its cancel, and those of questions
// that it has answered since.
const backlog = 4

// count returns the number of questions that a copy has.
func count(x *muxed) int {
	if x == nil {
		return 0
	}
	return len(x.open)
}

// write writes questions until the output of the process has ended.
func (x *muxed) write(first []byte) {
	_, err := x.process.In.Write(first)
	for err == nil { // else its output tells why
		select {
		case line := <-x.lines:
			_, err = x.process.In.Write(line)
		case <-x.gone:
			return
		}
	}
}

// cancel tells the process that nobody waits for an answer any more.
func (m *Mux) cancel(x *muxed, q *pending) {
	select {
	case x.lines <- fmt.Appendf(nil, `{"cancel":%d}`+"\n", q.id):
	default: // it reads nothing
	}
	time.AfterFunc(heeding, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if x.open[q.id] != nil {
			m.stop(x, fmt.Errorf("it did not give up another question (%s) within %v", q.Do, heeding))
		}
	})
}

// stop kills a process, which gets no further question. The mutex is held.
func (m *Mux) stop(x *muxed, because error) {
	if x.because == nil {
		x.because = because
		x.process.Kill()
		m.remove(x)
	}
}

// remove makes room for another process in place of one. The mutex is held.
func (m *Mux) remove(x *muxed) {
	if m.copies[x.at] == x {
		m.copies[x.at] = nil
	}
}

// read gives the answers of a process to those who wait, until its output ends.
func (m *Mux) read(x *muxed) {
	defer m.ended.Done()
	lines := bufio.NewScanner(x.process.Out)
	lines.Buffer(nil, m.form.Most)
	for lines.Scan() {
		m.give(x, append([]byte(nil), lines.Bytes()...))
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		m.mu.Lock()
		m.stop(x, fmt.Errorf("it wrote a line of more than %d MiB", m.form.Most>>20))
		m.mu.Unlock()
	}
	close(x.gone)
	x.process.In.Close()
	timer := time.AfterFunc(closing, x.process.Kill)
	status := x.process.Wait()
	timer.Stop()

	m.mu.Lock()
	defer m.mu.Unlock()
	m.remove(x)
	err := x.because
	switch {
	case m.isClosed:
		err = ErrClosed
	case err != nil:
		err = fmt.Errorf("%w: it was killed, because %w", ErrEnded, err)
		if said := x.process.said.quoted(); said != "" {
			err = fmt.Errorf("%w%s", err, said)
		}
	case status != nil:
		err = fmt.Errorf("%w: %w", ErrEnded, status)
	default:
		err = ErrEnded
	}
	for id, q := range x.open {
		q.failed <- err
		delete(x.open, id)
		<-m.slots
	}
}

// give gives an answer to the one who waits for it. A line that answers no question kills the process, because the
// next one may be a wrong answer.
func (m *Mux) give(x *muxed, line []byte) {
	var head struct{ ID uint64 }
	err := json.Unmarshal(line, &head)
	m.mu.Lock()
	defer m.mu.Unlock()
	q := x.open[head.ID]
	if err != nil || q == nil {
		m.stop(x, fmt.Errorf("it wrote %.80q, which answers no open question", line))
		return
	}
	delete(x.open, head.ID)
	x.loaded[q.About] = true
	q.answer <- line
	<-m.slots
}

// Close ends the processes: it closes their standard inputs, and kills those that do not end then. Questions in flight
// fail with [ErrClosed].
func (m *Mux) Close() error {
	m.mu.Lock()
	m.isClosed = true
	for _, x := range m.copies {
		if x != nil {
			x.process.In.Close()
		}
	}
	m.mu.Unlock()
	timer := time.AfterFunc(closing, m.kill)
	defer timer.Stop()
	m.ended.Wait()
	m.kill()
	return nil
}
