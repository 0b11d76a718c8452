package finetune

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/serve/openai"
	wire "github.com/trinity-go/trinity/internal/wire/finetune"
)

// job is a job as its file has it.
type job struct {
	wire.Job
	Owner   string       `json:"owner,omitempty"`
	Base    string       `json:"base"`             // the model of this service that it adapts
	Wanted  wire.Status  `json:"wanted,omitempty"` // paused, queued or cancelled, while the run has not ended
	Steps   int          `json:"steps,omitempty"`
	Charged int64        `json:"charged,omitempty"` // the last step that its owner was charged for
	Notes   []wire.Event `json:"notes"`
	Key     string       `json:"idempotency_key,omitempty"`
	Order   []byte       `json:"order_sha256,omitempty"`
	dir     string
	from    string // directory of the adapter that a new job begins with; "" if it makes one
	copies  int64  // bytes that a new job copies
	running *child // nil if no process runs
}

// readJobs returns the jobs below a directory. Those that ran wait for their turn again.
func readJobs(dir string) (map[string]*job, error) {
	all := map[string]*job{}
	if err := durable.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := durable.RemoveLeftoverDirs(dir); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		j := &job{dir: filepath.Join(dir, e.Name())}
		text, err := os.ReadFile(filepath.Join(j.dir, jobFile))
		if err == nil {
			err = json.Unmarshal(text, j)
		}
		if err != nil {
			return nil, fmt.Errorf("%s is damaged: %w: remove it", j.dir, err)
		}
		switch { // its process has ended with the service
		case j.Status != wire.Running:
		case j.Wanted == wire.Cancelled:
			j.cancelled()
			_ = j.save() // or else the next service does it
		default:
			j.Status, j.Wanted = cmp.Or(j.Wanted, wire.Queued), ""
		}
		all[j.ID] = j
	}
	return all, nil
}

// save writes a job's file. The mutex is held.
func (j *job) save() error {
	text, err := json.Marshal(j)
	if err != nil {
		return err
	}
	return durable.WriteSecret(filepath.Join(j.dir, jobFile), text)
}

// note adds a line to a job's log.
func (j *job) note(level, format string, args ...any) {
	j.Notes = append(j.Notes, wire.Event{
		ID: fmt.Sprintf("ftevent-%s-%d", j.key(), len(j.Notes)), Object: "fine_tuning.job.event", CreatedAt: now(), Level: level,
		Message: fmt.Sprintf(format, args...), Type: "message",
	})
}

// key returns the ID without its prefix. The names of the job's events, checkpoints and model have it.
func (j *job) key() string { return strings.TrimPrefix(j.ID, "ftjob-") }

// end ends a job. The copies that it has trained on go: its owner has the files.
func (j *job) end(status wire.Status) {
	at := now()
	j.Status, j.FinishedAt, j.Wanted = status, &at, ""
	for _, name := range []string{trainingRows, validationRows, adapterName} {
		_ = os.RemoveAll(filepath.Join(j.dir, name)) // what stays takes up space alone
	}
}

// cancelled ends a job that its client has cancelled.
func (j *job) cancelled() {
	j.end(wire.Cancelled)
	j.note("info", "The job was cancelled")
}

// fail ends a job with an error.
func (j *job) fail(code, param, message string) {
	j.end(wire.Failed)
	j.Error = &wire.Failure{Code: code, Message: message}
	if param != "" {
		j.Error.Param = &param
	}
	j.note("error", "The job failed: %s", message)
}

// update changes a job, writes its file and wakes who waits for a change.
func (s *Server) update(j *job, change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	if err := j.save(); err != nil {
		s.unwritten(j, err)
	}
	s.wake()
}

func (s *Server) unwritten(j *job, err error) {
	s.opts.Say(fmt.Sprintf("the fine-tuning job %s cannot be written: %v", j.ID, err))
}

// wake wakes who waits for a change. The mutex is held.
func (s *Server) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// fits returns an error if so many more bytes are more than an owner's key has room for.
func (s *Server) fits(owner string, more int64) error {
	limit := s.opts.Disk(owner)
	if limit == 0 {
		return nil
	}
	s.mu.Lock()
	var dirs []string
	for _, j := range s.jobs {
		if j.Owner == owner {
			dirs = append(dirs, j.dir)
		}
	}
	s.mu.Unlock()
	used := s.files.used(owner) + more
	for _, dir := range dirs {
		size, _ := durable.Size(dir) // one that is gone has none
		used += size
	}
	if used > limit {
		return &openai.Problem{Status: http.StatusForbidden, Code: "quota", Message: fmt.Sprintf(
			"files and jobs of the key %s would take %.3f GiB, and it may have %.3f: delete files or models", owner, gib(used), gib(limit))}
	}
	return nil
}

func gib(n int64) float64 { return float64(n) / (1 << 30) }

// maxJobs bounds the jobs of an owner that have not ended.
const maxJobs = 100

// suffix is what clients may add to the names of models.
var suffix = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// maxSeed bounds the seeds of jobs.
const maxSeed = 1<<31 - 1

// create makes a job of an order. A client that sends the order again with the same Idempotency-Key gets the job that there is.
func (s *Server) create(owner string, r *http.Request, body []byte) (any, error) {
	var o wire.Order
	if err := read(body, &o); err != nil {
		return nil, err
	}
	s.ordering.Lock() // else two of the same key are two jobs
	defer s.ordering.Unlock()
	key, sum := r.Header.Get("Idempotency-Key"), sha256.Sum256(body)
	if len(key) > maxKey {
		return nil, openai.Bad("", "the Idempotency-Key has more than %d bytes", maxKey)
	}
	if same, err := s.ordered(owner, key, sum[:]); same != nil || err != nil {
		return same, err
	}
	j, err := s.newJob(owner, &o)
	if err == nil {
		err = s.fits(owner, j.copies)
	}
	if err != nil {
		return nil, err
	}
	if n := s.open(owner); n >= maxJobs {
		return nil, openai.Bad("", "%d jobs of this key have not ended, and there may be no more: cancel some", n)
	}
	j.Key, j.Order = key, sum[:]
	if err := s.files.prepare(j); err != nil {
		return nil, unkept(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jobs[j.ID] = j
	s.wake()
	return s.shown(j), nil
}

// maxKey bounds an Idempotency-Key.
const maxKey = 256

// ordered returns the job that an order with this Idempotency-Key has made; nil if there is none.
func (s *Server) ordered(owner, key string, sum []byte) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jobs {
		if key == "" || j.Owner != owner || j.Key != key {
			continue
		}
		if !bytes.Equal(j.Order, sum) {
			return nil, &openai.Problem{Status: http.StatusUnprocessableEntity, Code: "idempotency", Message: fmt.Sprintf(
				"another order has made the job %s with this Idempotency-Key: send a new one", j.ID)}
		}
		return s.shown(j), nil
	}
	return nil, nil
}

// open counts the jobs of an owner that have not ended.
func (s *Server) open(owner string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jobs {
		if j.Owner == owner && !j.Status.Ended() {
			n++
		}
	}
	return n
}

// newJob checks an order, but for its data.
func (s *Server) newJob(owner string, o *wire.Order) (*job, error) {
	j := &job{Owner: owner, Job: wire.Job{
		ID: "ftjob-" + strings.ToLower(rand.Text()), Object: "fine_tuning.job", CreatedAt: now(), Model: o.Model, OrganizationID: "trinity",
		Status: wire.Validating, TrainingFile: o.TrainingFile, ValidationFile: o.ValidationFile, ResultFiles: []string{}, Metadata: o.Metadata,
		Suffix: o.Suffix,
	}}
	j.dir = filepath.Join(s.opts.Dir, jobsDir, j.ID)
	if len(o.Integrations) > 0 {
		return nil, openai.Bad("integrations", "a job has none: its metrics are in its events, and in the result file")
	}
	if o.Suffix != nil && *o.Suffix == "" {
		j.Suffix = nil
	}
	if j.Suffix != nil && !suffix.MatchString(*o.Suffix) {
		return nil, openai.Bad("suffix", "want letters, digits, _, - and dots, 64 at most, got %.80q", *o.Suffix)
	}
	if err := checkMetadata(o.Metadata); err != nil {
		return nil, err
	}
	switch {
	case o.Seed == nil:
		n, err := rand.Int(rand.Reader, big.NewInt(maxSeed))
		if err != nil {
			return nil, err
		}
		j.Seed = n.Int64()
	case *o.Seed < 0 || *o.Seed > maxSeed:
		return nil, openai.Bad("seed", "want a number from 0 to %d, got %d", maxSeed, *o.Seed)
	default:
		j.Seed = *o.Seed
	}
	base, adapter, err := s.modelOf(owner, o.Model)
	if err != nil {
		return nil, err
	}
	if j.Base, j.from = base.Name, adapter; adapter != "" {
		j.copies, _ = durable.Size(adapter) // an adapter that is gone is missed when it is copied
	}
	for _, file := range j.data() {
		f, err := s.files.of(owner, file.id)
		if err != nil {
			return nil, openai.Bad(file.key, "there is no file %.80q", file.id)
		}
		if f.Purpose != "fine-tune" {
			return nil, openai.Bad(file.key, "the file %s has the purpose %s: send it with fine-tune", file.id, f.Purpose)
		}
		j.copies += f.Bytes
	}
	if err := s.setMethod(j, o); err != nil {
		return nil, err
	}
	_, err = settle(j.Method.Type, j.terms().Hyperparameters, 0, base.MaxLen)
	return j, err
}

func checkMetadata(all map[string]string) error {
	if len(all) > 16 {
		return openai.Bad("metadata", "want 16 pairs at most, got %d", len(all))
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if len([]rune(key)) > 64 || len([]rune(all[key])) > 512 {
			return openai.Bad("metadata", "%.64q: want keys of 64 and values of 512 characters at most", key)
		}
	}
	return nil
}

// terms returns the terms of a job's method.
func (j *job) terms() *wire.MethodTerms {
	terms, _ := j.Method.Terms()
	return *terms
}

// setMethod checks the method of an order, and sets that of a job.
func (s *Server) setMethod(j *job, o *wire.Order) error {
	j.Method = wire.Method{Type: wire.Supervised}
	if o.Method != nil {
		j.Method = *o.Method
	}
	place, ok := j.Method.Terms()
	if !ok {
		return openai.Bad("method", "want the type supervised, dpo or reinforcement, and the terms of that type alone, got %.40q", j.Method.Type)
	}
	if *place == nil {
		*place = &wire.MethodTerms{}
	}
	terms, at := *place, "method."+j.Method.Type
	if terms.Hyperparameters == nil {
		terms.Hyperparameters = &wire.Hyperparameters{}
	}
	if o.Hyperparameters != nil {
		if o.Method != nil {
			return openai.Bad("hyperparameters", "method is there, too: write them at %s.hyperparameters", at)
		}
		terms.Hyperparameters = o.Hyperparameters
	}
	if err := checkTerms(j.Method.Type, terms); err != nil || j.Method.Type != wire.Reinforcement {
		return err
	}
	object, err := s.graders.check(terms.Grader, at+".grader")
	if err != nil {
		return err
	}
	for _, name := range modelsOf(object) {
		if _, err := s.opts.baseOf(name); err != nil {
			return s.graders.noModel(at+".grader", name)
		}
	}
	return nil
}

// checkTerms refuses what a method does not have, or what has no meaning here.
func checkTerms(method string, t *wire.MethodTerms) error {
	h, at := t.Hyperparameters, "method."+method+".hyperparameters."
	isRL := method == wire.Reinforcement
	for _, of := range []struct {
		key string
		n   *wire.Number
	}{
		{"eval_interval", h.EvalInterval}, {"eval_samples", h.EvalSamples}, {"max_completion_tokens", h.MaxCompletionTokens},
		{"compute_multiplier", h.ComputeMultiplier},
	} {
		if of.n != nil && !isRL {
			return openai.Bad(at+of.key, "belongs to method.reinforcement")
		}
	}
	switch {
	case h.Beta != nil && method != wire.DPO:
		return openai.Bad(at+"beta", "belongs to method.dpo")
	case !h.ComputeMultiplier.Auto():
		return openai.Bad(at+"compute_multiplier", "a machine computes as fast as it can, and each task has %d replies: "+
			`leave it "auto", and set n_epochs and batch_size`, rollouts)
	case h.ReasoningEffort != nil && (!isRL || *h.ReasoningEffort != wire.UsualEffort):
		return openai.Bad(at+"reasoning_effort", "the models of this service have no levels of effort: leave it out")
	case len(t.Grader) > 0 && !isRL:
		return openai.Bad("method."+method+".grader", "belongs to method.reinforcement")
	case isRL && len(t.Grader) == 0:
		return openai.Bad("method."+method+".grader", "a grader is missing: it scores replies")
	}
	if f := strings.TrimSpace(string(t.ResponseFormat)); f != "" && f != "null" {
		return openai.Bad("method."+method+".response_format",
			"nothing trains on constrained replies: leave it out, and let the grader read the form")
	}
	return nil
}

// prepare makes the directory of a job, with copies of its data: the client may delete its files.
func (f *files) prepare(j *job) error {
	j.note("info", "Created fine-tuning job: %s", j.ID)
	j.note("info", "Validating training file: %s", j.TrainingFile)
	return durable.WriteDir(j.dir, func(dir string) error {
		for _, file := range j.data() {
			err := copyFile(f.path(file.id), filepath.Join(dir, file.name))
			if errors.Is(err, fs.ErrNotExist) {
				return openai.Bad(file.key, "the file %s was deleted meanwhile", file.id)
			}
			if err != nil {
				return unkept(err)
			}
		}
		if err := copyAdapter(j.from, filepath.Join(dir, adapterName)); err != nil {
			return err
		}
		text, err := json.Marshal(j)
		if err != nil {
			return err
		}
		return durable.WriteSecret(filepath.Join(dir, jobFile), text)
	})
}

// copyAdapter copies the adapter that a job goes on training, because a job removes its older checkpoints, and its owner
// may delete the model.
func copyAdapter(from, to string) error {
	if from == "" {
		return nil
	}
	entries, err := os.ReadDir(from)
	if err == nil {
		err = os.Mkdir(to, 0o700)
	}
	for _, e := range entries {
		if err == nil && e.Type().IsRegular() {
			err = copyFile(filepath.Join(from, e.Name()), filepath.Join(to, e.Name()))
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return openai.Bad("model", "the model was removed meanwhile")
	}
	return err
}

// data is a file of a job: the key of its order, the ID of the file, and the name of the copy.
type data struct{ key, id, name string }

// data returns the files of a job.
func (j *job) data() []data {
	all := []data{{"training_file", j.TrainingFile, trainingRows}}
	if j.ValidationFile != nil {
		all = append(all, data{"validation_file", *j.ValidationFile, validationRows})
	}
	return all
}

// copyFile copies a file.
func copyFile(from, to string) error {
	return durable.Replace(to, func(w io.Writer) error { return copyTo(w, from) })
}

// copyTo writes the bytes of a file.
func copyTo(w io.Writer, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	_, err = io.Copy(w, in)
	return err
}

// change changes a job of an owner, and waits a moment for a process that is to end at once.
func (s *Server) change(ctx context.Context, owner, id string, do func(*job) error) (any, error) {
	s.mu.Lock()
	j, err := s.job(owner, id)
	if err == nil {
		if err = do(j); err == nil {
			if err = j.save(); err != nil {
				err = unkept(err)
			}
		}
		s.wake()
	}
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	wait, cancel := context.WithTimeout(ctx, killing)
	defer cancel()
	s.until(wait, func() bool { return j.Wanted != wire.Cancelled })
	return s.show(owner, id)
}

// until waits until a condition holds, which is asked with the mutex, and reports whether it does.
func (s *Server) until(ctx context.Context, holds func() bool) bool {
	for {
		s.mu.Lock()
		ok, changed := holds(), s.changed
		s.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

func conflict(j *job, what string) error {
	return openai.Bad("", "the job %s is %s: %s", j.ID, j.Status, what)
}

// cancel ends a job at once. The mutex is held, as for pause and resume.
func (s *Server) cancel(j *job) error {
	switch {
	case j.Status.Ended():
		return conflict(j, "it cannot be cancelled")
	case j.running != nil:
		j.Wanted = wire.Cancelled
		j.running.kill()
	default:
		j.cancelled()
	}
	return nil
}

// pause ends the process of a job after its step, with a checkpoint.
func (s *Server) pause(j *job) error {
	switch {
	case j.Status != wire.Running && j.Status != wire.Queued || j.Wanted == wire.Cancelled:
		return conflict(j, "only one that is queued or running can be paused")
	case j.running != nil:
		if j.Wanted == "" {
			j.running.interrupt()
		}
		j.Wanted = wire.Paused
	default:
		j.Status = wire.Paused
		j.note("info", "The job was paused")
	}
	return nil
}

// resume lets a paused job wait for its turn.
func (s *Server) resume(j *job) error {
	if j.Status != wire.Paused {
		return conflict(j, "only one that is paused can resume")
	}
	j.Status = wire.Queued
	j.note("info", "The job was resumed")
	return nil
}

// shown returns a job as clients see it. The mutex is held.
func (s *Server) shown(j *job) wire.Job {
	out := j.Job
	out.Metadata, out.ResultFiles = maps.Clone(j.Metadata), slices.Clone(j.ResultFiles)
	if out.Integrations == nil {
		out.Integrations = []json.RawMessage{}
	}
	return out
}

// killing is how long a process may take to die.
const killing = 10 * time.Second
