package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
)

func init() {
	register("email_search_workflow",
		"The policy answers a question about somebody's mail with the tools search_emails, read_email and generate_response. The mail is an "+
			"SQLite file `database` with the tables emails (id, message_id, date, subject, from_address, body), recipients (email_id, "+
			"recipient_address, recipient_type) and emails_fts (subject, body), as Trinity-RFT makes it of the Enron mail. A row has the columns "+
			"message_ids, inbox_address and query_date. A model judges the answer. Reward: from 1 to 1.5 if it is right, −1 to −0.7 if it is "+
			"wrong, 0 to 0.3 if the policy says that it does not know, and −1 without an answer. Metrics: answer_correct, sources_correct, "+
			"found_email, read_email.",
		func() trinity.Workflow {
			return &emailSearch{judgedArgs: defaultJudged(), MaxTurns: 10, ToolLimit: 2000, JudgeAnswers: true, Timeout: 120}
		})
}

// emailSearch lets the policy search mail.
//
// Unlike Trinity-RFT: "I don't know" is no wrong answer, the policy reads only the mail of the row's
// inbox, and an unreadable verdict fails the rollout.
type emailSearch struct {
	judgedArgs   `yaml:",inline"`
	Database     string  `yaml:"database" doc:"SQLite file with the mail"`
	MaxTurns     int     `yaml:"max_turns" range:"[1,)" doc:"replies of the policy at most"`
	ToolLimit    int     `yaml:"tool_obs_char_limit" range:"[100,)" doc:"characters of a tool's result at most"`
	JudgeAnswers bool    `yaml:"llm_as_a_judge" doc:"a model judges the answer; if false, an answer in the words of the reference gets 1"`
	Timeout      float64 `yaml:"tool_timeout" range:"(0,inf]" doc:"seconds that the tools and the judge may take"`
	Steps        bool    `yaml:"steps" doc:"each reply is an experience of its own, for algorithms that know steps"`
}

// Requires implements [trinity.Requirer].
func (w *emailSearch) Requires() (needs trinity.Requirements) {
	if w.JudgeAnswers {
		needs = w.needs()
	}
	needs.Turns, needs.Tools, needs.Steps = true, true, w.Steps
	needs.CheckTask = func(t *trinity.Task) error {
		if w.Database == "" {
			return errors.New("workflow_args.database: name the SQLite file with the mail")
		}
		if _, err := os.Stat(w.Database); err != nil {
			return fmt.Errorf("workflow_args.database: %w", err)
		}
		if _, err := queryOf(t); err != nil {
			return err
		}
		return checkPrompt(t)
	}
	return needs
}

// mailQuery is what a row says beside the question.
type mailQuery struct {
	MessageIDs []string `json:"message_ids"`
	Inbox      string   `json:"inbox_address"`
	Date       string   `json:"query_date"`
}

func queryOf(t *trinity.Task) (q mailQuery, err error) {
	text, err := json.Marshal(t.Row)
	if err == nil {
		err = json.Unmarshal(text, &q)
	}
	if err == nil && q.Inbox == "" {
		err = errors.New(`no column "inbox_address"`)
	}
	return q, err
}

// Run implements [trinity.Workflow].
func (w *emailSearch) Run(ctx context.Context, r *trinity.Rollout) ([]*trinity.Experience, error) {
	own := *r
	own.Reward = nil // the answer alone is scored
	play := defaultPlay()
	play.Environment, play.MaxTurns, play.UnfinishedReward = "of the mail", w.MaxTurns, -1
	play.ResetTimeout, play.StepTimeout = w.Timeout, w.Timeout
	play.opener = mail{w, r.Host}
	return play.finish(ctx, &own, w.Steps)
}

// mail is an environment with the tools.
type mail struct {
	args *emailSearch
	host trinity.Host
}

// OpenEnvironment implements [trinity.EnvironmentOpener].
func (m mail) OpenEnvironment(_ context.Context, t *trinity.Task) (trinity.Environment, error) {
	query, err := queryOf(t)
	if err != nil {
		return nil, err
	}
	box, err := openMailbox(m.args.Database)
	return &searching{mail: m, task: t, query: query, box: box}, err
}

// searching is one episode.
type searching struct {
	mail
	task        *trinity.Task
	query       mailQuery
	box         *mailbox
	turns       int
	found, read []string // ids of messages
}

const mailSystem = "You answer a question about the mail of %s. Today is %s. Search with other words if a search finds nothing. " +
	"You have at most %d turns. When you have read the answer, call generate_response with it and with the ids of the messages that it " +
	"comes from. If you cannot find it, answer \"%s\" without ids."

const unknownAnswer = "I don't know"

// Reset implements [trinity.Environment].
func (s *searching) Reset(context.Context, uint64) (o trinity.Observation, err error) {
	s.turns, s.found, s.read = 0, nil, nil
	o.Tools = mailTools
	o.Messages, err = s.task.Messages(fmt.Sprintf(mailSystem, s.query.Inbox, s.query.Date, s.args.MaxTurns, unknownAnswer))
	return o, err
}

// Step implements [trinity.Environment]. A reply without a call is the answer, without sources.
func (s *searching) Step(ctx context.Context, a trinity.Action) (out trinity.Outcome, err error) {
	s.turns++
	if len(a.Calls) == 0 {
		return s.answer(ctx, mailArgs{Answer: a.Text})
	}
	for _, call := range a.Calls {
		var args mailArgs
		wrong := json.Unmarshal(call.Arguments, &args)
		if wrong == nil && call.Name == "generate_response" {
			return s.answer(ctx, args)
		}
		said := ""
		if wrong == nil {
			said, wrong = s.call(ctx, call.Name, args)
		}
		if ctx.Err() != nil {
			return out, context.Cause(ctx)
		}
		if wrong != nil {
			out.ToolError, said = true, "error: "+wrong.Error()
		}
		if r := []rune(said); len(r) > s.args.ToolLimit {
			said = string(r[:s.args.ToolLimit]) + "…"
		}
		out.Messages = append(out.Messages, trinity.Message{Role: "tool", Content: said, ToolCallID: call.ID, Name: call.Name})
	}
	return out, nil
}

// call returns the result of a tool.
func (s *searching) call(ctx context.Context, tool string, args mailArgs) (string, error) {
	var result any
	switch tool {
	case "search_emails":
		hits, err := s.box.search(ctx, s.query.Inbox, args)
		if err != nil {
			return "", err
		}
		for _, h := range hits {
			s.found = append(s.found, h.MessageID)
		}
		result = hits
	case "read_email":
		message, err := s.box.message(ctx, s.query.Inbox, args.MessageID)
		if err != nil {
			return "", err
		}
		s.read, result = append(s.read, args.MessageID), message
	default:
		return "", fmt.Errorf("there is no tool %q; the tools are search_emails, read_email, generate_response", tool)
	}
	var text strings.Builder
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // the policy reads < and >
	err := e.Encode(result)
	return strings.TrimSpace(text.String()), err
}

// answer ends the episode.
func (s *searching) answer(ctx context.Context, a mailArgs) (out trinity.Outcome, err error) {
	out.Done = true
	flag := func(name string, is bool) float64 {
		v := 0.0
		if is {
			v = 1
		}
		out.Metrics[name] = v
		return v
	}
	out.Metrics = map[string]float64{}
	hasSource := func(ids []string) bool {
		return len(s.query.MessageIDs) > 0 && slices.Contains(ids, s.query.MessageIDs[0])
	}
	sources := flag("sources_correct", hasSource(a.Sources))
	partial := 0.1 * (flag("found_email", hasSource(s.found)) + flag("read_email", hasSource(s.read)) + sources)
	right, err := s.isRight(ctx, a.Answer)
	if err != nil {
		return out, err
	}
	var reward float64
	switch correct := flag("answer_correct", right); {
	case !s.args.JudgeAnswers:
		reward = correct
	case a.Answer == unknownAnswer:
		reward = partial
	case !right:
		reward = partial - 1
	default:
		reward = 1 + 0.3*sources + 0.1*(1-float64(s.turns)/float64(s.args.MaxTurns))
		if n := len(a.Sources); n > 0 {
			reward += 0.1 / float64(n)
		}
	}
	out.Reward = &reward
	return out, nil
}

// isRight reports whether an answer is right.
func (s *searching) isRight(ctx context.Context, answer string) (bool, error) {
	truth := s.task.Truth()
	switch {
	case answer == "" || answer == unknownAnswer:
		return false, nil
	case !s.args.JudgeAnswers:
		return strings.Contains(strings.ToLower(truth), strings.ToLower(answer)), nil
	}
	question, err := lastQuestion(s.task)
	if err != nil {
		return false, err
	}
	return s.args.judgedArgs.isRight(ctx, s.host, question, truth, answer)
}

// Close implements [trinity.Environment].
func (s *searching) Close() error { return s.box.Close() }
