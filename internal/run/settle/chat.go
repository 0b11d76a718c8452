package settle

import (
	"encoding/json"
	"fmt"

	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/model/toolcall"
	"github.com/trinity-go/trinity/internal/run/place"
	"github.com/trinity-go/trinity/internal/serve/openai"
	"github.com/trinity-go/trinity/model/renderer"
)

const toolCallParserKey = "explorer.rollout_model.tool_call_parser"

// openText opens the tokenizer and the chat template of the model at a path. If the stage runs, it keeps the
// images that it shows.
func openText(s *config.Settled, path string, runs bool) (*renderer.Renderer, error) {
	m := &s.Model
	template := m.CustomChatTemplate
	if template == "" && m.ChatTemplatePath != "" {
		data, err := durable.ReadRegular(m.ChatTemplatePath, config.MaxFileSize)
		if err != nil {
			return nil, s.At("model.chat_template_path", err.Error(), "")
		}
		template = string(data)
	}
	kwargs := map[string]any{}
	if m.EnableThinking != nil {
		kwargs["enable_thinking"] = *m.EnableThinking
	}
	images, err := place.Images(s, path, runs)
	if err != nil {
		return nil, err
	}
	r := &s.Explorer.RolloutModel
	return renderer.Open(path, renderer.Options{
		Template: template, Kwargs: kwargs, ToolCallParser: toolCallParser(s), ToolCallPattern: r.ToolCallPattern,
		ReasoningParser: r.ReasoningParser, KeepThinking: r.KeepThinking, Images: images,
	})
}

// toolCallParser returns the name of the format in which the policy calls tools.
func toolCallParser(s *config.Settled) string {
	if r := &s.Explorer.RolloutModel; r.EnableAutoToolChoice {
		return r.ToolCallParser
	}
	return toolcall.None
}

// checkToolCallParser returns an error if the keys that say how calls of tools are read contradict
// one another. It needs no model.
func checkToolCallParser(s *config.Settled) error {
	r := &s.Explorer.RolloutModel
	if !r.EnableAutoToolChoice {
		return nil
	}
	if _, _, err := toolcall.Open(r.ToolCallParser, r.ToolCallPattern, ""); err != nil {
		key := toolCallParserKey
		if r.ToolCallPattern != "" {
			key = "explorer.rollout_model.tool_call_pattern"
		}
		return s.At(key, err.Error(), "")
	}
	return nil
}

// checkTools returns an error if tasks have tools that the policy has no way to call.
func (s *Stage) checkTools() error {
	for i := range s.Tasksets {
		t, tools := &s.Tasksets[i], false
		for _, needs := range t.Needs() {
			tools = tools || needs.Tools
		}
		const hint = "set explorer.rollout_model.tool_call_parser to a format that the model knows"
		switch {
		case !tools:
		case s.Text == nil:
			return s.At(t.Key, "its tasks have tools, and the model has no tokenizer", "")
		case s.Text.CallFormat() == toolcall.None && toolCallParser(s.Settled) == toolcall.Auto:
			return s.At(t.Key, fmt.Sprintf("its tasks have tools, and no tool_call_parser fits the chat template of %s", s.Model.ModelPath), hint)
		case s.Text.CallFormat() == toolcall.None:
			return s.At(t.Key, "its tasks have tools, and the run reads no calls of tools", hint)
		}
	}
	return nil
}

// anyTool stands for the tools of a program.
var anyTool = json.RawMessage(`[{"type":"function","function":{"name":"tool","description":"A tool.","parameters":` +
	`{"type":"object","properties":{"text":{"type":"string","description":"A text."}},"required":["text"]}}}]`)

// chatFacts says, if rollouts have several turns, what the chat template costs and how calls of tools
// are read.
func (s *Stage) chatFacts() (lines []string) {
	turns, tools, program := false, false, false
	for i := range s.Tasksets {
		for _, needs := range s.Tasksets[i].Needs() {
			turns, tools, program = turns || needs.Turns, tools || needs.Tools, program || needs.Program
		}
	}
	if s.Text == nil || !s.Text.HasTemplate() {
		return nil
	}
	if program && openai.HidesTools(s.Text, anyTool) {
		lines = append(lines, "the chat template leaves out tools: the policy does not see those that a program's requests have")
	}
	if !turns {
		return lines
	}
	r := &s.Explorer.RolloutModel
	switch {
	case !s.Text.RewritesHistory():
		lines = append(lines, "the chat template only appends: a rollout of several turns is one sequence")
	case r.KeepThinking:
		lines = append(lines, "the chat template rewrites earlier turns; keep_thinking keeps them as sampled: a rollout is one sequence")
	case r.OnRewrite == "fail":
		lines = append(lines, "the chat template rewrites earlier turns, and on_rewrite is fail: a second reply fails the rollout")
	default:
		lines = append(lines, "the chat template rewrites earlier turns, so each reply begins a new sequence: n turns train on about "+
			"(n+1)/2 times the tokens of one sequence; keep_thinking: true keeps one")
	}
	if tools {
		lines = append(lines, fmt.Sprintf("calls of tools are read as %s writes them", s.Text.CallFormat()))
	}
	return lines
}
