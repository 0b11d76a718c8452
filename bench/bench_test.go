package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string // of the error; "" is none
	}{
		{[]string{"--model", "m"}, ""},
		{[]string{"--model", "m", "--only", "start,grpo_step", "--peers", "none"}, ""},
		{[]string{"--model", "m", "--peers", "vllm,llama.cpp,torch.compile"}, ""},
		{[]string{"--model", "m", "--profile", "train_step_f32,decode_32"}, ""},
		{[]string{"--model", "m", "--python", "p", "--install"}, ""},
		{[]string{"--model", "m", "--only", "decode_3"}, `there is no workload "decode_3": have train_step_f32,`},
		{[]string{"--model", "m", "start"}, `unexpected argument "start"`},
		{[]string{"--model", "m", "--peers", "vllm,tgi"}, `there is no peer "tgi": have ourselves, pytorch,`},
		{[]string{"--model", "m", "--profile", "start"}, "--profile: start is a whole process"},
		{[]string{"--model", "m", "--profile", "prefill", "--only", "prefill"}, "leave out --only"},
		{[]string{"--model", "m", "--runs", "-1"}, "--runs is -1"},
		{[]string{"--model", "m", "--dtype", "int3"}, `--dtype is "int3": want bf16 or f32 or int8`},
		{[]string{"--model", ""}, "no model"},
		{[]string{"--model", "", "--only", "rollouts,sandbox,version"}, ""},
		{[]string{"--model", "m", "--only", "decode_8,group_rollout", "--phases", "kernels=avx2,portable"}, ""},
		{[]string{"--model", "m", "--only", "prefill", "--phases", "cores=1,2"}, "--phases: prefill has no steps that decode"},
		{[]string{"--model", "m", "--only", "decode_8", "--phases", "dtype=f32,bf16", "--dtype", "f32"}, "leave out --dtype"},
		{[]string{"--model", "m", "--only", "decode_8", "--phases", "cores"}, `--phases is "cores": want two values`},
		{[]string{"--model", "m", "--profile", "decode_8", "--compare", "HEAD"}, "leave out --compare"},
		{[]string{"--model", "m", "--only", "decode_8", "--phases", "cores=1,2", "--compare", "HEAD"}, "leave out --compare"},
		{[]string{"--model", "", "--only", "rollouts,decode"}, "no model"},
		{[]string{"--model", "m", "--only", "sand"}, `there is no workload "sand"`},
	} {
		s, err := parse(c.args)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%q: %v", c.args, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%q: error %v, want one with %q", c.args, err, c.want)
		case err == nil && s == nil:
			t.Errorf("%q: no settings", c.args)
		}
	}
}

func TestChosen(t *testing.T) {
	s := &settings{}
	want := "train_step_f32 train_branches torch_step torch_groups grpo_step grpo_vllm decode_1 decode_8 decode_32 decode_64 prefill " +
		"group_rollout served_rollouts served_added served_queue delivery_vllm_reload delivery_vllm_files delivery_vllm_lora " +
		"delivery_sglang start quickstart threads_train_step_f32 threads_decode_32 int8_rollout store_encode store_decode " +
		"store_memory store_durable store_sqlite store_recovery unequal_rollouts rollouts turns_prefill turns gateway_streams " +
		"stream studio_first studio_cold studio_again studio_spans_open studio_spans studio_tokens studio_scroll studio_live " +
		"studio_trace studio_trace_all studio_trace_step studio_trace_bytes studio_beside sandbox_start sandbox_start_python " +
		"exec_workers python_start python_rollout python_loss service_step service_own service_tenants service_adapters " +
		"service_memory service_open service_restored service_logprobs service_forward_backward service_sample service_mask " +
		"service_masked_decode version " +
		"drafts_1 drafts_group drafts_tail drafts_unsure"
	if got := strings.Join(s.chosen(), " "); got != want {
		t.Errorf("measured without --only: %s\nwant %s", got, want)
	}
	s = &settings{only: "stream,sandbox,start"}
	if got := strings.Join(s.chosen(), " "); got != "stream sandbox_start sandbox_start_python start" {
		t.Errorf("--only %s measures %s", s.only, got)
	}
}

func TestWorkloads(t *testing.T) {
	for _, name := range names() {
		w := find(name)
		if w == nil || (w.ours == nil) == (w.command == nil) || w.ours != nil && len(w.rivals) == 0 && w.goal == 0 {
			t.Errorf("workload %s: want one way to run ours, and a peer or a goal unless it is a whole process", name)
			continue
		}
		seen := map[string]bool{}
		for _, r := range w.rivals {
			if seen[r.name] || !slices.Contains(programs(), r.program) {
				t.Errorf("workload %s: peer %q twice, or its program %q is not one of %q", name, r.name, r.program, programs())
			}
			seen[r.name] = true
			if (r.script == "") == (r.differs == nil) || (r.program == "ourselves") != (r.differs != nil) {
				t.Errorf("workload %s: peer %s wants a script, or a difference if it is ourselves", name, r.name)
			}
			if _, err := os.Stat(filepath.Join("peers", r.script)); err != nil {
				t.Errorf("script of %s: %v", name, err)
			}
		}
	}
}

func TestWants(t *testing.T) {
	for _, c := range []struct {
		peers, profile string
		want           []string
	}{
		{"all", "", programs()},
		{"none", "", nil},
		{"vllm,ourselves", "", []string{"ourselves", "vllm"}},
		{"all", "prefill", nil},
	} {
		s := &settings{peers: c.peers, profile: c.profile}
		var got []string
		for _, p := range programs() {
			if s.wants(p) {
				got = append(got, p)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("--peers %s --profile %q: %q, want %q", c.peers, c.profile, got, c.want)
		}
	}
}

// counter is a task that counts its runs.
type counter struct{ last int }

func (c *counter) run(number int) (sample, error) {
	c.last = number
	if number == 3 {
		return sample{}, errors.New("three is too many")
	}
	return sample{Value: float64(number)}, nil
}

func TestServe(t *testing.T) {
	var out strings.Builder
	err := serve(&counter{}, strings.NewReader("run\nrun\nrun\n"), &out)
	if err == nil || err.Error() != "three is too many" {
		t.Errorf("error %v, want that of run 3", err)
	}
	want := "BENCH {\"ready\":true}\nBENCH {\"value\":1}\nBENCH {\"value\":2}\n"
	if out.String() != want {
		t.Errorf("said %q, want %q", out.String(), want)
	}
}

// TestProcess talks to a peer that is a few lines of shell.
func TestProcess(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no shell to stand in for a peer")
	}
	p, err := startChild(context.Background(), "", []string{"VALUE=7"}, shell, "-c",
		`echo noise; echo 'BENCH {"ready":true}'; read x; echo "BENCH {\"value\":$VALUE}"; read x; echo bad luck >&2`)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := p.run(); err != nil || s.Value != 7 {
		t.Errorf("first run: %v, %v; want 7", s, err)
	}
	if _, err := p.run(); err == nil || !strings.Contains(err.Error(), "bad luck") {
		t.Errorf("run of a process that ended: %v, want what it said last", err)
	}
	if err := p.stop(); err != nil {
		t.Error(err)
	}
}

func TestPeerScriptsParse(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 to parse them with")
	}
	files, err := filepath.Glob("peers/*.py")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	args := append([]string{"-c", "import ast, sys\nfor f in sys.argv[1:]: ast.parse(open(f).read(), f)"}, files...)
	if out, err := exec.Command(python, args...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
