package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

// spoken is an endpoint with five calls: 0, then 1 and 2, which both continue it, then 3, which continues
// 1, and 4, a text of its own.
func spoken(t testing.TB, o trinity.EndpointOptions) *endpoint {
	t.Helper()
	e := open(t, o)
	e.reply("user:'one'")
	e.reply("user:'one'", "assistant:one", "user:'two'")
	e.reply("user:'one'", "assistant:one", "user:'three'")
	e.reply("user:'one'", "assistant:one", "user:'two'", "assistant:two", "user:'four'")
	if status, text := e.ask("/completions", `{"prompt":"say 'five'"}`); status != http.StatusOK {
		t.Fatal(text)
	}
	return e
}

// A reply that is asked for with its ids says which call it is, and which sequence ends with it.
func TestRepliesSayWhatIsRecorded(t *testing.T) {
	for _, c := range []struct {
		path, body string
		steps      bool
		want       string
	}{
		{chat, says("user:'one'", "assistant:one", "user:'six'"), false, `"recorded":{"prompt_length":21,"text":"six","turn":5}`},
		{chat, says("user:'one'", "assistant:one", "user:'six'"), true, `"recorded":{"prompt_length":46,"text":"six","turn":5}`},
		{chat, says("user:'six'"), false, `"recorded":{"prompt_length":21,"text":"six","turn":5}`},
		{"/completions", `{"prompt":"say 'six'"}`, false, `"recorded":{"prompt_length":9,"text":"six","turn":5}`},
	} {
		e := spoken(t, trinity.EndpointOptions{Steps: c.steps})
		status, text := e.ask(c.path, strings.Replace(c.body, "{", `{"return_token_ids":true,`, 1))
		if status != http.StatusOK || !strings.Contains(text, c.want) {
			t.Errorf("%s with steps %v: %d %s, want %s", c.body, c.steps, status, text, c.want)
		}
		if _, text := e.ask(c.path, c.body); strings.Contains(text, "recorded") {
			t.Errorf("nobody asked: %s", text)
		}
	}
}

// A program posts which sequences are learnt, which of their tokens, and their rewards and metrics.
func TestAProgramSaysWhatIsLearnt(t *testing.T) {
	const (
		one, two, four = "user:'one'|assistant:[one|]", "user:'two'|assistant:[two|]", "user:'four'|assistant:[four|]"
		three          = "user:'one'|assistant:one|user:'three'|assistant:[three|]"
	)
	for _, c := range []struct {
		posted string
		steps  bool
		want   string
	}{
		{`{"turn":3}`, false, one + two + four},
		{`{"turn":0}`, false, one},
		{`{"turn":3},{"turn":2},{"turn":4}`, false,
			one + "user:'three'|assistant:[three|]\n" + "user:'one'|assistant:one|" + two + four + "\n" + "say 'five'[five|]"},
		{`{"turn":2},{"turn":0}`, false, one + "\n" + three},
		{`{"turn":3,"learn":[[0,4]]}`, false, one + strings.NewReplacer("[", "", "]", "").Replace(two+four)},
		{`{"turn":3,"learn":[]}`, false, strings.NewReplacer("[", "", "]", "").Replace(one + two + four)},
		{`{"turn":3,"learn":[[1,2],[3,4],[25,29]]}`, false,
			"user:'one'|assistant:o[n]e[|]user:'two'|assistant:[two|]user:'four'|assistant:four|"},
		{`{"turn":0,"learn":[[0,1]]},{"turn":1}`, false, "user:'one'|assistant:[o]ne|\nuser:'one'|assistant:o[ne|]" + two},
		{`{"turn":4,"learn":[[4,5]]}`, false, "say 'five'five[|]"},
		{`{"turn":3},{"turn":0}`, true, one + "\n" + "user:'one'|assistant:one|user:'two'|assistant:two|" + four},
		{`{"turn":3,"learn":[[0,2]]}`, true, "user:'one'|assistant:one|user:'two'|assistant:two|user:'four'|assistant:[fo]ur|"},
	} {
		e := spoken(t, trinity.EndpointOptions{Steps: c.steps})
		if status, text := e.ask("/experiences", `{"experiences":[`+c.posted+`]}`); status != http.StatusOK {
			t.Errorf("%s: %d %s", c.posted, status, text)
			continue
		}
		r, got := e.recorded()
		if got != c.want {
			t.Errorf("%s with steps %v\ngot  %s\nwant %s", c.posted, c.steps, got, c.want)
		}
		for _, x := range r.Experiences {
			for i, at := range x.Mask {
				if at != (x.Logprobs[i] != 0) {
					t.Errorf("%s: token %d of %s has the log-probability %v", c.posted, i, spelled(x), x.Logprobs[i])
				}
			}
		}
	}
}

func TestWhatAProgramSaysOfAnExperience(t *testing.T) {
	e := spoken(t, trinity.EndpointOptions{})
	for _, body := range []string{
		`{"experiences":[{"turn":0,"reward":9,"metrics":{"old":1}}]}`, // the newest counts
		`{"experiences":[{"turn":3,"parts":{"a":1,"b":0.5},"metrics":{"turns":7,"depth":2},"info":{"env":[1,{"x":"y"}]},` +
			`"truncated":"turns_truncated"},{"turn":2,"reward":0.25,"parts":{"a":1},"metrics":{"depth":4},"truncated":"","learn":null},{"turn":4}]}`,
	} {
		if status, text := e.ask("/experiences", body); status != http.StatusOK || text != `{"ok":true}`+"\n" {
			t.Fatalf("%d %s", status, text)
		}
	}
	r, _ := e.recorded()
	three, two, plain := r.Experiences[1], r.Experiences[0], r.Experiences[2]
	if three.Reward.Value != 1.5 || !three.Reward.Valid || three.Truncated != trinity.TurnsTruncated || three.Metrics["depth"] != 2 ||
		three.Metrics["turns"] != 7 || !reflect.DeepEqual(three.Info, map[string]any{"env": []any{1.0, map[string]any{"x": "y"}}}) {
		t.Errorf("%+v", three)
	}
	if two.Reward.Value != 0.25 || two.Reward.Parts["a"] != 1 || two.Truncated != trinity.NotTruncated || two.Metrics["depth"] != 4 ||
		two.Metrics["turns"] != 5 || two.Metrics["branch_count"] != 2 || two.Metrics["old"] != 0 {
		t.Errorf("%+v", two)
	}
	if plain.Reward.Valid || r.Last != plain || r.Reward != nil {
		t.Errorf("%+v", plain)
	}
}

// A reward with a turn and that of a posted experience are one: the newest counts.
func TestRewardsOfPostedExperiences(t *testing.T) {
	e := spoken(t, trinity.EndpointOptions{})
	for _, c := range []struct {
		path, body string
		status     int
		has        string
	}{
		{"/reward", `{"value":1,"turn":3}`, 400, "or post experiences first"},
		{"/experiences", `{"experiences":[{"turn":3,"reward":1},{"turn":2,"reward":2},{"turn":4}]}`, 200, ""},
		{"/reward", `{"value":3,"turn":3}`, 200, ""},
		{"/reward", `{"value":4,"turn":4}`, 200, ""},
		{"/reward", `{"value":5,"turn":0}`, 400, "no posted experience ends with call 0"},
	} {
		if status, text := e.ask(c.path, c.body); status != c.status || !strings.Contains(text, c.has) {
			t.Errorf("%s: %d %s", c.body, status, text)
		}
	}
	r, _ := e.recorded()
	var got []float64
	for _, x := range r.Experiences {
		got = append(got, x.Reward.Value)
	}
	if !slices.Equal(got, []float64{2, 3, 4}) {
		t.Errorf("rewards %v", got)
	}
}

// What a program says of a teacher is what the trainer reads, in the same bits, where a token is learnt.
func TestAProgramHasAskedATeacher(t *testing.T) {
	e := spoken(t, trinity.EndpointOptions{})
	const posted = `{"turn":0,"learn":[[0,2],[3,4]],"teacher_logprobs":[-0.1,-1.1754944e-38,null,-123456.79]},{"turn":4}`
	if status, text := e.ask("/experiences", `{"experiences":[`+posted+`]}`); status != http.StatusOK {
		t.Fatal(text)
	}
	r, _ := e.recorded()
	x, other := r.Experiences[0], r.Experiences[1]
	want := append(make([]float32, x.PromptLen), -0.1, -1.1754944e-38, 0, -123456.79)
	if !slices.Equal(x.TeacherLogprobs, want) || x.Check() != nil || other.TeacherLogprobs != nil {
		t.Errorf("%v, want %v; %v, %v", x.TeacherLogprobs, want, x.Check(), other.TeacherLogprobs)
	}
}

func TestExperiencesThatAreRefused(t *testing.T) {
	e := spoken(t, trinity.EndpointOptions{})
	for posted, want := range map[string]string{
		``:                                "experiences: there is none: name the calls",
		`null`:                            "number 0 has no turn",
		`{"reward":1}`:                    "number 0 has no turn: the call with which its sequence ends",
		`{"turn":9}`:                      "there is no call 9: GET rollout lists them",
		`{"turn":-1}`:                     "there is no call -1",
		`{"turn":3},{"turn":3}`:           "call 3 is named twice",
		`{"turn":1.5}`:                    "experiences.turn has a value of another type",
		`{"turn":3,"rewrad":1}`:           "rewrad",
		`{"turn":3,"reward":NaN}`:         "JSON has no number NaN",
		`{"turn":3,"reward":-Infinity}`:   "JSON has no number Infinity",
		`{"turn":3,"reward":1e999}`:       "experiences.reward has a value of another type or out of range",
		`{"turn":3,"reward":"1"}`:         "experiences.reward has a value of another type",
		`{"turn":3,"parts":{"reward":1}}`: "parts of call 3: want at most 64 parts, none of them called reward",
		`{"turn":3,"parts":{"a":1e308,"b":1e308}}`:         "parts of call 3: the sum of the parts is too large a number",
		`{"turn":3,"metrics":{"a b":1}}`:                   `metrics of call 3: one is called \"a b\": want a letter`,
		`{"turn":3,"metrics":{"reward":1}}`:                "metrics of call 3: want at most 64, none of them called reward, response_length",
		`{"turn":3,"metrics":{"untrained_token_count":0}}`: "environment_length, untrained_token_count",
		`{"turn":3,"metrics":{"a":null},"learn":[[0,5]]}`:  `\"a\" is null: leave it out`,
		`{"turn":3,"parts":{"a":null}}`:                    `\"a\" is null: leave it out`,
		`{"turn":3,"parts":{"a":"b"}}`:                     `experiences.parts has a value of another type`,
		`{"turn":3,"metrics":[1]}`:                         `experiences.metrics has a value of another type`,
		`{"turn":3,"truncated":"yes"}`:                     `truncated of call 3 is \"yes\"; want one of`,
		`{"turn":3,"learn":"AA=="}`:                        "experiences.learn has a value of another type",
		`{"turn":3,"learn":[3]}`:                           "experiences.learn has a value of another type",
		`{"turn":3,"learn":[[0]]}`:                         "learn of call 3: range 0 is [0]; want [from, to]",
		`{"turn":3,"learn":[[2,1]]}`:                       "range 0 is [2 1]",
		`{"turn":3,"learn":[[-1,1]]}`:                      "range 0 is [-1 1]",
		`{"turn":3,"learn":[[2,3],[1,2]]}`:                 "range 1 is [1 2]; want [from, to], 3 or more and not falling",
		`{"turn":3,"learn":[[0,9]]}`:                       "experiences: learn of call 3 names token 4, which the policy did not sample",
		`{"turn":3,"learn":[[0,999]]}`:                     "learn of call 3 ends at token 999, and its response has 56",
		`{"turn":4,"info":5}`:                              "experiences.info has a value of another type",
	} {
		status, text := e.ask("/experiences", `{"experiences":[`+posted+`]}`)
		if status != http.StatusBadRequest || !strings.Contains(text, want) || strings.Contains(text, `\n`) || strings.Contains(text, "Go ") {
			t.Errorf("%s: %d %s, want %s", posted, status, text, want)
		}
	}
	for posted, want := range map[string]string{
		`"teacher_logprobs":[-1]`:                            "are 1, and its response has 4 tokens: want one for each",
		`"teacher_logprobs":[]`:                              "teacher_logprobs of call 0 are 0, and",
		`"teacher_logprobs":[-1,null,-1,-1]`:                 "teacher_logprobs of call 0 are null at token 1, which is learnt",
		`"learn":[[2,3]],"teacher_logprobs":[-1,-1,null,-1]`: "are null at token 2",
		`"teacher_logprobs":[-1,NaN,-1,-1]`:                  "JSON has no number NaN",
		`"teacher_logprobs":[-1,-1e39,-1,-1]`:                "teacher_logprobs has a value of another type or out of range",
	} {
		status, text := e.ask("/experiences", `{"experiences":[{"turn":0,`+posted+`}]}`)
		if status != http.StatusBadRequest || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s, want %s", posted, status, text, want)
		}
	}
	for body, want := range map[string]string{
		`{}`: "there is none", `[]`: "want a JSON object", `{"experiences":{}}`: "experiences has a value",
	} {
		if status, text := e.ask("/experiences", body); status != http.StatusBadRequest || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
	if _, text := e.ask("/rollout", ""); !strings.Contains(text, `"turn":3,"after":1,"tokens":5,"received":true,"learn":[[0,4],[`) {
		t.Error(text)
	}
	if r, _ := e.recorded(); len(r.Experiences) != 3 { // what is refused has no effect
		t.Errorf("%d experiences", len(r.Experiences))
	}
	if status, _ := e.ask("/experiences", `{"experiences":[{"turn":3}]}`); status != http.StatusConflict {
		t.Errorf("after the end: %d", status)
	}
}

// Who names all sequences, and says nothing else of them, gets what is trained without a post.
func TestNamingAllIsTheSameAsNamingNone(t *testing.T) {
	for _, steps := range []bool{false, true} {
		var all []*trinity.Recording
		for _, posted := range []string{"", `{"turn":4},{"turn":3},{"turn":2}`, `{"turn":4},{"turn":3},{"turn":2},{"turn":1},{"turn":0}`} {
			e := spoken(t, trinity.EndpointOptions{Steps: steps})
			if status, text := e.ask("/experiences", `{"experiences":[`+posted+`]}`); posted != "" && status != http.StatusOK {
				t.Fatal(text)
			}
			r, _ := e.recorded()
			all = append(all, r)
		}
		same := all[1]
		if steps {
			same = all[2]
		}
		if !reflect.DeepEqual(all[0], same) {
			want, _ := json.Marshal(all[0])
			got, _ := json.Marshal(same)
			t.Errorf("with steps %v\ngot  %s\nwant %s", steps, got, want)
		}
	}
}

// A template that rewrites earlier turns, and a temperature of its own, begin sequences of their own.
func TestASequenceThatIsNotContinued(t *testing.T) {
	e := open(t, trinity.EndpointOptions{Sampling: trinity.SamplingOfRequest})
	e.reply("user:'one'")
	status, text := e.ask(chat, `{"temperature":0.75,"messages":[{"role":"user","content":"'one'"},{"role":"assistant","content":"one"},`+
		`{"role":"user","content":"'two'"}]}`)
	if status != http.StatusOK {
		t.Fatal(text)
	}
	if status, text := e.ask("/experiences", `{"experiences":[{"turn":1,"learn":[[0,4]]}]}`); status != http.StatusOK {
		t.Fatal(text)
	}
	r, got := e.recorded()
	if got != "user:'one'|assistant:one|user:'two'|assistant:[two|]" || r.Experiences[0].Temperature != 0.75 {
		t.Errorf("recorded %s with %v", got, r.Experiences[0].Temperature)
	}
	if m := r.Experiences[0].Metrics; m["branch_count"] != 1 || m["extension_rate"] != 0 || m["turns"] != 2 { // of the tree
		t.Errorf("metrics %v", m)
	}
}

// Whatever a program posts, it is refused in one line or gives experiences that can be trained, which
// learn no token twice and none that the policy did not sample.
func FuzzExperiences(f *testing.F) {
	f.Add(`{"experiences":[{"turn":3,"reward":1,"parts":{"a":1},"metrics":{"m":2},"info":{"i":[1]},"learn":[[0,4]],"truncated":""}]}`, false)
	f.Add(`{"experiences":[{"turn":2},{"turn":3,"learn":[[1,2],[3,4]]},{"turn":4,"learn":[]}]}`, true)
	f.Add(`{"experiences":[{"turn":0,"reward":NaN}]}`, false)
	f.Fuzz(func(t *testing.T, body string, steps bool) {
		e := spoken(t, trinity.EndpointOptions{Steps: steps})
		all, err := e.Endpoint.(*session).takeExperiences([]byte(body))
		if err != nil && (all != nil || strings.ContainsAny(fmt.Sprint(err), "\n")) {
			t.Errorf("%v, %v", all, err)
		}
		r, got := e.recorded()
		trained, sampled := 0, e.model.SampledTokens()
		for _, x := range r.Experiences {
			trained += x.TrainedTokens()
			if x.EnvironmentLen < 0 || x.ResponseLen() < x.TrainedTokens() {
				t.Errorf("%d tokens of the environment, %d of the response, of which %d are learnt: %s", x.EnvironmentLen, x.ResponseLen(),
					x.TrainedTokens(), got)
			}
		}
		if trained > sampled || err != nil && trained != sampled {
			t.Errorf("%d tokens are trained, %d were sampled: %s", trained, sampled, got)
		}
	})
}
