package workflow

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	const name = "search_workflow"
	registry.Workflows.Register(name,
		"The policy answers a question with the tools of the environment search, whose arguments are in `search`: a corpus or a service. A "+
			"model judges the answer. Reward: 1 if it is right, else 0. Metrics: total_tool_calls, and search_calls and get_document_calls.",
		func() trinity.Workflow { return &searchWorkflow{searchArgs: defaultSearch(name), MaxTurns: 10} })
	registry.Workflows.Register("bcp_simple_react_workflow",
		name+" with Trinity-RFT's arguments for BrowseComp-Plus.",
		func() trinity.Workflow {
			return &browseComp{searchArgs: defaultSearch(name), MaxIterations: 100, TopK: 5, SnippetTokens: 512, SearcherType: "bm25"}
		})
	registry.Workflows.Register("agentscope_v1_react_search_workflow",
		name+" that searches the web, unless `search` says otherwise: with SearXNG at the address in the environment variable SEARXNG_URL, "+
			"or with Tavily and the key in TAVILY_API_KEY.",
		func() trinity.Workflow {
			return &webSearch{searchWorkflow: searchWorkflow{searchArgs: defaultSearch(name), MaxTurns: 10}, SearchClientType: "searxng"}
		})
}

// searchArgs are what workflows have in common whose policy answers by searching. They are part of them.
//
// Unlike Trinity-RFT: a judge without a readable verdict fails the rollout; there the reward is 0.
type searchArgs struct {
	judgedArgs `yaml:",inline"`
	Engine     map[string]any `yaml:"search" doc:"arguments of the environment search"`
	Timeout    float64        `yaml:"tool_timeout" range:"(0,inf]" doc:"seconds that the tools and the judge may take"`
	Steps      bool           `yaml:"steps" doc:"each reply is an experience of its own, for algorithms that know steps"`

	engine  string   // name of the environment
	tools   *toolSet // nil without a search engine
	missing string   // what to set then
	turns   int
}

// defaultSearch returns the defaults. The environment is called like the workflow.
func defaultSearch(workflow string) searchArgs {
	return searchArgs{judgedArgs: defaultJudged(), Timeout: 120, engine: strings.TrimSuffix(workflow, "_workflow")}
}

const searchSystem = "You answer a question with a search engine. Reason before each call, call one tool at a time, and search for " +
	"few words; if that finds nothing, search for others. When you know the answer, explain it without a call. The last line of " +
	"your answer is: Exact Answer: the answer, and nothing else."

// on builds the search engine with these arguments under those that the user has set. key is the
// argument with the number of turns. missing says what to set if nothing names an engine, as in files
// of Trinity-RFT.
func (w *searchArgs) on(turns int, args map[string]any, missing string) error {
	maps.Copy(args, w.Engine)
	w.turns, w.missing = turns, missing
	if args["url"] == nil && args["corpus"] == nil {
		return nil
	}
	opener, err := registry.Environments.Build(w.engine, args)
	if err != nil {
		return fmt.Errorf("search: %w", err)
	}
	w.tools = &toolSet{openers: []trinity.EnvironmentOpener{opener}, system: searchSystem}
	return nil
}

// Requires implements [trinity.Requirer].
func (w *searchArgs) Requires() trinity.Requirements {
	needs := w.needs()
	needs.Turns, needs.Tools, needs.Steps = true, true, w.Steps
	needs.CheckTask = func(*trinity.Task) error { return errors.New("workflow_args.search: " + w.missing) }
	if w.tools != nil {
		needs.CheckTask = w.tools.Requires().CheckTask
	}
	return needs
}

// Run implements [trinity.Workflow].
func (w *searchArgs) Run(ctx context.Context, r *trinity.Rollout) ([]*trinity.Experience, error) {
	own := *r
	own.Reward = nil // the judge scores
	play := defaultPlay()
	play.Environment, play.MaxTurns, play.ResetTimeout, play.StepTimeout = w.engine, w.turns, w.Timeout, w.Timeout
	if w.tools == nil {
		return nil, errors.New("workflow_args.search: " + w.missing)
	}
	play.opener = judgedToolOpener{w, r.Host}
	return play.finish(ctx, &own, w.Steps)
}

// judgedToolOpener opens the tools with a judge of the answer.
type judgedToolOpener struct {
	args *searchArgs
	host trinity.Host
}

// OpenEnvironment implements [trinity.EnvironmentOpener].
func (a judgedToolOpener) OpenEnvironment(ctx context.Context, t *trinity.Task) (trinity.Environment, error) {
	env, err := a.args.tools.OpenEnvironment(ctx, t)
	return &researching{Environment: env, of: a, task: t}, err
}

// researching is one episode.
type researching struct {
	trinity.Environment
	of    judgedToolOpener
	task  *trinity.Task
	calls map[string]float64 // metrics: of each tool, and all
}

// Reset implements [trinity.Environment].
func (s *researching) Reset(ctx context.Context, seed uint64) (trinity.Observation, error) {
	first, err := s.Environment.Reset(ctx, seed)
	if err != nil {
		return first, err
	}
	_, names, err := toolsOf(first.Tools)
	s.calls = map[string]float64{"total_tool_calls": 0}
	for _, name := range names {
		s.calls[name+"_calls"] = 0
	}
	return first, err
}

// Step implements [trinity.Environment]. It counts the calls, and lets the judge score the answer.
func (s *researching) Step(ctx context.Context, a trinity.Action) (trinity.Outcome, error) {
	out, err := s.Environment.Step(ctx, a)
	if err != nil {
		return out, err
	}
	for _, call := range a.Calls {
		if _, ok := s.calls[call.Name+"_calls"]; ok {
			s.calls[call.Name+"_calls"]++
		}
		s.calls["total_tool_calls"]++
	}
	out.Metrics = maps.Clone(s.calls)
	if out.Done {
		question, err := lastQuestion(s.task)
		if err != nil {
			return out, err
		}
		right, err := s.of.args.isRight(ctx, s.of.host, question, s.task.Truth(), a.Text)
		if err != nil {
			return out, err
		}
		out.Reward = new(float64)
		if right {
			*out.Reward = 1
		}
		out.Parts = map[string]float64{"accuracy": *out.Reward}
	}
	return out, nil
}

// browseComp searches a fixed corpus.
type browseComp struct {
	searchArgs     `yaml:",inline"`
	MaxIterations  int    `yaml:"max_iterations" range:"[1,)" doc:"replies of the policy at most"`
	TopK           int    `yaml:"top_k" doc:"results of a search at most"`
	SnippetTokens  int    `yaml:"snippet_max_tokens" doc:"tokens of each result that the policy reads, of 4 characters each"`
	IncludeGetting bool   `yaml:"include_get_document" doc:"offer the tool get_document"`
	SearcherType   string `yaml:"searcher_type" doc:"bm25; a service in search.url searches as it likes"`
}

// Validate builds the search engine.
func (w *browseComp) Validate() error {
	if w.SearcherType != "bm25" {
		return fmt.Errorf("searcher_type: want bm25, got %q; another searcher is a service in search.url", w.SearcherType)
	}
	return w.on(w.MaxIterations, map[string]any{
		"top_k": w.TopK, "max_snippet": 4 * w.SnippetTokens, "get_document": w.IncludeGetting,
	}, "name a file of documents in corpus, or a service in url; no index of BrowseComp-Plus is read")
}

// searchWorkflow searches what its arguments say.
type searchWorkflow struct {
	searchArgs `yaml:",inline"`
	MaxTurns   int `yaml:"max_turns" range:"[1,)" doc:"replies of the policy at most"`
}

// Validate builds the search engine.
func (w *searchWorkflow) Validate() error {
	return w.on(w.MaxTurns, map[string]any{}, "name a file of documents in corpus, or a service in url")
}

// webSearch searches the web.
type webSearch struct {
	searchWorkflow   `yaml:",inline"`
	SearchClientType string `yaml:"search_client_type" enum:"searxng|tavily" doc:"service if search names none"`
}

// Validate builds the search engine.
func (w *webSearch) Validate() error {
	args := map[string]any{}
	if w.Engine["url"] == nil && w.Engine["corpus"] == nil {
		address, key := os.Getenv("SEARXNG_URL"), os.Getenv("TAVILY_API_KEY")
		switch {
		case w.SearchClientType == "searxng" && address != "":
			args["url"], args["method"] = address+"/search", "get"
		case w.SearchClientType == "tavily" && key != "":
			args["url"], args["headers"] = "https://api.tavily.com/search", map[string]any{"Authorization": "Bearer " + key}
		}
	}
	return w.on(w.MaxTurns, args,
		"name a service in url, or set the environment variable SEARXNG_URL, or TAVILY_API_KEY with search_client_type tavily")
}
