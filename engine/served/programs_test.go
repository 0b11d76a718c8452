package served_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/model"
)

// programs is an opener that says what it starts.
type programs interface {
	Programs(engine.SamplerSpec) []engine.Program
}

// programCase is a specification, and what the command of its servers has and lacks.
type programCase struct {
	name      string
	change    func(*engine.SamplerSpec)
	has, lack []string
	env       map[string]string
}

func TestVLLMProgram(t *testing.T) {
	const always = "--logprobs-mode processed_logprobs --generation-config vllm --seed 5 --dtype bfloat16 --tensor-parallel-size"
	testPrograms(t, "vllm", "VLLM_API_KEY", []programCase{
		{"CPU", func(*engine.SamplerSpec) {}, []string{
			"-m trinity_worker.vllm_server --model /", "--host {host} --port {port}", always + " 1", "--pipeline-parallel-size 1",
			"--data-parallel-size 1", "--max-model-len 32", "--no-enable-chunked-prefill --max-num-batched-tokens 8192",
			"--no-enable-prefix-caching",
		}, []string{"--gpu-memory-utilization", "--enable-lora", "--weight-transfer-config", "--enforce-eager", "--enable-expert-parallel",
			"--enable-sleep-mode"},
			map[string]string{"VLLM_CPU_KVCACHE_SPACE": "2", "VLLM_SERVER_DEV_MODE": "1", "VLLM_ALLOW_RUNTIME_LORA_UPDATING": ""}},
		{"GPUs", func(s *engine.SamplerSpec) {
			s.Start.Place.GPUs, s.Start.MemoryShare, s.Start.ChunkedPrefill, s.Start.PrefixCaching = 4, 0.75, true, true
			s.Start.TensorParallel, s.Start.PipelineParallel, s.Start.DataParallel = 2, 2, 3
			s.Start.Eager, s.Start.ExpertParallel, s.MaxModelLen = true, true, 0
		}, []string{
			always + " 2 --pipeline-parallel-size 2 --data-parallel-size 3 --gpu-memory-utilization 0.75 --enable-chunked-prefill " +
				"--enable-prefix-caching --enforce-eager --enable-expert-parallel",
		}, []string{"--max-model-len", "--max-num-batched-tokens"}, map[string]string{"VLLM_CPU_KVCACHE_SPACE": ""}},
		{"colocate", func(s *engine.SamplerSpec) { s.Start.Place = engine.Place{GPUs: 1, Beside: "trainer"} },
			[]string{"--enable-sleep-mode"}, nil, nil},
		{"weights", func(s *engine.SamplerSpec) { s.Follows = true },
			[]string{`--weight-transfer-config {"backend": "trinity_files"}`}, []string{"--enable-lora"}, nil},
		{"LoRA", func(s *engine.SamplerSpec) { s.Follows, s.LoRA = true, &engine.LoRASpec{LoraRank: 9} },
			[]string{"--enable-lora --max-loras 2 --max-lora-rank 16"}, []string{"--weight-transfer-config", "--enable-mixed-moe-lora-format"},
			map[string]string{"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1"}},
		{"adapters", func(s *engine.SamplerSpec) { s.LoRA, s.Adapters = &engine.LoRASpec{LoraRank: 2}, []string{adapter} },
			[]string{"--enable-lora --max-loras 3 --max-lora-rank 8"}, nil, nil},
		{"adapters to come", func(s *engine.SamplerSpec) { s.LoRA, s.Slots = &engine.LoRASpec{LoraRank: 2}, 6 },
			[]string{"--enable-lora --max-loras 8 --max-lora-rank 8"}, nil, nil},
		{"a saved adapter", func(s *engine.SamplerSpec) { s.LoRA = &engine.LoRASpec{Path: adapter, LoraRank: 32} },
			[]string{"--enable-lora --max-loras 2 --max-lora-rank 8"}, nil, nil},
		{"an adapter of experts", func(s *engine.SamplerSpec) { s.LoRA = &engine.LoRASpec{LoraRank: 2, TargetParameters: ofExperts} },
			[]string{"--max-lora-rank 8 --enable-mixed-moe-lora-format"}, nil, nil},
		{"extra_engine_args", func(s *engine.SamplerSpec) {
			s.Start.Extra = map[string]any{
				"yes": true, "no_way": false, "a_text": "x y", "int": 3, "float": 0.5, "list": []any{1, "b"}, "map": map[string]any{"k": 1},
			}
		}, []string{`--a-text x y --float 0.5 --int 3 --list [1,"b"] --map {"k":1} --no-no-way --yes`}, nil, nil},
	})
}

func TestSGLangProgram(t *testing.T) {
	const always = "--random-seed 5 --dtype bfloat16 --tensor-parallel-size"
	testPrograms(t, "sglang", "SGLANG_API_KEY", []programCase{
		{"CPU", func(*engine.SamplerSpec) {}, []string{
			"-m trinity_worker.sglang_server --model-path /", "--host {host} --port {port}", always + " 1 --pipeline-parallel-size 1 " +
				"--data-parallel-size 1 --context-length 32 --device cpu --disable-overlap-schedule --chunked-prefill-size -1 --disable-radix-cache",
		}, []string{
			"--mem-fraction-static", "--enable-deterministic-inference", "--enable-lora", "--disable-cuda-graph", "--expert-parallel-size",
			"--enable-memory-saver",
		}, map[string]string{"SGLANG_USE_CPU_ENGINE": "1", "HF_HUB_OFFLINE": "1"}},
		{"GPUs", func(s *engine.SamplerSpec) {
			s.Start.Place.GPUs, s.Start.MemoryShare, s.Start.ChunkedPrefill, s.Start.PrefixCaching = 4, 0.75, true, true
			s.Start.TensorParallel, s.Start.PipelineParallel, s.Start.DataParallel = 2, 2, 3
			s.Start.Eager, s.Start.ExpertParallel, s.MaxModelLen = true, true, 0
		}, []string{
			always + " 2 --pipeline-parallel-size 2 --data-parallel-size 3 --mem-fraction-static 0.75 --enable-deterministic-inference " +
				"--disable-cuda-graph --expert-parallel-size 2",
		}, []string{"--context-length", "--device", "--chunked-prefill-size", "--disable-radix-cache"},
			map[string]string{"SGLANG_USE_CPU_ENGINE": ""}},
		{"beside the trainer", func(s *engine.SamplerSpec) { s.Start.Place.GPUs, s.Start.Place.Beside = 1, "trainer" },
			[]string{"--enable-memory-saver --enable-weights-cpu-backup"}, nil, nil},
		{"LoRA", func(s *engine.SamplerSpec) { s.Follows, s.LoRA = true, &engine.LoRASpec{LoraRank: 9} },
			[]string{"--enable-lora --max-lora-rank 9 --lora-target-modules all --max-loras-per-batch 3"}, nil, nil},
		{"adapters to come", func(s *engine.SamplerSpec) { s.LoRA, s.Slots = &engine.LoRASpec{LoraRank: 2}, 6 },
			[]string{"--max-loras-per-batch 9"}, nil, nil},
		{"extra_engine_args", func(s *engine.SamplerSpec) {
			s.Start.Extra = map[string]any{"yes": true, "no_way": false, "int": 3}
		}, []string{"--int 3 --yes"}, []string{"way"}, nil},
	})
}

// A plan has the memory of a GPU of the servers that the run starts, and says what is not in bytes.
func TestMemoryOfServers(t *testing.T) {
	cfg, err := model.ReadConfig(tiny)
	if err != nil {
		t.Fatal(err)
	}
	numbers := cfg.Parameters()
	for _, c := range []struct {
		name   string
		change func(*engine.SamplerSpec)
		bytes  int64
		why    string
	}{
		{"one GPU", func(*engine.SamplerSpec) {}, 2 * numbers,
			"bfloat16, cut into 1; servers: 2, each fills its GPUs to gpu_memory_utilization 0.9"},
		{"float32", func(s *engine.SamplerSpec) { s.Start.DType = "float32" }, 4 * numbers, "float32"},
		{"parallel", func(s *engine.SamplerSpec) {
			s.Start.TensorParallel, s.Start.PipelineParallel, s.Start.DataParallel = 2, 2, 2
		}, (2*numbers + 3) / 4, "cut into 4"},
		{"colocate", func(s *engine.SamplerSpec) { s.Start.Place.Beside = "trainer" }, 2 * numbers, "gives them up while the trainer computes"},
		{"CPU", func(s *engine.SamplerSpec) { s.Start.Place.GPUs = 0 }, 0, ""},
		{"run already", func(s *engine.SamplerSpec) { s.Servers = []string{"http://a"} }, 0, ""},
	} {
		for _, plugin := range []string{"vllm", "sglang"} {
			s := spec()
			s.Start, s.Start.Place.GPUs = engine.ServerSpec{Engines: 2, DType: "bfloat16", MemoryShare: 0.9}, 1
			c.change(&s)
			parts, err := build(t, plugin, nil).PlanMemory(s)
			if err != nil || parts == nil {
				t.Fatalf("%s: %v, %v", c.name, parts, err)
			}
			if c.bytes == 0 && len(parts) > 0 || c.bytes > 0 && (len(parts) != 1 || parts[0].Bytes != c.bytes ||
				parts[0].Device != "server GPU" || !strings.Contains(parts[0].Why, c.why)) {
				t.Errorf("%s, %s: %+v, want %d bytes, %q", plugin, c.name, parts, c.bytes, c.why)
			}
		}
	}
}

// testPrograms checks the servers that a plug-in starts. key is the variable with their key.
func testPrograms(t *testing.T, plugin, key string, cases []programCase) {
	t.Helper()
	for _, c := range cases {
		s := spec()
		s.Start = engine.ServerSpec{Engines: 2, DType: "bfloat16", Seed: 5}
		c.change(&s)
		all := build(t, plugin, map[string]any{
			"python": "/python", "env": map[string]any{"MINE": "secret", "DO_NOT_TRACK": "0"},
		}).(programs).Programs(s)
		if len(all) != 2 {
			t.Fatalf("%s: %d programs", c.name, len(all))
		}
		for i, p := range all {
			line := strings.Join(p.Command, " ")
			for _, part := range c.has {
				if !strings.Contains(line, part) {
					t.Errorf("%s: %q lacks %q", c.name, line, part)
				}
			}
			for _, part := range c.lack {
				if strings.Contains(line, part) {
					t.Errorf("%s: %q has %q", c.name, line, part)
				}
			}
			for name, want := range c.env {
				if p.Env[name] != want {
					t.Errorf("%s: %s is %q, want %q", c.name, name, p.Env[name], want)
				}
			}
			secret := p.Secret[key]
			if secret == "" || secret != all[0].Secret[key] || strings.Contains(line+fmt.Sprint(p.Env), secret) {
				t.Errorf("%s: the key %q is none, not that of all, or stands where others read it: %s %v", c.name, secret, line, p.Env)
			}
			if p.Name != fmt.Sprint("rollout-", i) || p.Command[0] != "/python" || p.GPUs != s.Start.Place.GPUs ||
				p.Secret["MINE"] != "secret" ||
				p.Secret["DO_NOT_TRACK"] != "0" || p.Env["DO_NOT_TRACK"] != "" || p.Env["MINE"] != "" || p.Answers != "/health" ||
				p.Beside != s.Start.Place.Beside || !strings.Contains(p.Hint, p.Modules[0]) {
				t.Errorf("%s: %+v", c.name, p)
			}
		}
	}
	if all := build(t, plugin, nil).(programs).Programs(spec("http://a:8000")); all != nil {
		t.Errorf("base_urls starts %v", all)
	}
}
