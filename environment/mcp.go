package environment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/bridge"
	"github.com/trinity-go/trinity/internal/process"
	"github.com/trinity-go/trinity/internal/wire/mcp"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Environments.Register("mcp",
		"The policy answers the row's question with the tools of an MCP server: a program that is started for each episode, or a server behind "+
			"a URL. A reply without a call is the answer. Reward: that of the task's reward function if it names one, else 1 if the last line of "+
			"the answer is the reference answer, else 0. Word of the first message: {question}.",
		func() trinity.EnvironmentOpener { return &toolServer{Ask: "{question}", MaxAnswer: 8000} })
}

// toolServer is an MCP server.
type toolServer struct {
	process.Args `yaml:",inline"`
	URL          string            `yaml:"url" doc:"address of a server that runs already, in place of command"`
	Headers      map[string]string `yaml:"headers" secret:"true" doc:"headers of requests to url, such as Authorization"`
	Tools        []string          `yaml:"tools" doc:"names of the tools that the policy gets; without it, all"`
	Reuse        bool              `yaml:"reuse" doc:"keep the session for later episodes, because the server remembers nothing"`
	MaxAnswer    int               `yaml:"max_answer" range:"[1,)" doc:"bytes of a tool's answer that the policy reads"`
	Ask          string            `yaml:"ask" doc:"first message to the policy"`
}

// Validate checks the arguments.
func (m *toolServer) Validate() error {
	switch {
	case (m.URL == "") == (len(m.Command) == 0):
		return errors.New("want command, a program that is an MCP server, or url, the address of one")
	case m.URL == "":
		return m.Args.Validate()
	case !strings.HasPrefix(m.URL, "http://") && !strings.HasPrefix(m.URL, "https://"):
		return fmt.Errorf("url: %q is no address of an MCP server: want http://… or https://…", m.URL)
	}
	return nil
}

// Requires implements [trinity.Requirer].
func (m *toolServer) Requires() trinity.Requirements {
	return trinity.Requirements{Tools: true, CheckTask: func(t *trinity.Task) error {
		if _, err := t.Prompt(); err != nil {
			return err
		}
		return checkQuestion(t)
	}}
}

// OpenEnvironment implements [trinity.EnvironmentOpener].
func (m *toolServer) OpenEnvironment(ctx context.Context, t *trinity.Task) (trinity.Environment, error) {
	e := &toolSession{args: m, task: t}
	if err := e.connect(ctx); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	if m.Reuse {
		return reusableTools{e}, nil
	}
	return e, nil
}

// toolSession is one episode.
type toolSession struct {
	args    *toolServer
	task    *trinity.Task
	client  *mcp.Client
	schemas json.RawMessage
	web     *mcp.HTTP      // nil for a program
	program *bridge.Bridge // nil behind a URL
}

// reusableTools is a session that later episodes use.
type reusableTools struct{ *toolSession }

// Reuse implements [trinity.Reusable].
func (r reusableTools) Reuse(ctx context.Context, t *trinity.Task) error {
	r.task = t
	return r.client.Ping(ctx)
}

// connect opens the session and reads the schemas of the tools.
func (e *toolSession) connect(ctx context.Context) error {
	var way mcp.Transport
	var err error
	if e.args.URL != "" {
		e.web = &mcp.HTTP{URL: e.args.URL, Headers: e.args.Headers}
		way = e.web
	} else {
		e.program = bridge.New(e.args.Program(), 1, isToolAnswer)
		way = &toolProgram{Bridge: e.program}
	}
	if e.client, err = mcp.Connect(ctx, way); err != nil {
		return err
	}
	return e.list(ctx)
}

// isToolAnswer reports whether a line of a program is the answer to a request. Others are
// notifications, requests of the server and its log.
func isToolAnswer(line []byte) bool {
	var m struct {
		ID            *int
		Result, Error json.RawMessage
	}
	return json.Unmarshal(line, &m) == nil && m.ID != nil && (m.Result != nil || m.Error != nil)
}

// toolProgram is the transport of a program that is a server.
type toolProgram struct {
	*bridge.Bridge
	unsent []byte // lines before the next question
}

// Notify implements [mcp.Transport].
func (p *toolProgram) Notify(_ context.Context, message []byte) error {
	p.unsent = append(append(p.unsent, message...), '\n')
	return nil
}

// Ask implements [mcp.Transport].
func (p *toolProgram) Ask(ctx context.Context, request []byte, isAnswer func([]byte) bool) ([]byte, error) {
	question := append(append(p.unsent, request...), '\n')
	p.unsent = nil
	answer, err := p.AskLine(ctx, question)
	if err == nil && !isAnswer(answer) {
		err = fmt.Errorf("the server writes %.200q, which is no answer to the request", answer)
	}
	return answer, err
}

// list reads the schemas of the tools, in the form of OpenAI's API.
func (e *toolSession) list(ctx context.Context) error {
	type function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	}
	type tool struct {
		Type     string   `json:"type"`
		Function function `json:"function"`
	}
	tools := map[string]tool{}
	all, err := e.client.Tools(ctx)
	if err != nil {
		return err
	}
	for _, t := range all {
		tools[t.Name] = tool{"function", function{t.Name, t.Description, t.InputSchema}}
	}
	names := e.args.Tools
	if names == nil {
		names = slices.Sorted(maps.Keys(tools))
	}
	var chosen []tool
	for _, name := range names {
		t, ok := tools[name]
		if !ok {
			return fmt.Errorf("tools: the server has no %q; it has %s", name, strings.Join(slices.Sorted(maps.Keys(tools)), ", "))
		}
		chosen = append(chosen, t)
	}
	if len(chosen) == 0 {
		return errors.New("the server has no tools")
	}
	e.schemas, err = json.Marshal(chosen)
	return err
}

// Reset implements [trinity.Environment].
func (e *toolSession) Reset(context.Context, uint64) (trinity.Observation, error) {
	question, err := e.task.Prompt()
	o := says(e.args.Ask, "", "{question}", question)
	o.Tools = e.schemas
	return o, err
}

// Step implements [trinity.Environment].
func (e *toolSession) Step(ctx context.Context, a trinity.Action) (out trinity.Outcome, err error) {
	if len(a.Calls) == 0 {
		out.Done, out.Reward = true, rightAnswer(e.task, a.Text)
		return out, nil
	}
	for _, call := range a.Calls {
		result, err := e.client.Call(ctx, call.Name, call.Arguments)
		text := ""
		switch told := (*mcp.Error)(nil); {
		case errors.As(err, &told): // the server does not know the tool or its arguments
			text, out.ToolError = "Error: "+told.Message, true
		case err != nil:
			return out, err
		default:
			text, out.ToolError = answerText(result), out.ToolError || result.IsError
		}
		if len(text) > e.args.MaxAnswer {
			text = strings.ToValidUTF8(text[:e.args.MaxAnswer], "") + " …"
		}
		out.Messages = append(out.Messages, trinity.Message{Role: "tool", Content: text, ToolCallID: call.ID, Name: call.Name})
	}
	return out, nil
}

// answerText returns the texts of a tool's answer; what is no text is named.
func answerText(r *mcp.Result) string {
	var parts []string
	for _, c := range r.Content {
		if c.Type == "text" {
			parts = append(parts, c.Text)
		} else {
			parts = append(parts, "("+c.Type+")")
		}
	}
	if len(parts) == 0 {
		return string(r.StructuredContent)
	}
	return strings.Join(parts, "\n")
}

// Close implements [trinity.Environment].
func (e *toolSession) Close() error {
	if e.program != nil {
		return e.program.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = e.web.Close(ctx) // a server that does not answer ends the session by its own rules
	return nil
}
