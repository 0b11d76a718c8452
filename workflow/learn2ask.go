package workflow

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/trinity-go/trinity"
)

const (
	stopMark = "<stop />"

	askSystem = "You interview the user to learn what you need to help. Each of your messages asks one short question. " +
		"If you know enough, write " + stopMark + " and nothing else."

	learnSystem = "An assistant interviews a user. You score the assistant's last message.\n" +
		"What the assistant still has to learn:\n%s\n\n" +
		"content_score is from 0 to 1: how directly the last message asks for something in that list, and for nothing that it knows already. " +
		"format_score is from 0 to 1: 1 for one short and polite question, 0 for several questions or none.\n" +
		"Answer in this form: <content_score>0.5</content_score><format_score>1</format_score>"
)

func init() {
	register("learn2ask_workflow",
		"One turn of an interview: the policy reads the chat so far, and either asks the next question or writes <stop />. The row's column "+
			"decision_truth says which is right (stop or continue), and info_truth what is still to be learnt. A model judges questions. Reward "+
			"with train_mode Ra+Rs: action × (1 + 2 content) + format, or the sum of the three with fusion_mode sum; with Ra: 2 content + "+
			"format; with Rs: 3 action + format. Parts: action_score, content_score, format_score. The task's reward function is not asked.",
		func() trinity.Workflow {
			return &learn2Ask{judgedArgs: defaultJudged(), TrainMode: "Ra+Rs", FusionMode: "default"}
		})
}

// learn2Ask teaches a policy when and what to ask.
//
// Unlike Trinity-RFT: without a readable answer of the judge there is no reward, while there content
// and format score 0; and the system prompt is the task's, if it has one.
type learn2Ask struct {
	judgedArgs `yaml:",inline"`
	TrainMode  string `yaml:"train_mode" enum:"Ra+Rs|Ra|Rs" doc:"what counts: Ra (the question), Rs (the decision)"`
	FusionMode string `yaml:"fusion_mode" enum:"default|sum" doc:"how Ra+Rs puts them together: default (a product) or sum"`
}

// Requires implements [trinity.Requirer].
func (w *learn2Ask) Requires() trinity.Requirements {
	needs := w.needs()
	needs.CheckTask = func(t *trinity.Task) error {
		if d := decision(t); d != "stop" && d != "continue" {
			return fmt.Errorf("column %q: want stop or continue, got %q", "decision_truth", d)
		}
		_, err := chatOf(t, askSystem)
		return err
	}
	return needs
}

// decision returns the right decision.
func decision(t *trinity.Task) string {
	if text, err := t.Text("decision_truth"); err == nil {
		return text
	}
	return "continue"
}

// Run implements [trinity.Workflow].
func (w *learn2Ask) Run(ctx context.Context, r *trinity.Rollout) ([]*trinity.Experience, error) {
	messages, err := chatOf(r.Task, askSystem)
	if err != nil {
		return nil, err
	}
	e, err := reply(ctx, r.Model, r.Task, messages)
	if err != nil || e.Truncated == trinity.PromptTruncated {
		return []*trinity.Experience{e}, err
	}
	e.Prompt = messages[len(messages)-1].Content
	scores, err := w.score(ctx, r, messages, e.Response)
	if err != nil {
		e.Reward, err = unjudged(err)
		return []*trinity.Experience{e}, err
	}
	e.Reward = trinity.Reward{Value: w.fuse(scores), Valid: true, Parts: scores}
	return []*trinity.Experience{e}, nil
}

// score returns the parts of a reply's reward.
func (w *learn2Ask) score(ctx context.Context, r *trinity.Rollout, messages []trinity.Message, said string) (map[string]float64, error) {
	scores, stops := map[string]float64{"action_score": 0, "content_score": 0, "format_score": 0}, strings.Contains(said, stopMark)
	if stops != (decision(r.Task) == "stop") {
		return scores, nil
	}
	scores["action_score"] = 1
	if stops {
		scores["content_score"] = 1
		if strings.TrimSpace(said) == stopMark {
			scores["format_score"] = 1
		}
		return scores, nil
	}
	unknown, err := r.Task.Text("info_truth")
	if err != nil {
		unknown = "None"
	}
	var chat strings.Builder
	for _, m := range append(messages[:len(messages):len(messages)], trinity.Message{Role: "assistant", Content: said}) {
		if m.Role != "system" {
			fmt.Fprintf(&chat, "%s: %s\n", m.Role, m.Content)
		}
	}
	err = w.ask(ctx, r.Host, fmt.Sprintf(learnSystem, unknown), chat.String(), func(answer string) error { return readScores(answer, scores) })
	return scores, err
}

var scoreTag = regexp.MustCompile(`<(content_score|format_score)>\s*([^<]*?)\s*</(?:content_score|format_score)>`)

// readScores reads both scores of an answer, from 0 to 1.
func readScores(answer string, into map[string]float64) error {
	read := map[string]bool{}
	for _, m := range scoreTag.FindAllStringSubmatch(answer, -1) {
		v, err := strconv.ParseFloat(m[2], 64)
		if err != nil || !(v >= 0 && v <= 1) {
			return fmt.Errorf("the answer has the %s %q, want a number from 0 to 1", m[1], m[2])
		}
		into[m[1]], read[m[1]] = v, true
	}
	if len(read) < 2 {
		return fmt.Errorf("the answer lacks <content_score> or <format_score>")
	}
	return nil
}

// fuse returns the reward.
func (w *learn2Ask) fuse(s map[string]float64) float64 {
	action, content, format := s["action_score"], s["content_score"], s["format_score"]
	switch {
	case w.TrainMode == "Ra":
		return 2*content + format
	case w.TrainMode == "Rs":
		return 3*action + format
	case w.FusionMode == "sum":
		return action + content + format
	}
	return action*(1+2*content) + format
}
