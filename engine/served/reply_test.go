package served

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/wire/openai"
)

// replying returns an endpoint of each kind, whose server answers every request with a body.
func replying(t testing.TB, body []byte) map[string]endpoint {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(body) // the client complains
	}))
	t.Cleanup(web.Close)
	client := &openai.Client{BaseURL: web.URL, Key: openai.NoKey}
	return map[string]endpoint{
		"vllm":           &vllmServer{liveServer: liveServer{client: client}, isVLLM: true},
		"vllm by tokens": &vllmServer{liveServer: liveServer{client: client}, isVLLM: true, byTokens: true},
		"sglang":         &sglangServer{liveServer: liveServer{client: client}}, "llama-server": &llamaEndpoint{client: client},
	}
}

var replies = map[string]string{
	"vllm": `{"choices":[{"finish_reason":"stop","token_ids":[5],"prompt_token_ids":[1,2],
		"logprobs":{"tokens":["token_id:5"],"token_logprobs":[-1],"top_logprobs":[{"token_id:5":-1}]},
		"prompt_logprobs":[null,{"2":{"logprob":-1}}]}]}`,
	"vllm by tokens": `{"choices":[{"finish_reason":"stop","token_ids":[5],"weight_versions":[{"version":"a"}],
		"logprobs":{"content":[{"token_id":5,"logprob":-1,"top_logprobs":[{"token_id":5,"logprob":-1}]}]}}]}`,
	"sglang": `{"output_ids":[5],"meta_info":{"finish_reason":{"type":"stop"},"output_token_logprobs":[[-1,5,null]],
		"output_top_logprobs":[[[-1,5,null]]],"input_token_logprobs":[[null,1,null],[-1,2,null]]}}`,
	"llama-server": `{"tokens":[5],"stop_type":"eos","completion_probabilities":[{"id":5,"logprob":-1,
		"top_logprobs":[{"id":5,"logprob":-1}]}]}`,
}

// A log-probability that the server has not computed is no log-probability of 0.
func TestMissingLogprobs(t *testing.T) {
	s := &checker{vocab: 10, length: 10, record: true}
	for kind, reply := range replies {
		for body, want := range map[string]string{reply: "", strings.ReplaceAll(reply, "-1", "null"): "log-probability"} {
			q := &query{prompt: []int32{1, 2}, SamplingParams: trinity.SamplingParams{MaxTokens: 2, TopLogprobs: 1}}
			a, err := replying(t, []byte(body))[kind].sample(t.Context(), q)
			if err == nil {
				err = s.checkAnswer(q, a)
			}
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s: %s: %v", kind, body, err)
			}
		}
	}
}

// Whatever a server answers, the run goes on or has an error.
func FuzzReplies(f *testing.F) {
	for _, reply := range replies {
		f.Add([]byte(reply))
	}
	f.Add([]byte("data: " + strings.ReplaceAll(replies["vllm"], "\n", "") + "\n\ndata: {\"choices\":[],\"usage\":{}}\n\ndata: [DONE]\n\n"))
	f.Fuzz(func(t *testing.T, body []byte) {
		s := &checker{vocab: 10, length: 10, record: true}
		for kind, at := range replying(t, body) {
			if kind == "vllm" { // with and without a stream
				q := &query{prompt: []int32{1, 2}, SamplingParams: trinity.SamplingParams{MaxTokens: 2, TopLogprobs: 1}}
				told := 0
				q.OnToken = func(int, trinity.Sampled) { told++ }
				a, err := at.sample(t.Context(), q)
				if err == nil && s.checkAnswer(q, a) == nil && (len(a.logprobs) != len(a.tokens) || told != len(a.tokens)) {
					t.Errorf("%d log-probabilities and %d calls for %d tokens", len(a.logprobs), told, len(a.tokens))
				}
			}
			q := &query{prompt: []int32{1, 2}, SamplingParams: trinity.SamplingParams{MaxTokens: 2, TopLogprobs: 1, StopTokens: []int32{3}}}
			if a, err := at.sample(t.Context(), q); err == nil && s.checkAnswer(q, a) == nil && len(a.logprobs) != len(a.tokens) {
				t.Errorf("%d log-probabilities for %d tokens", len(a.logprobs), len(a.tokens))
			}
			if scorer, ok := at.(scorer); ok {
				if got, err := scorer.score(t.Context(), q.prompt); err == nil && len(got) != 1 {
					t.Errorf("scores %v", got)
				}
			}
		}
	})
}

// While an adapter is delivered again, requests go to the one before it: the server has no other.
func TestAdapterThatIsDeliveredAgain(t *testing.T) {
	a := &adapters{}
	for _, name := range []string{"a-0", "a-1", "a-2"} {
		a.push(name)
	}
	a.withdraw("a-2")
	if a.withdraw("a-2"); a.current() != "a-1" {
		t.Errorf("requests go to %q", a.current())
	}
	if drop := a.push("a-2"); drop != "" || a.current() != "a-2" || len(a.all()) != 2 {
		t.Errorf("has %q, drops %q", a.all(), drop)
	}
	if drop := a.push("a-3"); drop != "a-1" {
		t.Errorf("drops %q", drop)
	}
	first := &adapters{now: "a-0"}
	if first.withdraw("a-0"); first.current() != "a-0" || first.push("a-0") != "" || len(first.all()) != 1 {
		t.Errorf("the first adapter is delivered again: requests go to %q, the server has %q", first.current(), first.all())
	}
}

// A server that does not say whether it fetches weights does not.
func TestServerThatIsSilentAboutItsWeights(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(web.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	at := &vllmServer{liveServer: liveServer{client: &openai.Client{BaseURL: web.URL, Key: openai.NoKey}}}
	if (&arguments{StartTimeout: 0.02}).fetches(ctx, at) || ctx.Err() != nil {
		t.Errorf("it fetches, or was asked until the test ended: %v", ctx.Err())
	}
}
