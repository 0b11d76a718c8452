package studio

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/trace"
)

// hostile is what a model may write.
const hostile = "<script>alert(1)</script>\x1b[31m\u202e\"}\\ \u2028\x00"

// traced writes the trace of a run of one train step.
func traced(t *testing.T, dir string) {
	t.Helper()
	words := map[int32]string{1: "<|im_start|>", 2: "user", 3: "\n", 4: hostile, 5: "<|im_end|>", 6: "assistant", 7: "<0xE4>", 8: "<think>",
		9: "hm", 10: "</think>", 11: "<0x41>"}
	w, err := trace.New(trace.Options{
		Dir: filepath.Join(dir, rundir.Traces), Spans: true, Text: func(id int32) string { return words[id] },
		Say: func(line string) { t.Error(line) },
	})
	if err != nil {
		t.Fatal(err)
	}
	tokens := []int32{1, 2, 3, 4, 5, 3, 1, 6, 3, 8, 9, 10, 7, 5}
	n := len(tokens)
	mask := slices.Concat(make([]bool, 9), []bool{true, true, true, true, true})
	of := func(v float32) []float32 {
		out := make([]float32, n)
		for i := range out {
			out[i] = v
		}
		return out
	}
	e := trinity.Experience{
		ID: trinity.ExperienceID{Step: 3, Task: "a/b c", Run: 1}, Tokens: tokens, Mask: mask, Logprobs: of(-1), Advantages: of(2),
		PromptLen:   9,
		Temperature: 1, Prompt: hostile, Response: strings.Repeat("é", maxShown+1) + "tale", Versions: [2]int64{2, 3},
		Info: map[string]any{"<b>": hostile}, Reward: trinity.NewReward(map[string]float64{"accuracy": 0.5}),
	}
	invalid := e
	invalid.ID.Run, invalid.Reward, invalid.Response = 2, trinity.Reward{Reason: "no answer"}, "x"
	w.Trained(trinity.Trained{Step: 4, Experiences: []trinity.TrainedExperience{
		{Experience: e, Updates: []trinity.Update{{Now: trinity.TokenStats{Logprob: of(-1.5)},
			Grads: trinity.TokenGrads{Logprob: of(-0.25)}}}},
		{Experience: invalid, Dropped: "advantage"},
	}})
	w.Failed(trinity.FailedRollout{ID: trinity.ExperienceID{Step: 3, Task: "c"}, Role: trinity.RoleExplorer, Kind: "x", Reason: "boom",
		Prompt: []int32{4}, Sampled: []int32{9}, Time: time.Now()})
	at := time.Unix(1e9, 0)
	w.Span(trinity.Span{Role: trinity.RoleTrainer, Kind: trinity.SpanWait, For: "explorer", Step: 4, Begin: at,
		End: at.Add(3 * time.Second)})
	w.Failed(trinity.FailedRollout{ID: trinity.ExperienceID{Step: 3, Task: "e"}, Role: trinity.RoleEvaluation, Kind: "x", Reason: "held",
		Time: time.Now()})
	w.Span(trinity.Span{Role: trinity.RoleExplorer, Kind: trinity.SpanRollout, Name: "a/b c", Experience: e.ID, Begin: at,
		End: at.Add(time.Second)})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

type table struct {
	Step     int64
	Rollouts []Rollout
	Failures []struct {
		Reason      string
		PromptText  string `json:"prompt_text"`
		SampledText string `json:"sampled_text"`
	}
	Damaged []string
}

// What a list leaves out of a text is its middle: the final answer is at its end.
func TestTextsKeepTheirEnds(t *testing.T) {
	for _, c := range []struct {
		text string
		most int
		want string
	}{
		{"", 20, ""}, {"0123456789", 10, "0123456789"}, {"0123456789abc", 12, "012\n…\n789abc"},
		{"éééé so it is é\xff7", 12, "ééé\n…\nis é\xff7"},
	} {
		if got, cut := cutMiddle(c.text, c.most); got != c.want || cut != (got != c.text) {
			t.Errorf("%q: %q %v, want %q", c.text, got, cut, c.want)
		}
	}
}

// A step's rollouts come with what the server measures, and a rollout with every token. What a model
// wrote stays text.
func TestRollouts(t *testing.T) {
	dir, s := site(t, "")
	traced(t, filepath.Join(dir, "r"))
	put(t, dir, "r/monitor/config.yaml", "explorer: {rollout_model: {tool_call_parser: plain, tool_call_pattern: '(?P<name>think)>'}}\n")
	if steps := got[struct{ Steps []int64 }](t, s, "runs/r/steps").Steps; !slices.Equal(steps, []int64{4}) {
		t.Errorf("steps %v", steps)
	}
	all := got[table](t, s, "runs/r/steps/4/rollouts")
	if len(all.Rollouts) != 2 || len(all.Damaged) != 0 || all.Step != 4 {
		t.Fatalf("%+v", all)
	}
	one, two := all.Rollouts[0], all.Rollouts[1]
	if one.ID != "3/a/b c/1/0" || one.Prompt != hostile || !one.Cut || len([]rune(one.Response)) != maxShown ||
		!strings.HasSuffix(one.Response, "étale") || *one.Reward != 0.5 ||
		string(one.Parts) != `{"accuracy":0.5}` || one.Staleness != 2 ||
		*one.Advantage != 2 || *one.KL != 0.5 ||
		len(one.Flags) != 0 {
		t.Errorf("%+v", one)
	}
	if two.Reward != nil || two.Reason != "no answer" || two.Dropped != "advantage" || two.KL != nil || two.Cut {
		t.Errorf("%+v", two)
	}
	if f := all.Failures; len(f) != 2 || f[1].Reason != "held" ||
		f[0].Reason != "boom" || f[0].PromptText != hostile || f[0].SampledText != "hm" {
		t.Errorf("%+v", f)
	}
	for search, want := range map[string]int{"\u00c9": 1, "tale": 1, "\nx": 1, "ALERT(1)": 2, "nowhere": 0} {
		found := got[table](t, s, "runs/r/steps/4/rollouts?q="+url.QueryEscape(search))
		if len(found.Rollouts) != want || found.Rollouts == nil || len(found.Failures) != len(all.Failures) {
			t.Errorf("%q finds %d answers and %d failures", search, len(found.Rollouts), len(found.Failures))
		}
	}
	status, text := get(t, s, "/api/v1/runs/r/steps/4/rollouts/"+url.PathEscape(one.ID))
	var whole struct {
		Rollout
		Tokens  []int32
		Mask    []bool
		Streams map[string][]float64
		Updates []struct {
			Update    int
			Now       []float64 `json:"now_logprobs"`
			DLogprobs []float64 `json:"d_logprobs"`
		}
		Calls        []struct{ At int }
		Texts, Roles []string
		Bytes        map[string]string
		Special      []bool
	}
	if err := json.Unmarshal([]byte(text), &whole); err != nil || status != 200 {
		t.Fatalf("%d, %v: %s", status, err, text)
	}
	if len(whole.Calls) != 1 || whole.Calls[0].At != 11 {
		t.Errorf("calls %+v", whole.Calls)
	}
	wantRoles := []string{"user", "user", "user", "user", "user", "", "assistant", "assistant", "assistant", "think", "think", "assistant",
		"assistant", "assistant"}
	if whole.Cut || len(whole.Tokens) != 14 || whole.Streams["logprobs"][0] != -1 || whole.Streams["values"] != nil ||
		len(whole.Updates) != 1 ||
		whole.Updates[0].Now[13] != -1.5 || whole.Updates[0].DLogprobs[0] != -0.25 || whole.Texts[3] != hostile ||
		whole.Texts[12] != "\uFFFD" ||
		whole.Bytes["12"] != "e4" || !whole.Special[0] || whole.Special[1] || !slices.Equal(whole.Roles, wantRoles) {
		t.Errorf("%+v", whole)
	}
	if !json.Valid([]byte(text)) || strings.Contains(text, "\x1b") {
		t.Error("the reply is no JSON")
	}
	for _, path := range []string{"steps/4/rollouts/none", "steps/5/rollouts", "steps/5/rollouts/x", "steps/-1/rollouts"} {
		if status, text := get(t, s, "/api/v1/runs/r/"+path); status != 404 {
			t.Errorf("%s: %d: %s", path, status, text)
		}
	}
	if status, text := get(t, s, "/api/v1/runs/r/steps/x/rollouts"); status != 400 || !strings.Contains(text, "want a whole number") {
		t.Errorf("%d: %s", status, text)
	}
}

// A few train steps are in memory at once, however many requests there are.
func TestRolloutsWaitForRoom(t *testing.T) {
	dir := t.TempDir()
	s := &Server{Dir: dir}
	site := s.Handler()
	traced(t, filepath.Join(dir, "r"))
	if !s.traces.turns.TryAcquire(stepReads) {
		t.Fatal("there is no room")
	}
	get := func(ctx context.Context, path string) int {
		w := httptest.NewRecorder()
		path = "http://localhost/api/v1/runs/r/steps/4/rollouts" + path
		site.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil))
		return w.Code
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	for _, path := range []string{"", "/" + url.PathEscape("3/a/b c/1/0")} {
		if status := get(gone, path); status != http.StatusInternalServerError {
			t.Errorf("%q without room: %d", path, status)
		}
	}
	s.traces.turns.Release(stepReads)
	if status := get(t.Context(), ""); status != http.StatusOK {
		t.Errorf("with room: %d", status)
	}
}

// Half a file of a step, or of failures, is an error in a line.
func TestDamagedTraces(t *testing.T) {
	dir, s := site(t, "")
	traced(t, filepath.Join(dir, "r"))
	path := trace.StepFile(filepath.Join(dir, "r", rundir.Traces), 4)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	put(t, dir, "r/trace/failed-000002-000001.jsonl.zst", "no frame")
	put(t, dir, "r/trace/spans-000002-000001.jsonl.zst", "no frame")
	if all := got[table](t, s, "runs/r/steps/4/rollouts"); len(all.Rollouts) != 2 || len(all.Damaged) != 1 {
		t.Errorf("%+v", all)
	}
	if all := got[drawn](t, s, "runs/r/spans"); len(all.Lanes) != 2 || len(all.Damaged) != 1 {
		t.Errorf("%+v", all)
	}
	for n := range 10 {
		if err := os.WriteFile(path, whole[:n*len(whole)/10], 0o644); err != nil {
			t.Fatal(err)
		}
		status, text := get(t, s, "/api/v1/runs/r/steps/4/rollouts")
		if status != 500 || strings.Count(text, "\n") != 1 || !strings.Contains(text, "step-4.parquet: ") {
			t.Errorf("%d bytes: %d: %s", n*len(whole)/10, status, text)
		}
	}
}

type drawn struct {
	From, To, First, Last float64
	Lanes                 []laneView
	Waits                 map[string]float64
	Damaged               []string
}

// However many spans there are, a lane has a few for each pixel, and none is lost.
func TestSpansAreReduced(t *testing.T) {
	var all []trace.Compact
	var words []string
	numbers := map[string]int32{}
	word := func(text string) int32 {
		n, ok := numbers[text]
		if !ok {
			n = int32(len(words))
			numbers[text], words = n, append(words, text)
		}
		return n
	}
	add := func(role, kind, of, id string, begin, end int64) {
		all = append(all, trace.Compact{Begin: begin, End: end, Role: word(role), Kind: word(kind), For: word(of), ID: word(id), Name: word("")})
	}
	for i := range int64(20_000) {
		add("explorer", "rollout", "", fmt.Sprint(i), 1000*i, 1000*i+2500)
		add("trainer", []string{"forward", "backward", "update", "publish", "checkpoint", "evaluation"}[i%6], "", "", 1000*i, 1000*i+1000)
	}
	add("trainer", "wait", "explorer", "", 30_000_000, 40_000_000)
	add("trainer", "wait", "explorer", "", 35_000_000, 45_000_000)
	add("trainer", "publish", "", "", 50_000_000, 50_000_000)
	s := spansOf(words, all)
	if s.first != 0 || s.last != 50_000_000 {
		t.Errorf("from %d to %d", s.first, s.last)
	}
	const width = 100
	sums := map[string]int{}
	for _, l := range s.lanes {
		shown := s.within(l, s.first, s.last, width)
		if n := len(s.within(l, 0, 20_000_000, width)); n > perPixel*(width+1) {
			t.Errorf("lane %s has %d spans", l.name, n)
		}
		for _, o := range shown {
			sums[l.role] += o.N
		}
		for i, o := range shown[1:] {
			if o.Begin < shown[i].Begin {
				t.Errorf("lane %s: span %d comes before the one before it", l.name, i+1)
			}
		}
	}
	if sums["explorer"] != 20_000 || sums["trainer"] != 20_003 || len(s.lanes) != 3+2 {
		t.Errorf("%d lanes show %v", len(s.lanes), sums)
	}
	if w := s.waited(32_000_000, 60_000_000); w["trainer waits for explorer"] != 13 {
		t.Errorf("%v", w)
	}
	if shown := s.within(s.lanes[2], 1000, 4000, width); len(shown) != 2 || shown[0].N != 1 || shown[0].ID == "" {
		t.Errorf("%+v", shown)
	}
}

// The page gets the lanes of a run, in ms.
func TestSpans(t *testing.T) {
	dir, s := site(t, "")
	traced(t, filepath.Join(dir, "r"))
	all := got[drawn](t, s, "runs/r/spans?width=100")
	if all.First != 1e12 || all.Last != 1e12+3000 || all.From != all.First || len(all.Lanes) != 2 ||
		all.Waits["trainer waits for explorer"] != 3 ||
		all.Lanes[0].Name != "trainer" || all.Lanes[1].Name != "rollout" || all.Lanes[1].Spans[0].ID != "3/a/b c/1/0" {
		t.Errorf("%+v", all)
	}
	part := got[drawn](t, s, "runs/r/spans?from=1000000002000&to=1000000002500")
	if part.From != 1e12+2000 || part.Waits["trainer waits for explorer"] != 0.5 || len(part.Lanes[1].Spans) != 0 {
		t.Errorf("%+v", part)
	}
	for _, query := range []string{"from=x", "to=NaN", "to=1e300", "width=0", "width=1e9", "width=99999", "from=2&to=1"} {
		if status, text := get(t, s, "/api/v1/runs/r/spans?"+query); status != 400 {
			t.Errorf("%s: %d: %s", query, status, text)
		}
	}
	put(t, dir, "none/monitor/metrics.jsonl", "")
	if all := got[drawn](t, s, "runs/none/spans"); len(all.Lanes) != 0 || all.Last != 0 {
		t.Errorf("%+v", all)
	}
}

// An answer of several turns comes with its chat; one of one turn, and one too long for a list, without.
func TestChatOfAnAnswer(t *testing.T) {
	texts := map[int32]string{0: "go", 1: " up", 2: " wall", 3: " down", 4: strings.Repeat("x", maxChat)}
	for want, tokens := range map[string][]int32{
		"[{prompt go} {assistant up} {prompt wall} {assistant down}]": {0, 1, 2, 3}, "[]": {0, 1}, "[] ": {0, 1, 4, 3},
	} {
		a := &trace.Answer{Streams: trace.Streams{Tokens: tokens, Mask: make([]bool, len(tokens))}}
		for i := range tokens {
			a.Mask[i] = i%2 == 1
		}
		if got := fmt.Sprint(chatOf(a, texts)); got != strings.TrimSpace(want) {
			t.Errorf("%v: %s, want %s", tokens, got, want)
		}
	}
}
