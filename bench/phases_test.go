package main

import (
	"context"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

func TestParseSettings(t *testing.T) {
	for _, c := range []struct{ text, first, second, want string }{
		{"kernels=avx512,avx2", "avx512", "avx2", ""}, {"cores=1,1", "1", "1", ""},
		{"dtype=f32,int8", "f32", "int8", ""}, {"commit=HEAD~1", here, "HEAD~1", ""},
		{"cores=1,many", "", "", "want numbers of cores"}, {"cores=1,9999", "", "", "want numbers of cores"},
		{"dtype=f32,int3", "", "", "want dtypes of bf16 f32 int8"},
		{"kernels=avx2", "", "", "want two values"}, {"commit=", "", "", "want two values"}, {"tiles=1,2", "", "", "want kernels=A,B"},
	} {
		pair, err := parseSettings(c.text)
		if c.want == "" && (err != nil || pair[0].value != c.first || pair[1].value != c.second) {
			t.Errorf("%s: %v, %v", c.text, pair, err)
		}
		if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: error %v, want one with %q", c.text, err, c.want)
		}
	}
}

func TestWith(t *testing.T) {
	s := &session{set: &settings{}, machine: machine{Cores: 8}, past: &session{root: "past"}}
	if got := s.with(setting{"cores", "3"}); got.machine.Cores != 3 || s.machine.Cores != 8 {
		t.Errorf("%d cores of %d", got.machine.Cores, s.machine.Cores)
	}
	if got := s.with(setting{"dtype", "int8"}); got.set.dtype != "int8" || s.set.dtype != "" {
		t.Errorf("dtype %q of %q", got.set.dtype, s.set.dtype)
	}
	if got := s.with(setting{"kernels", "avx2"}); got.limits.Kernels != "avx2" || s.limits.Kernels != "" {
		t.Errorf("kernels %q of %q", got.limits.Kernels, s.limits.Kernels)
	}
	if s.with(setting{"commit", "x"}) != s.past || s.with(setting{"commit", here}).root != "" {
		t.Error("a commit is not measured by its own programs")
	}
}

// TestTakeSteps talks to two processes of a few lines of shell: one has two steps, the other one.
func TestTakeSteps(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no shell to stand in for a sampler")
	}
	script := `echo 'BENCH {"ready":true}'; read x; echo 'BENCH {"ready":true}'
		for last in $LASTS; do read x; echo "BENCH {\"step\":{\"phases\":{\"step\":$SECONDS_OF},\"last\":$last}}"; done
		read x; [ $x = end ] && echo 'BENCH {"value":1}'`
	var sides [2]*process
	for i, variables := range [][]string{{"LASTS=false true", "SECONDS_OF=0.5"}, {"LASTS=true", "SECONDS_OF=2"}} {
		started, err := startChild(t.Context(), "", variables, shell, "-c", script)
		if err != nil {
			t.Fatal(err)
		}
		sides[i] = started.(*process)
		defer sides[i].stop()
	}
	var seconds [2][]float64
	if err := takeSteps(sides, func(side int, s *stepped) { seconds[side] = append(seconds[side], s.Phases["step"]) }); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(seconds[0], []float64{.5, .5}) || !slices.Equal(seconds[1], []float64{2}) {
		t.Errorf("steps took %v, want two of 0.5 and one of 2 seconds", seconds)
	}
}

func TestPhaseTimes(t *testing.T) {
	times := [2]map[string][]float64{
		{"qkv": {2, 1, 4, 3, 5}, "step": {10, 10, 10, 10, 10}, "experts": {1}},
		{"qkv": {6, 4, 5, 8, 7}, "step": {20, 20, 20, 20, 20}},
	}
	table := phaseTable{Workload: "decode_8", Setting: "kernels", Values: [2]string{"avx512", "avx2"}, Phases: phaseTimes(times)}
	text := table.text()
	rows := text[strings.Index(text, "| step |"):]
	want := "| step | 10.0 | 10.0 | 20.0 | 20.0 | 2.00× |\n| qkv | 1.00 | 2.00 | 4.00 | 5.00 | 2.50× |\n" +
		"| experts | 1.00 | 1.00 | 0.00 | 0.00 | 0.00× |\n"
	if rows != want {
		t.Errorf("rows\n%s\nwant\n%s", rows, want)
	}
	if !strings.Contains(text, "#### decode_8: kernels avx512 beside avx2") {
		t.Errorf("the heading is missing in\n%s", text)
	}
}

// phased is a sampler whose step has two phases.
type phased struct {
	mark func(phase string)
}

func (p *phased) Observe(mark func(phase string)) { p.mark = mark }

func (p *phased) Sample(_ context.Context, _ trinity.Prompt, params trinity.SamplingParams) ([]trinity.Completion, error) {
	tokens := make([]int32, params.MaxTokens)
	for range tokens {
		for _, phase := range []string{"begin", "qkv", "rest"} {
			if p.mark != nil {
				p.mark(phase)
			}
		}
		params.OnToken(0, trinity.Sampled{})
		if p.mark != nil {
			p.mark("end")
		}
	}
	return []trinity.Completion{{Tokens: tokens}}, nil
}

// TestServeSteps: a run tells that it is ready, then of each step after the first token, and of its end.
func TestServeSteps(t *testing.T) {
	s := &sampling{sampler: &phased{}, calls: [][][]int32{{{1}}, {{2}}}, new: 3}
	var out strings.Builder
	if err := serveSteps(s, strings.NewReader("run\nstep\nstep\nend\n"), &out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 5 || lines[1] != `BENCH {"ready":true}` || !strings.Contains(lines[2], `"last":false`) ||
		!strings.Contains(lines[3], `"last":true`) || !strings.Contains(lines[4], `"value"`) {
		t.Fatalf("said\n%s\nwant two steps after the first token, the second of them the last, then the run", out.String())
	}
	for _, phase := range []string{`"qkv":`, `"rest":`, `"step":`} {
		if !strings.Contains(lines[2], phase) {
			t.Errorf("a step tells %s, want %s in it", lines[2], phase)
		}
	}
	if err := serveSteps(&counter{}, strings.NewReader(""), io.Discard); err == nil {
		t.Error("a task without a sampler has steps")
	}
	s.sampler = struct{ trinity.Sampler }{}
	if err := serveSteps(s, strings.NewReader(""), io.Discard); err == nil || !strings.Contains(err.Error(), "does not tell the phases") {
		t.Errorf("a sampler of an older commit: %v", err)
	}
}
