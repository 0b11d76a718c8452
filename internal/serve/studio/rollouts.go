package studio

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/trace"
)

// Rollout is what the table of a step has of an answer.
type Rollout struct {
	ID             string          `json:"id"`
	Task           string          `json:"task"`
	ExploreStep    int64           `json:"explore_step"`
	Run            int64           `json:"run"`
	Turn           int64           `json:"turn"`
	Prompt         string          `json:"prompt"`
	Response       string          `json:"response"`
	Cut            bool            `json:"cut"` // prompt or response are longer
	Reward         *Number         `json:"reward"`
	Parts          json.RawMessage `json:"reward_parts"`
	Reason         string          `json:"reason"`
	Dropped        string          `json:"dropped"`
	Truncated      string          `json:"truncated"`
	Expert         bool            `json:"expert"`
	Chosen         bool            `json:"chosen"`
	PromptTokens   int64           `json:"prompt_tokens"`
	ResponseTokens int64           `json:"response_tokens"`
	Temperature    Number          `json:"temperature"`
	OldestVersion  int64           `json:"oldest_version"`
	ModelVersion   int64           `json:"model_version"`
	Metrics        json.RawMessage `json:"metrics"`
	Info           json.RawMessage `json:"info"`
	judged
	answerStats
}

// judged is what people need to see whether an answer is right.
type judged struct {
	Truth   string          `json:"truth"` // the task's reference answer; "" if it has none
	Verdict trace.Verdict   `json:"verdict"`
	Chat    []trace.Said    `json:"chat,omitempty"`   // of an answer of several turns
	Images  []trinity.Image `json:"images,omitempty"` // that the model saw, with their places
}

// answerStats is what the server computes of an answer.
type answerStats struct {
	Staleness int64    `json:"staleness"` // of the train step: 1 is on-policy
	Advantage *Number  `json:"advantage"` // mean over the trained tokens
	KL        *Number  `json:"kl"`        // mean of the sampler's log-probability − the trainer's, in nats
	Flags     []string `json:"flags"`
}

// maxShown is how many characters of a prompt and of a response the table has.
const maxShown = 4000

// steps answers with the train steps that a run's trace has.
func (s *traces) steps(_ *http.Request, f *runFiles) (any, error) {
	dir, err := f.traces()
	if err != nil {
		return nil, err
	}
	steps, err := trace.Steps(dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return map[string]any{"steps": list(steps)}, err
}

// answers returns what a list needs of the answers of the train step that a request names, or all of the
// one of an ID.
func (f *runFiles) answers(r *http.Request, id string) (dir string, step int64, answers []*trace.Answer, err error) {
	dir, err = f.traces()
	if err == nil {
		step, err = number(r, "step", 0)
	}
	if err != nil {
		return dir, step, nil, err
	}
	path := trace.StepFile(dir, step)
	if !isOwnFile(path) {
		return dir, step, nil, notFound{fmt.Errorf("the trace of the run has no train step %d", step)}
	}
	if id == "" {
		answers, err = trace.ReadAnswers(dir, step)
		return dir, step, answers, err
	}
	rows, err := trace.ReadAnswer(dir, step, id)
	return dir, step, trace.Answers(rows), err
}

// rollouts answers with the rollouts of a train step.
func (s *traces) rollouts(r *http.Request, f *runFiles) (any, error) {
	dir, step, answers, err := f.answers(r, "")
	if err != nil {
		return nil, err
	}
	damaged := []string{}
	texts, err := s.textsIn(dir)
	if err != nil {
		damaged = append(damaged, err.Error())
	}
	rollouts, search := []Rollout{}, strings.ToLower(r.URL.Query().Get("q"))
	explored := map[int64]bool{}
	for _, a := range answers {
		explored[a.ExploreStep] = true
		if search == "" || strings.Contains(strings.ToLower(a.Prompt+"\n"+a.Truth+"\n"+a.Response), search) {
			one := rolloutOf(a, step)
			one.cut()
			one.Chat = chatOf(a, texts)
			rollouts = append(rollouts, one)
		}
	}
	all, err := trace.ReadFailures(dir)
	if err != nil {
		damaged = append(damaged, strings.Split(err.Error(), "\n")...)
	}
	all = slices.DeleteFunc(all, func(f trace.Failure) bool { return !explored[f.Step] })
	return map[string]any{"step": step, "rollouts": rollouts, "failures": withTexts(all, texts), "damaged": damaged}, nil
}

// rolloutOf returns what the table has of an answer of a train step.
func rolloutOf(a *trace.Answer, step int64) Rollout {
	r := Rollout{
		ID: a.ID, Task: a.Task, ExploreStep: a.ExploreStep, Run: a.Run, Turn: a.Turn, Prompt: a.Prompt,
		Response: a.Response,
		Parts:    object(a.Parts), Reason: a.Reason, Dropped: a.Dropped, Truncated: a.Truncated, Expert: a.Expert, Chosen: a.Chosen,
		PromptTokens: a.PromptTokens, ResponseTokens: a.ResponseTokens, Temperature: Number(a.Temperature),
		OldestVersion: a.OldestVersion, ModelVersion: a.ModelVersion, Metrics: object(a.Sequence.Metrics), Info: object(a.Info),
	}
	if a.Reward != nil {
		reward := Number(*a.Reward)
		r.Reward = &reward
	}
	r.judged = judged{Truth: a.Truth, Verdict: trace.VerdictOf(a.Reward, a.Parts, a.Reason), Images: a.Shown()}
	r.answerStats = measure(a, step)
	return r
}

// object returns a JSON text, and as a JSON string what is none.
func object(text string) json.RawMessage {
	if text == "" || text == "null" {
		return json.RawMessage("{}")
	}
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	quoted, err := json.Marshal(text)
	if err != nil {
		return json.RawMessage("{}")
	}
	return quoted
}

// chatOf returns the messages of an answer of several turns; nil of another, and of one that is too long for a list.
func chatOf(a *trace.Answer, texts map[int32]string) []trace.Said {
	turns, size := 0, 0
	for t, learned := range a.Mask {
		if learned && (t == 0 || !a.Mask[t-1]) {
			turns++
		}
	}
	if turns < 2 || len(a.Tokens) != len(a.Mask) {
		return nil
	}
	s := spell(a, texts)
	chat := s.Chat(func(places []int) string {
		var text strings.Builder
		for _, t := range places {
			text.WriteString(s.Texts[t])
		}
		size += text.Len()
		return text.String()
	})
	if size > maxChat {
		return nil
	}
	return chat
}

// cut shortens the texts for the table.
func (r *Rollout) cut() {
	for _, text := range []*string{&r.Prompt, &r.Truth, &r.Response} {
		short, cut := cutMiddle(*text, maxShown)
		*text, r.Cut = short, r.Cut || cut
	}
}

// cutMiddle shortens a text to this many characters, and reports whether it did. More of the end stays than of the
// beginning, because there the question is asked and the final answer given.
func cutMiddle(text string, most int) (string, bool) {
	if utf8.RuneCountInString(text) <= most {
		return text, false
	}
	begin, _ := cutText(text, most/4)
	end := len(text)
	for range most - most/4 - utf8.RuneCountInString(gap) {
		_, size := utf8.DecodeLastRuneInString(text[:end])
		end -= size
	}
	return begin + gap + text[end:], true
}

// gap stands in the place of what a list leaves out of a text.
const gap = "\n…\n"

// rollout answers with one rollout and the numbers of its tokens.
func (s *traces) rollout(r *http.Request, f *runFiles) (any, error) {
	id := r.PathValue("id")
	dir, step, answers, err := f.answers(r, id)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(answers, func(a *trace.Answer) bool { return a.ID == id })
	if i < 0 {
		return nil, notFound{fmt.Errorf("the trace of train step %d has no rollout %.200q", step, id)}
	}
	texts, _ := s.textsIn(dir) // without them the numbers are there
	set, _ := f.settings()     // the run itself tells an error
	a := answers[i]
	read := spell(a, texts)
	return struct {
		Rollout
		Tokens  []int32          `json:"tokens"`
		Mask    []bool           `json:"mask"`
		Streams map[string]any   `json:"streams"`
		Updates []map[string]any `json:"updates"`
		Calls   []called         `json:"calls"`
		*trace.Spelled
	}{rolloutOf(a, step), a.Tokens, a.Mask, streamsOf(a), updatesOf(a), callsIn(read, set), read}, nil
}

// streamsOf returns the streams by name; nil for those that nobody computed.
func streamsOf(a *trace.Answer) map[string]any {
	return perToken(a, map[string]trace.Floats{
		"logprobs": a.Logprobs, "old_logprobs": a.OldLogprobs, "ref_logprobs": a.RefLogprobs, "teacher_logprobs": a.TeacherLogprobs,
		"advantages": a.Advantages, "returns": a.Returns, "values": a.Values, "entropies": a.Entropies, "policy_weights": a.PolicyWeights,
	})
}

// updatesOf returns what the optimizer steps saw, as streams.
func updatesOf(a *trace.Answer) []map[string]any {
	all := []map[string]any{}
	for _, u := range a.Updates {
		streams := perToken(a, map[string]trace.Floats{
			"now_logprobs": u.Now, "now_entropies": u.NowEntropy, "now_divergences": u.Divergence,
			"d_logprobs": u.DLogprob, "d_entropies": u.DEntropy, "d_divergences": u.DDivergence,
		})
		streams["update"] = u.Update
		all = append(all, streams)
	}
	return all
}

// perToken returns the streams that have a number for each token, and nil in place of the others.
func perToken(a *trace.Answer, streams map[string]trace.Floats) map[string]any {
	all := map[string]any{}
	for name, stream := range streams {
		if all[name] = nil; len(stream) == len(a.Tokens) { // else nobody computed it, or the file is damaged
			all[name] = stream
		}
	}
	return all
}
