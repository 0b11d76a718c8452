package tinker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// fake is a service that answers as a test wants.
type fake struct {
	t      *testing.T
	url    string
	mu     sync.Mutex
	calls  []string
	told   []string
	answer func(path string, body []byte) (status int, reply any)
}

// serve serves f until the test ends, and returns a session with it.
func (f *fake) serve(t *testing.T) *Client {
	t.Helper()
	f.t = t
	t.Setenv(keyVariable, "tml-secret")
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	f.url = server.URL
	quick := pace{
		first: time.Millisecond, last: 2 * time.Millisecond, poll: time.Millisecond, bill: time.Millisecond, beat: time.Millisecond,
		lost: 300 * time.Millisecond,
	}
	c, err := open(t.Context(), server.URL, quick, func(line string) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.told = append(f.told, line)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || r.Header.Get(keyHeader) != "tml-secret" {
		f.t.Errorf("%s: key %q, %v", r.URL, r.Header.Get(keyHeader), err)
	}
	path := strings.TrimPrefix(r.URL.Path, "/api/v1/")
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, path)
	status, reply := http.StatusOK, any(map[string]string{"session_id": "s", "type": "create_session"})
	if !strings.HasPrefix(path, "sessions/") && !slices.Contains([]string{"client/config", "create_session", "session_heartbeat"}, path) {
		status, reply = f.answer(path, body)
	}
	if message, ok := reply.([]byte); ok {
		w.Header().Set("Content-Type", protobufType)
		_, _ = w.Write(message)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(reply)
}

// count returns how often a path was called.
func (f *fake) count(path string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.calls {
		if c == path {
			n++
		}
	}
	return n
}

// said reports whether a line for people has these words.
func (f *fake) said(words string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(f.told, func(line string) bool { return strings.Contains(line, words) })
}

type object = map[string]any

// TestRetriesAsTheSDK fails each call and each question for a result in the ways that may pass, and then answers.
func TestRetriesAsTheSDK(t *testing.T) {
	submits, polls := []int{429, 500, 408, 402, 402, 503}, 0
	f := &fake{}
	f.answer = func(path string, _ []byte) (int, any) {
		if path == "optim_step" {
			if len(submits) == 0 {
				return 200, object{"request_id": "r"}
			}
			status := submits[0]
			submits = submits[1:]
			return status, object{"detail": "not now, tml-secret"}
		}
		switch polls++; polls {
		case 1:
			return 408, object{"type": "try_again", "request_id": "r", "queue_state": "paused_capacity"}
		case 2:
			return 200, object{"type": "try_again", "request_id": "r", "queue_state": "active", "queue_state_reason": "seq_id 2 waits for 1"}
		case 3:
			return 429, object{"detail": "slowly"}
		case 4:
			return 500, object{"detail": "oh"}
		case 5:
			return 402, object{"detail": "pay"}
		}
		return 200, object{"metrics": object{"grad_norm:mean": 2}}
	}
	model := &Training{client: f.serve(t), id: "s:train:0"}
	metrics, err := model.Step(t.Context(), nil)
	if err != nil || metrics["grad_norm:mean"] != 2 {
		t.Fatal(metrics, err)
	}
	for _, words := range []string{"no capacity", "seq_id 2 waits for 1", "a bill to be paid"} {
		if !f.said(words) {
			t.Errorf("nobody was told %q: %q", words, f.told)
		}
	}
	if f.said("tml-secret") {
		t.Errorf("the key was told: %q", f.told)
	}
}

// TestLostServiceIsNamed ends with the address of the service that does not answer, and without the key.
func TestLostServiceIsNamed(t *testing.T) {
	f := &fake{answer: func(string, []byte) (int, any) { return 503, object{"detail": "down for tml-secret"} }}
	model := &Training{client: f.serve(t), id: "m"}
	_, err := model.Step(t.Context(), nil)
	if err == nil || !IsLost(err) || !strings.Contains(err.Error(), f.url) || strings.Contains(err.Error(), "tml-secret") {
		t.Errorf("%v", err)
	}
	stop, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	time.AfterFunc(20*time.Millisecond, func() { cancel(why) })
	if _, err := model.Step(stop, nil); !errors.Is(err, why) {
		t.Errorf("%v, want the cause of the end", err)
	}
}

// TestWhatIsRefusedIsNotRepeated makes calls that no other try would help.
func TestWhatIsRefusedIsNotRepeated(t *testing.T) {
	f := &fake{answer: func(path string, _ []byte) (int, any) {
		if path == "retrieve_future" {
			return 200, object{"error": "rank is too large", "category": "user"}
		}
		if path == "save_weights" {
			return 200, object{"request_id": "r"}
		}
		return 400, object{"detail": "base_model is not served"}
	}}
	c := f.serve(t)
	_, err := c.Train(t.Context(), "none", LoRAConfig{Rank: 1})
	if err == nil || !strings.Contains(err.Error(), "base_model is not served") || IsLost(err) || f.count("create_model") != 1 {
		t.Errorf("%v after %d calls", err, f.count("create_model"))
	}
	_, err = (&Training{client: c}).Save(t.Context(), Weights, "x")
	if err == nil || !strings.Contains(err.Error(), "save_weights: rank is too large") || IsLost(err) || f.count("save_weights") != 1 {
		t.Errorf("%v after %d calls", err, f.count("save_weights"))
	}
}

// TestLostSamplesAreAskedForAgain loses a result, and gets another one under another number.
func TestLostSamplesAreAskedForAgain(t *testing.T) {
	var numbers []int64
	f := &fake{}
	f.answer = func(path string, body []byte) (int, any) {
		switch path {
		case "create_sampling_session":
			return 200, object{"sampling_session_id": "x"}
		case "asample":
			var in Sample
			if err := json.Unmarshal(body, &in); err != nil || in.SeqID == nil || *in.Params.Seed != 1<<63+1 {
				t.Error(in, err)
			}
			numbers = append(numbers, *in.SeqID)
			return 200, object{"request_id": fmt.Sprint(*in.SeqID)}
		}
		if len(numbers) == 1 {
			return 410, object{"detail": "gone"}
		}
		return 200, (&Samples{Sequences: []Sequence{{Tokens: []int32{7}, Logprobs: []float32{-1}}}}).Encode()
	}
	s, err := f.serve(t).SampleFrom(t.Context(), "base", "")
	if err != nil {
		t.Fatal(err)
	}
	seed := Seed(1<<63 + 1)
	got, err := s.Sample(t.Context(), Sample{NumSamples: 1, Params: SamplingParams{Seed: &seed}})
	if err != nil || got.Sequences[0].Tokens[0] != 7 || !slices.Equal(numbers, []int64{0, 1}) {
		t.Errorf("%v, %v, numbers %v", got, err, numbers)
	}
}

// TestChunksHaveConsecutiveNumbers cuts a pass by its bytes, and gets the results in the order of the data.
func TestChunksHaveConsecutiveNumbers(t *testing.T) {
	chunks := map[int32]int{}
	f := &fake{}
	f.answer = func(path string, body []byte) (int, any) {
		if path == "forward_backward" {
			r, err := DecodeForwardBackward(body)
			if err != nil {
				t.Error(err)
			}
			chunks[r.SeqID] = len(r.Data)
			return 200, object{"request_id": fmt.Sprint(r.SeqID)}
		}
		var in RetrieveFuture
		if err := json.Unmarshal(body, &in); err != nil {
			t.Error(err)
		}
		var seq int32
		if _, err := fmt.Sscan(in.RequestID, &seq); err != nil {
			t.Error(err)
		}
		values := make([][]float32, chunks[seq])
		for i := range values {
			values[i] = []float32{float32(seq), float32(i)}
		}
		return 200, NewOutput("logprobs", values, make([]int64, len(values)), []Metric{{"loss:sum", 0.5}, {"other:mean", 9}}).Encode()
	}
	model := &Training{client: f.serve(t), id: "m", last: 4}
	data := make([]Datum, 21)
	for i := range data {
		data[i].Input = []Chunk{TextChunk([]int32{1, 2})}
	}
	logprobs, sums, err := model.Pass(t.Context(), Pass{Loss: "cross_entropy", Bytes: 17}, data)
	if err != nil || len(logprobs) != 21 || len(chunks) != 11 || sums["loss"] != 5.5 || len(sums) != 1 {
		t.Fatal(logprobs, sums, chunks, err)
	}
	for i, lp := range logprobs {
		if lp[0] != float32(5+i/2) || lp[1] != float32(i%2) {
			t.Errorf("datum %d has the result of %v", i, lp)
		}
	}
	if model.next(1) != 16 {
		t.Error("the next request has another number")
	}
}

// TestArchiveLeavesTheKeyBehind follows a redirect to another server, which gets no key.
func TestArchiveLeavesTheKeyBehind(t *testing.T) {
	store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "archive"+r.Header.Get(keyHeader))
	}))
	defer store.Close()
	f := &fake{}
	c := f.serve(t)
	redirecting := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(keyHeader) == "" || r.URL.Path != "/api/v1/training_runs/s:train:0/checkpoints/sampler_weights/a/archive" {
			t.Error(r.URL.Path)
		}
		http.Redirect(w, r, store.URL, http.StatusFound)
	}))
	defer redirecting.Close()
	elsewhere := &Client{root: redirecting.URL + "/api/v1/", key: c.key, http: c.http, say: c.say, pace: c.pace, billing: c.billing}
	got, err := elsewhere.Archive(t.Context(), "tinker://s:train:0/sampler_weights/a")
	if err != nil || string(got) != "archive" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestAddresses(t *testing.T) {
	t.Setenv(addressVariable, "http://10.0.0.1:8000/")
	t.Setenv(keyVariable, "")
	for given, want := range map[string]string{
		"": "http://10.0.0.1:8000", "https://host/base/": "https://host/base", "http://h:1/api/v1": "http://h:1",
	} {
		if got, err := Address(given); got != want || err != nil {
			t.Errorf("%q: %q, %v", given, got, err)
		}
	}
	for _, bad := range []string{"host", "ftp://host", "http://user:pwd9@host", "http://h?key=1"} {
		if got, err := Address(bad); err == nil || strings.Contains(err.Error(), "pwd9") {
			t.Errorf("%q: %q, %v", bad, got, err)
		}
	}
	if _, err := Open(t.Context(), "http://10.0.0.1:8000", time.Second, nil); err == nil || !strings.Contains(err.Error(), keyVariable) {
		t.Errorf("without a key: %v", err)
	}
}
