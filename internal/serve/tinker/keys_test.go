package tinker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// as returns a client of the same server with another key.
func (c *client) as(key string) *client {
	return &client{t: c.t, url: c.url, server: c.server, key: key}
}

func add(t *testing.T, dir string, k Key) string {
	t.Helper()
	secret, err := AddKey(t.Context(), dir, k)
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

// A service without keys answers anybody on this machine. Once there is a key, clients need one, also when it is gone.
func TestKeysComeAndGo(t *testing.T) {
	dir := t.TempDir()
	c := serve(t, func(o *Options) { o.Dir = dir })
	ask := func(key string, header ...string) int {
		status, _ := c.as(key).do("GET", "healthz", nil, header...)
		return status
	}
	if ask("") != 200 || c.server.Secret() != "" {
		t.Error("without keys")
	}
	ann := add(t, dir, Key{Name: "ann"})
	bob := add(t, dir, Key{Name: "bob"})
	for key, want := range map[string]int{"": 401, ann: 200, bob: 200, ann + "x": 401, "tml-": 401} {
		if got := ask(key); got != want {
			t.Errorf("%q: %d, want %d", key, got, want)
		}
	}
	if ask("", "Authorization", "Bearer "+ann) != 200 || len(c.server.Secret()) < 32 {
		t.Error("as Bearer")
	}
	for _, name := range []string{"ann", "bob"} {
		if err := RemoveKey(t.Context(), dir, name); err != nil {
			t.Fatal(err)
		}
	}
	if ask(ann) != 401 || ask("") != 401 {
		t.Error("the keys are gone, and the service is open")
	}
	var said []string
	next := c.again(func(o *Options) { o.Say = func(line string) { said = append(said, line) } })
	if status, out := next.do("GET", "healthz", nil); status != http.StatusUnauthorized {
		t.Errorf("after a restart: %d, %v", status, out)
	}
	if !next.server.NeedsKey() || len(said) == 0 || !strings.HasPrefix(said[0], "no key is left, so every client is refused: ") {
		t.Errorf("%q", said)
	}
	if err := os.Remove(filepath.Join(dir, keysName)); err != nil {
		t.Fatal(err)
	}
	if status, _ := next.do("GET", "healthz", nil); status != http.StatusUnauthorized {
		t.Error("it opens while it runs")
	}
	if status, out := next.again(nil).do("GET", "healthz", nil); status != http.StatusOK {
		t.Errorf("without the file: %d, %v", status, out)
	}
}

// A service that begins with a damaged file of keys is not open to anybody.
func TestDamagedKeysOpenNothing(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, keysName), []byte("[{"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := serve(t, func(o *Options) { o.Dir = dir })
	if status, out := c.do("GET", "healthz", nil); status != http.StatusUnauthorized {
		t.Errorf("%d, %v", status, out)
	}
}

// The limits of keys hold on while their file is damaged.
func TestLimitsOutliveADamagedFile(t *testing.T) {
	dir := t.TempDir()
	ann := add(t, dir, Key{Name: "ann", Disk: 5})
	c := serve(t, func(o *Options) { o.Dir = dir }).as(ann)
	for _, damaged := range []bool{false, true} {
		if damaged {
			if err := os.WriteFile(filepath.Join(dir, keysName), []byte("[{"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if status, out := c.do("GET", "healthz", nil); status != http.StatusOK || c.server.Turns.Disk("ann") != 5 {
			t.Errorf("damaged: %t: %d, %v, %d bytes", damaged, status, out, c.server.Turns.Disk("ann"))
		}
	}
}

// What belongs to another key is not there.
func TestKeysDoNotSeeOneAnother(t *testing.T) {
	dir := t.TempDir()
	c := serve(t, func(o *Options) { o.Dir = dir })
	ann, bob := c.as(add(t, dir, Key{Name: "ann"})), c.as(add(t, dir, Key{Name: "bob"}))
	id := ann.model(0)
	path := ann.save(id, 1, "save_weights", "one", nil)
	saved := ann.must(ann.call("save_weights_for_sampler", object{
		"model_id": id, "seq_id": 2, "sampling_session_seq_id": 0, "type": "save_weights_for_sampler"}))
	sampler := saved["sampling_session_id"].(string)
	bob.model(0)
	calls := []struct {
		method, path string
		body         any
	}{
		{"POST", "get_info", object{"model_id": id}},
		{"POST", "optim_step", object{"model_id": id, "seq_id": 3, "type": "optim_step"}},
		{"POST", "create_model", object{"session_id": ann.session, "model_seq_id": 9, "base_model": "tiny", "lora_config": object{"rank": 2}}},
		{"POST", "create_sampling_session", object{"session_id": bob.session, "sampling_session_seq_id": 3, "model_path": path}},
		{"POST", "asample", object{"sampling_session_id": sampler, "seq_id": 3, "prompt": encodedText(first)}},
		{"POST", "asample", object{"model_path": path, "prompt": encodedText(first)}},
		{"POST", "load_weights", object{"session_id": bob.session, "model_seq_id": 4, "path": path}},
		{"POST", "retrieve_future", object{"request_id": id + ":1"}},
		{"POST", "weights_info", object{"tinker_path": path}},
		{"POST", "copy_weights", object{"source_path": path}},
		{"GET", "samplers/" + sampler, nil},
		{"GET", "sessions/" + ann.session, nil},
		{"GET", "training_runs/" + id, nil},
		{"GET", "training_runs/" + id + "/checkpoints", nil},
		{"DELETE", "training_runs/" + id + "/checkpoints/weights/one", nil},
		{"PUT", "training_runs/" + id + "/checkpoints/weights/one/ttl", object{"ttl_seconds": 3600}},
		{"POST", "training_runs/" + id + "/checkpoints/weights/one/publish", nil},
		{"GET", "training_runs/" + id + "/checkpoints/weights/one/archive", nil},
		{"PUT", "sessions/" + ann.session + "/project", object{"project_id": "p"}},
	}
	for _, in := range calls {
		if status, out := bob.do(in.method, in.path, in.body); status != 404 {
			t.Errorf("%s %s: %d, %v", in.method, in.path, status, out)
		}
	}
	bob.do("POST", "sessions/"+ann.session+"/finish", object{})
	if status, _ := ann.do("POST", "session_heartbeat", object{"session_id": ann.session}); status != 200 {
		t.Error("another key has ended the session")
	}
	if status, _ := bob.do("POST", "session_heartbeat", object{"session_id": ann.session}); status != 410 {
		t.Errorf("the heart of another's session: %d", status)
	}
	accessible := func() bool {
		all := bob.got("GET", "training_runs?access_scope=accessible", nil)
		return slices.Contains(names(all, "training_runs", "training_run_id"), id)
	}
	if accessible() {
		t.Error("another's run is in the list")
	}

	// A published checkpoint can be read, and not changed.
	ann.got("POST", "training_runs/"+id+"/checkpoints/weights/one/publish", nil)
	if !accessible() {
		t.Error("the run of a published checkpoint is not in the list")
	}
	bob.must(bob.call("load_weights", object{"session_id": bob.session, "model_seq_id": 5, "path": path, "type": "load_weights"}))
	if status, out := bob.do("DELETE", "training_runs/"+id+"/checkpoints/weights/one", nil); status != 403 {
		t.Errorf("%d, %v", status, out)
	}
	ann.got("DELETE", "training_runs/"+id+"/checkpoints/weights/one/publish", nil)
	if status, _ := bob.do("POST", "weights_info", object{"tinker_path": path}); status != 404 {
		t.Errorf("no longer public: %d", status)
	}
}

// A key has its limits, and what is beyond them fails for good: the SDK tries 402 and 409 again.
func TestLimitsOfKeys(t *testing.T) {
	dir := t.TempDir()
	c := serve(t, func(o *Options) { o.Dir = dir })
	bob := c.as(add(t, dir, Key{Name: "bob"}))
	bob.save(bob.model(0), 1, "save_weights", "one", nil)
	one := bob.got("GET", "checkpoints", nil)["checkpoints"].([]any)[0].(map[string]any)["size_bytes"].(float64)
	ann := c.as(add(t, dir, Key{Name: "ann", Models: 1, Disk: int64(7*one/2) + 10<<10}))
	id := ann.model(0)
	status, out := ann.do("POST", "create_model", object{
		"session_id": ann.session, "model_seq_id": 1, "base_model": "tiny", "lora_config": object{"rank": 2}})
	if status != http.StatusForbidden || out["detail"] !=
		"the key ann has 1 of 1 models in its sessions: end a session, such as by ServiceClient.close()" {
		t.Errorf("%d, %v", status, out)
	}
	var failed string
	n := 0
	for ; failed == "" && n < 10; n++ {
		_, failed = ann.result(ann.call("save_weights", object{
			"model_id": id, "seq_id": n + 1, "path": fmt.Sprint("c", n), "type": "save_weights"}))
	}
	if !strings.HasPrefix(failed, "the disk of the key ann is full: it has ") || n != 4 {
		t.Errorf("after %d: %s", n, failed)
	}
	left := names(ann.got("GET", "checkpoints", nil), "checkpoints", "checkpoint_id")
	if len(left) != n-1 {
		t.Errorf("%d checkpoints: %v", n-1, left)
	}
	ann.save(id, n+1, "save_weights", "c0", object{"overwrite": true}) // what it replaces does not count
	source := "tinker://" + id + "/weights/c0"
	if status, out := ann.do("POST", "copy_weights", object{"source_path": source}); status != http.StatusForbidden {
		t.Errorf("%d, %v", status, out)
	}
}

// A request that the disk does not take is not counted.
func TestRequestsThatFindNoRoomDoNotCount(t *testing.T) {
	j, err := openJournal(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := j.append(&record{Kind: requested, payload: make([]byte, 100)}); err != nil {
		t.Fatal(err)
	}
	bytes, size := j.bytes, j.size.Load()
	if err := j.log.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := j.append(&record{Kind: requested, payload: make([]byte, 100)}); err == nil || j.bytes != bytes || j.size.Load() != size {
		t.Errorf("%v: %d bytes since the last state, %d in all; before: %d, %d", err, j.bytes, j.size.Load(), bytes, size)
	}
}

// What a model keeps for a restart counts for the disk of its key. A request beyond that fails for good, with its number, also
// after a restart, and the next step drops the gradient that lacks it.
func TestJournalsCountForTheDisk(t *testing.T) {
	dir := t.TempDir()
	c := serve(t, func(o *Options) { o.Dir = dir })
	ann := c.as(add(t, dir, Key{Name: "ann", Disk: 100 << 10}))
	id := ann.model(0)
	wide := slices.Repeat([][]int32{first}, 200)
	var full object
	failed, seq := "", int32(0)
	for failed == "" && seq < 100 {
		seq++
		full = ann.send(request(id, seq, "cross_entropy", wide...))
		_, failed = ann.result(full)
	}
	if !strings.HasPrefix(failed, "the disk of the key ann is full: it has ") || seq < 2 {
		t.Fatalf("seq_id %d: %q", seq, failed)
	}
	if used := DiskUsed(dir)["ann"]; used > 100<<10 || used < 50<<10 {
		t.Errorf("%d bytes are in use", used)
	}
	status, out := ann.do("POST", "create_model", object{
		"session_id": ann.session, "model_seq_id": 1, "base_model": "tiny", "lora_config": object{"rank": 2},
		"user_metadata": object{"x": strings.Repeat("x", 60<<10)}})
	if status != http.StatusForbidden {
		t.Errorf("a new model: %d, %v", status, out)
	}
	c.session = ann.session
	next := c.again(nil)
	next.key = ann.key
	if _, again := next.result(full); again != failed {
		t.Errorf("after a restart: %q", again)
	}
	body := request(id, seq, "cross_entropy", wide...).Encode()
	if status, out := next.post("forward_backward", "application/x-protobuf", body); status != http.StatusOK {
		t.Errorf("the same request again: %d, %s", status, out)
	}
	if _, failed := next.result(next.step(id, seq+1)); !strings.Contains(failed, "the gradient is not whole") {
		t.Errorf("the step: %q", failed)
	}
	if err := RemoveKey(t.Context(), dir, "ann"); err != nil {
		t.Fatal(err)
	}
	next.key = add(t, dir, Key{Name: "ann", Disk: 1 << 30})
	next.output(next.send(request(id, seq+2, "cross_entropy", first)))
	next.must(next.step(id, seq+3))
}

// A key that has used its tokens is told so: its training waits, and its samples are to be asked for again.
func TestAKeyHasUsedItsTokens(t *testing.T) {
	dir := t.TempDir()
	c := serve(t, func(o *Options) { o.Dir, o.Hold = dir, 20*time.Millisecond })
	ann, bob := c.as(add(t, dir, Key{Name: "ann", TokensPerHour: leastCharge + 1})), c.as(add(t, dir, Key{Name: "bob"}))
	made := ann.call("create_session", object{"type": "create_session"})
	sampler := ann.call("create_sampling_session", object{
		"session_id": made["session_id"], "sampling_session_seq_id": 0, "base_model": "tiny"})
	in := object{"sampling_session_id": sampler["sampling_session_id"], "seq_id": 0, "prompt": encodedText(first),
		"sampling_params": object{"max_tokens": 3}}
	asample := func(in object) (int, string) {
		body, _ := json.Marshal(in)
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, c.url+"/api/v1/asample", bytes.NewReader(body))
		r.Header.Set("X-API-Key", ann.key)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode, resp.Header.Get("Retry-After")
	}
	if status, _ := asample(in); status != 200 {
		t.Errorf("the first sample: %d", status)
	}
	ann.session = made["session_id"].(string)
	c.server.train.account.mu.Lock()
	c.server.train.account.paused("ann")
	c.server.train.account.budgets["ann"].left = -1000
	c.server.train.account.mu.Unlock()
	body := object{"session_id": ann.session, "model_seq_id": 0, "base_model": "tiny", "lora_config": object{"rank": 2}}
	waits := ann.call("create_model", body)
	status, out := ann.do("POST", "retrieve_future", object{"request_id": waits["request_id"]})
	if status != http.StatusRequestTimeout || out["queue_state"] != "paused_rate_limit" ||
		!strings.HasPrefix(out["queue_state_reason"].(string), "the key ann has used its 65 tokens of an hour: more in 1") {
		t.Errorf("%d, %v", status, out)
	}
	in["seq_id"] = 1
	if status, after := asample(in); status != http.StatusTooManyRequests || len(after) < 3 {
		t.Errorf("%d, after %s", status, after)
	}
	in["seq_id"] = 0
	if status, _ := asample(in); status != 200 {
		t.Errorf("what was asked before, again: %d", status)
	}
	for status := 0; status != http.StatusOK; {
		status, _ = bob.do("POST", "retrieve_future", object{"request_id": bob.begun()})
	}
}

// What a restart computes again was charged before.
func TestAReplayUsesNoTokensOfTheKey(t *testing.T) {
	dir := t.TempDir()
	c := serve(t, func(o *Options) { o.Dir = dir })
	key := add(t, dir, Key{Name: "ann", TokensPerHour: 1 << 20})
	ann := c.as(key)
	id := ann.model(0)
	ann.output(ann.send(request(id, 1, "cross_entropy", first)))
	if used := c.server.train.account.usage()["ann"][trainedTokens]; used != int64(len(first)-1) {
		t.Errorf("a pass has used %d tokens, want %d", used, len(first)-1)
	}
	next := c.again(nil).as(key)
	next.session = ann.session
	next.must(next.step(id, 2))
	account := next.server.train.account
	if used := account.usage()["ann"][trainedTokens]; used != 0 {
		t.Errorf("a replay has used %d tokens", used)
	}
	account.mu.Lock()
	defer account.mu.Unlock()
	if left := account.budgets["ann"].left; left < 1<<20-leastCharge {
		t.Errorf("%v tokens of an hour are left", left)
	}
}

// A sample that is refused leaves no adapter on the shelf.
func TestARefusedSampleUsesNoAdapter(t *testing.T) {
	dir := t.TempDir()
	c := serve(t, func(o *Options) { o.Dir = dir })
	ann := c.as(add(t, dir, Key{Name: "ann", TokensPerHour: 1000}))
	path := ann.save(ann.model(0), 1, "save_weights", "one", nil)
	b := c.server.opts.Bases[0]
	b.queue.account.mu.Lock()
	b.queue.account.budgets["ann"].left = -1000
	b.queue.account.mu.Unlock()
	in := object{"model_path": path, "prompt": encodedText(first), "sampling_params": object{"max_tokens": 3}}
	if status, out := ann.do("POST", "asample", in); status != http.StatusTooManyRequests || len(b.shelf.all) > 0 {
		t.Errorf("%d, %v; adapters on the shelf: %d", status, out, len(b.shelf.all))
	}
}

// begun asks for a model and returns the number of the request.
func (c *client) begun() any {
	if c.session == "" {
		c.session = c.call("create_session", object{"type": "create_session"})["session_id"].(string)
	}
	return c.call("create_model", object{
		"session_id": c.session, "model_seq_id": 0, "base_model": "tiny", "lora_config": object{"rank": 2}})["request_id"]
}

// Two models that take turns by slices have the bits of each alone.
func TestTurnsDoNotChangeWhatAModelLearns(t *testing.T) {
	c := serve(t, nil)
	many := slices.Repeat([][]int32{slices.Repeat([]int32{1, 2, 3, 4, 5, 6, 7, 8}, 5), slices.Repeat([]int32{9, 4, 2, 7}, 9)}, 4)
	learn := func(id string) func() string {
		passes, step := c.send(request(id, 1, "cross_entropy", many...)), c.step(id, 2)
		after := c.send(request(id, 3, "cross_entropy", many...))
		return func() string {
			before, _ := c.output(passes)
			c.must(step)
			lps, _ := c.output(after)
			return fmt.Sprint(before, lps)
		}
	}
	alone := learn(c.model(0))()
	one, two := c.model(1), c.model(2)
	first, second := learn(one), learn(two)
	if first() != alone || second() != alone {
		t.Error("together they learn something else")
	}
}
