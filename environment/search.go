package environment

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/retry"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Environments.Register("search",
		"Asks the task's question and offers the tools search and get_document. They read `corpus`, a file of JSON lines with id, title and "+
			"text, which is searched with BM25; or they ask a service at `url`, which gets POST {\"query\", \"max_results\"} and answers "+
			"{\"results\": [{\"id\", \"title\", \"text\"}]}. With method get the service gets ?q=QUERY&format=json, as SearXNG wants it. A "+
			"document is asked for at `document_url` with POST {\"id\"}; without one the policy reads what the results say. For the id also docid "+
			"and url are read, for the text also contents, content and snippet. A reply without a call ends the episode. Reward: that of the "+
			"task's reward function, or 1 if the last line of the reply is the reference answer, else 0.",
		func() trinity.EnvironmentOpener {
			return &search{Service: retry.Service{Timeout: 20, MaxRetryTimes: 2, MaxRetryInterval: 1}, Method: "post", TopK: 5, MaxSnippet: 1000,
				MaxDocument: 8000, GetDocument: true}
		})
}

// search is a search engine.
type search struct {
	retry.Service `yaml:",inline"`
	Method        string `yaml:"method" enum:"post|get" doc:"how the service is asked; SearXNG wants get"`
	DocumentURL   string `yaml:"document_url" excludes:"corpus" doc:"where the service gives whole documents"`
	Corpus        string `yaml:"corpus" doc:"file of JSON lines with the documents, in place of a service"`
	TopK          int    `yaml:"top_k" range:"[1,100]" doc:"results of a search at most"`
	MaxSnippet    int    `yaml:"max_snippet" range:"[1,)" doc:"characters of each result that the policy reads"`
	MaxDocument   int    `yaml:"max_document" range:"[1,)" doc:"characters of a document that the policy reads"`
	GetDocument   bool   `yaml:"get_document" doc:"offer the tool get_document"`

	engine func() (searchEngine, error) // opens it once
}

// searchEngine finds documents.
type searchEngine interface {
	find(ctx context.Context, query string, most int) ([]document, error)
	// document returns a document by its id. The error is errNoDocument if there is none.
	document(ctx context.Context, id string) (document, error)
}

var errNoDocument = errors.New("there is no such document")

// document is a document, or what a search shows of it.
type document struct {
	ID    string `json:"id"`
	Title string `json:"title,omitempty"`
	Text  string `json:"text"`
}

// UnmarshalJSON reads a document under any of the names that services have for its parts.
func (d *document) UnmarshalJSON(data []byte) error {
	var in struct {
		ID, DocID                        json.RawMessage
		URL, Title                       string
		Text, Contents, Content, Snippet *string
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	d.Title, d.ID = in.Title, in.URL
	for _, id := range []json.RawMessage{in.DocID, in.ID} {
		if len(id) == 0 || string(id) == "null" {
			continue
		}
		if json.Unmarshal(id, &d.ID) != nil {
			d.ID = string(id) // a number
		}
	}
	if d.ID == "" {
		return errors.New("a document has neither id nor url")
	}
	for _, text := range []*string{in.Text, in.Contents, in.Content, in.Snippet} {
		if text != nil {
			d.Text = *text
			return nil
		}
	}
	if d.Title == "" {
		return fmt.Errorf("the document %q has neither text nor title", d.ID)
	}
	return nil
}

// Validate checks the arguments.
func (s *search) Validate() error {
	if (s.Corpus == "") == (s.URL == "") {
		return errors.New("corpus and url: name one of both")
	}
	if s.Corpus != "" {
		s.engine = sync.OnceValues(func() (searchEngine, error) { return openCorpus(s.Corpus) })
		return nil
	}
	service, err := newSearchService(s)
	s.engine = func() (searchEngine, error) { return service, nil }
	return err
}

// Requires implements [trinity.Requirer].
func (s *search) Requires() trinity.Requirements {
	return trinity.Requirements{Tools: true, CheckTask: func(t *trinity.Task) error {
		if _, err := s.engine(); err != nil {
			return err
		}
		return checkQuestion(t)
	}}
}

// OpenEnvironment implements [trinity.EnvironmentOpener].
func (s *search) OpenEnvironment(_ context.Context, t *trinity.Task) (trinity.Environment, error) {
	engine, err := s.engine()
	return &searches{args: s, engine: engine, task: t}, err
}

// searches is one episode.
type searches struct {
	inMemory
	args   *search
	engine searchEngine
	task   *trinity.Task
}

// Reset implements [trinity.Environment].
func (s *searches) Reset(context.Context, uint64) (o trinity.Observation, err error) {
	if o.Messages, err = s.task.Messages(""); err != nil {
		return o, err
	}
	tools := []tool{{name: "search",
		description: "Searches documents by words. It returns the id, the title and the beginning of the best ones.",
		parameters:  map[string]any{"query": textParameter("words to search for")}, required: []string{"query"}}}
	if s.args.documents() {
		tools = append(tools, tool{name: "get_document", description: "Returns a document.",
			parameters: map[string]any{"id": textParameter("id of a document that a search has found")}, required: []string{"id"}})
	}
	o.Tools, err = schemas(tools...)
	return o, err
}

// documents reports whether the policy may read whole documents.
func (s *search) documents() bool { return s.GetDocument && (s.Corpus != "" || s.DocumentURL != "") }

// Step implements [trinity.Environment].
func (s *searches) Step(ctx context.Context, a trinity.Action) (out trinity.Outcome, err error) {
	if len(a.Calls) == 0 {
		out.Done, out.Reward = true, rightAnswer(s.task, a.Text)
		return out, nil
	}
	for _, call := range a.Calls {
		said, wrong, err := s.call(ctx, call)
		if err != nil {
			return out, err
		}
		out.ToolError = out.ToolError || wrong != nil
		out.Messages = append(out.Messages, answerOf(call, said, wrong))
	}
	return out, nil
}

// call runs a call and returns what the tool says. wrong says what the policy did wrong, and err that
// the search engine failed.
func (s *searches) call(ctx context.Context, c trinity.ToolCall) (said string, wrong, err error) {
	tools := map[string]bool{"search": true}
	if s.args.documents() {
		tools["get_document"] = true
	}
	var args struct{ Query, ID string }
	switch wrong := json.Unmarshal(c.Arguments, &args); {
	case !tools[c.Name]:
		return "", noTool(c.Name, tools), nil
	case wrong != nil:
		return "", fmt.Errorf("the arguments of %s: %s", c.Name, strings.TrimPrefix(wrong.Error(), "json: ")), nil
	case c.Name == "get_document":
		d, err := s.engine.document(ctx, args.ID)
		if errors.Is(err, errNoDocument) {
			return "", fmt.Errorf("there is no document %q", args.ID), nil
		}
		d.Text = beginning(d.Text, s.args.MaxDocument)
		return asJSON(d), nil, err
	case strings.TrimSpace(args.Query) == "":
		return "", errors.New(`want the argument "query", a text`), nil
	}
	found, err := s.engine.find(ctx, args.Query, s.args.TopK)
	for i := range found {
		found[i].Text = beginning(found[i].Text, s.args.MaxSnippet)
	}
	return asJSON(found), nil, err
}

// asJSON returns a value as JSON in which a policy reads < and > as they are.
func asJSON(v any) string {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // documents are texts
	return strings.TrimSpace(text.String())
}

// beginning returns at most so many characters of a text, with a mark if there are more.
func beginning(text string, most int) string {
	if chars := []rune(text); len(chars) > most {
		return string(chars[:most]) + " …"
	}
	return text
}
