package tinker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/wire/tinker"
)

// again stops the server and starts another one with its directory.
func (c *client) again(change func(*Options)) *client {
	c.t.Helper()
	c.stop()
	next := serve(c.t, func(o *Options) {
		o.Dir = c.server.opts.Dir
		if change != nil {
			change(o)
		}
	})
	next.session = c.session
	return next
}

// note waits until the state of a model covers the requests before next.
func (c *client) note(id string, next int32) {
	c.t.Helper()
	j := &journal{dir: c.server.all.store.modelDir(id)}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if n, err := j.readNote(); err == nil && n != nil && n.Next == next {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("no state covers the requests before %d", next)
		}
	}
}

// A model that nobody uses leaves memory, and comes back with the same bits.
func TestAnIdleModelLeavesMemory(t *testing.T) {
	var outputs [2][]string
	for i, idle := range []time.Duration{time.Hour, 0} {
		opened := new(atomic.Int32)
		c := serve(t, func(o *Options) {
			o.Idle = idle
			open := o.Bases[0].Open
			o.Bases[0].Open = func(ctx context.Context, lora *engine.LoRASpec, seed uint64) (engine.Trainer, error) {
				opened.Add(1)
				return open(ctx, lora, seed)
			}
		})
		id := c.model(0)
		for step := range int32(3) {
			passes, stepped := c.send(request(id, 2*step+1, "cross_entropy", first)), c.step(id, 2*step+2)
			for _, reply := range []object{passes, stepped} {
				message, failed := c.result(reply)
				outputs[i] = append(outputs[i], string(message)+failed)
			}
			if idle == 0 {
				c.note(id, 2*step+3)
			}
		}
		if n := opened.Load(); (n > 1) != (idle == 0) {
			t.Errorf("idle after %v: the trainer was opened %d times", idle, n)
		}
	}
	if !slices.Equal(outputs[0], outputs[1]) {
		t.Errorf("in memory %q, otherwise %q", outputs[0], outputs[1])
	}
}

// dropping is a trainer that says when it is closed.
type dropping struct {
	engine.Discarder
	closed func()
}

func (d *dropping) Close() error {
	d.closed()
	return d.Discarder.Close()
}

// A model that finds no room in memory gets that of one that has nothing to do, with the same bits for both.
func TestModelsMakeRoomForOneAnother(t *testing.T) {
	var outputs [2][]string
	for i, room := range []int32{2, 1} {
		open := new(atomic.Int32)
		c := serve(t, func(o *Options) {
			whole := o.Bases[0].Open
			o.Bases[0].Open = func(ctx context.Context, lora *engine.LoRASpec, seed uint64) (engine.Trainer, error) {
				if open.Load() == room {
					return nil, errors.New("it needs more memory than is free")
				}
				trainer, err := whole(ctx, lora, seed)
				if err != nil {
					return nil, err
				}
				open.Add(1)
				return &dropping{trainer.(engine.Discarder), func() { open.Add(-1) }}, nil
			}
		})
		ids := []string{c.model(0), c.model(1)}
		for step := range int32(2) {
			for k, id := range ids {
				data := [][]int32{first, second}[k]
				passes, stepped := c.send(request(id, 2*step+1, "cross_entropy", data)), c.step(id, 2*step+2)
				for _, reply := range []object{passes, stepped} {
					message, failed := c.result(reply)
					if failed != "" {
						t.Fatal(failed)
					}
					outputs[i] = append(outputs[i], string(message))
				}
			}
		}
		// Also one with a gradient leaves: between its passes, and before its step.
		for k, call := range []func() object{
			func() object { return c.send(request(ids[1], 5, "cross_entropy", first)) },
			func() object { return c.send(request(ids[1], 6, "cross_entropy", second)) },
			func() object { return c.step(ids[1], 7) },
			func() object { return c.send(request(ids[1], 8, "cross_entropy", first)) },
		} {
			message, failed := c.result(call())
			if failed != "" {
				t.Fatal(failed)
			}
			outputs[i] = append(outputs[i], string(message))
			if room == 1 || k == 0 {
				c.model(2 + k)
			}
		}
	}
	if !slices.Equal(outputs[0], outputs[1]) {
		t.Errorf("with room %q, otherwise %q", outputs[0], outputs[1])
	}
}

// Who waits for memory lets others compute, also if its next request has come.
func TestWaitingForMemoryTakesNoTurn(t *testing.T) {
	c := serve(t, nil)
	m := &model{id: "m", session: &session{}, next: 1, held: map[int32]*job{1: {}}}
	err := c.server.alone(t.Context(), m, func() error { return &noRoom{errors.New("full")} })
	if m.turn != nil || c.server.train.free != 1 || err == nil {
		t.Errorf("%v, %v, %d", err, m.turn, c.server.train.free)
	}
}

// The data of a request go with it, though its result stays for an hour.
func TestResultsDoNotHoldRequests(t *testing.T) {
	c := serve(t, nil)
	m := &model{id: "m", wake: make(chan struct{}, 1), held: map[int32]*job{}}
	f := newFuture("", "m:5", [32]byte{}, tinker.Submitted{})
	freed := make(chan struct{})
	func() {
		of := &call{seq: 5}
		runtime.AddCleanup(of, func(freed chan struct{}) { close(freed) }, freed)
		m.take(c.server, &job{call: of, f: f})
		clear(m.held)
	}()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		runtime.GC()
		select {
		case <-freed:
			runtime.KeepAlive(f)
			return
		default:
		}
		if time.Now().After(deadline) {
			t.Fatal("the request is still in memory")
		}
	}
}

// A model whose answer was forgotten is not made anew beside itself.
func TestAModelIsMadeOnce(t *testing.T) {
	c := serve(t, nil)
	id := c.model(0)
	c.server.results.drop(c.server.results.find(futureID(id, 0)))
	status, out := c.do("POST", "create_model", object{
		"session_id": c.session, "model_seq_id": 0, "base_model": "tiny", "lora_config": object{"rank": 2}})
	if status != http.StatusUnprocessableEntity {
		t.Errorf("%d, %v", status, out)
	}
	c.output(c.send(request(id, 1, "cross_entropy", first)))
}

// A service goes on with what the one before it has left: sessions, samplers, models, and requests without a result.
func TestResume(t *testing.T) {
	c := serve(t, nil)
	id := c.model(0)
	done := c.send(request(id, 1, "cross_entropy", first))
	want, _ := c.output(done)
	c.must(c.step(id, 2))
	path := c.must(c.call("save_weights", object{"model_id": id, "seq_id": 3, "path": "x", "type": "save_weights"}))["path"]
	c.must(c.call("save_weights_for_sampler", object{
		"model_id": id, "seq_id": 4, "sampling_session_seq_id": 0, "type": "save_weights_for_sampler"}))
	c.call("create_sampling_session", object{"session_id": c.session, "sampling_session_seq_id": 1, "model_path": path})
	c.call("create_sampling_session", object{"session_id": c.session, "sampling_session_seq_id": 2, "base_model": "tiny"})
	var samples [3][]float32
	sample := func(c *client, number, seq int) []float32 {
		name := c.session + ":sample:" + string(rune('0'+number))
		return c.sampled(object{"sampling_session_id": name, "seq_id": seq}).PromptLogprobs[1:]
	}
	for i := range samples {
		samples[i] = sample(c, i, 0)
	}
	held := c.step(id, 6)
	next := c.again(nil)
	old := c.server.results.find(id + ":6")
	select {
	case <-old.done:
		t.Errorf("a service that stops answers %v", old.result)
	default:
	}
	if got, _ := next.output(done); !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("the result that was %v is %v", want, got)
	}
	for i := range samples {
		if got := sample(next, i, 1); !slices.Equal(got, samples[i]) {
			t.Errorf("sampling session %d: %v, before %v", i, got, samples[i])
		}
	}
	if info := next.samplerInfoOf(1); info["model_path"] != path {
		t.Errorf("%v", info)
	}
	body := request(id, 1, "cross_entropy", second).Encode()
	if status, out := next.post("forward_backward", "application/x-protobuf", body); status != 422 {
		t.Errorf("another request of a known number: %d, %s", status, out)
	}
	if again := next.step(id, 6); again["request_id"] != held["request_id"] {
		t.Errorf("the held request again: %v", again)
	}
	next.output(next.send(request(id, 5, "cross_entropy", first)))
	next.must(held)
	// The end of a session lasts, too. Silence does not count while there is no service.
	if last := next.again(nil); last.server.sessions[c.session] == nil {
		t.Error("the session has ended")
	} else {
		last.server.forget(time.Now().Add(silence + time.Minute))
		next = last
	}
	if ended := next.again(nil); len(ended.server.sessions)+len(ended.server.samplers)+len(ended.server.models) > 0 {
		t.Error("the ended session is there again")
	}
	if left := within(filepath.Join(c.server.opts.Dir, strings.ReplaceAll(id, ":", "_")), ""); len(left) != 1 {
		t.Errorf("want the checkpoints alone: %v", left)
	}
}

func (c *client) samplerInfoOf(number int) map[string]string {
	c.t.Helper()
	x, err := c.server.samplerOf("", c.session+":sample:"+string(rune('0'+number)))
	if err != nil {
		c.t.Fatal(err)
	}
	return x.info()
}

// A gap that was given up stays so.
func TestAGapLastsAcrossARestart(t *testing.T) {
	quick := func(o *Options) { o.Gap = time.Millisecond }
	c := serve(t, quick)
	id := c.model(0)
	waits := c.step(id, 2)
	_, want := c.result(waits)
	if !strings.Contains(want, "seq_id 1 of "+id+" has not come") {
		t.Fatal(want)
	}
	c = c.again(nil)
	if _, failed := c.result(waits); failed != want {
		t.Errorf("%s; before %s", failed, want)
	}
	if _, failed := c.result(c.step(id, 3)); !strings.HasPrefix(failed, "the gradient is not whole: seq_id 1 has not come") {
		t.Error(failed)
	}
	c.output(c.send(request(id, 4, "cross_entropy", first)))
	c.must(c.step(id, 5))
}

// A gap of several requests, with others between, does not end the model.
func TestAWideGapLastsAcrossARestart(t *testing.T) {
	var outputs [2]string
	for i := range outputs {
		c := serve(t, func(o *Options) { o.Gap = 50 * time.Millisecond })
		id := c.model(0)
		c.output(c.send(request(id, 1, "cross_entropy", first)))
		c.must(c.step(id, 2))
		far := int32(1 << 30)
		waiting := []object{c.step(id, 5), c.send(request(id, 7, "cross_entropy", first)), c.step(id, far)}
		for _, reply := range waiting {
			if _, failed := c.result(reply); !strings.Contains(failed, "seq_id 3 of "+id+" has not come") {
				t.Fatal(failed)
			}
		}
		if i == 1 {
			c = c.again(nil)
		}
		message, failed := c.result(c.step(id, far+1))
		if !strings.HasPrefix(failed, "the gradient is not whole: seq_id 3 has not come") {
			t.Fatal(failed)
		}
		outputs[i] = string(message)
		message, failed = c.result(c.send(request(id, far+2, "cross_entropy", first)))
		outputs[i] += string(message) + failed
	}
	if outputs[0] != outputs[1] {
		t.Errorf("without a restart %q, after one %q", outputs[0], outputs[1])
	}
}

// A damaged model is told in a line that names the file. Its files stay, and others go on.
func TestADamagedModelStandsAlone(t *testing.T) {
	for name, damage := range map[string]func(dir string) error{
		"log": func(dir string) error {
			paths := within(filepath.Join(dir, logName), "0")
			data, err := os.ReadFile(paths[0])
			data[len(data)/2] ^= 1
			return errors.Join(err, os.WriteFile(paths[0], data, 0o644))
		},
		"kind": func(dir string) error { // a newer version has written it
			log, err := durable.OpenLog(filepath.Join(dir, logName))
			if err != nil {
				return err
			}
			_, err = log.Append([]byte(`{"kind":"later","seq":3}` + "\n"))
			return errors.Join(err, log.Close())
		},
		"state": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, stateName, noteName), []byte("{"), 0o644)
		},
		"tensor": func(dir string) error { return os.Truncate(filepath.Join(dir, stateName, "state.safetensors"), 100) },
	} {
		t.Run(name, func(t *testing.T) {
			c := serve(t, func(o *Options) { o.Idle = 0 })
			bad, good := c.model(0), c.model(1)
			for _, id := range []string{bad, good} {
				c.output(c.send(request(id, 1, "cross_entropy", first)))
				c.must(c.step(id, 2))
				c.note(id, 3)
			}
			c.stop()
			dir := c.server.all.store.modelDir(bad)
			if err := damage(dir); err != nil {
				t.Fatal(err)
			}
			said := make(chan string, 10)
			next := c.again(func(o *Options) { o.Say = func(line string) { said <- line } })
			next.must(next.step(good, 3))
			step := func(seq int) (int, []byte) {
				body, _ := json.Marshal(object{"model_id": bad, "seq_id": seq, "type": "optim_step"})
				return next.post("optim_step", "application/json", body)
			}
			status, out := step(3)
			if name == "tensor" { // it is found when the model comes into memory
				reply := object{}
				if err := json.Unmarshal(out, &reply); err != nil {
					t.Fatal(err)
				}
				_, failed := next.result(reply)
				status, out = step(4)
				if !strings.Contains(failed, dir) {
					t.Error(failed)
				}
			}
			if status != 404 || !bytes.Contains(out, []byte(dir)) {
				t.Errorf("%d, %s", status, out)
			}
			if line := <-said; !strings.Contains(line, bad) || !strings.Contains(line, dir) || strings.Contains(line, "\n") {
				t.Error(line)
			}
			next.server.forget(time.Now().Add(silence + time.Minute))
			if _, err := os.Stat(dir); err != nil {
				t.Errorf("a silent client's damaged model: %v", err)
			}
			next.post("sessions/"+c.session+"/finish", "application/json", nil)
			next.stop()
			if _, err := os.Stat(dir); err != nil {
				t.Errorf("the damaged model of an ended session: %v", err)
			}
		})
	}
}

// The requests of all models that wait are bounded together. The one that runs next always finds room.
func TestRequestsThatWaitAreBounded(t *testing.T) {
	c := serve(t, nil)
	id := c.model(0)
	c.server.waiting.Add(maxHeldByAll)
	body := request(id, 2, "cross_entropy", first).Encode()
	if status, out := c.post("forward_backward", "application/x-protobuf", body); status != 429 {
		t.Errorf("%d, %s", status, out)
	}
	c.output(c.send(request(id, 1, "cross_entropy", first)))
	c.server.waiting.Add(-maxHeldByAll)
	c.output(c.send(request(id, 2, "cross_entropy", first)))
	if n := c.server.waiting.Load(); n != 0 {
		t.Errorf("%d bytes wait", n)
	}
}

// What a key has is its own after a restart, too.
func TestKeysOutliveARestart(t *testing.T) {
	c := serve(t, nil)
	dir := c.server.opts.Dir
	ann, bob := add(t, dir, Key{Name: "ann"}), add(t, dir, Key{Name: "bob", Models: 1})
	c.key = ann
	c.session = c.call("create_session", object{"type": "create_session", "display_name": "walk"})["session_id"].(string)
	id := c.model(0)
	done := c.send(request(id, 1, "cross_entropy", first))
	c.output(done)
	next := c.again(nil)
	next.key = ann
	next.output(done)
	next.must(next.step(id, 2))
	if x := next.server.sessions[c.session]; x.owner != "ann" || x.name != "walk" {
		t.Errorf("%+v", x)
	}
	other := next.as(bob)
	body, _ := json.Marshal(object{"request_id": done["request_id"]})
	if status, out := other.post("retrieve_future", "application/json", body); status != 404 {
		t.Errorf("another key's result: %d, %s", status, out)
	}
	body, _ = json.Marshal(object{"model_id": id, "seq_id": 3, "type": "optim_step"})
	if status, out := other.post("optim_step", "application/json", body); status != 404 {
		t.Errorf("another key's model: %d, %s", status, out)
	}
}

// Results move to the end of a long log, so that the requests between them go, and are the same after a restart.
func TestResultsMove(t *testing.T) {
	c := serve(t, nil)
	id := c.model(0)
	j := c.server.models[id].journal
	j.longest = 1
	var replies []object
	for seq := int32(1); seq <= stateSteps; seq++ {
		replies = append(replies, c.send(request(id, 2*seq-1, "cross_entropy", first)))
		c.must(c.step(id, 2*seq))
	}
	want, _ := c.output(replies[0])
	c.must(c.step(id, 2*stateSteps+1)) // comes after the state
	next := c.again(nil)
	oldest := j.log.Next()
	for _, number := range j.results {
		oldest = min(oldest, number)
	}
	if oldest <= 2*2*stateSteps {
		t.Errorf("the oldest of %d results is record %d of %d", len(j.results), oldest, j.log.Next())
	}
	for _, reply := range replies {
		got, _ := next.output(reply)
		if len(got) != len(want) {
			t.Errorf("a result is %v after the restart", got)
		}
	}
	if got, _ := next.output(replies[0]); !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("the first result was %v, and is %v", want, got)
	}
	next.must(next.step(id, 2*stateSteps+2))
}

// Requests that were held for a model that could not be made fail after a restart, too.
func TestRequestsOfAModelThatCouldNotBeMade(t *testing.T) {
	fail := make(chan struct{})
	c := serve(t, func(o *Options) {
		o.Bases[0].Open = func(context.Context, *engine.LoRASpec, uint64) (engine.Trainer, error) {
			<-fail
			return nil, errors.New("out of order")
		}
	})
	made := object{"request_id": c.begun()}
	held := c.send(request(c.session+":train:0", 1, "cross_entropy", first))
	close(fail)
	if _, failed := c.result(made); !strings.Contains(failed, "out of order") {
		t.Fatalf("create_model: %q", failed)
	}
	next := c.again(nil)
	if _, failed := next.result(held); !strings.Contains(failed, "could not be made") {
		t.Errorf("the held request: %q", failed)
	}
	if waiting := next.server.waiting.Load(); waiting != 0 {
		t.Errorf("%d bytes wait", waiting)
	}
}

// A base of the same shape under the name of another one gets none of what was trained on that one.
func TestAnotherBase(t *testing.T) {
	weigh := func(weights string) func(*Options) {
		return func(o *Options) { o.Bases[0].Weights = weights }
	}
	c := serve(t, weigh("one"))
	id := c.model(0)
	want, _ := c.output(c.send(request(id, 1, "cross_entropy", first)))
	path := c.save(id, 2, "save_weights", "x", nil)
	c.call("create_sampling_session", object{"session_id": c.session, "sampling_session_seq_id": 0, "base_model": "tiny"})
	sampled := c.session + ":sample:0"

	other := c.again(weigh("two"))
	const says = " is of another tiny than the one that is served: its files are not the same; "
	body := request(id, 3, "cross_entropy", first).Encode()
	status, out := other.post("forward_backward", "application/x-protobuf", body)
	if status != 404 || !strings.Contains(string(out), id+says) {
		t.Errorf("its model: %d, %s", status, out)
	}
	for call, in := range map[string]object{
		"load_weights":            {"session_id": c.session, "model_seq_id": 1, "path": path, "optimizer": true, "type": "load_weights"},
		"create_sampling_session": {"session_id": c.session, "sampling_session_seq_id": 1, "model_path": path},
	} {
		if status, out := other.do("POST", call, in); status != 400 || !strings.Contains(fmt.Sprint(out), path+says) {
			t.Errorf("%s: %d, %v", call, status, out)
		}
	}
	if _, err := other.server.samplerOf("", sampled); err == nil {
		t.Error("the sampling session samples from another base")
	}
	other.model(2)

	back := other.again(weigh("one"))
	back.session = c.session
	if got, _ := back.output(back.send(request(id, 3, "cross_entropy", first))); !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("with the first base again: %v, before %v", got, want)
	}
	if x := back.server.lost[c.session+":train:2"]; x == nil {
		t.Error("a model of the second base goes on with the first")
	}
}

// A session that ends waits for adapters that are read meanwhile, and other requests do not wait with it.
func TestAnEndingSessionHoldsNobodyUp(t *testing.T) {
	c := serve(t, nil)
	id := c.model(0)
	path := c.save(id, 1, "save_weights_for_sampler", "a", nil)
	sampling := object{"session_id": c.session, "sampling_session_seq_id": 0, "model_path": path}
	c.call("create_sampling_session", sampling)
	shelf := &c.server.opts.Bases[0].shelf
	shelf.mu.Lock() // as long as an adapter is read
	ended := make(chan bool)
	go func() { c.server.finish("", c.session); close(ended) }()
	for c.server.touch("", c.session) != nil {
		time.Sleep(time.Millisecond)
	}
	shelf.mu.Unlock()
	<-ended
}
