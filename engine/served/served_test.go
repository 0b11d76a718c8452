package served_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	_ "github.com/trinity-go/trinity/engine/cpu" // whose sampler the servers have
	"github.com/trinity-go/trinity/engine/served"
	"github.com/trinity-go/trinity/internal/serve/openai"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest"
	"github.com/trinity-go/trinity/trinitytest/server"
	"github.com/trinity-go/trinity/weights"
)

const (
	tiny     = "../cpu/testdata/llama"
	vocab    = 64
	tolerate = 1e-6 // nats
)

// own returns the sampler that a server has.
func own(t *testing.T) trinity.Sampler {
	t.Helper()
	return ownOf(t, tiny)
}

// ownOf returns the sampler of a server with a model.
func ownOf(t *testing.T, model string) trinity.Sampler {
	t.Helper()
	opener, err := registry.Samplers.Build("cpu", nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := opener.OpenSampler(t.Context(), engine.SamplerSpec{ModelPath: model, MaxSequences: 8, MaxModelLen: 32})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeSampler(t, s) })
	return s
}

func closeSampler(t *testing.T, s trinity.Sampler) {
	if err := s.(interface{ Close() error }).Close(); err != nil {
		t.Error(err)
	}
}

// spec is that of a run that trains on what servers sample.
func spec(urls ...string) engine.SamplerSpec {
	return engine.SamplerSpec{ModelPath: tiny, MaxSequences: 8, MaxModelLen: 32, Servers: urls,
		Record: engine.RecordSpec{Tokens: true}, Patience: time.Minute}
}

func build(t *testing.T, kind string, args map[string]any) engine.SamplerOpener {
	t.Helper()
	opener, err := registry.Samplers.Build(kind, args)
	if err != nil {
		t.Fatal(err)
	}
	return opener
}

func open(t *testing.T, kind string, s engine.SamplerSpec, args map[string]any) (trinity.Sampler, error) {
	t.Helper()
	out, err := build(t, kind, args).OpenSampler(t.Context(), s)
	if err == nil {
		t.Cleanup(func() { closeSampler(t, out) })
	}
	return out, err
}

var suite = trinitytest.SamplerOptions{Vocab: vocab, Tolerance: tolerate}

// must opens a sampler.
func must(t *testing.T, kind string, s engine.SamplerSpec) trinity.Sampler {
	t.Helper()
	out, err := open(t, kind, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Mode serve is a server like any other.
func TestOwnServerIsASampler(t *testing.T) {
	trinitytest.Sampler(t, suite, func(t *testing.T) trinity.Sampler {
		model := &openai.Served{Name: "m", Sampler: own(t), Renderer: trinitytest.Chat{}, MaxLen: 32}
		api := &openai.Server{
			Name: "m", Model: model.Of, Renderer: trinitytest.Chat{}, VocabSize: vocab, Waiting: 256, Timeout: time.Minute,
			Token: "key", Say: func(string) {},
		}
		web := httptest.NewServer(api.Handler())
		t.Cleanup(web.Close)
		with := spec(web.URL + "/v1")
		with.Key = "key"
		return must(t, "vllm", with)
	})
}

// kinds are the servers that the plug-ins know.
var kinds = []struct {
	name, plugin string
	start        func(t *testing.T) *server.Fake
}{
	{"vllm", "vllm", func(t *testing.T) *server.Fake {
		return server.VLLM(t, own(t), server.Options{Vocab: vocab, MaxLen: 32, Develops: true})
	}},
	{"vllm by tokens", "vllm", func(t *testing.T) *server.Fake {
		return server.VLLM(t, own(t), server.Options{Vocab: vocab, MaxLen: 32, Develops: true, Tokens: true})
	}},
	{"sglang", "sglang", func(t *testing.T) *server.Fake {
		return server.SGLang(t, own(t), server.Options{Vocab: vocab, MaxLen: 32})
	}},
	{"llama-server", "llama_server", func(t *testing.T) *server.Fake {
		return server.LlamaServer(t, own(t), server.Options{Vocab: vocab, MaxLen: 32})
	}},
}

func TestServersAreSamplers(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			trinitytest.Sampler(t, suite, func(t *testing.T) trinity.Sampler { return must(t, k.plugin, spec(k.start(t).URL)) })
		})
	}
}

// A request that changes the distribution of its tokens is refused if they are trained on.
func TestBiasedRequests(t *testing.T) {
	recorded := must(t, "vllm", spec(kinds[0].start(t).URL))
	plain := spec(kinds[0].start(t).URL)
	plain.Record.Tokens = false
	unrecorded := must(t, "vllm", plain)
	for _, c := range []struct {
		p    trinity.SamplingParams
		want string
	}{
		{trinity.SamplingParams{TopP: 0.8}, "top_p 0.8 for tokens that are trained on"},
		{trinity.SamplingParams{TopK: 2}, "top_k 2 for tokens"},
		{trinity.SamplingParams{MinP: 0.1}, "min_p 0.1 for tokens"},
		{trinity.SamplingParams{RepetitionPenalty: 1.5}, "repetition_penalty 1.5 for tokens"},
		{trinity.SamplingParams{MinTokens: 2}, "min_tokens 2 for tokens"},
		{trinity.SamplingParams{Temperature: 0.5, TopP: 1, TopK: -1, RepetitionPenalty: 1, MinTokens: 1}, ""},
	} {
		c.p.MaxTokens = 3
		prompt := trinity.Prompt{Tokens: []int32{3, 4}}
		_, err := recorded.Sample(t.Context(), prompt, c.p)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), "bypass_mode: false")) {
			t.Errorf("%+v: %v, want %q", c.p, err, c.want)
		}
		if _, err := unrecorded.Sample(t.Context(), prompt, c.p); err != nil {
			t.Errorf("%+v where nothing is recorded: %v", c.p, err)
		}
		c.p.Untrained = true
		if _, err := recorded.Sample(t.Context(), prompt, c.p); err != nil {
			t.Errorf("%+v, which nothing trains on: %v", c.p, err)
		}
	}
}

// A server that lacks what training needs is refused when it is opened, in one line that says what
// brings it. One that lacks only log-probabilities still serves evaluations.
func TestLiesAreFoundAtTheStart(t *testing.T) {
	for _, k := range kinds {
		for _, c := range []struct {
			lie        server.Lie
			want       string // with training
			evaluation bool   // works
		}{
			{server.OtherIDs, "with the log-probability of token", false},
			{server.TextAlone, "no token ids", false},
			{server.ReadsText, "it read another prompt than the token ids that it got: 9 tokens for 8", false},
			{server.TooFew, "2 log-probabilities for 3 tokens", false},
			{server.NoKeys, "it returned no log-probability of token", false},
			{server.NoLogprobs, "0 log-probabilities for 3 tokens", true},
			{server.Renormalised, "of some tokens alone", true},
			{server.Raw, "at 0.5 they differ 1.00 times as much", true},
			{server.IgnoresStops, "does not end a reply at a stop token", true},
		} {
			if k.plugin == "llama_server" && c.lie == server.IgnoresStops {
				continue // its answers are cut at stop tokens
			}
			t.Run(k.name+" "+string(c.lie), func(t *testing.T) {
				fake := k.start(t)
				fake.Tell(c.lie)
				_, err := open(t, k.plugin, spec(fake.URL), nil)
				if text := fmt.Sprint(err); !strings.Contains(text, c.want) || !strings.Contains(text, fake.URL) || strings.Contains(text, "\n") {
					t.Errorf("got %v, want one line with %q and the address", err, c.want)
				}
				evaluation := spec(fake.URL)
				evaluation.Record.Tokens = false
				if _, err := open(t, k.plugin, evaluation, nil); (err == nil) != c.evaluation {
					t.Errorf("evaluation: %v", err)
				}
			})
		}
	}
}

// What a server does wrong later fails the request, or another server answers it. A request has one
// answer or an error.
func TestLiesAfterTheStart(t *testing.T) {
	for _, k := range kinds {
		for _, c := range []struct {
			lie    server.Lie
			alone  string // the error of a run with this server alone
			others bool   // another server answers
		}{
			{server.OtherIDs, "with the log-probability of token", false},
			{server.TextAlone, "no token ids", false},
			{server.TooFew, "log-probabilities for", false},
			{server.Unavailable, "503 Service Unavailable", true},
			{server.Dies, "unexpected EOF", true},
		} {
			t.Run(k.name+" "+string(c.lie), func(t *testing.T) {
				liar, honest := k.start(t), k.start(t)
				with := spec(liar.URL)
				with.Patience = time.Millisecond
				alone, both := served.Hasten(must(t, k.plugin, with)), served.Hasten(must(t, k.plugin, spec(liar.URL, honest.URL)))
				liar.Tell(c.lie)
				out, err := both.Sample(t.Context(), trinity.Prompt{Tokens: []int32{3}}, trinity.SamplingParams{N: 4, Temperature: 1, MaxTokens: 3})
				if c.others != (err == nil) || c.others && len(out) != 4 {
					t.Errorf("with another server: %d answers, %v", len(out), err)
				}
				_, err = alone.Sample(t.Context(), trinity.Prompt{Tokens: []int32{3}}, trinity.SamplingParams{MaxTokens: 3})
				if err == nil || !strings.Contains(err.Error(), c.alone) || !strings.Contains(err.Error(), liar.URL) {
					t.Errorf("alone: %v, want %q and the address", err, c.alone)
				}
			})
		}
	}
}

// A server that hangs does not outlast the request.
func TestHangingServerEndsWithTheRequest(t *testing.T) {
	for _, k := range kinds {
		fake := k.start(t)
		s := must(t, k.plugin, spec(fake.URL))
		fake.Tell(server.Hangs)
		ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, errors.New("turn_timeout passed"))
		_, err := s.Sample(ctx, trinity.Prompt{Tokens: []int32{3}}, trinity.SamplingParams{MaxTokens: 3})
		if cancel(); err == nil || !strings.Contains(err.Error(), "turn_timeout passed") {
			t.Errorf("%s: %v", k.name, err)
		}
	}
}

// loading are the kinds that take weights.
var loading = kinds[:3]

// Tokens have the version that sampled them, also after new weights and in the middle of a rollout.
func TestVersionsOfTokens(t *testing.T) {
	for _, k := range loading {
		fake := k.start(t)
		s := must(t, k.plugin, spec(fake.URL))
		for version := range int64(3) {
			if version > 0 {
				if err := s.(weights.Loader).LoadWeights(t.Context(), tiny, version); err != nil {
					t.Fatal(k.name, err)
				}
			}
			out, err := s.Sample(t.Context(), trinity.Prompt{Tokens: []int32{3}}, trinity.SamplingParams{MaxTokens: 3})
			if err != nil || out[0].Versions != [2]int64{version, version} {
				t.Errorf("%s: %+v, %v, want version %d", k.name, out, err, version)
			}
		}
		if loads := fake.Loads(); len(loads) != 2 || !strings.HasSuffix(loads[1], "-2") {
			t.Errorf("%s: the server calls its weights %q", k.name, loads)
		}
	}
}

func TestWeightsThatAreNotLoaded(t *testing.T) {
	for _, c := range []struct {
		name, plugin string
		start        func(t *testing.T) *server.Fake
		lie          server.Lie
		want         string
	}{
		{"vllm", "vllm", kinds[0].start, server.RefusesWeights, "500 Internal Server Error: reload_weights, paused true: no safetensors in"},
		{"vllm", "vllm", kinds[0].start, server.KeepsCache, "it did not drop what the old weights have computed"},
		{"vllm", "vllm", func(t *testing.T) *server.Fake {
			return server.VLLM(t, own(t), server.Options{Vocab: vocab, MaxLen: 32})
		}, "", "start it with VLLM_SERVER_DEV_MODE=1"},
		{"sglang", "sglang", kinds[2].start, server.RefusesWeights, "no safetensors in"},
		{"llama-server", "llama_server", kinds[3].start, "", "it takes no new weights"},
	} {
		fake := c.start(t)
		s := must(t, c.plugin, spec(fake.URL))
		fake.Tell(c.lie)
		err := s.(weights.Loader).LoadWeights(t.Context(), tiny, 1)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), fake.URL) {
			t.Errorf("%s: %v, want %q and the address", c.name, err, c.want)
		}
		with := spec(fake.URL)
		with.Record.Tokens = false // so that the next run asks what the lie does not change
		if _, err := open(t, c.plugin, with, nil); err != nil {
			t.Errorf("%s: the server does not go on: %v", c.name, err)
		}
	}
}

// Of a server on another machine nobody knows whether it sees the run's directory. One with the plug-in
// need not.
func TestServersElsewhereNeedASharedDisk(t *testing.T) {
	const refused = "set explorer.rollout_model.engine_args.shared_disk"
	for _, c := range []struct {
		shared, fetches bool
		want            string
	}{{false, false, refused}, {true, false, ""}, {false, true, ""}} {
		fake := server.VLLM(t, own(t), server.Options{Vocab: vocab, MaxLen: 32, Develops: true, Fetches: c.fetches})
		elsewhere := strings.Replace(fake.URL, "127.0.0.1", "0.0.0.0", 1) // reaches the fake, and is no address of this machine
		s, err := open(t, "vllm", spec(elsewhere), map[string]any{"shared_disk": c.shared})
		if err != nil {
			t.Fatal(err)
		}
		err = s.(weights.Loader).LoadWeights(t.Context(), tiny, 1)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// A server goes on although its reply to the pause is lost, also when the run is interrupted.
func TestLostReplyToAPause(t *testing.T) {
	for _, k := range []int{0, 2} {
		fake := kinds[k].start(t)
		s := must(t, kinds[k].plugin, spec(fake.URL))
		fake.Tell(server.SilentPause)
		ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("interrupted"))
		err := s.(weights.Loader).LoadWeights(ctx, tiny, 1)
		if cancel(); err == nil || !strings.HasSuffix(err.Error(), "interrupted") {
			t.Errorf("%s: %v", kinds[k].name, err)
		}
		must(t, kinds[k].plugin, spec(fake.URL))
	}
}

// A server that an interrupted load has left paused says who it is, and answers nothing else. vLLM tells
// that it is paused, and goes on.
func TestPausedServers(t *testing.T) {
	for k, path := range map[int]string{0: "/pause?mode=keep", 2: "/pause_generation"} {
		fake := kinds[k].start(t)
		reply, err := http.Post(fake.URL+path, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		reply.Body.Close()
		_, err = open(t, kinds[k].plugin, spec(fake.URL), map[string]any{"start_timeout": 0.5})
		if kinds[k].plugin == "vllm" {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		if text := fmt.Sprint(err); !strings.Contains(text, "no answer within start_timeout of 500ms") || !strings.Contains(text, fake.URL) {
			t.Errorf("%s: %v", kinds[k].name, err)
		}
	}
}

func TestServersThatAreNotThere(t *testing.T) {
	short := server.VLLM(t, own(t), server.Options{Vocab: vocab, MaxLen: 16})
	for _, c := range []struct {
		spec engine.SamplerSpec
		args map[string]any
		want string
	}{
		{spec(), nil, "base_urls names no server"},
		{spec("http://127.0.0.1:1"), map[string]any{"start_timeout": 0.01}, "http://127.0.0.1:1: no answer within start_timeout of 10ms"},
		{spec(short.URL), nil, "takes 16 tokens, fewer than model.max_model_len 32"},
		{spec(short.URL), map[string]any{"model": "other"}, `does not serve the model "other"`},
	} {
		_, err := open(t, "vllm", c.spec, c.args)
		if text := fmt.Sprint(err); !strings.Contains(text, c.want) || strings.Contains(text, "\n") {
			t.Errorf("got %v, want one line with %q", err, c.want)
		}
	}
}

// A seed of 64 bits would be refused.
func TestSeedsHave63Bits(t *testing.T) {
	for _, k := range kinds {
		s := must(t, k.plugin, spec(k.start(t).URL))
		p := trinity.SamplingParams{MaxTokens: 3, Seed: math.MaxUint64, N: 3}
		if _, err := s.Sample(t.Context(), trinity.Prompt{Tokens: []int32{3}}, p); err != nil {
			t.Errorf("%s: %v", k.name, err)
		}
	}
}

// On a CPU vLLM keeps the old head of a model whose head is its embedding, unless the plug-in renews it.
func TestWeightsOfATiedHead(t *testing.T) {
	const tied = "../cpu/testdata/llama3_bias_tied"
	for _, c := range []struct {
		model        string
		cpu, fetches bool
		want         string
	}{{tied, true, false, "train an adapter"}, {tied, true, true, ""}, {tied, false, false, ""}, {tiny, true, false, ""}} {
		options := server.Options{Vocab: vocab, MaxLen: 32, Develops: true, CPU: c.cpu, Fetches: c.fetches}
		with := spec(server.VLLM(t, ownOf(t, c.model), options).URL)
		with.ModelPath = c.model
		err := must(t, "vllm", with).(weights.Loader).LoadWeights(t.Context(), c.model, 1)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// Tokens of vLLM are passed on as they come, before the reply has ended.
func TestTokensAreStreamed(t *testing.T) {
	for _, k := range []int{0, 1} {
		fake := kinds[k].start(t)
		s := must(t, kinds[k].plugin, spec(fake.URL))
		got := make(chan int32, 8)
		fake.OnEvent = func(i int) { // the server goes on when the client has the token
			select {
			case <-got:
			case <-time.After(10 * time.Second):
				t.Errorf("token %d was not passed on", i)
			}
		}
		var told []int32
		p := trinity.SamplingParams{Temperature: 1, MaxTokens: 5, TopLogprobs: 2, OnToken: func(_ int, s trinity.Sampled) {
			told = append(told, s.Token)
			got <- s.Token
		}}
		out, err := s.Sample(t.Context(), trinity.Prompt{Tokens: []int32{3, 4}}, p)
		if err != nil || len(told) != 5 || !slices.Equal(told, out[0].Tokens) || len(out[0].Logprobs) != 5 || len(out[0].TopLogprobs) != 5 {
			t.Fatalf("%s: told %v of %+v, %v", kinds[k].name, told, out, err)
		}
		p.OnToken = nil
		fake.OnEvent = nil
		if again, err := s.Sample(t.Context(), trinity.Prompt{Tokens: []int32{3, 4}}, p); err != nil || !slices.Equal(again[0].Tokens, told) ||
			!slices.Equal(again[0].Logprobs, out[0].Logprobs) {
			t.Errorf("%s: %+v without a stream, %+v with one, %v", kinds[k].name, again, out, err)
		}
	}
}

// A reply of which tokens were passed on is not asked for again: another server would give others.
func TestBrokenStream(t *testing.T) {
	fakes := []*server.Fake{kinds[0].start(t), kinds[0].start(t)}
	s := served.Hasten(must(t, "vllm", spec(fakes[0].URL, fakes[1].URL)))
	before := fakes[0].Asked() + fakes[1].Asked()
	for _, f := range fakes {
		f.Tell(server.Dies)
	}
	told := 0
	p := trinity.SamplingParams{MaxTokens: 5, OnToken: func(int, trinity.Sampled) { told++ }}
	_, err := s.Sample(t.Context(), trinity.Prompt{Tokens: []int32{3}}, p)
	if asked := fakes[0].Asked() + fakes[1].Asked() - before; err == nil || asked != 1 || told != 1 ||
		!strings.Contains(err.Error(), "the stream ended early") {
		t.Errorf("%v after %d requests and %d tokens", err, asked, told)
	}
}

// A run that was killed in a transfer has left the server in an update. The next run ends that and
// begins its own.
func TestUpdateThatAKilledRunHasLeft(t *testing.T) {
	fake := server.VLLM(t, own(t), server.Options{Vocab: vocab, MaxLen: 32, Develops: true, Fetches: true})
	reply, err := http.Post(fake.URL+"/start_weight_update", "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	reply.Body.Close()
	if err := must(t, "vllm", spec(fake.URL)).(weights.Loader).LoadWeights(t.Context(), tiny, 1); err != nil || len(fake.Loads()) != 1 {
		t.Errorf("loaded %v: %v", fake.Loads(), err)
	}
}
