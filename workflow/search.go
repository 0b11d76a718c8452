package workflow

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Workflows.Register("bcp_simple_react_workflow",
		"The policy answers a question with the tools search and, with include_get_document, get_document, as in BrowseComp-Plus. `search` has "+
			"the arguments of the environment of that name, such as corpus. A model judges the answer. Reward: 1 if it is right, else 0. Metrics: "+
			"search_calls, get_document_calls, total_tool_calls.",
		func() trinity.Workflow {
			return &BrowseComp{Searching: defaultSearching(), MaxIterations: 100, TopK: 5, SnippetTokens: 512, SearcherType: "bm25"}
		})
	registry.Workflows.Register("agentscope_v1_react_search_workflow",
		"The policy answers a question by searching the web at a service: that in `search`, the arguments of the environment of that name, or "+
			"SearXNG at the address in the environment variable SEARXNG_URL, or Tavily with the key in TAVILY_API_KEY. Reward and metrics are "+
			"those of bcp_simple_react_workflow.",
		func() trinity.Workflow {
			return &WebSearch{Searching: defaultSearching(), MaxTurns: 10, SearchClientType: "searxng"}
		})
}

// Searching is what workflows have in common whose policy answers questions by searching. It is part
// of them.
//
// Unlike Trinity-RFT: a judge without a readable verdict fails the rollout, while there the reward is 0.
type Searching struct {
	Judged  `yaml:",inline"`
	Search  map[string]any `yaml:"search" doc:"arguments of the environment search"`
	Timeout float64        `yaml:"tool_timeout" doc:"seconds that the tools and the judge may take"`
	Steps   bool           `yaml:"steps" doc:"each reply is an experience of its own, for algorithms that know steps"`

	tools *toolSet
	turns int
}

func defaultSearching() Searching { return Searching{Judged: defaultJudged(), Timeout: 120} }

const searchSystem = "You answer a question with a search engine. Reason before each call, call one tool at a time, and search for few words; " +
	"if that finds nothing, search for others. When you know the answer, explain it without a call. The last line of your answer is: " +
	"Exact Answer: the answer, and nothing else."

// on builds the search engine with these arguments under those that the user has set. key is the
// argument with the number of turns.
func (w *Searching) on(key string, turns int, args map[string]any) error {
	if turns < 1 {
		return fmt.Errorf("%s: must be at least 1, got %d", key, turns)
	}
	if !(w.Timeout > 0) {
		return fmt.Errorf("tool_timeout: must be above 0, got %g", w.Timeout)
	}
	maps.Copy(args, w.Search)
	opener, err := registry.Environments.Build("search", args)
	if err != nil {
		return fmt.Errorf("search: %w", err)
	}
	w.turns, w.tools = turns, &toolSet{openers: []trinity.EnvironmentOpener{opener}, system: searchSystem}
	return nil
}

// Requires implements [trinity.Requirer].
func (w *Searching) Requires() trinity.Requirements {
	needs := w.needs()
	needs.Turns, needs.Tools, needs.CheckTask = true, true, trinity.RequirementsOf(w.tools).CheckTask
	return needs
}

// Run implements [trinity.Workflow].
func (w *Searching) Run(ctx context.Context, r *trinity.Rollout) ([]*trinity.Experience, error) {
	own := *r
	own.Reward = nil // the judge scores
	play := defaultPlay()
	play.Environment, play.MaxTurns, play.ResetTimeout, play.StepTimeout = "search", w.turns, w.Timeout, w.Timeout
	play.opener = askedEngine{w, r.Host}
	return play.finish(ctx, &own, w.Steps)
}

// askedEngine opens the tools with a judge of the answer.
type askedEngine struct {
	*Searching
	host trinity.Host
}

// OpenEnvironment implements [trinity.EnvironmentOpener].
func (a askedEngine) OpenEnvironment(ctx context.Context, t *trinity.Task) (trinity.Environment, error) {
	env, err := a.tools.OpenEnvironment(ctx, t)
	return &researching{Environment: env, of: a, task: t, calls: map[string]float64{}}, err
}

// researching is one episode.
type researching struct {
	trinity.Environment
	of    askedEngine
	task  *trinity.Task
	calls map[string]float64 // of each tool
}

// Step implements [trinity.Environment]. It counts the calls, and lets the judge score the answer.
func (s *researching) Step(ctx context.Context, a trinity.Action) (trinity.Outcome, error) {
	out, err := s.Environment.Step(ctx, a)
	if err != nil {
		return out, err
	}
	for _, call := range a.Calls {
		s.calls[call.Name]++
		s.calls[""]++
	}
	out.Metrics = map[string]float64{
		"search_calls": s.calls["search"], "get_document_calls": s.calls["get_document"], "total_tool_calls": s.calls[""],
	}
	if out.Done {
		question, err := s.task.Prompt()
		if err != nil {
			return out, err
		}
		right, err := s.of.isRight(ctx, s.of.host, question, s.task.Truth(), a.Text)
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

// BrowseComp searches a fixed corpus.
type BrowseComp struct {
	Searching      `yaml:",inline"`
	MaxIterations  int    `yaml:"max_iterations" doc:"replies of the policy at most"`
	TopK           int    `yaml:"top_k" doc:"results of a search at most"`
	SnippetTokens  int    `yaml:"snippet_max_tokens" doc:"tokens of each result that the policy reads, of 4 characters each"`
	IncludeGetting bool   `yaml:"include_get_document" doc:"offer the tool get_document"`
	SearcherType   string `yaml:"searcher_type" doc:"bm25; a service in search.url searches as it likes"`
}

// Validate builds the search engine.
func (w *BrowseComp) Validate() error {
	if w.SearcherType != "bm25" {
		return fmt.Errorf("searcher_type: want bm25, got %q; another searcher is a service in search.url", w.SearcherType)
	}
	return w.on("max_iterations", w.MaxIterations, map[string]any{
		"top_k": w.TopK, "max_snippet": 4 * w.SnippetTokens, "get_document": w.IncludeGetting,
	})
}

// WebSearch searches the web.
type WebSearch struct {
	Searching        `yaml:",inline"`
	MaxTurns         int    `yaml:"max_turns" doc:"replies of the policy at most"`
	SearchClientType string `yaml:"search_client_type" doc:"service if search names none: searxng or tavily"`
}

// Validate builds the search engine.
func (w *WebSearch) Validate() error {
	args := map[string]any{}
	named := w.Search["url"] != nil || w.Search["corpus"] != nil
	address, key := os.Getenv("SEARXNG_URL"), os.Getenv("TAVILY_API_KEY")
	switch {
	case named:
	case w.SearchClientType == "searxng" && address != "":
		args["url"], args["method"] = address+"/search", "get"
	case w.SearchClientType == "tavily" && key != "":
		args["url"], args["headers"] = "https://api.tavily.com/search", map[string]any{"Authorization": "Bearer " + key}
	case w.SearchClientType == "searxng", w.SearchClientType == "tavily":
		return errors.New("search: name a service in search.url, or set the environment variable SEARXNG_URL, or TAVILY_API_KEY with " +
			"search_client_type tavily")
	default:
		return fmt.Errorf("search_client_type: want searxng or tavily, got %q", w.SearchClientType)
	}
	return w.on("max_turns", w.MaxTurns, args)
}
