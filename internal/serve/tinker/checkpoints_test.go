package tinker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/wire/tinker"
)

// A model that does not fit is the client's to change, and an engine that fails is not.
func TestModelsThatDoNotOpen(t *testing.T) {
	var why error
	c := serve(t, func(o *Options) {
		open := o.Bases[0].Open
		o.Bases[0].Open = func(ctx context.Context, lora *engine.LoRASpec, seed uint64) (engine.Trainer, error) {
			if why != nil {
				return nil, why
			}
			return open(ctx, lora, seed)
		}
	})
	id := c.model(0)
	in := object{"model_id": id, "path": "one", "seq_id": 1, "type": "save_weights"}
	path := c.must(c.call("save_weights", in))["path"]
	for i, opens := range []struct {
		err      error
		category string
	}{{errors.New("a model of rank 2 needs about 2.0 GiB of memory"), "user"}, {&trinity.EngineError{Err: errors.New("broken")}, "server"}} {
		why = opens.err
		made := c.call("create_model", object{
			"session_id": c.session, "model_seq_id": 2 * (i + 1), "base_model": "tiny", "type": "create_model", "lora_config": object{"rank": 2},
		})
		loaded := c.call("load_weights", object{
			"session_id": c.session, "model_seq_id": 2*i + 3, "path": path, "optimizer": true, "type": "load_weights",
		})
		for _, reply := range []object{made, loaded} {
			var failed tinker.Failed
			body, _ := json.Marshal(object{"request_id": reply["request_id"]})
			_, out := c.post("retrieve_future", "application/json", body)
			if json.Unmarshal(out, &failed) != nil || failed.Category != opens.category || failed.Error != opens.err.Error() {
				t.Errorf("%s: want category %s", out, opens.category)
			}
		}
	}
}

// A checkpoint between the passes and the step of a model has its weights and moments: the gradient stays with the model.
func TestCheckpointsLeaveGradientsOut(t *testing.T) {
	c := serve(t, nil)
	undisturbed, saved := c.model(0), c.model(1)
	after := func(id string, seq int32) string {
		c.send(request(id, seq, "cross_entropy", second))
		c.must(c.step(id, seq+1))
		lps, _ := c.output(c.send(request(id, seq+2, "cross_entropy", first)))
		return fmt.Sprint(lps)
	}
	save := func(seq int) string {
		in := object{"model_id": saved, "path": fmt.Sprint("at", seq), "seq_id": seq, "type": "save_weights"}
		return c.must(c.call("save_weights", in))["path"].(string)
	}
	load := func(number int, path string) string {
		in := object{"session_id": c.session, "model_seq_id": number, "path": path, "optimizer": true, "type": "load_weights"}
		made := c.call("load_weights", in)
		c.must(made)
		return made["model_id"].(string)
	}
	clean := save(1)
	c.send(request(undisturbed, 1, "cross_entropy", first))
	c.send(request(saved, 2, "cross_entropy", first))
	pending := save(3)
	if a, b := after(undisturbed, 2), after(saved, 4); a != b {
		t.Errorf("a step after save_state gives %s, without it %s", b, a)
	}
	if a, b := after(load(2, pending), 1), after(load(3, clean), 1); a != b {
		t.Errorf("the checkpoint with a gradient that no step had used gives %s, the one before the passes %s", a, b)
	}
}

// A model made of a checkpoint goes on with the same bits.
func TestCheckpoints(t *testing.T) {
	c := serve(t, nil)
	id := c.model(0)
	c.send(request(id, 1, "cross_entropy", first))
	c.must(c.step(id, 2))
	save := func(seq int, more object) object {
		in := object{"model_id": id, "path": "one", "seq_id": seq, "overwrite": false, "type": "save_weights"}
		for k, v := range more {
			in[k] = v
		}
		return c.call("save_weights", in)
	}
	path := c.must(save(3, nil))["path"].(string)
	if path != "tinker://"+id+"/weights/one" {
		t.Error(path)
	}
	if _, failed := c.result(save(4, nil)); !strings.HasPrefix(failed, "there is a checkpoint "+path) {
		t.Error(failed)
	}
	c.must(save(5, object{"overwrite": true}))
	if _, failed := c.result(save(6, object{"path": "../x"})); !strings.HasPrefix(failed, `the name "../x" of a checkpoint`) {
		t.Error(failed)
	}
	load := func(number int, optimizer bool) object {
		in := object{"session_id": c.session, "model_seq_id": number, "path": path, "optimizer": optimizer, "type": "load_weights"}
		made := c.call("load_weights", in)
		c.must(made)
		return made
	}
	made, fresh := load(1, true), load(2, false)
	var after []string
	for _, m := range []struct {
		id  string
		seq int32
	}{{id, 7}, {made["model_id"].(string), 1}, {fresh["model_id"].(string), 1}} {
		c.send(request(m.id, m.seq, "cross_entropy", second))
		c.must(c.step(m.id, m.seq+1))
		lps, _ := c.output(c.send(request(m.id, m.seq+2, "cross_entropy", first)))
		after = append(after, fmt.Sprint(lps))
	}
	if after[0] != after[1] || after[0] == after[2] {
		t.Errorf("straight %s, from the checkpoint %s, without the optimizer %s", after[0], after[1], after[2])
	}
	c.must(c.call("load_weights", object{"model_id": id, "seq_id": 10, "path": path, "optimizer": true, "type": "load_weights"}))
	lost := c.call("load_weights", object{"model_id": id, "seq_id": 11, "path": "tinker://x/weights/y", "optimizer": true})
	if _, failed := c.result(lost); failed != "there is no checkpoint tinker://x/weights/y" {
		t.Error(failed)
	}
	info := c.call("weights_info", object{"tinker_path": path})
	if info["base_model"] != "tiny" || info["lora_rank"] != 2.0 || info["is_lora"] != true || info["train_unembed"] != true {
		t.Errorf("%v", info)
	}
	if s := c.sampled(object{"model_path": path}); len(s.Sequences) != 1 {
		t.Errorf("%+v", s)
	}
}

// slow is a trainer that saves when it is told to.
type slow struct {
	engine.Discarder
	saves, goOn chan struct{}
}

func (s *slow) SaveModel(ctx context.Context, dir string) error {
	s.saves <- struct{}{}
	<-s.goOn
	return s.Discarder.SaveModel(ctx, dir)
}

// What changes a checkpoint while it is overwritten changes the new one, or the old one, and mixes nothing of both.
func TestChangesWaitForACheckpointThatIsWritten(t *testing.T) {
	saves, goOn := make(chan struct{}), make(chan struct{}, 1)
	c := serve(t, func(o *Options) {
		open := o.Bases[0].Open
		o.Bases[0].Open = func(ctx context.Context, lora *engine.LoRASpec, seed uint64) (engine.Trainer, error) {
			trainer, err := open(ctx, lora, seed)
			if err != nil {
				return nil, err
			}
			return &slow{trainer.(engine.Discarder), saves, goOn}, nil
		}
	})
	id := c.model(0)
	save := func(seq int) object {
		return c.call("save_weights", object{"model_id": id, "seq_id": seq, "path": "x", "overwrite": true, "type": "save_weights"})
	}
	old := save(1)
	<-saves
	goOn <- struct{}{}
	c.must(old)
	saved := save(2)
	<-saves
	path := "training_runs/" + id + "/checkpoints/weights/x/publish"
	published := make(chan int)
	go func() {
		status, _ := c.do("POST", path, nil)
		published <- status
	}()
	select {
	case <-published:
		t.Error("it was published while it was written")
		goOn <- struct{}{}
	case <-time.After(100 * time.Millisecond):
		goOn <- struct{}{}
		if status := <-published; status != http.StatusOK {
			t.Error(status)
		}
	}
	c.must(saved)
	x, err := c.server.all.store.find(tinker.Path{Run: id, Kind: tinker.Weights, Name: "x"})
	if err != nil || !x.Public || x.Written != futureID(id, 2) {
		t.Errorf("%+v, %v", x, err)
	}
	if n := len(c.server.all.store.changes.all); n != 0 {
		t.Errorf("%d locks are left", n)
	}
}

// A checkpoint that has expired, and was overwritten since, stays.
func TestWhatWasOverwrittenDoesNotExpire(t *testing.T) {
	c := serve(t, nil)
	id := c.model(0)
	c.save(id, 1, "save_weights", "x", object{"ttl_seconds": leastTTL})
	s := c.server.all.store
	later := time.Now().Add(2 * leastTTL * time.Second)
	p := tinker.Path{Run: id, Kind: tinker.Weights, Name: "x"}
	free := s.changes.take(s.dirOf(p))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.expire(later, func(string) {})
	}()
	time.Sleep(50 * time.Millisecond) // it has listed the checkpoint
	x, err := s.find(p)
	if err != nil {
		t.Fatal(err)
	}
	x.Expires = nil
	if err := x.describe(x.dir); err != nil {
		t.Fatal(err)
	}
	free()
	<-ended
	if _, err := s.find(p); err != nil {
		t.Error(err)
	}
}
