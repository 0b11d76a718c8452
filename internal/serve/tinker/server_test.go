package tinker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/trinity-go/trinity/engine"
	_ "github.com/trinity-go/trinity/engine/cpu"
	"github.com/trinity-go/trinity/internal/wire/tinker"
	"github.com/trinity-go/trinity/registry"
)

const tiny = "../../../model/testdata/tiny/llama"

// client calls a server as the SDK does.
type client struct {
	t       *testing.T
	url     string
	session string
	key     string
	server  *Server
	stop    func()
}

// tinyBase opens the tiny model.
func tinyBase() (*Base, func(), error) {
	trainers, err := registry.Trainers.Build("cpu")
	if err != nil {
		return nil, nil, err
	}
	samplers, err := registry.Samplers.Build("cpu")
	if err != nil {
		return nil, nil, err
	}
	sampler, err := samplers.OpenSampler(context.Background(), engine.SamplerSpec{ModelPath: tiny, MaxSequences: 4, MaxModelLen: 50})
	if err != nil {
		return nil, nil, err
	}
	return &Base{
		Name: "tiny", Tokenizer: "tiny", Arch: "llama", Vocab: 32, EOS: []int32{2}, MaxLen: 48, MaxScored: 50, MaxRank: 16, MicroTokens: 48,
		Sampler: sampler.(Sampler),
		Open: func(ctx context.Context, lora *engine.LoRASpec, seed uint64) (engine.Trainer, error) {
			return trainers.OpenTrainer(ctx, engine.TrainerSpec{
				ModelPath: tiny, LoRA: lora, Seed: seed, Train: true, MicroTokens: 48, MaxModelLen: 49,
			})
		},
	}, func() { _ = sampler.(io.Closer).Close() }, nil
}

func tinyOptions(dir string, b *Base) Options {
	return Options{
		Dir: dir, Alpha: 32, Gap: time.Minute, Hold: 10 * time.Second, Idle: time.Hour, Say: func(string) {}, Bases: []*Base{b},
	}
}

// serve starts a server on the tiny model until the test ends.
func serve(t *testing.T, change func(*Options)) *client {
	t.Helper()
	b, closing, err := tinyBase()
	if err != nil {
		t.Fatal(err)
	}
	o := tinyOptions(t.TempDir(), b)
	if change != nil {
		change(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	server := httptest.NewServer(s.Handler())
	stop := sync.OnceFunc(func() {
		server.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		closing()
	})
	t.Cleanup(stop)
	c := &client{t: t, url: server.URL, server: s, stop: stop}
	return c
}

// post calls and returns status and body.
func (c *client) post(path, kind string, body []byte, header ...string) (int, []byte) {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, c.url+"/api/v1/"+path, bytes.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Content-Type", kind)
	r.Header.Set("X-API-Key", c.key)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.StatusCode, out
}

type object map[string]any

// call makes a call in JSON that must succeed.
func (c *client) call(path string, in object) object {
	c.t.Helper()
	body, _ := json.Marshal(in)
	status, out := c.post(path, "application/json", body)
	reply := object{}
	if err := json.Unmarshal(out, &reply); err != nil || status != http.StatusOK {
		c.t.Fatalf("%s: %d, %s", path, status, out)
	}
	return reply
}

// result returns the result of a request, or its failure.
func (c *client) result(reply object) (message []byte, failed string) {
	c.t.Helper()
	body, _ := json.Marshal(object{"request_id": reply["request_id"], "allow_metadata_only": true})
	status, out := c.post("retrieve_future", "application/json", body)
	if status != http.StatusOK {
		c.t.Fatalf("%v: %d, %s", reply, status, out)
	}
	var f tinker.Failed
	if json.Unmarshal(out, &f) == nil && f.Error != "" {
		return nil, f.Error
	}
	return out, ""
}

// model creates a model.
func (c *client) model(number int) string {
	c.t.Helper()
	return c.modelOf(number, object{"rank": 2, "seed": 3})
}

// modelOf creates a model with a lora_config.
func (c *client) modelOf(number int, lora object) string {
	c.t.Helper()
	if c.session == "" {
		c.session = c.call("create_session", object{"type": "create_session"})["session_id"].(string)
	}
	made := c.call("create_model", object{
		"session_id": c.session, "model_seq_id": number, "base_model": "tiny", "type": "create_model",
		"lora_config": lora,
	})
	if _, failed := c.result(made); failed != "" {
		c.t.Fatal(failed)
	}
	return made["model_id"].(string)
}

// request returns a request for both passes of some sequences.
func request(id string, seq int32, loss string, sequences ...[]int32) *tinker.ForwardBackward {
	r := &tinker.ForwardBackward{ModelID: id, SeqID: seq, Loss: loss}
	for _, ids := range sequences {
		n := len(ids) - 1
		r.Data = append(r.Data, tinker.Datum{Input: []tinker.Chunk{tinker.TextChunk(ids[:n])}, Inputs: []tinker.Named{
			{Name: "target_tokens", Tensor: tinker.NewTokens(ids[1:])},
			{Name: "weights", Tensor: tinker.NewFloats(slices.Repeat([]float32{1}, n))},
		}})
	}
	return r
}

// send sends a request.
func (c *client) send(r *tinker.ForwardBackward) object {
	c.t.Helper()
	status, out := c.post("forward_backward", "application/x-protobuf", r.Encode())
	reply := object{}
	if err := json.Unmarshal(out, &reply); err != nil || status != http.StatusOK {
		c.t.Fatalf("%d, %s", status, out)
	}
	return reply
}

// output returns the result of send.
func (c *client) output(reply object) ([][]float32, float64) {
	c.t.Helper()
	message, failed := c.result(reply)
	if failed != "" {
		c.t.Fatal(failed)
	}
	o, err := tinker.DecodeOutput(message)
	if err != nil {
		c.t.Fatal(err)
	}
	lps, err := o.Floats("logprobs")
	if err != nil || len(o.Metrics) == 0 || o.Metrics[0].Name != "loss:sum" {
		c.t.Fatal(o, err)
	}
	return lps, o.Metrics[0].Value
}

func (c *client) step(id string, seq int32) object {
	c.t.Helper()
	return c.call("optim_step", object{"model_id": id, "seq_id": seq, "type": "optim_step", "adam_params": object{"learning_rate": 0.02}})
}

// must returns the result of a request that succeeds.
func (c *client) must(reply object) object {
	c.t.Helper()
	message, failed := c.result(reply)
	if failed != "" {
		c.t.Fatal(failed)
	}
	out := object{}
	if err := json.Unmarshal(message, &out); err != nil {
		c.t.Fatal(err)
	}
	return out
}

var first, second = []int32{1, 2, 3, 4, 5, 6}, []int32{7, 5, 3, 1}

func encodedText(tokens []int32) object {
	return object{"chunks": []object{{"type": "encoded_text", "tokens": tokens}}}
}

// sampled samples once, and returns the tokens and the log-probabilities of the prompt.
func (c *client) sampled(in object) *tinker.Samples {
	c.t.Helper()
	for key, v := range (object{
		"num_samples": 1, "prompt": encodedText(first), "prompt_logprobs": true,
		"topk_prompt_logprobs": 0, "topk_sample_logprobs": 0, "type": "sample", "sampling_params": object{"max_tokens": 3, "temperature": 0},
	}) {
		if _, ok := in[key]; !ok {
			in[key] = v
		}
	}
	message, failed := c.result(c.call("asample", in))
	if failed != "" {
		c.t.Fatal(failed)
	}
	s, err := tinker.DecodeSamples(message)
	if err != nil {
		c.t.Fatal(err)
	}
	return s
}

// A client's list of stop tokens ends a sequence, also where it names the model's own; an empty one ends nothing.
func TestStopTokens(t *testing.T) {
	c := serve(t, nil)
	for _, stop := range [][]int32{{2}, {2, 5}, {5}, {}} {
		ended := 0
		for seed := range 12 {
			params := object{"max_tokens": 30, "seed": seed, "stop": stop}
			s := c.sampled(object{"base_model": "tiny", "prompt": encodedText(first), "sampling_params": params})
			tokens, last := s.Sequences[0].Tokens, len(s.Sequences[0].Tokens)-1
			if at := slices.IndexFunc(tokens, func(t int32) bool { return slices.Contains(stop, t) }); at >= 0 && at != last {
				t.Errorf("stop %v: %v", stop, tokens)
			}
			if !s.Sequences[0].ReachedLength {
				ended++
			}
		}
		if (ended > 0) != (len(stop) > 0) {
			t.Errorf("stop %v ends %d of 12", stop, ended)
		}
	}
}

// The loop of a client: train, save, sample. What the sampler gives for a sequence are the trainer's bits.
func TestLoop(t *testing.T) {
	c := serve(t, nil)
	id := c.model(0)
	info := c.call("get_info", object{"model_id": id})
	if info["lora_rank"] != 2.0 || info["model_data"].(map[string]any)["tokenizer_id"] != "tiny" {
		t.Errorf("%v", info)
	}
	var losses []float64
	seq := int32(0)
	for range 4 {
		passes, step := c.send(request(id, seq+1, "cross_entropy", first, second)), c.step(id, seq+2)
		_, loss := c.output(passes)
		c.must(step)
		losses, seq = append(losses, loss), seq+2
	}
	if losses[3] > losses[0]-0.5 {
		t.Errorf("the loss goes %v", losses)
	}
	saved := c.must(c.call("save_weights_for_sampler", object{
		"model_id": id, "seq_id": seq + 1, "sampling_session_seq_id": 0, "kind": "snapshot", "type": "save_weights_for_sampler",
	}))
	only := request(id, seq+2, "cross_entropy", first)
	only.ForwardOnly = true
	lps, _ := c.output(c.send(only))
	s := c.sampled(object{"sampling_session_id": saved["sampling_session_id"], "seq_id": 0, "topk_sample_logprobs": 2, "num_samples": 2})
	if len(s.Sequences) != 2 || len(s.Sequences[0].Tokens) != 3 || !s.Sequences[0].ReachedLength || s.Sequences[0].Top.K != 2 {
		t.Errorf("%+v", s)
	}
	if !math.IsNaN(float64(s.PromptLogprobs[0])) || !slices.Equal(s.PromptLogprobs[1:], lps[0]) {
		t.Errorf("the sampler has %v, the trainer %v", s.PromptLogprobs, lps[0])
	}
	base := c.sampled(object{"base_model": "tiny"})
	if slices.Equal(base.PromptLogprobs[1:], lps[0]) {
		t.Error("the base has the log-probabilities of the adapter")
	}
}

// Requests run by their numbers, however they arrive. Chunks add up.
func TestRequestsRunInTheirOrder(t *testing.T) {
	c := serve(t, nil)
	straight, mixed := c.model(0), c.model(1)
	c.send(request(straight, 1, "cross_entropy", first))
	c.send(request(straight, 2, "cross_entropy", second))
	c.must(c.step(straight, 3))
	step := c.step(mixed, 3)
	c.send(request(mixed, 2, "cross_entropy", second))
	if again := c.send(request(mixed, 2, "cross_entropy", second)); again["request_id"] != mixed+":2" {
		t.Errorf("the same request again: %v", again)
	}
	other := request(mixed, 2, "cross_entropy", first).Encode()
	if status, out := c.post("forward_backward", "application/x-protobuf", other); status != 422 {
		t.Errorf("another request of the number: %d, %s", status, out)
	}
	c.send(request(mixed, 1, "cross_entropy", first))
	c.must(step)
	var got [2][][]float32
	for i, id := range []string{straight, mixed} {
		got[i], _ = c.output(c.send(request(id, 4, "cross_entropy", first, second)))
	}
	if fmt.Sprint(got[0]) != fmt.Sprint(got[1]) {
		t.Errorf("in order %v, otherwise %v", got[0], got[1])
	}
}

// A request that is refused has used its number and added nothing.
func TestARefusedRequestUsesItsNumber(t *testing.T) {
	c := serve(t, nil)
	id := c.model(0)
	long := make([]int32, 60)
	columns := request(id, 0, "cross_entropy", first)
	columns.Data[0].Inputs[0].Tensor.Shape = []int64{1, 5}
	image := request(id, 0, "cross_entropy", first)
	image.Data[0].Input[0] = tinker.Chunk{Image: []byte{}}
	text := "x"
	named := request(id, 0, "ppo", first)
	named.Config = []tinker.Setting{{Name: "clip_low_threshold", Text: &text}}
	seq := int32(0)
	for _, bad := range []struct {
		request *tinker.ForwardBackward
		want    string
	}{
		{request(id, 0, "stable_reinforce", first), `loss_fn "stable_reinforce" is not in this version`},
		{request(id, 0, "cross_entropy"), "the request has no data"},
		{request(id, 0, "cross_entropy", []int32{1, 2}, []int32{1, 99, 2}), "datum 1: model_input: token 1 is 99: want 0 to 31"},
		{request(id, 0, "cross_entropy", []int32{1, 32}), "datum 0: target_tokens: token 0 is 32: want 0 to 31"},
		{request(id, 0, "cross_entropy", long), "datum 0: it has 59 tokens: want 1 to 48"},
		{request(id, 0, "ppo", first), "datum 0: loss_fn_inputs lacks logprobs"},
		{columns, `datum 0: loss_fn_inputs: target_tokens has 5 numbers, 5 a token, and there are 5 tokens`},
		{image, "datum 0: chunk 0 is an image: this server reads text alone"},
		{named, `loss_fn_config: "clip_low_threshold" of "ppo" is a text: want a number`},
	} {
		seq++
		bad.request.SeqID = seq
		if _, failed := c.result(c.send(bad.request)); !strings.HasPrefix(failed, bad.want) {
			t.Errorf("%s; want %s", failed, bad.want)
		}
	}
	_, failed := c.result(c.step(id, seq+1))
	if !strings.HasPrefix(failed, "the gradient is not whole: seq_id 9 has failed: loss_fn_config") {
		t.Error(failed)
	}
	for _, bad := range []struct {
		params object
		want   string
	}{
		{object{"learning_rate": -1}, "adam_params.learning_rate is -1: want 0 or more"},
		{object{"learning_rate": nil}, "adam_params.learning_rate is no number"},
		{object{"learning_rate": "x"}, "the body: adam_params: got string, want a number"},
	} {
		c.output(c.send(request(id, seq+2, "cross_entropy", first)))
		in := object{"model_id": id, "seq_id": seq + 3, "type": "optim_step", "adam_params": bad.params}
		if _, failed := c.result(c.call("optim_step", in)); !strings.HasPrefix(failed, bad.want) {
			t.Errorf("%s; want %s", failed, bad.want)
		}
		seq += 2
	}
	external := c.call("save_weights_external", object{"model_id": id, "seq_id": seq + 2, "type": "save_weights_external"})
	if _, failed := c.result(external); !strings.HasPrefix(failed, "save_weights_external is not in this version") {
		t.Error(failed)
	}
	// What the steps refused has not lost the gradient.
	if metrics := c.must(c.step(id, seq+3))["metrics"].(map[string]any); metrics["grad_norm:mean"] == 0.0 {
		t.Errorf("%v", metrics)
	}
}

// The end of a session ends what it has, and makes room.
func TestSessionsEnd(t *testing.T) {
	c := serve(t, nil)
	server := c.server
	id := c.model(0)
	saved := c.must(c.call("save_weights_for_sampler", object{
		"model_id": id, "seq_id": 1, "sampling_session_seq_id": 0, "kind": "snapshot", "type": "save_weights_for_sampler",
	}))
	c.sampled(object{"sampling_session_id": saved["sampling_session_id"], "seq_id": 0})
	b := server.all.bases["tiny"]
	full := b.queue.ask("other", "other", b.queue.room)
	waits := []object{c.step(id, 3), c.call("asample", object{
		"sampling_session_id": saved["sampling_session_id"], "seq_id": 1, "prompt": encodedText(first), "sampling_params": object{},
	})}
	c.post("sessions/"+c.session+"/finish", "application/json", nil)
	for _, reply := range waits {
		if _, failed := c.result(reply); !strings.Contains(failed, "its session has ended") {
			t.Error(failed)
		}
	}
	full.leave()
	server.addSampler(&sampler{id: c.session + ":sample:1", base: b}) // that a call has begun to make before
	if status, out := c.post("session_heartbeat", "application/json", []byte(`{"session_id":"`+c.session+`"}`)); status != http.StatusGone {
		t.Errorf("%d, %s", status, out)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		server.mu.Lock()
		left := len(server.models) + len(server.samplers) + len(server.sessions)
		server.mu.Unlock()
		if left == 0 && len(b.Sampler.Adapters()) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d models and sessions, adapters %v", left, b.Sampler.Adapters())
		}
	}
}

// An overwritten checkpoint is sampled as it is now, and what a sampling session samples from is no checkpoint of the client.
func TestOverwrittenCheckpoints(t *testing.T) {
	c := serve(t, nil)
	id, seq := c.model(0), 0
	save := func(overwrite bool) []float32 {
		c.send(request(id, int32(seq+1), "cross_entropy", first))
		c.must(c.step(id, int32(seq+2)))
		path := c.must(c.call("save_weights", object{
			"model_id": id, "seq_id": seq + 3, "path": "x", "overwrite": overwrite, "type": "save_weights"}))["path"]
		c.must(c.call("save_weights_for_sampler", object{
			"model_id": id, "seq_id": seq + 4, "sampling_session_seq_id": seq, "type": "save_weights_for_sampler"}))
		seq += 4
		sampler := c.call("create_sampling_session", object{
			"session_id": c.session, "sampling_session_seq_id": 100 + seq, "model_path": path})
		return c.sampled(object{"sampling_session_id": sampler["sampling_session_id"], "seq_id": 0}).PromptLogprobs[1:]
	}
	before, after := save(false), save(true)
	if slices.Equal(before, after) {
		t.Errorf("the overwritten checkpoint gives %v again", before)
	}
	shelf := &c.server.opts.Bases[0].shelf
	for _, a := range shelf.all { // as if they had made room
		if !a.isLoaded {
			continue
		}
		if err := shelf.unload(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	if _, failed := c.result(c.call("asample", object{
		"sampling_session_id": c.session + ":sample:104", "seq_id": 1, "prompt": encodedText(first),
		"sampling_params": object{"max_tokens": 1}})); !strings.Contains(failed, "has been overwritten") {
		t.Errorf("a session on what was overwritten: %q", failed)
	}
	only := request(id, int32(seq+1), "cross_entropy", first)
	only.ForwardOnly = true
	if lps, _ := c.output(c.send(only)); !slices.Equal(lps[0], after) {
		t.Errorf("the sampler has %v, the trainer %v", after, lps[0])
	}
	if _, failed := c.result(c.call("save_weights_for_sampler", object{
		"model_id": id, "seq_id": seq + 2, "path": "0", "type": "save_weights_for_sampler"})); failed != "" {
		t.Error(failed)
	}
	_, failed := c.result(c.call("save_weights_for_sampler", object{
		"model_id": id, "seq_id": seq + 3, "sampling_session_seq_id": 50, "kind": "inflight", "type": "save_weights_for_sampler"}))
	if !strings.HasPrefix(failed, `kind "inflight" is not in this version`) {
		t.Error(failed)
	}
}

// A sequence that has reached the limit is scored whole.
func TestLongestSequences(t *testing.T) {
	c := serve(t, nil)
	id := c.model(0)
	long := slices.Repeat([]int32{1, 2, 3, 4, 5, 6, 7}, 7) // 49: 48 and the last target
	only := request(id, 1, "cross_entropy", long)
	only.ForwardOnly = true
	lps, _ := c.output(c.send(only))
	saved := c.must(c.call("save_weights_for_sampler", object{
		"model_id": id, "seq_id": 2, "sampling_session_seq_id": 0, "type": "save_weights_for_sampler"}))
	s := c.sampled(object{"sampling_session_id": saved["sampling_session_id"], "seq_id": 0, "prompt": encodedText(long),
		"sampling_params": object{"max_tokens": 1}})
	if !slices.Equal(s.PromptLogprobs[1:], lps[0]) {
		t.Errorf("the sampler has %v, the trainer %v", s.PromptLogprobs, lps[0])
	}
}

func (c *counting) Adapters() []string { return c.names }

// Who waits for a number that does not come is told so, and the step behind it does not take half a gradient.
func TestAGapEnds(t *testing.T) {
	c := serve(t, func(o *Options) { o.Gap = 50 * time.Millisecond })
	id := c.model(0)
	c.output(c.send(request(id, 1, "cross_entropy", first)))
	if _, failed := c.result(c.step(id, 3)); !strings.Contains(failed, "seq_id 2 of "+id+" has not come within 50ms, and 3 waits for it") {
		t.Error(failed)
	}
	c.output(c.send(request(id, 4, "cross_entropy", first)))
	if _, failed := c.result(c.step(id, 5)); failed !=
		"the gradient is not whole: seq_id 2 has not come; it was discarded, so send the passes again" {
		t.Error(failed)
	}
	if metrics := c.must(c.step(id, 6))["metrics"].(map[string]any); metrics["grad_norm:mean"] != 0.0 {
		t.Errorf("%v", metrics)
	}
}

func TestBadCalls(t *testing.T) {
	c := serve(t, nil)
	id := c.model(0)
	session := object{"session_id": c.session, "sampling_session_seq_id": 7, "base_model": "tiny"}
	sampler := c.call("create_sampling_session", session)["sampling_session_id"]
	model := func(change object) object {
		in := object{"session_id": c.session, "model_seq_id": 5, "base_model": "tiny", "lora_config": object{"rank": 2}}
		maps.Copy(in, change)
		return in
	}
	for _, bad := range []struct {
		path   string
		body   any
		status int
		want   string
	}{
		{"create_model", model(object{"base_model": "other"}), 400, `base_model "other" is not served: this service has tiny`},
		{"create_model", model(object{"session_id": "x"}), 404, `there is no session "x"`},
		{"create_model", model(object{"model_seq_id": nil}), 400, "model_seq_id is missing"},
		{"create_model", model(object{"lora_config": nil}), 400, "lora_config is missing"},
		{"create_model", model(object{"optimizer_config": object{"type": "dimuon"}}), 400,
			`optimizer_config.type is "dimuon": this service has adamw`},
		{"create_model", model(object{"model_seq_id": 0}), 422, "request " + id + ":0 has come with another body"},
		{"optim_step", object{"model_id": "x", "seq_id": 1}, 404, `there is no model "x"`},
		{"optim_step", object{"model_id": id, "seq_id": 0}, 400, "seq_id is 0: want 1 to "},
		{"optim_step", "x", 400, "the body: "},
		{"retrieve_future", object{"request_id": "x"}, 410, "there is no request x"},
		{"asample", object{"sampling_session_id": "x"}, 404, `there is no sampling session "x"`},
		{"asample", object{"sampling_session_id": sampler, "num_samples": 0}, 400, "num_samples is 0: want 1 to 1024"},
		{"asample", object{"model_path": "tinker://a/../b"}, 400, `the path "tinker://a/../b" is not that of a checkpoint`},
		{"weights_info", object{"tinker_path": "tinker://../weights/x"}, 400, `the path "tinker://../weights/x" is not that of a checkpoint`},
		{"weights_info", object{"tinker_path": `tinker://a\b/weights/x`}, 400, "the path "},
		{"weights_info", object{"tinker_path": "tinker://a/weights/x"}, 404, "there is no checkpoint tinker://a/weights/x"},
		{"nothing", object{}, 404, "there is no call /api/v1/nothing: "},
	} {
		body, _ := json.Marshal(bad.body)
		status, out := c.post(bad.path, "application/json", body)
		var reply struct{ Detail string }
		if err := json.Unmarshal(out, &reply); err != nil || status != bad.status || !strings.HasPrefix(reply.Detail, bad.want) {
			t.Errorf("%s %s: %d, %s; want %d, %s", bad.path, body, status, out, bad.status, bad.want)
		}
	}
	for want, params := range map[string]object{
		"sampling_params.temperature is -1: want 0 or more":        {"sampling_params": object{"temperature": -1}},
		"sampling_params.top_p is 0: want more than 0, 1 at most":  {"sampling_params": object{"top_p": 0}},
		"sampling_params.max_tokens is 0: want 1 or more":          {"sampling_params": object{"max_tokens": 0}},
		"topk_prompt_logprobs, topk_sample_logprobs: want 0 to 20": {"topk_prompt_logprobs": 21},
		"the prompt has 0 tokens: want 1 to 47":                    {"prompt": object{"chunks": []object{}}},
		"the prompt: token 0 is 77: want 0 to 31":                  {"prompt": encodedText([]int32{77})},
		`chunk 0 of the prompt is of type "image": this server reads encoded_text alone`: {
			"prompt": object{"chunks": []object{{"type": "image"}}}},
		"prompt_logprobs_last_n: it needs prompt_logprobs": {"prompt_logprobs_last_n": 2},
		"prompt_logprobs_last_n is 6: want 1 to 5, the tokens of the prompt but the first": {
			"prompt_logprobs_last_n": 6, "prompt_logprobs": true},
		"prompt_alt_tokens_k is 21: want 0 to 20": {"prompt_alt_tokens_k": 21},
		"target_prompt_logprobs: its shape is [4 1]: want [5, targets], a row for each token of the prompt but the first": {
			"target_prompt_logprobs": targets([]int64{1, 2, 3, 4}, 4, 1)},
		"target_prompt_logprobs: row 4, column 0: token 32: want 0 to 31, or -1 for none": {
			"target_prompt_logprobs": targets([]int64{1, 2, 3, -1, 32}, 5, 1)},
		"target_prompt_logprobs: it names no token":                {"target_prompt_logprobs": targets([]int64{-1, -1, -1, -1, -1}, 5, 1)},
		"target_prompt_logprobs: it is of \"float32\": want int64": {"target_prompt_logprobs": object{"dtype": "float32"}},
		"sampling_params.stop has an empty text":                   {"sampling_params": object{"stop": []string{""}}},
	} {
		in := object{"sampling_session_id": sampler, "num_samples": 1, "prompt": encodedText(first)}
		maps.Copy(in, params)
		if _, failed := c.result(c.call("asample", in)); failed != want {
			t.Errorf("%s; want %s", failed, want)
		}
	}
	bomb, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	large := bomb.EncodeAll(make([]byte, maxBody+1), nil)
	if status, out := c.post("forward_backward", "application/x-protobuf", large, "Content-Encoding", "zstd"); status != 400 {
		t.Errorf("a bomb: %d, %s", status, out)
	}
	small := bomb.EncodeAll(request(id, 1, "cross_entropy", first).Encode(), nil)
	if status, out := c.post("forward_backward", "application/x-protobuf", small, "Content-Encoding", "zstd"); status != 200 {
		t.Errorf("zstd: %d, %s", status, out)
	}
	if status, out := c.post("forward_backward", "application/x-protobuf", []byte("\xff\xff"), "Content-Encoding", ""); status != 400 {
		t.Errorf("no message: %d, %s", status, out)
	}
}

func TestKey(t *testing.T) {
	c := serve(t, func(o *Options) { o.Token = "tml-secret" })
	for _, k := range []struct {
		header []string
		want   int
	}{
		{nil, 401}, {[]string{"X-API-Key", "tml-other"}, 401}, {[]string{"X-API-Key", "tml-secret"}, 200},
		{[]string{"Authorization", "Bearer tml-secret"}, 200},
	} {
		if status, out := c.post("client/config", "application/json", []byte("{}"), k.header...); status != k.want {
			t.Errorf("%v: %d, %s", k.header, status, out)
		}
	}
}
