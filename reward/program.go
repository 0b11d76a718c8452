package reward

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/process"
	"github.com/trinity-go/trinity/internal/wait"
	"github.com/trinity-go/trinity/wire/score"
)

// program holds the running copies of a program.
type program struct {
	*execReward
	say      func(string)
	idle     chan *worker
	start    func() (*process.Process, error)
	closed   <-chan struct{}
	kill     context.CancelFunc // of all processes; closes closed
	patience time.Duration      // wait for an answer that people read of
	told     sync.Once          // guards the line about such a wait

	mu    sync.Mutex
	lost  int // processes since the last answer
	total int // processes that were lost
}

// worker is one copy of a program. It starts with its first question.
type worker struct {
	process *process.Process // nil if none runs
	answers *bufio.Scanner
}

func newProgram(x *execReward, log io.Writer, say func(string)) *program {
	ctx, cancel := context.WithCancel(context.Background())
	of := x.Program()
	of.Stderr = log
	p := &program{execReward: x, say: say, idle: make(chan *worker, x.Workers), closed: ctx.Done(), kill: cancel}
	p.patience = 10 * time.Second
	p.start = func() (*process.Process, error) { return of.Start(ctx) }
	for range x.Workers {
		p.idle <- &worker{}
	}
	return p
}

// closing is how long a program may take to end after the end of its standard input.
const closing = 3 * time.Second

// Close ends the processes. It closes their standard inputs, and kills those that do not end then.
func (p *program) Close() error {
	timer := time.AfterFunc(closing, p.kill)
	defer timer.Stop()
	var running []*worker
	for range p.Workers {
		if w := <-p.idle; w.process != nil {
			w.process.In.Close()
			running = append(running, w)
		}
	}
	for _, w := range running {
		_ = w.process.Wait() // its work is done, however it ends
	}
	p.kill()
	return nil
}

var (
	errEnded  = errors.New("the program ended before it answered")
	errClosed = errors.New("the stage has ended")
)

// ask returns the program's answer to a question. It asks once more if a process ends instead of
// answering.
func (p *program) ask(ctx context.Context, question []byte) (r trinity.Reward, err error) {
	var w *worker
	select {
	case w = <-p.idle:
		defer func() { p.idle <- w }()
	case <-ctx.Done():
		return r, fmt.Errorf("all %d workers are busy: %w", p.Workers, context.Cause(ctx))
	case <-p.closed:
		return r, errClosed
	}
	for range 2 {
		if err = p.gaveUp(); err != nil {
			return r, err
		}
		var text []byte
		if text, err = p.exchange(ctx, w, question); err == nil {
			var failed error
			if r, failed, err = score.Decode(text); err == nil {
				p.answered()
				return r, failed
			}
		}
		ended := errors.Is(err, errEnded)
		err = w.stop(err)
		select {
		case <-p.closed:
			return r, errClosed
		case <-ctx.Done():
			return r, err
		default:
		}
		p.lose(err)
		if !ended {
			return r, err
		}
	}
	return r, err
}

// exchange writes a question to a worker and returns the line that it answers. After an error the
// process is of no use.
func (p *program) exchange(ctx context.Context, w *worker, question []byte) (line []byte, err error) {
	key, limit := "timeout", p.Timeout
	if w.process == nil {
		key, limit = "start_timeout", p.StartTimeout
		running, err := p.start()
		if err != nil {
			return nil, err
		}
		w.process, w.answers = running, bufio.NewScanner(running.Out)
		w.answers.Buffer(nil, score.MaxAnswer)
	}
	late := fmt.Errorf("no answer within %s = %g s", key, limit)
	ctx, cancel := context.WithTimeoutCause(ctx, wait.Seconds(limit), late)
	defer cancel()
	defer time.AfterFunc(p.patience, func() {
		p.told.Do(func() {
			p.say(fmt.Sprintf("waits for reward %s: no answer for %v (%s = %g s)", p, p.patience, key, limit))
		})
	}).Stop()
	stop := context.AfterFunc(ctx, w.process.Kill)
	written := make(chan error, 1)
	go func() {
		_, err := w.process.In.Write(question)
		written <- err
	}()
	ok := w.answers.Scan()
	if ok {
		err = <-written
	}
	switch {
	case !stop():
		return nil, context.Cause(ctx)
	case ok:
		return w.answers.Bytes(), err
	case errors.Is(w.answers.Err(), bufio.ErrTooLong):
		return nil, fmt.Errorf("wrote a line of more than %d MiB", score.MaxAnswer>>20)
	}
	return nil, errEnded
}

// stop ends a worker's process after an error. If its output had ended, stop waits for its exit and
// adds its status: some programs close their output long before they exit.
func (w *worker) stop(err error) error {
	if w.process == nil {
		return err
	}
	ended := errors.Is(err, errEnded)
	if ended {
		w.process.In.Close()
		defer time.AfterFunc(closing, w.process.Kill).Stop()
	} else {
		w.process.Kill()
	}
	status := w.process.Wait()
	w.process = nil
	if status == nil || !ended {
		return err
	}
	return fmt.Errorf("%w: %w", err, status)
}

// gaveUp returns an error if the program was restarted too often.
func (p *program) gaveUp() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lost <= p.MaxRestarts {
		return nil
	}
	return fmt.Errorf("%d times in a row it did not answer (max_restarts = %d), so the run does not start it again; plugins.log has its "+
		"standard error", p.lost, p.MaxRestarts)
}

// lose counts a process that did not answer because of an error. It reports the first, the tenth,
// the hundredth and so on.
func (p *program) lose(err error) {
	p.mu.Lock()
	p.lost++
	p.total++
	total := p.total
	p.mu.Unlock()
	switch {
	case total == 1:
		p.say(fmt.Sprintf("reward %s: %v; the run starts it again", p, err))
	case isPowerOfTen(total):
		p.say(fmt.Sprintf("reward %s: the run has started it again %d times; the last time: %v", p, total, err))
	}
}

func isPowerOfTen(n int) bool {
	for n >= 10 && n%10 == 0 {
		n /= 10
	}
	return n == 1
}

// answered notes that a process has answered.
func (p *program) answered() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lost = 0
}
