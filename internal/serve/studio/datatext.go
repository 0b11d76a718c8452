package studio

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/dataset"
	"github.com/trinity-go/trinity/internal/trace"
	"github.com/trinity-go/trinity/model/renderer"
)

// modelText is how a model reads the rows of a source.
type modelText struct {
	renderer *renderer.Renderer // nil if rows are shown as text alone
	why      string             // they are
}

// begin waits for a turn to read.
func (d *data) begin(ctx context.Context) (done func(), err error) {
	select {
	case d.turns <- struct{}{}:
		return func() { <-d.turns }, nil
	case <-time.After(turnTime):
		return nil, busy{fmt.Errorf("other requests have read data for %v: try again later", turnTime)}
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// modelText returns how the model of a source reads its rows. The tokenizer of one model stays in memory.
func (d *data) modelText(of stageSource) modelText {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.of != of.run || d.last.renderer == nil {
		d.of, d.last = of.run, modelText{}
		var err error
		if d.last.renderer, err = d.reads.Text(of.cfg); err != nil {
			d.last = modelText{why: firstLine(err)}
		}
	}
	if d.last.renderer != nil && of.Kind != dataset.KindLog && dataset.ReadsChats(of.Kind) && !d.last.renderer.HasTemplate() {
		return modelText{why: "the model has no chat template"}
	}
	return d.last
}

// renders returns what makes tokens of texts: characters without a model.
func (v *view) renders() trinity.Renderer {
	if v.renderer != nil {
		return v.renderer
	}
	return characters{}
}

// decode returns the text of tokens with control tokens; "" if nobody knows it.
func (v *view) decode(tokens []int32) string {
	switch {
	case v.renderer != nil:
		return v.renderer.Tokenizer().Decode(tokens, false)
	case v.Kind == kindExperience || v.Kind == dataset.KindLog:
		return ""
	}
	return characters{}.Decode(tokens)
}

// wholeExample is an example with its tokens.
type wholeExample struct {
	example
	Tokens       []int32                 `json:"tokens"` // null without the model's tokenizer
	Mask         []bool                  `json:"mask"`
	PromptTokens int64                   `json:"prompt_tokens"`
	More         int                     `json:"more"`    // tokens that are left out
	Streams      map[string]trace.Floats `json:"streams"` // numbers of the tokens of an experience
	Updates      []any                   `json:"updates"` // none: as a rollout has them
	*trace.Spelled
}

// whole returns an example with the texts of its tokens.
func (v *view) whole(e example) wholeExample {
	w := wholeExample{example: e, Streams: map[string]trace.Floats{}, Updates: []any{}}
	for _, text := range []*string{&w.Prompt, &w.Response, &w.Answer} {
		short, cut := cutText(*text, mostText)
		*text, w.Cut = short, w.Cut || cut
	}
	if v.renderer == nil || e.exp == nil {
		return w
	}
	n := min(len(e.exp.Tokens), mostTokens)
	w.Tokens, w.Mask, w.More, w.PromptTokens = e.exp.Tokens[:n], e.exp.Mask[:n], len(e.exp.Tokens)-n, int64(e.PromptLength)
	for name, stream := range map[string][]float32{
		"logprobs": e.exp.Logprobs, "advantages": e.exp.Advantages, "returns": e.exp.Returns, "ref_logprobs": e.exp.RefLogprobs,
		"teacher_logprobs": e.exp.TeacherLogprobs,
	} {
		if len(stream) == len(e.exp.Tokens) {
			w.Streams[name] = stream[:n]
		}
	}
	texts := map[int32]string{}
	for _, token := range w.Tokens {
		if _, ok := texts[token]; !ok {
			texts[token] = v.renderer.Tokenizer().Text(token)
		}
	}
	w.Spelled = spell(&trace.Answer{Streams: trace.Streams{Tokens: w.Tokens, Mask: w.Mask}}, texts)
	return w
}

// characters renders chats without a model: each character is a token, and a line names who speaks.
type characters struct{ trinity.Renderer }

func speaker(role string) string { return "[" + role + "]\n" }

// Render implements [trinity.Renderer].
func (characters) Render(messages []trinity.Message, _ json.RawMessage, generate bool) ([]int32, error) {
	var text strings.Builder
	for _, m := range messages {
		text.WriteString(speaker(m.Role) + m.Content + string(m.ToolCalls) + "\n")
	}
	if generate {
		text.WriteString(speaker("assistant"))
	}
	return characters{}.Encode(text.String()), nil
}

// RenderTraining implements [trinity.Renderer].
func (characters) RenderTraining(
	messages []trinity.Message, _ json.RawMessage, learn []bool,
) (tokens []int32, mask []bool, err error) {
	for n, m := range messages {
		for i, part := range []string{speaker(m.Role), m.Content + string(m.ToolCalls) + "\n"} {
			for _, c := range part {
				tokens, mask = append(tokens, c), append(mask, i == 1 && learn[n])
			}
		}
	}
	return tokens, mask, nil
}

// Encode implements [trinity.Renderer].
func (characters) Encode(text string) []int32 { return []rune(text) }

// Decode implements [trinity.Renderer].
func (characters) Decode(tokens []int32) string { return string(tokens) }
