package tinker

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/failpoint"
	"github.com/trinity-go/trinity/internal/wire/tinker"
)

// Environment of a process that is a service and may be killed.
const (
	killedDir  = "TRINITY_TEST_SERVICE_DIR"
	killedHits = "TRINITY_TEST_SERVICE_HITS"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(killedDir); dir != "" {
		if err := serveKilled(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// serveKilled serves until its standard input ends, and then writes how often it came to each failpoint.
func serveKilled(dir string) error {
	if err := failpoint.Check(); err != nil {
		return err
	}
	b, closing, err := tinyBase()
	if err != nil {
		return err
	}
	defer closing()
	s, err := New(tinyOptions(dir, b))
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
		_ = listener.Close()
	}()
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	_ = http.Serve(listener, s.Handler())
	text, _ := json.Marshal(failpoint.Hits())
	return cmp.Or(<-ended, os.WriteFile(os.Getenv(killedHits), text, 0o644))
}

// survivor is a client as the SDK is: it sends a request again until there is an answer. The service is a process that it
// starts again when it was killed.
type survivor struct {
	t       *testing.T
	dir     string
	process *exec.Cmd
	stop    io.Closer
	url     string
	starts  int
	said    bytes.Buffer
}

func (c *survivor) start(rules string) {
	c.t.Helper()
	c.process = exec.Command(os.Args[0])
	c.process.Env = append(os.Environ(), killedDir+"="+c.dir, killedHits+"="+c.dir+".hits", failpoint.Variable+"="+rules)
	c.process.Stderr = &c.said
	in, err := c.process.StdinPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	out, err := c.process.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := c.process.Start(); err != nil {
		c.t.Fatal(err)
	}
	var address string
	_, err = fmt.Fscanln(out, &address)
	c.stop, c.url, c.starts = in, "http://"+address+"/api/v1/", c.starts+1
	if err != nil { // it was killed while it started
		c.again()
	}
}

// again starts the service, which was killed, without failpoints but those for rare cases.
func (c *survivor) again() {
	c.t.Helper()
	_ = c.process.Wait()
	if c.starts > 3 {
		c.t.Fatalf("the service ends again and again: %s", &c.said)
	}
	c.start("durable.log.roll=force")
}

// post calls until there is an answer. It returns nil for 410.
func (c *survivor) post(path, kind string, body []byte) []byte {
	c.t.Helper()
	for tries := 0; ; tries++ {
		resp, err := http.Post(c.url+path, kind, bytes.NewReader(body))
		if err == nil {
			out, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			switch {
			case err == nil && resp.StatusCode == http.StatusOK:
				return out
			case err == nil && resp.StatusCode == http.StatusGone:
				return nil
			case err == nil && resp.StatusCode != http.StatusRequestTimeout && resp.StatusCode < 500:
				c.t.Fatalf("%s: %d, %s", path, resp.StatusCode, out)
			case err == nil && resp.StatusCode == http.StatusServiceUnavailable && bytes.Contains(out, []byte("no space left")):
				_ = c.process.Process.Kill() // the next one has room
			case err == nil && resp.StatusCode == http.StatusRequestTimeout && tries < 10:
				continue
			case err == nil:
				c.t.Fatalf("%s: %d, %s", path, resp.StatusCode, out)
			}
		}
		c.again()
	}
}

func (c *survivor) call(path string, in object) object {
	c.t.Helper()
	body, _ := json.Marshal(in)
	reply := object{}
	if err := json.Unmarshal(c.post(path, "application/json", body), &reply); err != nil {
		c.t.Fatalf("%s: %v", path, err)
	}
	return reply
}

// result returns a result of training, or its failure.
func (c *survivor) result(reply object) string {
	c.t.Helper()
	body, _ := json.Marshal(object{"request_id": reply["request_id"]})
	out := c.post("retrieve_future", "application/json", body)
	if out == nil {
		c.t.Errorf("the result of %v is gone", reply)
	}
	return string(out)
}

// sample samples until there is a result: one of a service that was killed is gone.
func (c *survivor) sample(in object) string {
	c.t.Helper()
	for seq := 0; ; seq++ {
		in["seq_id"] = seq
		body, _ := json.Marshal(object{"request_id": c.call("asample", in)["request_id"]})
		if out := c.post("retrieve_future", "application/json", body); out != nil {
			return string(out)
		}
	}
}

// loop is a client's loop: steps in which requests come out of order and one fails, checkpoints, a load, samples. It returns
// all results, without the ids of its session, and the bytes of the checkpoints.
func (c *survivor) loop() []string {
	c.t.Helper()
	var all []string
	session := c.call("create_session", object{"type": "create_session"})["session_id"].(string)
	model := c.call("create_model", object{
		"session_id": session, "model_seq_id": 0, "base_model": "tiny", "type": "create_model",
		"lora_config": object{"rank": 2, "seed": 3, "train_unembed": false},
	})
	all = append(all, c.result(model))
	id := model["model_id"].(string)
	send := func(seq int32, loss string, sequences ...[]int32) object {
		reply := object{}
		out := c.post("forward_backward", "application/x-protobuf", request(id, seq, loss, sequences...).Encode())
		if err := json.Unmarshal(out, &reply); err != nil {
			c.t.Fatal(err)
		}
		return reply
	}
	step := func(seq int32) object {
		return c.call("optim_step", object{"model_id": id, "seq_id": seq, "type": "optim_step", "adam_params": object{"learning_rate": 0.02}})
	}
	seq := int32(0)
	for i := range stateSteps + 2 {
		replies := []object{send(seq+2, "cross_entropy", second), send(seq+1, "cross_entropy", first, second), step(seq + 3)}
		if i == 1 {
			replies = append(replies, send(seq+4, "nothing", first), send(seq+5, "cross_entropy", first), step(seq+6))
			seq += 3
		}
		seq += 3
		for _, reply := range replies {
			all = append(all, c.result(reply))
		}
	}
	save := func(path string) object {
		seq++
		return c.call("save_weights", object{"model_id": id, "seq_id": seq, "path": path, "type": "save_weights"})
	}
	kept := save("a")
	all = append(all, c.result(kept))
	pending := send(seq+1, "cross_entropy", first)
	ephemeral := c.call("save_weights_for_sampler", object{
		"model_id": id, "seq_id": seq + 2, "sampling_session_seq_id": 0, "kind": "snapshot", "type": "save_weights_for_sampler"})
	all = append(all, c.result(pending), c.result(ephemeral))
	all = append(all, c.sample(object{
		"sampling_session_id": session + ":sample:0", "num_samples": 1, "prompt": encodedText(first), "prompt_logprobs": true,
		"sampling_params": object{"max_tokens": 3, "temperature": 1, "seed": 5}}))
	seq += 2
	all = append(all, c.result(step(seq+1)))
	load := c.call("load_weights", object{
		"model_id": id, "seq_id": seq + 2, "path": "tinker://" + id + "/weights/a", "optimizer": true, "type": "load_weights"})
	seq += 2
	last := []object{load, send(seq+1, "cross_entropy", second), step(seq + 2)}
	seq += 2
	last = append(last, save("b"))
	for _, reply := range last {
		all = append(all, c.result(reply))
	}
	for _, name := range []string{"a", "b"} {
		dir := (&store{dir: c.dir}).dirOf(tinker.Path{Run: id, Kind: tinker.Weights, Name: name})
		for _, path := range within(dir, "") {
			data, err := os.ReadFile(path)
			if err != nil {
				c.t.Fatal(err)
			}
			if !strings.HasSuffix(path, ".safetensors") { // state.json names the kernels, which a process chooses by their speed
				continue
			}
			all = append(all, fmt.Sprintf("%s/%s %x", name, filepath.Base(path), sha256.Sum256(data)))
		}
	}
	for i := range all {
		all[i] = strings.ReplaceAll(all[i], session, "SESSION")
	}
	c.post("sessions/"+session+"/finish", "application/json", []byte("{}"))
	return all
}

// end ends the service, and returns how often it came to each failpoint.
func (c *survivor) end() map[string]int64 {
	c.t.Helper()
	_ = c.stop.Close()
	if err := c.process.Wait(); err != nil {
		c.t.Fatalf("%v: %s", err, &c.said)
	}
	var hits map[string]int64
	data, err := os.ReadFile(c.dir + ".hits")
	if err == nil {
		err = json.Unmarshal(data, &hits)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return hits
}

// differ fails the test at the first result that is another one.
func (c *survivor) differ(got, want []string) {
	c.t.Helper()
	for i := range want {
		if i >= len(got) || got[i] != want[i] {
			c.t.Fatalf("result %d of %d is %.300q, want %.300q", i, len(got), got[min(i, len(got)-1)], want[i])
		}
	}
}

// Wherever the service is killed, its client does not notice: the results are the same, and so are the checkpoints.
func TestAClientDoesNotNoticeAKill(t *testing.T) {
	undisturbed := &survivor{t: t, dir: t.TempDir()}
	undisturbed.start("durable.log.roll=force")
	want := undisturbed.loop()
	hits := undisturbed.end()
	if left := within((&store{dir: undisturbed.dir}).sessionDir(""), ""); len(left) > 0 {
		t.Errorf("the session has ended, and left %v", left)
	}
	for _, name := range slices.Sorted(maps.Keys(hits)) {
		n := hits[name]
		switch {
		case !strings.HasPrefix(name, "tinker.") && !strings.HasPrefix(name, "durable."), name == "durable.log.roll":
			continue
		case n == 0 && strings.HasPrefix(name, "tinker."):
			t.Errorf("%s is never come to", name)
		}
		most := int64(1)
		switch {
		case os.Getenv("TRINITY_HEAVY") != "":
			most = 20
		case testing.Short():
		case strings.HasPrefix(name, "tinker."), name == "durable.dir.renamed", name == "durable.log.appended":
			most = 5
		}
		for i := range min(n, most) { // spread over the loop
			at := 1 + i*n/min(n, most)
			t.Run(fmt.Sprintf("%s@%d", name, at), func(t *testing.T) {
				t.Parallel()
				c := &survivor{t: t, dir: t.TempDir()}
				c.start(fmt.Sprintf("durable.log.roll=force; %s=kill@%d", name, at))
				c.differ(c.loop(), want)
				if c.starts != 2 {
					t.Errorf("the service was started %d times: %s", c.starts, &c.said)
				}
				c.end()
			})
		}
	}
}

// A full disk refuses requests and acknowledges nothing half. Once there is room, the client's next try goes on.
func TestAFullDiskRefusesRequests(t *testing.T) {
	undisturbed := &survivor{t: t, dir: t.TempDir()}
	undisturbed.start("")
	want := undisturbed.loop()
	undisturbed.end()
	for _, rule := range []string{
		"durable.file.write=enospc", "durable.log.create=enospc", // a session, a model
		"durable.log.frame=enospc@2", "durable.log.record=enospc@3", "durable.log.sync=enospc@4", "durable.log.record=enospc@7",
		"durable.log.record=enospc@20", "durable.log.sync=enospc@33",
	} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			c := &survivor{t: t, dir: t.TempDir()}
			c.start(rule)
			c.differ(c.loop(), want)
			if c.starts != 2 {
				t.Errorf("the service was started %d times: %s", c.starts, &c.said)
			}
			c.end()
		})
	}
}
