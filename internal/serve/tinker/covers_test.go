package tinker

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/model/safetensors"
	"github.com/trinity-go/trinity/internal/wire/tinker"
)

// The adapter has what train_mlp, train_attn and train_unembed say, which are on unless the client says
// otherwise. A checkpoint keeps it, a model of it has it, and a model of another adapter does not take it.
func TestWhatAnAdapterCovers(t *testing.T) {
	c := serve(t, nil)
	paths, ids := map[string]string{}, map[string]string{}
	for i, x := range []struct {
		name    string
		lora    object
		tensors int // of 2 layers
		head    bool
	}{
		{"default", object{"rank": 2}, 2*2*7 + 2, true},
		{"layers", object{"rank": 2, "train_unembed": false}, 2 * 2 * 7, false},
		{"head", object{"rank": 2, "train_mlp": false, "train_attn": false}, 2, true},
		{"perceptron", object{"rank": 2, "train_attn": false}, 2*2*3 + 2, true},
		{"attention", object{"rank": 2, "train_mlp": false, "train_unembed": false}, 2 * 2 * 4, false},
	} {
		id := c.modelOf(i, x.lora)
		c.send(request(id, 1, "cross_entropy", first))
		c.must(c.step(id, 2))
		saved := c.must(c.call("save_weights", object{"model_id": id, "seq_id": 3, "path": x.name, "type": "save_weights"}))
		ids[x.name], paths[x.name] = id, saved["path"].(string)
		at, err := c.server.all.store.readable("", paths[x.name])
		if err != nil {
			t.Fatal(err)
		}
		file, err := safetensors.Open(filepath.Join(at.dir, "adapter_model.safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		b, hasHead := file.Tensor("base_model.model.lm_head.lora_B.weight")
		if len(file.Names()) != x.tensors || hasHead != x.head {
			t.Errorf("%s: %d tensors, want %d: %v", x.name, len(file.Names()), x.tensors, file.Names())
		}
		if hasHead {
			v := make([]float32, b.Len())
			if err := b.Range(v, 0); err != nil || slices.Max(v) == 0 {
				t.Errorf("%s: the head was not trained (%v)", x.name, err)
			}
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		if info := c.call("weights_info", object{"tinker_path": paths[x.name]}); info["train_unembed"] != x.head {
			t.Errorf("%s: %v", x.name, info)
		}
	}
	load := object{"model_id": ids["layers"], "seq_id": 4, "path": paths["default"], "optimizer": true, "type": "load_weights"}
	want := paths["default"] + " is of another adapter: tiny, rank 2, alpha 32, train_mlp true, train_attn true, train_unembed true, " +
		"and this model is tiny, rank 2, alpha 32, train_mlp true, train_attn true, train_unembed false"
	if _, failed := c.result(c.call("load_weights", load)); failed != want {
		t.Error(failed)
	}
	made := c.call("load_weights", object{
		"session_id": c.session, "model_seq_id": 9, "path": paths["default"], "optimizer": true, "type": "load_weights",
	})
	c.must(made)
	resumed := made["model_id"].(string)
	var after []string
	for _, m := range []struct {
		id  string
		seq int32
	}{{ids["default"], 4}, {resumed, 1}} {
		c.send(request(m.id, m.seq, "cross_entropy", second))
		c.must(c.step(m.id, m.seq+1))
		lps, _ := c.output(c.send(request(m.id, m.seq+2, "cross_entropy", first)))
		after = append(after, fmt.Sprint(lps))
	}
	if after[0] != after[1] {
		t.Errorf("straight %s, from the checkpoint %s", after[0], after[1])
	}
	nothing := object{"rank": 2, "train_mlp": false, "train_attn": false, "train_unembed": false}
	body, _ := json.Marshal(object{"session_id": c.session, "model_seq_id": 10, "base_model": "tiny", "lora_config": nothing})
	status, out := c.post("create_model", "application/json", body)
	if status != 400 || !strings.Contains(string(out), "train_mlp, train_attn and train_unembed false there is nothing to train") {
		t.Errorf("%d, %s", status, out)
	}
}

// A token may have several targets, each with a weight. Their log-probabilities come back in the shape of the
// targets, beside data with one target a token.
func TestSeveralTargets(t *testing.T) {
	c := serve(t, nil)
	id := c.model(0)
	n := len(first) - 1
	shaped := func(seq int32, loss string, k int, targets []int32, weights []float32) *tinker.ForwardBackward {
		r := request(id, seq, loss, first)
		r.Data[0].Inputs = []tinker.Named{
			{Name: "target_tokens", Tensor: tinker.NewTokens(targets)}, {Name: "weights", Tensor: tinker.NewFloats(weights)},
		}
		for i := range r.Data[0].Inputs {
			r.Data[0].Inputs[i].Tensor.Shape = []int64{int64(n), int64(k)}
		}
		return r
	}
	var targets []int32
	var weights []float32
	for i := range n {
		targets, weights = append(targets, first[i+1], int32(i), 9), append(weights, 0.5, 0.25, -0.25)
	}
	soft := shaped(1, "cross_entropy", 3, targets, weights)
	soft.Data = append(soft.Data, request(id, 1, "cross_entropy", second).Data...)
	message, failed := c.result(c.send(soft))
	if failed != "" {
		t.Fatal(failed)
	}
	out, err := tinker.DecodeOutput(message)
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Records) != 2 || !slices.Equal(out.Records[0].Fields[0].Trailing, []int64{3}) || out.Records[1].Fields[0].Trailing != nil {
		t.Errorf("%+v", out.Records)
	}
	lps, err := out.Floats("logprobs")
	if err != nil || len(lps) != 2 || len(lps[0]) != 3*n || len(lps[1]) != len(second)-1 {
		t.Fatal(lps, err)
	}
	ofFirst := 0.0
	for i, w := range weights {
		ofFirst -= float64(w) * float64(lps[0][i])
	}
	want := ofFirst
	for _, lp := range lps[1] {
		want -= float64(lp)
	}
	if loss := out.Metrics[0].Value; math.Abs(loss-want) > 1e-4 {
		t.Errorf("the loss is %v, want %v", loss, want)
	}
	c.must(c.step(id, 2))
	again, loss := c.output(c.send(shaped(3, "cross_entropy", 3, targets, weights)))
	if loss >= ofFirst {
		t.Errorf("the loss goes from %v to %v", ofFirst, loss)
	}
	single := request(id, 4, "cross_entropy", first)
	single.ForwardOnly = true
	one, _ := c.output(c.send(single))
	for i, lp := range one[0] {
		if again[0][3*i] != lp {
			t.Errorf("token %d: %v among several, %v alone", i, again[0][3*i], lp)
		}
	}
	transposed := shaped(5, "cross_entropy", 3, targets, weights)
	transposed.Data[0].Inputs[1].Tensor.Shape = []int64{3, int64(n)}
	rl := shaped(6, "ppo", 3, targets, weights)
	rl.Data[0].Inputs[1].Name = "advantages"
	rl.Data[0].Inputs = append(rl.Data[0].Inputs, tinker.Named{Name: "logprobs", Tensor: rl.Data[0].Inputs[1].Tensor})
	for _, bad := range []struct {
		r    *tinker.ForwardBackward
		want string
	}{
		{transposed, `datum 0: loss_fn_inputs: "weights" has shape [3 5], and target_tokens has 3 numbers a token`},
		{rl, "datum 0: loss_fn_inputs: target_tokens has 3 numbers a token: cross_entropy alone takes several"},
	} {
		if _, failed := c.result(c.send(bad.r)); failed != bad.want {
			t.Errorf("%s; want %s", failed, bad.want)
		}
	}
}
