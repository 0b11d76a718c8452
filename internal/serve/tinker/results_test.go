package tinker

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"time"
)

// computed waits for the result of a request, and does not fetch it.
func (c *client) computed(reply object) *future {
	c.t.Helper()
	f := c.server.results.find(reply["request_id"].(string))
	select {
	case <-f.done:
	case <-time.After(10 * time.Second):
		c.t.Fatalf("no result of %v", reply)
	}
	return f
}

// see says when the session's client was there last.
func (c *client) see(at time.Time) {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.server.sessions[c.session].seen = at
}

// Results that nobody fetches take little memory: the log has those of training, and samples go.
func TestResultsInMemoryAreBounded(t *testing.T) {
	c := serve(t, nil)
	id := c.model(0)
	want, _ := c.output(c.send(request(id, 1, "cross_entropy", first)))
	r := c.server.results
	r.mu.Lock()
	r.ofKey = 6 * futureBytes
	r.mu.Unlock()
	sampled := c.call("asample", object{"base_model": "tiny", "prompt": encodedText(first), "sampling_params": object{"max_tokens": 2}})
	c.computed(sampled)
	var replies []object
	for seq := int32(2); seq < 20; seq++ {
		replies = append(replies, c.send(request(id, seq, "cross_entropy", first)))
		c.computed(replies[len(replies)-1])
	}
	r.mu.Lock()
	if r.bytes > r.ofKey || r.keys[""].bytes != r.bytes || r.bytes == 0 {
		t.Errorf("%d bytes are in memory, %d of the key: want %d at most", r.bytes, r.keys[""].bytes, r.ofKey)
	}
	r.mu.Unlock()
	for _, reply := range replies {
		if got, _ := c.output(reply); !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("%v: %v, before %v", reply["request_id"], got, want)
		}
	}
	body, _ := json.Marshal(object{"request_id": sampled["request_id"]})
	if status, out := c.post("retrieve_future", "application/json", body); status != http.StatusGone {
		t.Errorf("the sample: %d, %s", status, out)
	}
	r.mu.Lock()
	r.ofKey, r.ofAll = maxResults, futureBytes // also of all keys
	r.mu.Unlock()
	c.computed(c.send(request(id, 20, "cross_entropy", first)))
	r.mu.Lock()
	if n := r.keys[""].waiting.Len() + r.keys[""].fetched.Len(); n != 1 {
		t.Errorf("%d results are in memory: want the newest alone", n)
	}
	r.mu.Unlock()
	next := c.again(nil)
	if n := next.server.results.bytes; n != 0 {
		t.Errorf("%d bytes are in memory after a restart", n)
	}
	if got, _ := next.output(replies[0]); !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("after a restart: %v, before %v", got, want)
	}
}

// The client of a session that lives finds results of training however late it comes, and for an hour more. Samples go after a day.
func TestResultsOfTrainingWait(t *testing.T) {
	c := serve(t, nil)
	id := c.model(0)
	trained := c.send(request(id, 1, "cross_entropy", first))
	sampled := c.call("asample", object{"base_model": "tiny", "prompt": encodedText(first), "sampling_params": object{"max_tokens": 2}})
	c.computed(trained)
	c.computed(sampled)
	later := time.Now().Add(unfetched + time.Hour)
	c.see(later)
	c.server.forget(later)
	if c.server.results.find(sampled["request_id"].(string)) != nil {
		t.Error("the sample is still there")
	}
	c.output(trained)
	c.server.forget(time.Now().Add(kept - time.Minute))
	c.output(trained)
	c.see(time.Now().Add(kept))
	c.server.forget(time.Now().Add(kept + time.Minute))
	if c.server.results.find(trained["request_id"].(string)) != nil {
		t.Error("the result is still there")
	}
}

// A key has so many results that it may fetch. It may always send the next requests again when they went.
func TestResultsOfAKeyAreCounted(t *testing.T) {
	c := serve(t, nil)
	id := c.model(0)
	c.output(c.send(request(id, 1, "cross_entropy", first)))
	add := func(n int) {
		r := c.server.results
		r.mu.Lock()
		defer r.mu.Unlock()
		r.keys[""].logged += n
	}
	if n := c.server.results.logged(""); n != 2 {
		t.Errorf("%d results: want those of create_model and of the passes", n)
	}
	add(maxLogged)
	if status, out := c.post("forward_backward", "application/x-protobuf", request(id, 2, "cross_entropy", first).Encode()); status != 429 {
		t.Errorf("%d, %s", status, out)
	}
	add(-maxLogged)
	c.output(c.send(request(id, 2, "cross_entropy", first)))
	later := time.Now().Add(kept + time.Minute)
	c.see(later)
	if c.server.forget(later); c.server.results.logged("") != 0 {
		t.Errorf("%d results are left", c.server.results.logged(""))
	}
}
