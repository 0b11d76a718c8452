package run_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/trinitytest/server"
)

// Each lie about a delivery is found by one layer, before anything is sampled with the version: the
// transfer by its digests, its phases by their time, and what is left by the probe.
func TestLiesAboutADelivery(t *testing.T) {
	directory := server.Options{Vocab: servedVocab, MaxLen: servedLen, Develops: true}
	fetching := directory
	fetching.Fetches = true
	for _, c := range []struct {
		name    string
		options server.Options
		lie     server.Lie
		want    string
	}{
		{"a directory", directory, server.RefusesWeights, "loading version 2 from"},
		{"a directory", directory, server.OldWeights, "version 2, delivered 3 times: probe: it still has version 1"},
		{"a directory", directory, server.OneShort, "version 2, delivered 3 times: probe: its log-probabilities are"},
		{"a directory", directory, server.KeepsCache, "it did not drop what the old weights have computed"},
		{"a transfer", fetching, server.DamagesFiles, "update_weights: 500"},
		{"a transfer", fetching, server.StallsStart, "start_weight_update: "},
		{"a transfer", fetching, server.StallsUpdate, "update_weights: "},
		{"a transfer", fetching, server.StallsFinish, "finish_weight_update: "},
		{"a transfer", fetching, server.DoesNothing, "version 2, delivered 3 times: probe: it still has version 1"},
		{"a transfer", fetching, server.OldWeights, "version 2, delivered 3 times: probe: it still has version 1"},
		{"a transfer", fetching, server.OneShort, "version 2, delivered 3 times: probe: its log-probabilities are"},
	} {
		t.Run(c.name+" that "+string(c.lie), func(t *testing.T) {
			t.Parallel()
			p := newProject(t, tiny, rl)
			fake := server.VLLM(t, p.inServer(t, 99), c.options)
			loads := 0
			fake.Open = p.scoring(0, func() {
				if loads++; loads == 2 {
					fake.Tell(c.lie)
				}
			})
			_, err := p.run(t, "explorer.rollout_model.engine_type=vllm", "explorer.rollout_model.base_urls=["+fake.URL+"]",
				"buffer.total_steps=3", "explorer.rollout_model.engine_args={load_timeout: 10}", "explorer.max_timeout=5")
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if strings.HasPrefix(string(c.lie), "never ends") && !strings.Contains(err.Error(), "load_timeout of 10s passed") {
				t.Errorf("got %v, want load_timeout", err)
			}
		})
	}
}

// A server without the disk of the run fetches each version, and samples with it.
func TestServerThatFetchesVersions(t *testing.T) {
	p := newProject(t, tiny, rl)
	options := server.Options{Vocab: servedVocab, MaxLen: servedLen, Develops: true, Fetches: true, CPU: true}
	fake := server.VLLM(t, p.inServer(t, 99), options)
	fake.Open = p.scoring(0, func() {})
	_, err := p.run(t, "explorer.rollout_model.engine_type=vllm", "explorer.rollout_model.base_urls=["+fake.URL+"]", "buffer.total_steps=3")
	if err != nil {
		t.Fatal(err)
	}
	if got := curve(t, p.job(), "synchronizer", "sync/probe_mean"); len(got) != 4 || slices.Max(got) > 1e-5 || len(fake.Loads()) != 4 {
		t.Errorf("the probe found differences of %v nats in the versions %v", got, fake.Loads())
	}
}

// With verify full, servers with the same tensors must have the same digests. What the probe cannot see
// is an error that names the tensor. A server that tells digests of nothing, or none, covers less.
func TestDigestsOfServers(t *testing.T) {
	options := server.Options{Vocab: servedVocab, MaxLen: servedLen, Develops: true}
	packed := options
	packed.CPU, packed.Fetches = true, true
	vllm := func(o server.Options) func(*testing.T, project) *server.Fake {
		return func(t *testing.T, p project) *server.Fake { return server.VLLM(t, p.inServer(t, 99), o) }
	}
	sglang := func(t *testing.T, p project) *server.Fake { return server.SGLang(t, p.inServer(t, 99), options) }
	for _, c := range []struct {
		name, engine, verify string
		start                func(*testing.T, project) *server.Fake
		lie                  server.Lie
		covered              []float64
		want                 string
	}{
		{"two that agree", "vllm", "full", vllm(options), "", []float64{1, 1}, ""},
		{"two of SGLang", "sglang", "full", sglang, "", []float64{1, 1}, ""},
		{"packed matrices", "vllm", "full", vllm(packed), "", []float64{0.2, 0.2}, ""},
		{"one with another bit", "vllm", "full", vllm(options), server.OtherBit, nil, "mlp.down_proj.weight of version 0 differs from that of"},
		{"one with another bit that nobody looks for", "vllm", "probe", vllm(options), server.OtherBit, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newProject(t, tiny, rl)
			one, other := c.start(t, p), c.start(t, p)
			one.Open, other.Open = p.scoring(0, func() {}), p.scoring(0, func() { one.Tell(c.lie) })
			_, err := p.run(t, "explorer.rollout_model.engine_type="+c.engine, "explorer.rollout_model.base_urls=["+one.URL+","+other.URL+"]",
				"buffer.total_steps=3", "synchronizer.verify="+c.verify, "synchronizer.verify_interval=2")
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			got := curve(t, p.job(), "synchronizer", "sync/digests_covered")
			if c.want == "" && !slices.EqualFunc(got, c.covered, func(a, b float64) bool { return math.Abs(a-b) < 0.1 }) {
				t.Errorf("covered %v, want %v", got, c.covered)
			}
		})
	}
}

// The run is killed at each point of a delivery, and resumes: the trainer trains once on every experience
// that the buffer acknowledged. A kill while the server fetches files leaves it paused, in an update.
func TestKilledInADelivery(t *testing.T) {
	s := newKilling(t, scenario{"behind a server", []string{"synchronizer.sync_offset=1"}, (*killing).eachOnce}, 400)
	fake := server.VLLM(t, s.p.inServer(t, 99), server.Options{Vocab: servedVocab, MaxLen: servedLen, Develops: true, Fetches: true})
	fake.Open = s.p.scoring(0, func() {})
	s.overrides = append(s.overrides, "explorer.rollout_model.engine_type=vllm", "explorer.rollout_model.base_urls=["+fake.URL+"]",
		"explorer.rollout_model.engine_args={start_timeout: 5}")
	points := []string{"served.file", "synchronizer.offer", "served.load", "served.loaded", "synchronizer.adopt"}
	if testing.Short() {
		points = points[:1]
	}
	for _, point := range points {
		s.once(t, point+"=kill@3")
	}
	s.finish(t)
	if s.kills < len(points) {
		t.Errorf("%d kills at %v", s.kills, points)
	}
}
