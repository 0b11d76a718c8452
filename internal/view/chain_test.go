package view

import (
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/trace"
)

// The chain goes from a wait to the role that it was for, through the parts of a rollout, and from a wait
// for a slot to the call that had it. It is as long as the run.
func TestChain(t *testing.T) {
	const ms = 1000
	span := func(role string, kind trinity.SpanKind, id, of string, begin, end int64) trace.Span {
		return trace.Span{Role: role, Kind: kind, ID: id, Name: of, For: of, Begin: begin * ms, End: end * ms}
	}
	p := &Perf{spans: []trace.Span{
		span("explorer", trinity.SpanWait, "", "trainer", 0, 1),
		span("evaluation", trinity.SpanRollout, "e", "sums", 1, 99),
		span("evaluation", trinity.SpanEvaluation, "", "", 1, 100),
		span("explorer", trinity.SpanRollout, "a", "sums/1", 100, 600),
		span("explorer", trinity.SpanCall, "a", "", 150, 550),
		span("explorer", trinity.SpanReward, "a", "", 550, 590),
		span("explorer", trinity.SpanRollout, "b", "sums/2", 100, 900),
		span("explorer", trinity.SpanWait, "b", "a slot of the model", 100, 560),
		span("explorer", trinity.SpanCall, "b", "", 560, 800),
		span("explorer", trinity.SpanReward, "b", "", 800, 890),
		span("explorer", trinity.SpanDelivery, "", "", 900, 931), // the trainer goes on before it knows
		span("trainer", trinity.SpanWait, "", "explorer", 0, 930),
		span("trainer", trinity.SpanForward, "", "policy", 930, 1000),
		span("trainer", trinity.SpanBackward, "", "policy", 1010, 1100),
		span("explorer", trinity.SpanWait, "", "trainer", 931, 1099),
	}}
	want := map[does]float64{
		{"trainer", "backward policy"}: 90, {"trainer", "between its spans"}: 10, {"trainer", "forward policy"}: 70,
		{"explorer", "delivery"}: 30, {"explorer", "rollout"}: 60, {"explorer", "reward"}: 90, {"explorer", "model_call"}: 640,
		{"explorer", "waits for a slot of the model"}: 10, {"explorer", "evaluation"}: 99,
		{"explorer", "waits for trainer"}: 1,
	}
	got := map[does]float64{}
	for of, seconds := range p.chain() {
		got[of] = math.Round(seconds * 1000)
	}
	if !maps.Equal(got, want) {
		t.Errorf("%v\nwant %v", got, want)
	}
}

// The chain ends if two roles wait for each other, and if one waits for a role that has no spans.
func TestChainEnds(t *testing.T) {
	p := &Perf{spans: []trace.Span{
		{Role: "trainer", Kind: trinity.SpanWait, For: "explorer", Begin: 0, End: 1e6},
		{Role: "explorer", Kind: trinity.SpanWait, For: "trainer", Begin: 0, End: 1e6},
		{Role: "explorer", Kind: trinity.SpanWait, For: "nobody", Begin: 0, End: 1},
	}}
	for of, seconds := range p.chain() {
		if seconds < 0 || seconds > 1 {
			t.Errorf("%v: %v s", of, seconds)
		}
	}
}

func TestTokensASecond(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "monitor", rundir.MetricsFile)
	if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	records := `{"step":1,"role":"explorer","time":"2026-01-02T15:04:05Z","metrics":{"rollout/tokens_per_second":50,"time/explore_step":4}}
{"step":1,"role":"trainer","time":"2026-01-02T15:04:06Z","metrics":{"perf/throughput":300,"time/train_step":2}}
`
	if err := os.WriteFile(path, []byte(records), 0o644); err != nil {
		t.Fatal(err)
	}
	p := &Perf{Trace: filepath.Join(dir, rundir.Traces), spans: []trace.Span{
		{Role: "explorer", Kind: trinity.SpanCall, ID: "a", Begin: 0, End: 2e6},
		{Role: "explorer", Kind: trinity.SpanCall, ID: "b", Begin: 1e6, End: 4e6},
		{Role: "evaluation", Kind: trinity.SpanCall, ID: "c", Begin: 4e6, End: 8e6},
		{Role: "trainer", Kind: trinity.SpanForward, Name: "policy", Begin: 8e6, End: 9e6},
		{Role: "trainer", Kind: trinity.SpanBackward, Name: "policy", Begin: 9e6, End: 12e6},
	}}
	var out strings.Builder
	if err := p.tokens(&out, p.works(), 20); err != nil {
		t.Fatal(err)
	}
	says(t, out.String(),
		"explorer model_call 200 4.00 50 ", "trainer backward policy 600 3.00 200 ", "trainer forward policy 600 1.00 600 ",
		"explorer the whole run 200 20.00 10 ", "trainer the whole run 600 20.00 30")
	out.Reset()
	p.Trace = filepath.Join(t.TempDir(), rundir.Traces)
	if err := p.tokens(&out, p.works(), 20); err != nil || out.Len() > 0 {
		t.Errorf("without metrics: %v %s", err, out.String())
	}
}
