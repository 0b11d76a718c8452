package served_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/engine/served"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest/server"
)

// bucket is a limit at which the tiny model goes in several buckets.
const bucket = 40000

// receiving starts a server with two ranks that takes tensors.
func receiving(t *testing.T, kind string) *server.Fake {
	t.Helper()
	o := server.Options{Vocab: vocab, MaxLen: 32, Develops: true, Fetches: true, CPU: true}
	start := server.VLLM
	if kind == "sglang" {
		start = server.SGLang
	}
	f := start(t, own(t), o)
	f.Base, f.Ranks = tiny, 2
	return f
}

// sender is an engine with the tiny model whose weights have been offered.
func sender(t *testing.T) *server.Sender {
	t.Helper()
	opener, err := registry.Trainers.Build("cpu", nil)
	if err != nil {
		t.Fatal(err)
	}
	trainer, err := opener.OpenTrainer(t.Context(), engine.TrainerSpec{ModelPath: tiny, MicroTokens: 64, MaxModelLen: 32, Train: true})
	if err != nil {
		t.Fatal(err)
	}
	s := server.NewSender(trainer.(engine.Publisher), filepath.Join(t.TempDir(), "version"))
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := s.Offer(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	return s
}

// handing opens a sampler whose servers get the sender's weights.
func handing(t *testing.T, kind string, from engine.WeightSender, phase time.Duration, fakes ...*server.Fake) engine.WeightReceiver {
	t.Helper()
	var urls []string
	for _, f := range fakes {
		urls = append(urls, f.URL)
	}
	with := spec(urls...)
	with.Patience = 2 * time.Second
	s := served.Hasten(must(t, kind, with))
	served.Limit(s, phase, bucket)
	r := s.(engine.WeightReceiver)
	if err := r.Receives(t.Context(), from); err != nil {
		t.Fatal(err)
	}
	return r
}

func sample(t *testing.T, s trinity.Sampler) trinity.Completion {
	t.Helper()
	out, err := s.Sample(t.Context(), trinity.Prompt{Tokens: []int32{1, 2}}, trinity.SamplingParams{MaxTokens: 2, Temperature: 1})
	if err != nil {
		t.Fatal(err)
	}
	return out[0]
}

// Servers get a version without files, each over a group of its own, and again when they have restarted.
func TestServersGetWeightsFromTheTrainer(t *testing.T) {
	for _, kind := range []string{"vllm", "sglang"} {
		t.Run(kind, func(t *testing.T) {
			from, fakes := sender(t), []*server.Fake{receiving(t, kind), receiving(t, kind)}
			r := handing(t, kind, from, time.Minute, fakes...)
			for version := range int64(2) {
				if err := r.ReceiveWeights(t.Context(), from, version); err != nil {
					t.Fatal(err)
				}
				if got := sample(t, r).Versions; got != [2]int64{version, version} {
					t.Errorf("sampled with versions %v, want %d", got, version)
				}
			}
			fakes[0].Tell(server.Unavailable)
			if _, err := r.Sample(t.Context(), trinity.Prompt{Tokens: []int32{3}}, trinity.SamplingParams{N: 8, MaxTokens: 3}); err != nil {
				t.Fatal(err)
			}
			fakes[0].Tell(server.Restarted)
			fakes[1].Tell(server.Unavailable)
			if got := sample(t, r).Versions; got != [2]int64{1, 1} || len(fakes[0].Loads()) != 3 {
				t.Errorf("after a restart: versions %v, loads %v", got, fakes[0].Loads())
			}
			groups := map[string]bool{}
			for _, c := range from.Channels {
				groups[c.Group] = true
				if c.Transport != "gloo" || c.Ranks != 2 || c.DType != "float32" || c.Peer != "127.0.0.1" || c.Announced != (kind == "vllm") {
					t.Errorf("opened %+v", c)
				}
			}
			if len(groups) != 5 {
				t.Errorf("%d groups for 5 deliveries", len(groups))
			}
		})
	}
}

// Whatever goes wrong in a phase, the error says in which, the server is not left paused, and gets the
// next version.
func TestHandoversThatFail(t *testing.T) {
	const soon = time.Second // within which the phases before the one that stalls end
	for _, c := range []struct {
		kind  string
		lie   server.Lie // of the server or the sender
		phase time.Duration
		want  string
	}{
		{"vllm", server.StallsInit, soon, "joining the trainer has not ended within 1s; 2 ranks of the server have not come"},
		{"vllm", server.RankMissing, soon, "1 ranks of the server have not come"},
		{"vllm", server.StallsStart, soon, "beginning the update has not ended within 1s"},
		{"vllm", server.StallsUpdate, soon, "bucket 1 of 2 has not ended within 1s"},
		{"vllm", server.StallsFinish, soon, "ending the update has not ended within 1s"},
		{"vllm", server.DiesLoading, time.Minute, "bucket 1 of 2: "},
		{"vllm", server.RefusesWeights, time.Minute, "ending the update: finish_weight_update: "},
		{"vllm", server.WrongShape, time.Minute, "comparing the tensors: init_weight_transfer_engine: "},
		{"vllm", server.NeverJoins, soon, "the sender has no port left"},
		{"vllm", server.DiesSending, soon, "the worker has ended"},
		{"sglang", server.StallsInit, soon, "joining the trainer has not ended within 1s"},
		{"sglang", server.RankMissing, soon, "1 ranks of the server have not come"},
		{"sglang", server.StallsUpdate, soon, "bucket 1 of 2 has not ended within 1s"},
		{"sglang", server.StallsFinish, soon, "leaving the trainer has not ended within 1s"},
		{"sglang", server.DiesLoading, time.Minute, "bucket 1 of 2: "},
		{"sglang", server.RefusesWeights, time.Minute, "bucket 2 of 2: no safetensors"},
		{"sglang", server.DiesSending, soon, "the worker has ended"},
	} {
		t.Run(c.kind+" "+string(c.lie), func(t *testing.T) {
			t.Parallel()
			from, fake := sender(t), receiving(t, c.kind)
			r := handing(t, c.kind, from, c.phase, fake)
			fake.Tell(c.lie)
			from.Tell(c.lie)
			err := r.ReceiveWeights(t.Context(), from, 1)
			if err == nil || !strings.Contains(err.Error(), "loading version 1 from the trainer: ") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
			if lost := (*trinity.LostError)(nil); c.lie == server.DiesSending && !errors.As(err, &lost) {
				t.Errorf("the run cannot tell that the trainer's worker is lost: %v", err)
			}
			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("an error of several lines: %q", err)
			}
			fake.Tell("")
			from.Tell("")
			served.Limit(r, time.Minute, bucket)
			if err := r.ReceiveWeights(t.Context(), from, 2); err != nil {
				t.Fatal(err)
			}
			if got := sample(t, r).Versions; got != [2]int64{2, 2} {
				t.Errorf("sampled with versions %v, loads %v", got, fake.Loads())
			}
		})
	}
}

// A server of another model is found out before anything of it changes, and before anybody waits.
func TestTensorsAreComparedFirst(t *testing.T) {
	from, fake := sender(t), receiving(t, "vllm")
	r := handing(t, "vllm", from, time.Hour, fake)
	from.Tell(server.WrongShape)
	if err := r.ReceiveWeights(t.Context(), from, 1); err == nil || !strings.Contains(err.Error(), "another model") || len(fake.Loads()) != 0 {
		t.Errorf("error %v, loaded %v", err, fake.Loads())
	}
}

// gpus is a sender on GPUs.
type gpus struct{ engine.WeightSender }

func (gpus) Device() string { return "cuda" }

// Servers that cannot take tensors say why before the first version.
func TestServersThatTakeNoTensors(t *testing.T) {
	o := server.Options{Vocab: vocab, MaxLen: 32}
	developing, lora := o, o
	developing.Develops = true
	lora.Develops, lora.Fetches, lora.LoRA = true, true, true
	for _, c := range []struct {
		kind, want string
		fake       *server.Fake
		adapter    bool
	}{
		{"llama_server", "takes weights from files alone", server.LlamaServer(t, own(t), o), false},
		{"vllm", "VLLM_SERVER_DEV_MODE=1", server.VLLM(t, own(t), o), false},
		{"vllm", "install trinity_worker beside vLLM", server.VLLM(t, own(t), developing), false},
		{"vllm", "a server reads an adapter from files", server.VLLM(t, own(t), lora), true},
	} {
		with := spec(c.fake.URL)
		if c.adapter {
			with.LoRA = &engine.LoRASpec{LoraRank: 4, TargetModules: engine.Names{"q_proj"}}
		}
		err := must(t, c.kind, with).(engine.WeightReceiver).Receives(t.Context(), sender(t))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.kind, err, c.want)
		}
	}
	fake := receiving(t, "vllm")
	r := must(t, "vllm", spec(fake.URL)).(engine.WeightReceiver)
	if err := r.Receives(t.Context(), gpus{sender(t)}); err != nil {
		t.Errorf("from a GPU to a CPU: %v", err)
	}
	fake.Tell(server.Hangs)
	served.Limit(r.(trinity.Sampler), 20*time.Millisecond, bucket)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Second, errors.New("the test has given up"))
	defer cancel()
	err := r.Receives(ctx, sender(t))
	if err == nil || !strings.HasSuffix(err.Error(), fake.URL+": it has not said within 20ms how it takes weights") {
		t.Errorf("a silent server: %v", err)
	}
}
