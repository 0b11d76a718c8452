package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
)

// Lie is what a fake server does wrong.
type Lie string

// The lies.
const (
	OtherIDs       Lie = "returns other ids than it sampled"
	TextAlone      Lie = "returns text alone"
	ReadsText      Lie = "reads another prompt than it got"
	TooFew         Lie = "returns too few log-probabilities"
	NoLogprobs     Lie = "returns no log-probabilities"
	Renormalised   Lie = "returns log-probabilities of a nucleus"
	Raw            Lie = "returns log-probabilities at temperature 1"
	IgnoresStops   Lie = "ignores stop tokens"
	Unavailable    Lie = "answers 503"
	Hangs          Lie = "never answers"
	Dies           Lie = "dies in the middle of an answer"
	NoKeys         Lie = "leaves out the values of log-probabilities"
	Restarted      Lie = "has restarted with its first weights"
	RefusesWeights Lie = "answers 500 when it is to load weights"
	KeepsCache     Lie = "cannot drop its prefix cache"
	SilentPause    Lie = "never answers that it is paused"
	OldWeights     Lie = "keeps its old weights under the name of new ones"
	NoExperts      Lie = "returns no experts"
	FewExperts     Lie = "returns the experts of too few tokens"
	FarExperts     Lie = "returns an expert that the model does not have"
	OtherBit       Lie = "has another bit in a tensor than other servers"
)

// Host is the test, or the program, that a fake server belongs to.
type Host interface {
	Helper()
	Cleanup(func())
	TempDir() string
}

// Options say how a fake server was started.
type Options struct {
	Vocab   int
	MaxLen  int                       // of a sequence, in tokens
	LoRA    bool                      // takes adapters: --enable-lora, and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 of vLLM
	MaxRank int                       // of adapters; 0 is not told
	Encode  func(text string) []int32 // its tokenizer; nil: it encodes no texts
	Model   string                    // directory of the model that it was started with; "": it tells no digests before a load
	Routed  [2]int                    // layers with experts and experts of a token: --enable-return-routed-experts, of 256 experts at most
	Sleeps  bool                      // --enable-sleep-mode of vLLM, --enable-memory-saver of SGLang

	// of vLLM alone
	Tokens   bool // --enable-scale-out
	Develops bool // VLLM_SERVER_DEV_MODE=1
	CPU      bool // no GPU
	Mixed    bool // --enable-mixed-moe-lora-format
	Fetches  bool // --weight-transfer-config '{"backend": "trinity_files"}'
	Images   Images
}

// Fake is an inference server that answers with a sampler of this process, and may lie.
type Fake struct {
	URL string
	// Open opens an engine with the weights, or the adapter, of a directory. The server scores prompts
	// with it. nil: it scores none.
	Open func(ctx context.Context, dir string) (engine.Trainer, error)
	// OnEvent is called when a stream has sent a token; it may be nil.
	OnEvent func(i int)
	// Base is the directory of its model, for weights that come without files. Ranks are its processes.
	Base  string
	Ranks int

	joined  joined
	sampler trinity.Sampler
	images  Images
	vocab   int
	experts [2]int // Options.Routed

	mu      sync.Mutex
	lie     Lie
	weights string // name of the weights in use
	asked   int
	loads   []string
	engine  engine.Trainer // with the weights that were loaded last
	model   []byte         // file of the model that was loaded last
	gate    sync.RWMutex   // held while the server is paused
	paused  atomic.Bool
	sleep   sleep
}

// Tell makes the server lie from now on; "" makes it honest.
func (f *Fake) Tell(l Lie) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lie = l
	if l != Restarted {
		return
	}
	f.weights = "default"
	if loader, ok := f.sampler.(engine.AdapterLoader); ok {
		for _, name := range loader.Adapters() {
			_ = loader.DropAdapter(context.Background(), name) // it is there
		}
	}
}

// tells reports whether the server tells a lie.
func (f *Fake) tells(l Lie) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lie == l
}

// Asked returns the number of completions that the server was asked for.
func (f *Fake) Asked() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked
}

// Loads returns the names of the weights that the server has loaded.
func (f *Fake) Loads() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.loads)
}

// start serves the handler until the host ends.
func (f *Fake) start(t Host, mux *http.ServeMux) *Fake {
	t.Helper()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case f.tells(Hangs):
			_, _ = io.Copy(io.Discard, r.Body) // only then the server notices that the client has gone
			<-r.Context().Done()
		case f.tells(Unavailable):
			refuse(w, http.StatusServiceUnavailable, "the queue is full")
		default:
			mux.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(web.Close)
	t.Cleanup(web.CloseClientConnections) // of requests that hang
	t.Cleanup(f.goOn)
	t.Cleanup(f.joined.leave)
	t.Cleanup(func() {
		if f.engine != nil {
			_ = f.engine.Close() // of a test that has ended
		}
	})
	f.URL = web.URL
	return f
}

// sampled is a completion with what the server says of it.
type sampled struct {
	trinity.Completion
	ids     []int32 // nil if the server writes text alone
	prompt  []int32
	weights string
}

// complete samples a completion. What it says about it may be a lie.
func (f *Fake) complete(ctx context.Context, prompt []int32, p trinity.SamplingParams) (*sampled, error) {
	f.gate.RLock()
	defer f.gate.RUnlock()
	if err := f.sleep.enter(); err != nil {
		return nil, err
	}
	defer f.sleep.leave()
	f.mu.Lock()
	f.asked++
	name := f.weights
	f.mu.Unlock()
	for _, t := range prompt {
		if t < 0 || int(t) >= f.vocab {
			return nil, fmt.Errorf("token id %d is out of vocabulary", t)
		}
	}
	if f.tells(IgnoresStops) {
		p.StopTokens = nil
	}
	out, err := f.sampler.Sample(ctx, trinity.Prompt{Tokens: prompt}, p)
	if err != nil {
		return nil, err
	}
	s := &sampled{Completion: out[0], ids: out[0].Tokens, prompt: prompt, weights: name}
	return s, f.distort(ctx, s, prompt, p)
}

// distort changes what the server says.
func (f *Fake) distort(ctx context.Context, s *sampled, prompt []int32, p trinity.SamplingParams) error {
	switch {
	case f.tells(OtherIDs):
		s.ids = slices.Clone(s.ids)
		s.ids[0] = (s.ids[0] + 1) % int32(f.vocab)
	case f.tells(TextAlone):
		s.ids = nil
	case f.tells(ReadsText):
		s.prompt = append([]int32{0}, prompt...)
	case f.tells(NoLogprobs):
		s.Logprobs, s.TopLogprobs = nil, nil
	case f.tells(TooFew):
		s.Logprobs = s.Logprobs[:len(s.Logprobs)-1]
	case f.tells(Renormalised):
		for i := range s.TopLogprobs {
			nucleus(s.TopLogprobs[i], 0.5)
		}
	case f.tells(Raw):
		p.Temperature, p.MaxTokens = 1, 1
		hot, err := f.sampler.Sample(ctx, trinity.Prompt{Tokens: prompt}, p)
		if err != nil {
			return err
		}
		if len(s.TopLogprobs) > 0 {
			s.TopLogprobs[0] = hot[0].TopLogprobs[0]
		}
	}
	return nil
}

// told returns a log-probability as the server writes it: nil if it leaves it out.
func (f *Fake) told(value float32) *float32 {
	if f.tells(NoKeys) {
		return nil
	}
	return &value
}

// tokenizes adds the endpoint that encodes texts. key is that of the text in a request.
func (f *Fake) tokenizes(mux *http.ServeMux, o Options, key string) {
	if o.Encode == nil {
		return
	}
	mux.HandleFunc("POST /tokenize", func(w http.ResponseWriter, r *http.Request) {
		var q map[string]any
		if !read(w, r, &q) {
			return
		}
		text, ok := q[key].(string)
		if special, _ := q["add_special_tokens"].(bool); !ok || special {
			refuse(w, http.StatusBadRequest, "this fake encodes texts without special tokens")
			return
		}
		f.send(w, map[string]any{"tokens": o.Encode(text)})
	})
}

// nucleus renormalises the most likely tokens over a nucleus, and writes −9999 for the others.
func nucleus(top []trinity.TokenLogprob, mass float64) {
	sum, n := 0.0, 0
	for ; n < len(top) && sum < mass; n++ {
		sum += math.Exp(float64(top[n].Logprob))
	}
	for i := range top {
		if top[i].Logprob -= float32(math.Log(sum)); i >= n {
			top[i].Logprob = -9999
		}
	}
}

// pause holds back all requests until resume.
func (f *Fake) pause(w http.ResponseWriter, r *http.Request) {
	f.gate.Lock()
	f.paused.Store(true)
	if f.tells(SilentPause) {
		_, _ = io.Copy(io.Discard, r.Body) // only then the server notices that the client has gone
		<-r.Context().Done()
		return
	}
	f.send(w, map[string]string{"status": "paused"})
}

func (f *Fake) resume(w http.ResponseWriter, _ *http.Request) {
	f.goOn()
	f.send(w, map[string]string{"status": "resumed"})
}

func (f *Fake) goOn() {
	if f.paused.Swap(false) {
		f.gate.Unlock()
	}
}

// load loads weights into the sampler.
func (f *Fake) load(ctx context.Context, dir string) error {
	if err := f.sleep.hasWeights(); err != nil {
		return err
	}
	if f.tells(RefusesWeights) {
		return fmt.Errorf("no safetensors in %s", dir)
	}
	loader, ok := f.sampler.(interface {
		LoadWeights(ctx context.Context, dir string, version int64) error
	})
	if !filepath.IsAbs(dir) {
		return fmt.Errorf("%s is another directory for the server", dir)
	}
	if !ok {
		return fmt.Errorf("a %T loads no weights", f.sampler)
	}
	if f.tells(OldWeights) {
		return nil
	}
	f.mu.Lock()
	version := int64(len(f.loads)) + 1
	f.mu.Unlock()
	dir, err := f.shorten(dir)
	if err != nil {
		return err
	}
	if err := loader.LoadWeights(ctx, dir, version); err != nil {
		return err
	}
	return f.ScoreWith(ctx, dir)
}

// ScoreWith opens the engine of a directory, which scores from now on.
func (f *Fake) ScoreWith(ctx context.Context, dir string) error {
	if f.Open == nil {
		return nil
	}
	trainer, err := f.Open(ctx, dir)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.engine != nil {
		err = f.engine.Close()
	}
	f.engine = trainer
	return err
}

// score returns the log-probability of each token after the first, nil if the server scores none.
func (f *Fake) score(ctx context.Context, tokens []int32) ([]float32, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.engine == nil {
		out, err := f.sampler.Sample(ctx, trinity.Prompt{Tokens: tokens}, trinity.SamplingParams{MaxTokens: 1, ScorePrompt: true})
		if err != nil {
			return nil, err
		}
		return out[0].Prompt.Logprobs, nil
	}
	e := &trinity.Experience{Tokens: tokens, Mask: make([]bool, len(tokens)), Temperature: 1}
	for i := range e.Mask {
		e.Mask[i] = i > 0
	}
	all := []*trinity.Experience{e}
	stats, err := f.engine.Forward(ctx, &trinity.Batch{Experiences: all, Whole: all}, trinity.Streams{})
	if err != nil {
		return nil, err
	}
	return stats[0].Logprob[1:], nil
}

// call gives the weights in use a name.
func (f *Fake) call(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.weights, f.loads = name, append(f.loads, name)
}

func (f *Fake) weightsName() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.weights
}

// send writes a reply, or half of it.
func (f *Fake) send(w http.ResponseWriter, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	if f.tells(Dies) {
		w.Header().Set("Content-Length", fmt.Sprint(len(data)))
		_, _ = w.Write(data[:len(data)/2]) // the client reports a broken answer
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(data) // the client reports a broken answer
}

func refuse(w http.ResponseWriter, status int, message string) {
	w.WriteHeader(status)
	data, _ := json.Marshal(map[string]any{"error": map[string]any{"message": message, "code": status}}) // texts have a form
	_, _ = w.Write(data)                                                                                 // the client reports a broken answer
}

func decode(r *http.Request, into any) error { return json.NewDecoder(r.Body).Decode(into) }

// read decodes a request. It answers a request that is none.
func read(w http.ResponseWriter, r *http.Request, into any) bool {
	err := decode(r, into)
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
	}
	return err == nil
}
