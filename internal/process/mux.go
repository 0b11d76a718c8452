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

// muxed is a process of a mux. The mutex of the mux guards open and because.
type muxed struct {
	process   *Process
	at        int // among the copies
	questions chan []byte
	cancels   chan uint64
	gone      chan struct{}       // closed when its output has ended
	open      map[uint64]*pending // questions without an answer, also those for whose answers nobody waits
	because   error               // why it was killed; nil if it was not
}

// pending is a question in flight.
type pending struct {
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

// heeding is how long a program may take to give up a question that was cancelled.
const heeding = 10 * time.Second

// NewMux returns a mux of this many copies, each of which answers at most atOnce questions at a time. Each starts with
// its first question. form.IsAnswer and form.Cut have no effect.
func NewMux(p Program, copies, atOnce int, form Lines) *Mux {
	ctx, cancel := context.WithCancel(context.Background())
	return &Mux{
		atOnce: atOnce, form: form, slots: make(chan struct{}, copies*atOnce), copies: make([]*muxed, copies),
		start: func() (*Process, error) { return p.Start(ctx) }, closed: ctx.Done(), kill: cancel,
	}
}

// Ask gives a question, an object, to the copy with the fewest, and decodes the answer. The end of ctx cancels it; a copy
// that does not heed this within 10 s is killed, and its other questions fail with an error that says why. A copy that
// ends fails its questions with [ErrEnded] and its status, and starts again with the next. The error of the program is a
// [ToldError].
func (m *Mux) Ask(ctx context.Context, do string, question, answer any) error {
	body, err := json.Marshal(question)
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
	x, q, err := m.send(do, body)
	if err != nil {
		<-m.slots
		return err
	}
	select {
	case line := <-q.answer:
		var told struct{ Error *ToldError }
		if err := json.Unmarshal(line, &told); err != nil {
			return fmt.Errorf("the answer %.80q is none to %s: %w", line, do, err)
		}
		if told.Error != nil {
			return told.Error
		}
		return json.Unmarshal(line, answer)
	case err := <-q.failed:
		return err
	case <-ctx.Done():
		m.cancel(x, q, do)
		return q.leave(context.Cause(ctx))
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

// send writes a question to the copy with the fewest, which it starts if it does not run.
func (m *Mux) send(do string, body []byte) (*muxed, *pending, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.isClosed {
		return nil, nil, ErrClosed
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
			return nil, nil, err
		}
		x := &muxed{
			process: running, at: at, open: map[uint64]*pending{}, gone: make(chan struct{}),
			questions: make(chan []byte, m.atOnce), cancels: make(chan uint64, m.atOnce),
		}
		m.copies[at] = x
		m.ended.Add(1)
		go x.write(m.form.First)
		go m.read(x)
	}
	x := m.copies[at]
	m.last++
	q := &pending{m.last, make(chan []byte, 1), make(chan error, 1)}
	head := fmt.Appendf(nil, `{"id":%d,"do":%q`, q.id, do)
	if string(body) != "{}" {
		head = append(head, ',')
	}
	x.open[q.id] = q
	x.questions <- append(append(head, body[1:]...), '\n') // there is room: the questions in it are open
	return x, q, nil
}

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
		case line := <-x.questions:
			_, err = x.process.In.Write(line)
		case id := <-x.cancels:
			_, err = fmt.Fprintf(x.process.In, `{"cancel":%d}`+"\n", id)
		case <-x.gone:
			return
		}
	}
}

// cancel tells the process that nobody waits for an answer any more.
func (m *Mux) cancel(x *muxed, q *pending, do string) {
	select {
	case x.cancels <- q.id:
	default: // it reads nothing
	}
	time.AfterFunc(heeding, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if x.open[q.id] != nil {
			m.stop(x, fmt.Errorf("the program was killed: it did not give up another question (%s) within %v", do, heeding))
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
		m.stop(x, fmt.Errorf("the program was killed: it wrote a line of more than %d MiB", m.form.Most>>20))
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
		m.stop(x, fmt.Errorf("the program was killed: it wrote %.80q, which answers no open question", line))
		return
	}
	delete(x.open, head.ID)
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
