package torch

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/trinity-go/trinity/internal/process"
	"github.com/trinity-go/trinity/internal/retry"
)

// protocol is the version of the requests; the worker announces its own.
const protocol = 1

// lease is how long the worker lives without a sign of life of this process.
const lease = time.Minute

// worker is the client of a running worker.
type worker struct {
	base    string // URL
	token   string
	device  string // cpu or cuda
	ranks   int
	timeout time.Duration // of a request
	dir     string        // files of this engine; removed with the worker
	client  retry.Client

	mu       sync.Mutex
	sequence int64 // of the last request that the worker has carried out
	broken   error // why no request can follow

	process   *process.Process
	kill      context.CancelFunc
	gone      chan struct{} // closed when no process is left
	lastWords error         // why the worker has ended; set before gone is closed
}

// startWorker starts the processes and waits until they answer.
func startWorker(ctx context.Context, a *args, parent string) (*worker, error) {
	dir, err := scratch(parent)
	if err != nil {
		return nil, fmt.Errorf("torch: %w", err)
	}
	w := &worker{
		token: rand.Text(), ranks: a.Ranks, timeout: time.Duration(a.Timeout) * time.Second, dir: dir, gone: make(chan struct{}),
		client: retry.Client{Name: "the torch worker", Retries: 2, Pause: 200 * time.Millisecond, MayPass: func(int) bool { return false }},
	}
	patience := time.Duration(a.StartTimeout) * time.Second
	late := fmt.Errorf("the worker (%s, ranks: %d) has not started within start_timeout = %d s", a.Python, a.Ranks, a.StartTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, patience, late)
	defer cancel()
	if err = hasPackages(ctx, a); err == nil {
		err = w.start(ctx, a)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("torch: %w", err), os.RemoveAll(dir))
	}
	go w.stayAlive()
	return w, nil
}

// scratch makes an empty directory for the files of this engine. A killed process may have left one.
func scratch(parent string) (string, error) {
	if parent == "" {
		return os.MkdirTemp("", "trinity-torch-")
	}
	dir, err := filepath.Abs(filepath.Join(parent, "torch"))
	if err != nil {
		return "", err
	}
	return dir, errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755))
}

// modules are what the worker imports.
var modules = []string{"torch", "transformers", "peft", "safetensors", "numpy"}

// hasPackages returns an error if the interpreter lacks a module. It imports none, which would take
// seconds.
func hasPackages(ctx context.Context, a *args) error {
	const find = "import sys, importlib.util as u; print(*[m for m in sys.argv[1:] if u.find_spec(m) is None])"
	p := process.Program{Command: append([]string{a.Python, "-c", find}, modules...), Env: a.Env}
	out, err := p.Run(ctx, nil, 1<<20)
	if err != nil {
		return fmt.Errorf("%s is no Python that runs: %w", a.Python, err)
	}
	if missing := bytes.TrimSpace(out); len(missing) > 0 {
		return fmt.Errorf("%s has no %s: install torch, transformers, peft and safetensors there, "+
			"or name another interpreter in trainer.trainer_args.python; --engine cpu needs none", a.Python, missing)
	}
	return nil
}

// start starts the processes and reads the line in which rank 0 announces its address.
func (w *worker) start(ctx context.Context, a *args) error {
	path, err := unpack(w.dir)
	if err != nil {
		return err
	}
	command := []string{a.Python, "-m", "trinity_worker"}
	if a.Ranks > 1 {
		torchrun := []string{a.Python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", strconv.Itoa(a.Ranks)}
		command = append(torchrun, command[1:]...)
	}
	env := map[string]string{
		"TRINITY_WORKER_TOKEN": w.token, "TRINITY_WORKER_LEASE": fmt.Sprint(lease.Seconds()),
		// Threads that spin while they wait take the cores from the sampler, which computes beside them.
		"OMP_WAIT_POLICY": cmp.Or(os.Getenv("OMP_WAIT_POLICY"), "PASSIVE"),
		"OMP_NUM_THREADS": cmp.Or(os.Getenv("OMP_NUM_THREADS"), strconv.Itoa(max(1, runtime.NumCPU()/a.Ranks))),
		"HF_HUB_OFFLINE":  "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1", "TRANSFORMERS_VERBOSITY": "error", "TOKENIZERS_PARALLELISM": "false",
	}
	maps.Copy(env, a.Env)
	env["PYTHONPATH"] = path
	if others := cmp.Or(a.Env["PYTHONPATH"], os.Getenv("PYTHONPATH")); others != "" {
		env["PYTHONPATH"] += string(os.PathListSeparator) + others
	}
	running, kill := context.WithCancel(context.Background())
	p := process.Program{Command: command, Env: env}
	if w.process, err = p.Start(running); err != nil {
		kill()
		return err
	}
	w.kill = kill
	announced := make(chan announcement, 1)
	go func() {
		defer close(w.gone)
		listen(w.process.Out, announced)
		err := w.process.Wait()
		w.lastWords = fmt.Errorf("the worker has ended: %w", cmp.Or(err, errors.New("it gave no reason")))
	}()
	select {
	case said := <-announced:
		if said.Protocol != protocol {
			err = fmt.Errorf("the worker speaks protocol %d, this program %d", said.Protocol, protocol)
			break
		}
		w.base = "http://" + said.Address
		w.device = said.Device
		return nil
	case <-w.gone:
		err = w.lastWords
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	w.end()
	return err
}

// announcement is the line of the standard output with which rank 0 says that it answers.
type announcement struct {
	Protocol int
	Address  string
	Device   string
}

// listen finds the announcement in the output, and reads the output to its end.
func listen(out io.Reader, announced chan<- announcement) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var line struct {
			Worker *announcement `json:"trinity_worker"`
		}
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Worker != nil {
			select {
			case announced <- *line.Worker:
			default: // one is enough
			}
		}
	}
	_, _ = io.Copy(io.Discard, out) // after a line that is too long
}

// stayAlive renews the lease until the worker ends.
func (w *worker) stayAlive() {
	tick := time.NewTicker(lease / 4)
	defer tick.Stop()
	for {
		select {
		case <-w.gone:
			return
		case <-tick.C:
			ctx, cancel := context.WithTimeout(context.Background(), lease/4)
			_, _ = w.client.Do(ctx, retry.Request{Method: http.MethodPost, URL: w.base + "/v1/alive", Header: w.header(0)})
			cancel()
		}
	}
}

func (w *worker) header(sequence int64) http.Header {
	h := http.Header{"Authorization": {"Bearer " + w.token}, "Content-Type": {"application/vnd.safetensors"}}
	if sequence > 0 {
		h.Set("Trinity-Seq", strconv.FormatInt(sequence, 10))
	}
	return h
}

// end kills the processes and waits until they are gone.
func (w *worker) end() {
	w.kill()
	<-w.gone
}

// close ends the worker and removes its files.
func (w *worker) close() error {
	w.end()
	return os.RemoveAll(w.dir)
}

// Verbs that have methods of HTTP. The others are parts of the path.
const (
	open = "open"
	drop = "drop"
)

// do sends a request about a model and waits for the answer. A lost answer is asked for again: the
// worker carries out a number once.
func (w *worker) do(ctx context.Context, model, verb string, m message) (reply, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken != nil {
		return reply{}, w.broken
	}
	body, err := m.encode()
	if err != nil {
		return reply{}, err
	}
	late := fmt.Errorf("the worker has not answered %s of %s within timeout = %g s", verb, model, w.timeout.Seconds())
	ctx, cancel := context.WithTimeoutCause(ctx, w.timeout, late)
	defer cancel()
	ctx, died := context.WithCancelCause(ctx)
	defer died(nil)
	go func() {
		select {
		case <-w.gone:
			died(w.lastWords)
		case <-ctx.Done():
		}
	}()
	r := retry.Request{Method: http.MethodPost, URL: w.base + "/v1/models/" + model, Header: w.header(w.sequence + 1), Body: body}
	switch verb {
	case open:
		r.Method = http.MethodPut
	case drop:
		r.Method = http.MethodDelete
	default:
		r.URL += "/" + verb
	}
	answer, err := w.client.Do(ctx, r)
	var status *retry.StatusError
	switch {
	case err == nil:
		w.sequence++
		return decode(answer.Body)
	case errors.As(err, &status) && status.Code == http.StatusBadRequest: // nothing has happened
		return reply{}, errors.New(status.Message)
	}
	w.broken = w.why(ctx, err)
	return reply{}, w.broken
}

// why returns the cause of a request's failure: the last words of a worker that has ended, if it
// has. A worker that may still carry out the request is ended.
func (w *worker) why(ctx context.Context, err error) error {
	var status *retry.StatusError
	if errors.As(err, &status) {
		err = errors.New(status.Message)
		if status.Code != http.StatusInternalServerError || w.ranks == 1 {
			return err
		}
		select { // rank 0 may only have lost the connection to the rank that failed
		case <-w.gone:
			return fmt.Errorf("%w; %w", err, w.lastWords)
		case <-time.After(10 * time.Second):
			return err
		}
	}
	if context.Cause(ctx) == nil {
		select {
		case <-w.gone:
			return w.lastWords
		case <-time.After(2 * time.Second):
		}
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	w.kill()
	return err
}
