package process

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// Pool keeps copies of a program, each of which reads a question a line from its standard input, for
// as long as the pool is open. It writes an answer a line to its standard output ([Worker.Ask]), or
// tells somebody else that it has finished ([Worker.Tell]).
type Pool struct {
	form    Lines
	workers int
	idle    chan *Worker
	start   func() (*Process, error)
	closed  <-chan struct{}
	kill    context.CancelFunc // of all processes; closes closed
}

// Lines say which lines of a program are answers.
type Lines struct {
	Most     int                    // bytes of a line
	Cut      bool                   // a longer line is cut; otherwise it ends the program
	IsAnswer func(line []byte) bool // other lines have no effect; nil: each line is an answer
	First    []byte                 // written to each copy of a mux before its first question
}

// Worker is one copy of a program. It starts with its first question.
type Worker struct {
	pool    *Pool
	process *Process // nil if none runs
	output  *output  // of the process
}

// output is the answers of a process.
type output struct {
	answers chan []byte // closed when the output has ended
	err     error       // why it has ended
}

// NewPool returns a pool of this many workers.
func NewPool(p Program, workers int, form Lines) *Pool {
	ctx, cancel := context.WithCancel(context.Background())
	pool := &Pool{form: form, workers: workers, idle: make(chan *Worker, workers), closed: ctx.Done(), kill: cancel}
	pool.start = func() (*Process, error) { return p.Start(ctx) }
	for range workers {
		pool.idle <- &Worker{pool: pool}
	}
	return pool
}

// Errors of a pool.
var (
	ErrEnded  = errors.New("the program ended before it answered")
	ErrClosed = errors.New("the stage has ended")
)

// Take waits for a worker that is idle. It must be given back.
func (p *Pool) Take(ctx context.Context) (*Worker, error) {
	select {
	case w := <-p.idle:
		return w, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("all %d workers are busy: %w", p.workers, context.Cause(ctx))
	case <-p.closed:
		return nil, ErrClosed
	}
}

// closing is how long a program may take to end after the end of its standard input.
const closing = 3 * time.Second

// Close ends the processes after the questions in flight. It closes their standard inputs, and kills
// those that do not end then.
func (p *Pool) Close() error {
	timer := time.AfterFunc(closing, p.kill)
	defer timer.Stop()
	var running []*Worker
	for range p.workers {
		if w := <-p.idle; w.process != nil {
			w.process.In.Close()
			running = append(running, w)
		}
	}
	for _, w := range running {
		_ = w.end() // its work is done, however it ends
	}
	p.kill()
	return nil
}

// GiveBack makes the worker idle.
func (w *Worker) GiveBack() { w.pool.idle <- w }

// Runs reports whether the worker has a process.
func (w *Worker) Runs() bool { return w.process != nil }

// Ask writes a question to the worker and returns the line that it answers. It starts the process if
// none runs. After an error, and at the end of ctx, the process is killed.
func (w *Worker) Ask(ctx context.Context, question []byte) (answer []byte, err error) {
	err = w.running(func() error {
		answer, err = w.exchange(ctx, question)
		return err
	})
	return answer, err
}

// Tell writes a question to the worker and waits until done is closed. heard gets each line that
// looks like an answer; its error ends the wait. Tell starts the process if none runs, as after an
// exit between two questions. After an error, and at the end of ctx, the process is killed.
func (w *Worker) Tell(ctx context.Context, question []byte, done <-chan struct{}, heard func(line []byte) error) error {
	if w.process != nil && w.hasEnded() {
		_ = w.Stop(ErrEnded) // its work was done
	}
	return w.running(func() error {
		written := w.write(question)
		for {
			select {
			case line, ok := <-w.output.answers:
				if !ok {
					return w.output.err
				}
				if err := heard(line); err != nil {
					return err
				}
			case <-done:
				select { // it has read the question, or never will
				case err := <-written:
					return err
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	})
}

// hasEnded reports whether the output of the process has ended. It drops lines that nobody waits for.
func (w *Worker) hasEnded() bool {
	for {
		select {
		case _, ok := <-w.output.answers:
			if !ok {
				return true
			}
		default:
			return false
		}
	}
}

// running does something with a process that runs, and stops the process after an error.
func (w *Worker) running(do func() error) error {
	if w.process == nil {
		if err := w.start(); err != nil {
			return err
		}
	}
	err := do()
	if err == nil {
		return nil
	}
	err = w.Stop(err)
	select {
	case <-w.pool.closed:
		return ErrClosed
	default:
		return err
	}
}

// write writes a question. The process may end before the writing begins.
func (w *Worker) write(question []byte) (written <-chan error) {
	result, in := make(chan error, 1), w.process.In
	go func() {
		_, err := in.Write(question)
		result <- err
	}()
	return result
}

func (w *Worker) start() error {
	running, err := w.pool.start()
	if err != nil {
		return err
	}
	w.process, w.output = running, &output{answers: make(chan []byte)}
	go w.output.read(running.Out, w.pool.form)
	return nil
}

// read reads the answers, one at a time.
func (o *output) read(from io.Reader, form Lines) {
	defer close(o.answers)
	if form.Cut {
		o.readCut(from, form)
		return
	}
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, form.Most)
	for lines.Scan() {
		if form.IsAnswer == nil || form.IsAnswer(lines.Bytes()) {
			o.answers <- bytes.Clone(lines.Bytes())
		}
	}
	if o.err = ErrEnded; errors.Is(lines.Err(), bufio.ErrTooLong) {
		o.err = fmt.Errorf("wrote a line of more than %d MiB", form.Most>>20)
	}
}

// readCut reads the answers among lines of any length.
func (o *output) readCut(from io.Reader, form Lines) {
	lines := bufio.NewReaderSize(from, form.Most)
	for inside := false; ; {
		line, more, err := lines.ReadLine()
		if err != nil {
			o.err = ErrEnded
			return
		}
		if !inside && form.IsAnswer(line) {
			o.answers <- bytes.Clone(line)
		}
		inside = more
	}
}

func (w *Worker) exchange(ctx context.Context, question []byte) ([]byte, error) {
	select {
	case stray, ok := <-w.output.answers:
		if ok { // the answers of later questions would be those of others
			return nil, fmt.Errorf("wrote %.80q, which answers no question: want one line for each", stray)
		}
		return nil, w.output.err
	default:
	}
	written := w.write(question)
	select {
	case answer, ok := <-w.output.answers:
		if !ok {
			return nil, w.output.err
		}
		select { // it has read the question, or never will
		case err := <-written:
			return answer, err
		case <-ctx.Done():
		}
	case <-ctx.Done():
	}
	return nil, context.Cause(ctx)
}

// Stop ends the worker's process because of an error, and adds to it what the process has written to its
// standard error. If its output had ended, Stop waits for its exit and adds its status too: some programs
// close their output long before they exit.
func (w *Worker) Stop(because error) error {
	if w.process == nil {
		return because
	}
	ended := errors.Is(because, ErrEnded)
	if ended {
		w.process.In.Close()
		defer time.AfterFunc(closing, w.process.Kill).Stop()
	} else {
		w.process.Kill()
	}
	said := &w.process.said
	if status := w.end(); status != nil && ended {
		return fmt.Errorf("%w: %w", because, status) // quotes it
	}
	if quoted := said.quoted(); quoted != "" {
		return fmt.Errorf("%w%s", because, quoted)
	}
	return because
}

// end waits for the exit of the worker's process.
func (w *Worker) end() error {
	go func(answers chan []byte) {
		for range answers { // drops them, so that the reader of the output ends
		}
	}(w.output.answers)
	status := w.process.Wait()
	w.process = nil
	return status
}
