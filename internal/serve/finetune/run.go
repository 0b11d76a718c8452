package finetune

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/process"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/serve/openai"
	wire "github.com/trinity-go/trinity/internal/wire/finetune"
)

// ending is how long a run may take to end after its step when the service ends; then it is killed, and the next service
// resumes it from its last checkpoint.
const ending = 20 * time.Second

// Run checks data and runs jobs, one after another, until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	var all sync.WaitGroup
	all.Go(func() {
		for {
			var next *job
			if !s.until(ctx, func() bool { next = s.unchecked(); return next != nil }) || ctx.Err() != nil {
				return
			}
			s.validate(ctx, next)
		}
	})
	for {
		owner := ""
		if !s.until(ctx, func() (ok bool) { owner, ok = s.waits(); return ok }) || ctx.Err() != nil {
			break
		}
		all.Go(func() { s.turn(ctx, owner) })
	}
	all.Wait()
	return nil
}

// oldest returns the oldest job in a status of each owner. The mutex is held.
func (s *Server) oldest(status wire.Status) map[string]*job {
	out := map[string]*job{}
	for _, j := range s.jobs {
		if first := out[j.Owner]; j.Status == status && (first == nil || j.before(first)) {
			out[j.Owner] = j
		}
	}
	return out
}

func (j *job) before(other *job) bool {
	return cmp.Or(cmp.Compare(j.CreatedAt, other.CreatedAt), cmp.Compare(j.ID, other.ID)) < 0
}

// unchecked returns the job whose data are to be checked next: the oldest one of the owner whose turn is the longest ago. The
// mutex is held.
func (s *Server) unchecked() (next *job) {
	for owner, j := range s.oldest(wire.Validating) {
		if next == nil || s.checked[owner] < s.checked[next.Owner] || s.checked[owner] == s.checked[next.Owner] && j.before(next) {
			next = j
		}
	}
	if next != nil {
		s.checks++
		s.checked[next.Owner] = s.checks
	}
	return next
}

// waits returns an owner with a job that waits, who does not ask for a turn yet, and notes that he does. The mutex is held.
func (s *Server) waits() (owner string, ok bool) {
	for owner := range s.oldest(wire.Queued) {
		if !s.asking[owner] {
			s.asking[owner] = true
			return owner, true
		}
	}
	return "", false
}

// turn runs the oldest job of an owner who asks for a turn, once it is given.
func (s *Server) turn(ctx context.Context, owner string) {
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.asking, owner)
		s.wake()
	}()
	t, err := s.opts.Enter(ctx, owner)
	if err != nil { // the service ends
		return
	}
	defer t.Leave()
	s.mu.Lock()
	j := s.oldest(wire.Queued)[owner]
	s.mu.Unlock()
	if j != nil { // else it was cancelled meanwhile
		s.train(ctx, j, t)
	}
}

// validate checks the data of a job, writes its configuration and lets it wait for its turn.
func (s *Server) validate(ctx context.Context, j *job) {
	c, err := s.checkData(j)
	var text []byte
	if err == nil {
		if text, err = s.opts.configure(j, &c); err == nil {
			err = durable.WriteSecret(filepath.Join(j.dir, configFile), text)
		}
	}
	if err == nil {
		err = j.check(ctx, s.opts.Program)
	}
	if ctx.Err() != nil {
		return // the next service checks it again
	}
	s.update(j, func() {
		if j.Status != wire.Validating { // cancelled meanwhile
			return
		}
		if err != nil {
			p := &openai.Problem{Code: "invalid_job"}
			errors.As(err, &p)
			j.fail(p.Code, p.Param, err.Error())
			return
		}
		j.Status, j.Steps = wire.Queued, c.Steps
		h := c.hyperparameters(j.Method.Type)
		j.Method, j.Hyperparameters = j.Method.With(h), *h
		j.note("info", "Files validated, moving job to queued state")
	})
}

// checkData checks the rows of a job, and settles its numbers.
func (s *Server) checkData(j *job) (c settled, err error) {
	rows, item := 0, func(map[string]any) error { return nil }
	if j.Method.Type == wire.Reinforcement {
		if item, err = s.graders.itemOf(j.terms().Grader); err != nil {
			return c, err
		}
	}
	for _, file := range slices.Backward(j.data()) { // the rows of the training file count
		if rows, err = checkRows(filepath.Join(j.dir, file.name), j.Method.Type, item); err != nil {
			return c, &openai.Problem{Code: "invalid_" + file.key, Param: file.key, Message: file.key + ": " + err.Error()}
		}
	}
	base, err := s.opts.baseOf(j.Base)
	if err != nil {
		return c, err
	}
	return settle(j.Method.Type, j.terms().Hyperparameters, rows, base.MaxLen)
}

// checking is how long the check of a configuration may take.
const checking = 10 * time.Minute

// check checks the configuration of a job as `trinity check` does, but for memory.
func (j *job) check(ctx context.Context, program string) error {
	said := &process.Ends{}
	p := process.Program{
		Path: program, Command: []string{os.Args[0], "check", "--no-python", "--config", configFile}, Dir: j.dir, Foreign: true,
		Stderr: said,
	}
	ctx, cancel := context.WithTimeout(ctx, checking)
	defer cancel()
	plan, err := p.Run(ctx, nil, 1<<20)
	if ctx.Err() != nil {
		return fmt.Errorf("the check of its configuration has not ended within %v", checking)
	}
	if err != nil && len(plan) == 0 { // with a plan, only memory lacks, which other runs may have until this one begins
		return inData(cmp.Or(j.lastLine(said.Last()), err.Error()))
	}
	return nil
}

// badRow is how a run says which row of its data is bad.
var badRow = regexp.MustCompile(`^(?:config\.yaml:\d+:\d+: \S+: )?(training|validation)\.jsonl:(\d+): (.*)$`)

// modelLength is how a run names the length of its model, and what to do. Clients of a service do not have its configuration.
var modelLength = regexp.MustCompile(`model\.max_model_len( \d+)?: raise it.*`)

// inData returns what a run said as an error. One about data names the file as its client does.
func inData(line string) error {
	found := badRow.FindStringSubmatch(line)
	if found == nil {
		return errors.New(line)
	}
	key, why := found[1]+"_file", modelLength.ReplaceAllString(found[3], "the service's --max-model-len$1: shorten the row, or remove it")
	return &openai.Problem{Code: "invalid_" + key, Param: key, Message: fmt.Sprintf("%s: line %s: %s", key, found[2], why)}
}

// lastLine returns the last line of what a program said, with the names of a job's files alone.
func (j *job) lastLine(said []byte) string {
	said = bytes.TrimSpace(said)
	line := strings.TrimPrefix(string(said[bytes.LastIndexByte(said, '\n')+1:]), "trinity: ")
	if dir, err := filepath.Abs(j.dir); err == nil {
		line = strings.ReplaceAll(line, dir+string(filepath.Separator), "")
	}
	return line
}

// child is the process of a job's run.
type child struct {
	dir   string // of the run
	kill  context.CancelFunc
	begun atomic.Bool // it starts: no process of before does the run
}

// longestStep is how long a run may take to end after it was told to.
const longestStep = 30 * time.Minute

// interrupt sends the run the signal of Ctrl-C: it ends after its step, with a checkpoint. One that cannot get it, such as
// one that has not begun, or that does not end, is killed, and resumes from its last checkpoint.
func (c *child) interrupt() {
	holders, _ := durable.Holders(c.dir)
	sent := false
	for _, h := range living(holders) {
		if p, err := os.FindProcess(h.PID); err == nil {
			sent = p.Signal(os.Interrupt) == nil || sent
			_ = p.Release()
		}
	}
	if !sent || !c.begun.Load() {
		c.kill()
		return
	}
	time.AfterFunc(longestStep, c.kill)
}

// living returns the processes among holders of locks that live on this machine, each once.
func living(holders map[string]durable.Held) (all []durable.Held) {
	for _, h := range holders {
		isSame := func(other durable.Held) bool { return other.PID == h.PID }
		if lives, known := h.Lives(); lives && known && !slices.ContainsFunc(all, isSame) {
			all = append(all, h)
		}
	}
	return all
}

// looking is how often the server looks at what a running job has computed; turnLength is for how long a job runs at least
// before one of another owner takes its place. Variables for tests.
var looking, turnLength = time.Second, 10 * time.Minute

// follow charges a turn for the steps of a job until ctx ends, and ends the job's process when its turn is over: it resumes
// from there in its next turn.
func (s *Server) follow(ctx context.Context, j *job, t Turn) {
	began, wait := time.Now(), looking
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		looked := time.Now()
		s.charge(j, t)
		wait = max(looking, 50*time.Since(looked)) // the metrics of a long job take a while to read
		why := t.Over(time.Since(began) > turnLength)
		if why == "" {
			continue
		}
		s.update(j, func() {
			if j.Wanted == "" && j.running != nil {
				j.Wanted = wire.Queued
				j.note("info", "The job waits: %s", why)
				j.running.interrupt()
			}
		})
		return
	}
}

// charge charges a turn for the steps of a job that nobody was charged for.
func (s *Server) charge(j *job, t Turn) {
	trained, sampled, steps := 0, 0, j.progress()
	var err error
	s.mu.Lock()
	for _, p := range steps {
		if p.tokens > 0 && p.number > j.Charged { // a run that resumes from a checkpoint computes some steps again
			j.Charged = p.number
			trained += int(p.tokens)
		}
	}
	if trained > 0 { // the next service must not charge for them again
		err = j.save()
	}
	s.mu.Unlock()
	if err != nil {
		s.unwritten(j, err)
	}
	if j.Method.Type == wire.Reinforcement { // what is trained was sampled before
		sampled = trained
	}
	if trained > 0 {
		t.Compute(trained, sampled)
	}
}

// train runs a job until it ends, pauses, its turn is over or the service ends.
func (s *Server) train(ctx context.Context, j *job, t Turn) {
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	c := &child{dir: j.runDir(), kill: cancel}
	starts := false
	s.update(j, func() {
		if starts = j.Status == wire.Queued; starts { // else it was changed meanwhile
			j.Status, j.running = wire.Running, c
			j.note("info", "Fine-tuning job started")
		}
	})
	if !starts {
		return
	}
	unhook := context.AfterFunc(ctx, func() {
		c.interrupt()
		select {
		case <-time.After(ending):
			cancel()
		case <-running.Done():
		}
	})
	defer unhook()
	var following sync.WaitGroup
	ends, end := context.WithCancel(running)
	following.Go(func() { s.follow(ends, j, t) })
	err := j.process(running, c, s.opts.Program)
	end()
	following.Wait()
	s.charge(j, t)
	if ctx.Err() != nil && err != nil {
		s.update(j, func() { j.running = nil }) // the next service resumes it
		return
	}
	s.finish(j, err)
}

// process runs the process of a job.
func (j *job) process(ctx context.Context, c *child, program string) error {
	if err := waitFree(ctx, c.dir); err != nil {
		return err
	}
	c.begun.Store(true)
	log, err := os.OpenFile(filepath.Join(j.dir, logFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	said := &process.Ends{}
	p := process.Program{
		Path: program, Command: []string{os.Args[0], "run", "--config", configFile}, Dir: j.dir, Foreign: true, Stdout: log,
		Stderr: &tee{log, said},
	}
	if _, err := p.Run(ctx, nil, 0); err != nil {
		return inData(cmp.Or(j.lastLine(said.Last()), err.Error()))
	}
	return nil
}

// tee writes to a file, and keeps the end of the text.
type tee struct {
	log  *os.File
	said *process.Ends
}

func (t *tee) Write(p []byte) (int, error) {
	_, _ = t.said.Write(p) // it keeps all that has room
	return t.log.Write(p)
}

// heldError says that a process does the run of a job that is none of this service.
type heldError struct{ by durable.Held }

func (e *heldError) Error() string { return e.by.Error() + " still does its run" }

// patience is how long a job waits for such a process. A variable for tests.
var patience = 10 * time.Minute

// waitFree waits until no process of this machine does the run in a directory. One of a service that was killed may do it for
// a moment, or longer where the system does not end it with the service. The run itself finds out about other machines, by its
// lock: a machine that is gone, such as a container, cannot say so.
func waitFree(ctx context.Context, dir string) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(patience); ; {
		about, _ := rundir.ReadAbout(filepath.Join(dir, rundir.Monitor)) // there is none before a run begins
		holders, _ := rundir.Holders(dir, about.Parts)
		alive := living(holders)
		if len(alive) == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-late:
			return &heldError{alive[0]}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// finish ends a job whose process has ended.
func (s *Server) finish(j *job, failed error) {
	var results wire.File
	if failed == nil {
		var err error
		if results, err = s.files.results(j); err != nil {
			s.opts.Say(fmt.Sprintf("the results of the fine-tuning job %s: %v", j.ID, err))
		}
	}
	tokens := int64(0)
	for _, p := range j.progress() {
		tokens += p.tokens
	}
	held := (*heldError)(nil)
	s.update(j, func() {
		wanted := j.Wanted
		j.running, j.Wanted = nil, ""
		switch {
		case failed == nil && wanted != wire.Cancelled:
			name := j.modelName()
			j.end(wire.Succeeded)
			j.FineTunedModel, j.TrainedTokens = &name, &tokens
			if results.ID != "" {
				j.ResultFiles = []string{results.ID}
			}
			j.note("info", "New fine-tuned model created: %s", name)
			j.note("info", "The job has successfully completed")
		case wanted == wire.Queued:
			j.Status = wire.Queued
		case wanted == wire.Paused:
			j.Status = wire.Paused
			j.note("info", "The job was paused")
		case wanted == wire.Cancelled:
			j.cancelled()
		case errors.As(failed, &held):
			j.Status = wire.Paused
			j.note("warn", "The job was paused, because %v: end that process, and resume the job", held)
		case strings.Contains(failed.Error(), syscall.ENOSPC.Error()): // which more room mends
			j.Status = wire.Paused
			j.note("warn", "The job was paused, because the disk of the service is full: resume it when there is room")
		default:
			p := &openai.Problem{Code: "run_failed"}
			errors.As(failed, &p)
			j.fail(p.Code, p.Param, failed.Error())
		}
	})
}
