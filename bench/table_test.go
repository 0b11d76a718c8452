package main

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
)

func TestConclude(t *testing.T) {
	limit := func(v float64) *float64 { return &v }
	for _, c := range []struct {
		name         string
		unit         string
		ours, theirs []float64
		limit        *float64
		byPhase      *float64
		ratio, share float64
		ofPhases     float64
	}{
		{"more is better", "tok/s", []float64{10, 30, 20}, []float64{5, 100, 10}, limit(40), limit(25), 2, 0.5, .8},
		{"less is better", "s", []float64{4, 8}, []float64{12}, limit(3), limit(5.4), 2, 0.5, .9},
		{"milliseconds", "ms", []float64{10}, []float64{5}, nil, nil, 0.5, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := Row{Unit: c.unit, OurRuns: samples(c.ours), TheirRuns: samples(c.theirs), Limit: c.limit, ByPhase: c.byPhase}
			r.conclude()
			if r.Ratio == nil || math.Abs(*r.Ratio-c.ratio) > 1e-9 {
				t.Errorf("ratio %v, want %g", r.Ratio, c.ratio)
			}
			if math.Abs(r.Share-c.share) > 1e-9 {
				t.Errorf("share %g, want %g", r.Share, c.share)
			}
			if math.Abs(r.OfPhases-c.ofPhases) > 1e-9 {
				t.Errorf("share of the limit by phase %g, want %g", r.OfPhases, c.ofPhases)
			}
		})
	}
}

func samples(values []float64) []sample {
	var out []sample
	for _, v := range values {
		out = append(out, sample{Value: v})
	}
	return out
}

func TestRowWithoutPeer(t *testing.T) {
	r := Row{Workload: "version", Unit: "ms", OurRuns: samples([]float64{3, 1, 2})}
	r.conclude()
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"workload":"version","peer":"","ours":2,"theirs":null,"ratio":null,"unit":"ms","limit":null,`
	if !strings.HasPrefix(string(data), want) {
		t.Errorf("row is %s\nwant it to begin with %s", data, want)
	}
	if cells := r.cells(); cells[1] != "–" || cells[3] != "–" || cells[4] != "–" || cells[7] != "–" {
		t.Errorf("cells without peer and limit: %q", cells)
	}
}

func TestPrintTable(t *testing.T) {
	r := Row{Workload: "prefill", Peer: "a peer", Unit: "tok/s", OurRuns: samples([]float64{1234.4}), TheirRuns: samples([]float64{99.97}), Runs: 1, Kernels: "avx2",
		OurRSS: 2e9, Machine: machine{Foreign: 0.034}}
	r.conclude()
	var b strings.Builder
	if err := printTable(&b, []Row{r}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	want := "prefill a peer 1234 100.0 12.35× – tok/s – – – – 2.00 GB 1 avx2 3 %"
	if len(lines) != 2 || strings.Join(strings.Fields(lines[1]), " ") != want {
		t.Errorf("table is\n%s\nwant its row to say %s", b.String(), want)
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		v    []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1}, 5}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 3, 2}, 2.5}} {
		if got := median(c.v); got != c.want {
			t.Errorf("median of %v is %g, want %g", c.v, got, c.want)
		}
	}
}

func TestWindows(t *testing.T) {
	text := make([]int32, 1000)
	for i := range text {
		text[i] = int32(i)
	}
	calls := windows(text, 3, 8, 4, 150)
	begins := map[int32]int{}
	for _, call := range calls {
		if len(call) != 8 {
			t.Fatalf("a call has %d prompts, want 8", len(call))
		}
		for i, p := range call {
			if len(p) != 150 {
				t.Fatalf("a prompt has %d tokens, want 150", len(p))
			}
			begins[p[0]]++
			if !slices.Equal(p, call[i/4*4]) {
				t.Errorf("prompt %d differs from those of its group", i)
			}
		}
	}
	if len(begins) != 6 {
		t.Errorf("%d different prompts, want 6: two of each of three calls", len(begins))
	}
}

// TestTarget: every workload but those of a whole process has a peer that is to be beaten by a ratio, or a rate to reach.
func TestTarget(t *testing.T) {
	for _, name := range names() {
		w, targets := find(name), 0
		for _, r := range w.rivals {
			if row := (&Row{Workload: name, Peer: r.name}); row.target() != "–" {
				targets++
			}
		}
		if w.goal == 0 && name != "store_decode" && (targets > 0) != (w.ours != nil) {
			t.Errorf("workload %s: %d peers have a target", name, targets)
		}
	}
	if got := (&Row{Workload: "decode_8", Peer: vllm.name}).target(); got != "2.00×" {
		t.Errorf("decode_8 beside vLLM wants %s", got)
	}
}
