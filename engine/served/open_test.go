package served_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/engine/served"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/trinitytest/server"
	"github.com/trinity-go/trinity/weights"
)

// starts are the fakes by the name of their plug-in.
var starts = map[string]func(server.Host, trinity.Sampler, server.Options) *server.Fake{
	"vllm": server.VLLM, "sglang": server.SGLang, "llama_server": server.LlamaServer,
}

const adapter = "../cpu/internal/sampler/testdata/adapters/plain" // of rank 4

// A server with another tokenizer, a shorter length or too small adapters is refused in one line when it
// is opened.
func TestServersThatDoNotFit(t *testing.T) {
	bytes := func(text string) (ids []int32) {
		for _, b := range []byte(text) {
			ids = append(ids, int32(b))
		}
		return ids
	}
	odd := func(text string) []int32 {
		if strings.Contains(text, "你") {
			return bytes(text)[1:]
		}
		return bytes(text)
	}
	with := func(change func(*server.Options)) server.Options {
		o := server.Options{Vocab: vocab, MaxLen: 32, Develops: true, LoRA: true, MaxRank: 8, Encode: bytes}
		change(&o)
		return o
	}
	const all, train = "vllm sglang llama_server", "vllm sglang"
	for _, c := range []struct {
		name    string
		options server.Options
		plugins string
		want    string // "" is opened
		said    string
	}{
		{"all fits", with(func(*server.Options) {}), all, "", ""},
		{"tokenizer", with(func(o *server.Options) { o.Encode = odd }), all, `another tokenizer than model.model_path: "你好，`, ""},
		{"no tokenizer", with(func(o *server.Options) { o.Encode = nil }), all, "", "encodes no texts (/tokenize)"},
		{"length", with(func(o *server.Options) { o.MaxLen = 16 }), all,
			"takes 16 tokens, fewer than model.max_model_len 32", ""},
		{"rank", with(func(o *server.Options) { o.MaxRank = 2 }), train, "takes adapters of rank 2 at most, and one of", ""},
		{"rank not told", with(func(o *server.Options) { o.Develops, o.MaxRank = false, 0 }), train, "", ""},
		{"no adapters", with(func(o *server.Options) { o.LoRA = false }), train, "takes no adapters: start it with --enable-lora", ""},
	} {
		for plugin := range strings.FieldsSeq(c.plugins) {
			said := ""
			s := spec(starts[plugin](t, own(t), c.options).URL)
			s.Tokens, s.Say = bytes, func(line string) { said += line }
			if plugin != "llama_server" {
				s.LoRA = &engine.LoRASpec{LoraRank: 4}
			}
			_, err := open(t, plugin, s, nil)
			text := fmt.Sprint(err)
			if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(text, c.want) || strings.Contains(text, "\n") ||
				!strings.Contains(text, s.Servers[0])) || said == "" != (c.said == "") || !strings.Contains(said, c.said) {
				t.Errorf("%s: %s: %v, want one line with %q and the address; said %q", plugin, c.name, err, c.want, said)
			}
		}
	}
}

// The rank of an adapter that lies in a directory is that of its file.
func TestRankOfASavedAdapter(t *testing.T) {
	for rank, want := range map[int]string{2: "takes adapters of rank 2 at most, and one of model.lora_configs has rank 4", 4: ""} {
		for _, plugin := range []string{"vllm", "sglang"} {
			o := server.Options{Vocab: vocab, MaxLen: 32, LoRA: true, MaxRank: rank, Develops: true}
			s := spec(starts[plugin](t, own(t), o).URL)
			s.LoRA = &engine.LoRASpec{Path: adapter, LoraRank: 42}
			_, err := open(t, plugin, s, nil)
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s: %v, want %q", plugin, err, want)
			}
		}
	}
}

// Adapters of the output head are refused: by their names, and in a directory.
func TestAdaptersOfTheHeadAreRefused(t *testing.T) {
	for _, lora := range []*engine.LoRASpec{
		{LoraRank: 4, TargetModules: engine.Names{"all-linear", "lm_head"}}, {Path: "../cpu/internal/sampler/testdata/adapters/head"},
	} {
		for _, plugin := range []string{"vllm", "sglang"} {
			s := spec(starts[plugin](t, own(t), server.Options{Vocab: vocab, MaxLen: 32, LoRA: true}).URL)
			s.LoRA = lora
			if _, err := open(t, plugin, s, nil); err == nil || !strings.Contains(err.Error(), ofHead) {
				t.Errorf("%s, %+v: %v", plugin, lora, err)
			}
		}
	}
	const set = "model.lora_configs=[{target_modules: [q_proj, lm_head]}]"
	_, err := config.Parse("run.yaml", []byte(training), config.Options{Overrides: []string{set}})
	if err == nil || !strings.Contains(err.Error(), "model.lora_configs.0.target_modules") || !strings.Contains(err.Error(), ofHead) {
		t.Errorf("error is %v", err)
	}
}

const ofHead = "an adapter of the output head (lm_head)"

// A server that has restarted knows no adapter: it gets the newest one again, the request is answered, and
// later versions arrive. Whether a request or the next version meets the restart first makes no difference.
func TestAdapterAfterARestart(t *testing.T) {
	for _, plugin := range []string{"vllm", "sglang"} {
		for _, c := range []struct{ byTokens, asked, two, beside bool }{
			{asked: true}, {asked: true, byTokens: true}, {}, {asked: true, two: true}, {two: true, byTokens: true},
			{asked: true, beside: true}, {beside: true, two: true},
		} {
			options := server.Options{Vocab: vocab, MaxLen: 32, LoRA: true, Tokens: c.byTokens}
			fakes := []*server.Fake{starts[plugin](t, own(t), options)}
			urls := []string{fakes[0].URL}
			if c.two {
				fakes = append(fakes, starts[plugin](t, own(t), options))
				urls = append(urls, fakes[1].URL)
			}
			with := spec(urls...)
			with.LoRA, with.Follows = &engine.LoRASpec{LoraRank: 4}, true
			with.Adapters = map[bool][]string{true: {adapter}}[c.beside]
			s := served.Hasten(must(t, plugin, with))
			load := func(version int64) {
				t.Helper()
				if err := s.(weights.Loader).LoadWeights(t.Context(), adapter, version); err != nil {
					t.Fatalf("%s %+v: version %d: %v", plugin, c, version, err)
				}
			}
			ask := func(want int64) {
				t.Helper()
				out, err := s.Sample(t.Context(), trinity.Prompt{Tokens: []int32{3}}, trinity.SamplingParams{N: 4, MaxTokens: 3})
				if err != nil || out[0].Versions != [2]int64{want, want} {
					t.Errorf("%s %+v: %+v, %v, want version %d", plugin, c, out, err, want)
				}
			}
			others := 0
			if c.beside {
				others = 1
				if err := s.(engine.AdapterLoader).LoadAdapter(t.Context(), "b", adapter, 0); err != nil {
					t.Fatal(err)
				}
			}
			next := int64(0)
			for ; next < 3; next++ {
				load(next)
			}
			for range 2 { // restarts
				for _, fake := range fakes {
					if n := len(fake.Adapters()); n != 2+others {
						t.Errorf("%s %+v: a server has %q, want the newest and the one before", plugin, c, fake.Adapters())
					}
				}
				fakes[0].Tell(server.Restarted)
				fakes[0].Tell("")
				if c.asked {
					for range len(fakes) {
						ask(next - 1)
					}
				}
				for range 3 {
					load(next)
					ask(next)
					next++
				}
			}
			if c.beside {
				fakes[0].Tell(server.Restarted)
				fakes[0].Tell("")
				if err := s.(engine.AdapterLoader).DropAdapter(t.Context(), "b"); err != nil {
					t.Errorf("%s %+v: %v", plugin, c, err)
				}
			}
			closeSampler(t, s)
			for _, fake := range fakes {
				if has := fake.Adapters(); len(has) > 0 {
					t.Errorf("%s %+v: a server still has %q", plugin, c, has)
				}
			}
		}
	}
}

// Adapters that requests name need no policy. A server that has restarted gets them again, and one that is gone has dropped them.
func TestAdaptersWithoutAPolicy(t *testing.T) {
	for _, plugin := range []string{"vllm", "sglang"} {
		fake := starts[plugin](t, own(t), server.Options{Vocab: vocab, MaxLen: 32, LoRA: true})
		with := spec(fake.URL)
		with.LoRA = &engine.LoRASpec{LoraRank: 4}
		s := served.Hasten(must(t, plugin, with))
		l := s.(engine.AdapterLoader)
		if err := errors.Join(l.LoadAdapter(t.Context(), "a", adapter, 1), l.LoadAdapter(t.Context(), "b", adapter, 2)); err != nil {
			t.Fatal(plugin, err)
		}
		ask := func(name string) error {
			_, err := s.Sample(t.Context(), trinity.Prompt{Tokens: []int32{3}}, trinity.SamplingParams{N: 4, MaxTokens: 3, Adapter: name})
			return err
		}
		fake.Tell(server.Restarted)
		fake.Tell("")
		if err := errors.Join(ask("a"), ask("b"), ask(trinity.BaseAdapter)); err != nil || len(fake.Loads()) != 4 {
			t.Errorf("%s: %v; the server was given %q, want each adapter twice", plugin, err, fake.Loads())
		}
		fake.Tell(server.Unavailable)
		if err := l.LoadAdapter(t.Context(), "c", adapter, 3); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: an adapter for a server that is gone: %v", plugin, err)
		}
		if err := l.DropAdapter(t.Context(), "b"); err != nil || !slices.Equal(l.Adapters(), []string{"a"}) {
			t.Errorf("%s: %v, %q are left", plugin, err, l.Adapters())
		}
		fake.Tell(server.Restarted)
		fake.Tell("")
		if err := ask("a"); err != nil || len(fake.Adapters()) != 1 {
			t.Errorf("%s: %v; the server has %q", plugin, err, fake.Adapters())
		}
	}
}

// After a restart, a server gets only the newest adapter, under its own name.
func TestNewestAdapterIsGivenAgain(t *testing.T) {
	for _, plugin := range []string{"vllm", "sglang"} {
		fake := starts[plugin](t, own(t), server.Options{Vocab: vocab, MaxLen: 32, LoRA: true})
		with := spec(fake.URL)
		with.LoRA, with.Follows = &engine.LoRASpec{LoraRank: 4}, true
		s := served.Hasten(must(t, plugin, with))
		for version := range int64(3) {
			if err := s.(weights.Loader).LoadWeights(t.Context(), adapter, version); err != nil {
				t.Fatal(plugin, err)
			}
		}
		fake.Tell(server.Restarted)
		if _, err := s.Sample(t.Context(), trinity.Prompt{Tokens: []int32{3}}, trinity.SamplingParams{MaxTokens: 3}); err != nil {
			t.Error(plugin, err)
		}
		if loads, has := fake.Loads(), fake.Adapters(); len(loads) != 4 || len(has) != 1 || has[0] != loads[2] || loads[3] != loads[2] {
			t.Errorf("%s: the server was given %q and has %q", plugin, loads, has)
		}
	}
}

// All weights are given again, too.
func TestWeightsAfterARestart(t *testing.T) {
	for _, k := range loading {
		fake, other := k.start(t), k.start(t)
		with := spec(fake.URL, other.URL)
		with.Patience = 10 * time.Second
		s := served.Hasten(must(t, k.plugin, with))
		if err := s.(weights.Loader).LoadWeights(t.Context(), tiny, 7); err != nil {
			t.Fatal(k.name, err)
		}
		fake.Tell(server.Unavailable)
		if _, err := s.Sample(t.Context(), trinity.Prompt{Tokens: []int32{3}}, trinity.SamplingParams{N: 8, MaxTokens: 3}); err != nil {
			t.Errorf("%s: %v", k.name, err)
		}
		fake.Tell(server.Restarted)
		other.Tell(server.Unavailable)
		out, err := s.Sample(t.Context(), trinity.Prompt{Tokens: []int32{3}}, trinity.SamplingParams{MaxTokens: 3})
		if err != nil || out[0].Versions != [2]int64{7, 7} || len(fake.Loads()) != 2 {
			t.Errorf("%s: %+v, %v; the server has loaded %q", k.name, out, err, fake.Loads())
		}
	}
}
