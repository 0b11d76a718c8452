package torch

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/retry"
	"github.com/trinity-go/trinity/python"
)

// lease is how long the worker lives without a sign of life of this process.
const lease = time.Minute

// worker is the client of a running worker.
type worker struct {
	base    string // URL
	token   string
	device  string // cpu or cuda
	ranks   int
	timeout time.Duration // of a request
	grace   time.Duration // in which a worker that has failed says why and ends
	dir     string        // files of this engine; removed with the worker
	client  retry.Client

	mu       sync.Mutex
	sequence int64 // of the last request that the worker has carried out
	broken   error // why no request can follow

	kill      func() error    // ends the processes, and waits until they are gone
	gone      <-chan struct{} // closed when the worker has ended
	lastWords func() error    // why it has, then
}

// startWorker starts the processes and waits until they answer.
func startWorker(ctx context.Context, a *args, spec *engine.TrainerSpec) (*worker, error) {
	place := spec.Place
	dir, err := scratch(spec.Dir)
	if err != nil {
		return nil, fmt.Errorf("torch: %w", err)
	}
	w := &worker{
		token: rand.Text(), ranks: place.Nodes * place.Ranks, timeout: time.Duration(a.Timeout) * time.Second, grace: 30 * time.Second,
		dir: dir, client: newClient(),
	}
	running, err := place.Programs.Start(ctx, a.program(place, w.token, spec.LoRA != nil))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("torch: %w", err), os.RemoveAll(dir))
	}
	w.base, w.gone, w.lastWords = "http://"+running.Address(), running.Gone(), running.Err
	w.kill = func() error { return running.Stop(context.Background()) }
	if err := w.greet(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("torch: %w", err), w.close())
	}
	go w.stayAlive()
	return w, nil
}

// newClient returns the client of a worker. It uses no proxy of the environment, which would read the
// token, and may not reach the worker.
func newClient() retry.Client {
	direct := http.DefaultTransport.(*http.Transport).Clone()
	direct.Proxy = nil
	return retry.Client{
		HTTP: &http.Client{Transport: direct}, Name: "the torch worker", Retries: 2, Pause: 200 * time.Millisecond,
		MayPass: func(int) bool { return false },
	}
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

// program returns the program of a worker, which trains an adapter or all weights. Several ranks of a
// machine are started by torchrun.
func (a *args) program(place engine.Place, token string, adapter bool) engine.Program {
	modules := slices.Clone(modules)
	if adapter {
		modules = append(modules, "peft")
	}
	command := []string{"-m", "trinity_worker", "--host", "{host}", "--port", "{port}"}
	if place.Nodes*place.Ranks > 1 {
		torchrun := []string{"-m", "torch.distributed.run", "--nproc-per-node", strconv.Itoa(place.Ranks), "--standalone"}
		if place.Nodes > 1 {
			torchrun = append(torchrun[:len(torchrun)-1], "--nnodes", "{nodes}", "--node-rank", "{rank}", "--master-addr", "{master}",
				"--master-port", "{master_port}")
		}
		command = append(torchrun, command...)
	}
	secret := map[string]string{"TRINITY_WORKER_TOKEN": token}
	maps.Copy(secret, a.Env)
	return engine.Program{
		Name: "trainer", Nodes: place.Nodes, GPUs: place.GPUs, Beside: place.Beside, Python: a.Python,
		Command: append([]string{a.Python}, command...),
		Modules: modules, Hint: "install them there, or name another interpreter in trainer.trainer_args.python " +
			"(trinity service: --trainer-arg python=PATH); the engine cpu needs none",
		Answers: "/v1", Ranks: place.Ranks, Secret: secret,
		Env: map[string]string{
			"TRINITY_WORKER_PROTOCOL": strconv.Itoa(python.Protocol), "TRINITY_WORKER_LEASE": fmt.Sprint(lease.Seconds()),
			// Threads that spin while they wait take the cores from the sampler, which computes beside them.
			"OMP_WAIT_POLICY": cmp.Or(os.Getenv("OMP_WAIT_POLICY"), "PASSIVE"),
			"HF_HUB_OFFLINE":  "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1", "TRANSFORMERS_VERBOSITY": "error", "TOKENIZERS_PARALLELISM": "false",
		},
	}
}

// modules are what every worker imports.
var modules = []string{"torch", "transformers", "safetensors", "numpy"}

// greet asks the worker what it is.
func (w *worker) greet(ctx context.Context) error {
	answer, err := w.client.Do(ctx, retry.Request{Method: http.MethodGet, URL: w.base + "/v1", Header: w.header(0)})
	if err != nil {
		return err
	}
	r, err := decode(answer.Body)
	if err != nil {
		return err
	}
	var protocol int
	if err := errors.Join(r.value("protocol", &protocol), r.value("device", &w.device)); err != nil {
		return err
	}
	if protocol != python.Protocol {
		return fmt.Errorf("the worker speaks protocol %d, this program %d", protocol, python.Protocol)
	}
	return nil
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

// close ends the worker and removes its files.
func (w *worker) close() error { return errors.Join(w.kill(), os.RemoveAll(w.dir)) }

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
	caller := ctx
	late := &lateError{verb: verb, model: model, limit: fmt.Sprint(w.timeout.Seconds())}
	ctx, cancel := context.WithTimeoutCause(ctx, w.timeout, late)
	defer cancel()
	ctx, died := context.WithCancelCause(ctx)
	defer died(nil)
	go func() {
		select {
		case <-w.gone:
			died(w.ended())
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
	cancelled := caller.Err() != nil
	err = w.why(ctx, err)
	if w.broken = err; !cancelled {
		w.broken = &trinity.LostError{Err: err}
	}
	if lacksMemory(err) { // a new worker would have no room either
		return reply{}, err
	}
	return reply{}, w.broken
}

// hasEnded reports whether the worker takes no more requests.
func (w *worker) hasEnded() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.gone:
		return true
	default:
		return w.broken != nil
	}
}

// ended says why the worker has ended.
func (w *worker) ended() error { return ending(w.lastWords()) }

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
			ended := w.ended()
			if killed := (*killedError)(nil); errors.As(ended, &killed) {
				return killed
			}
			return fmt.Errorf("%w; %w", err, ended)
		case <-time.After(w.grace):
			return err
		}
	}
	if context.Cause(ctx) == nil {
		select {
		case <-w.gone:
			return w.ended()
		case <-time.After(w.grace):
		}
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if late := (*lateError)(nil); errors.As(err, &late) {
		err = w.locate(late)
	}
	_ = w.kill() // the error that is returned is worse
	return err
}
