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
	alone  chan struct{} // an element for a question that wants to be alone
	closed <-chan struct{}
	kill   context.CancelFunc // of all processes; ends closed
	ended  sync.WaitGroup     // of the processes

	mu       sync.Mutex
	copies   []*muxed        // nil for one that does not run
	last     uint64          // number of the newest question
	waits    map[string]bool // about what somebody was told that it loads
	isClosed bool
}

// Question is what a mux asks.
type Question struct {
	Do    string // what is wanted
	Body  any    // an object of JSON, which becomes the question's
	About string // what the program loads before its first answer about it
	Alone bool   // no other question is in flight

	// The time for an answer, from when the question has a place; 0 sets none. A copy that has not loaded what the question
	// is about gets "load": true with it, has the time Loading, and begins the time for the answer with {"id": 7, "loaded": true}.
	Limit, Loading time.Duration
	Late           func(isLoaded bool) string // says that one of them has passed; may be nil
	Waits          func()                     // is called once if loading takes longer than patience; may be nil
	// Unhurried calls until, which waits while a copy loads, so that no other deadline runs meanwhile; may be nil.
	Unhurried func(ctx context.Context, until func(context.Context) error) error
}

// muxed is a process of a mux. The mutex of the mux guards all but its channels.
type muxed struct {
	process *Process
	at      int                 // among the copies
	lines   chan []byte         // to the process
	gone    chan struct{}       // closed when its output has ended
	open    map[uint64]*pending // questions without an answer, also those for whose answers nobody waits
	loaded  map[string]bool     // what it says that it has loaded
	because error               // why it was killed; nil if it was not
}

// pending is a question in flight.
type pending struct {
	Question
	id     uint64
	answer chan []byte   // one line at most
	failed chan error    // one at most
	loaded chan struct{} // gets one element at most; nil if nothing is loaded first
}

// ToldError is what a program answers instead: {"id": 7, "error": {"kind": "timeout", "reason": "…"}}.
type ToldError struct {
	Kind   string `json:"kind"` // of the failure
	Key    string `json:"key"`  // of the argument that is wrong
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
		atOnce: atOnce, form: form, slots: make(chan struct{}, copies*atOnce), alone: make(chan struct{}, 1),
		copies: make([]*muxed, copies), waits: map[string]bool{},
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
	leave, err := m.enter(ctx, q.Alone)
	if err != nil {
		return err
	}
	defer leave()
	x, p, err := m.send(q, body)
	if err != nil {
		<-m.slots
		return err
	}
	var line []byte
	if p.loaded != nil {
		unhurried := q.Unhurried
		if unhurried == nil {
			unhurried = func(ctx context.Context, until func(context.Context) error) error { return until(ctx) }
		}
		err = unhurried(ctx, func(ctx context.Context) (err error) {
			line, err = m.await(ctx, x, p, false)
			return err
		})
	}
	if err == nil && line == nil {
		line, err = m.await(ctx, x, p, true)
	}
	if err != nil {
		return err
	}
	var told struct{ Error *ToldError }
	if err := json.Unmarshal(line, &told); err != nil {
		return fmt.Errorf("the answer %.80q is none to %s: %w", line, q.Do, err)
	}
	if told.Error != nil {
		return told.Error
	}
	return json.Unmarshal(line, answer)
}

// await waits for the answer to a question. Before a copy has loaded what the question is about, it waits for that, too, and
// then returns no line.
func (m *Mux) await(ctx context.Context, x *muxed, p *pending, isLoaded bool) (line []byte, err error) {
	limit, loaded, patient := p.Limit, (<-chan struct{})(nil), (<-chan time.Time)(nil)
	if !isLoaded {
		limit, loaded = p.Loading, p.loaded
		if p.Waits != nil {
			timer := time.NewTimer(patience)
			defer timer.Stop()
			patient = timer.C
		}
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	if limit == 0 {
		timer.Stop()
	}
	for {
		select {
		case line := <-p.answer:
			return line, nil
		case err := <-p.failed:
			return nil, err
		case <-loaded:
			return nil, nil
		case <-patient:
			m.tell(p.Question)
		case <-timer.C:
			late := lateError("no answer in time")
			if p.Late != nil {
				late = lateError(p.Late(isLoaded))
			}
			m.cancel(x, p)
			return nil, p.leave(late)
		case <-ctx.Done():
			m.cancel(x, p)
			return nil, p.leave(context.Cause(ctx))
		}
	}
}

// enter waits for a place among the questions in flight, or for all places. The answer gives one place back, and leave
// the others.
func (m *Mux) enter(ctx context.Context, isAlone bool) (leave func(), err error) {
	places, taken := 1, 0
	leave = func() {}
	if isAlone {
		select {
		case m.alone <- struct{}{}: // two that wait for all places would wait for each other
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		places = cap(m.slots)
		leave = func() {
			for range taken - 1 {
				<-m.slots
			}
			<-m.alone
		}
	}
	for ; taken < places; taken++ {
		select {
		case m.slots <- struct{}{}:
			continue
		case <-ctx.Done():
			err = fmt.Errorf("%d questions are in flight: %w", cap(m.slots), context.Cause(ctx))
		case <-m.closed:
			err = ErrClosed
		}
		if taken > 0 {
			<-m.slots
		}
		leave()
		return nil, err
	}
	return leave, nil
}

// lateError says that there was no answer in time.
type lateError string

func (e lateError) Error() string { return string(e) }
func (e lateError) Unwrap() error { return context.DeadlineExceeded }

// tell says once that copies load what a question is about.
func (m *Mux) tell(q Question) {
	m.mu.Lock()
	told := m.waits[q.About]
	m.waits[q.About] = true
	m.mu.Unlock()
	if !told {
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

// send writes a question to the copy with the fewest, which it starts if it does not run.
func (m *Mux) send(ask Question, body []byte) (*muxed, *pending, error) {
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
	q := &pending{Question: ask, id: m.last, answer: make(chan []byte, 1), failed: make(chan error, 1)}
	head := fmt.Appendf(nil, `{"id":%d,"do":%q`, q.id, q.Do)
	if q.Loading > 0 && !x.loaded[q.About] {
		q.loaded = make(chan struct{}, 1)
		head = append(head, `,"load":true`...)
	}
	if string(body) != "{}" {
		head = append(head, ',')
	}
	x.open[q.id] = q
	select {
	case x.lines <- append(append(head, body[1:]...), '\n'):
	default:
		m.stop(x, errors.New("it answers questions that it has not read"))
	}
	return x, q, nil
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
	m.mu.Lock()
	m.remove(x) // the next question starts another
	m.mu.Unlock()
	close(x.gone)
	x.process.In.Close()
	timer := time.AfterFunc(closing, x.process.Kill)
	status := x.process.Wait()
	timer.Stop()

	m.mu.Lock()
	defer m.mu.Unlock()
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
	var head struct {
		ID     uint64
		Loaded bool
	}
	err := json.Unmarshal(line, &head)
	m.mu.Lock()
	defer m.mu.Unlock()
	q := x.open[head.ID]
	if err != nil || q == nil {
		m.stop(x, fmt.Errorf("it wrote %.80q, which answers no open question", line))
		return
	}
	if head.Loaded {
		if x.loaded[q.About] = true; q.loaded != nil && len(q.loaded) == 0 {
			q.loaded <- struct{}{}
		}
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
