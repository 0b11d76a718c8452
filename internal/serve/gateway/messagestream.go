package gateway

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/wire/anthropic"
)

// messageStream sends the events of a reply over Anthropic's API.
type messageStream struct {
	*messages
	stream
	growth
}

// begin sends the reply without any content, unless it has been sent.
func (s *messageStream) begin() {
	if s.number == 0 {
		s.send("message_start", map[string]any{"message": s.empty()})
	}
}

// grow sends what is new of the thinking and the text.
func (s *messageStream) grow(m trinity.Message, _ *trinity.Completion) {
	s.begin()
	s.advanceTo(s.blocks(m), false)
}

// end sends the rest of the reply.
func (s *messageStream) end(response *anthropic.Response) error {
	s.begin()
	s.advanceTo(response.Content, true)
	s.send("message_delta", map[string]any{
		"delta": map[string]any{"stop_reason": response.StopReason, "stop_sequence": response.StopSequence},
		"usage": map[string]int{"output_tokens": response.Usage.OutputTokens},
	})
	s.send("message_stop", map[string]any{})
	return s.failed
}

// advanceTo sends what the stream lacks of blocks.
func (s *messageStream) advanceTo(blocks []anthropic.Block, ended bool) {
	var texts []string
	for _, b := range blocks {
		switch b.Type {
		case "thinking":
			texts = append(texts, *b.Thinking)
		case "tool_use":
			texts = append(texts, string(b.Input))
		default:
			texts = append(texts, b.Text)
		}
	}
	s.advance(texts, ended, sender{
		begin: func(i int) {
			empty := map[string]any{"type": "text", "text": ""}
			switch b := blocks[i]; b.Type {
			case "thinking":
				empty = map[string]any{"type": b.Type, "thinking": "", "signature": ""}
			case "tool_use":
				empty = map[string]any{"type": b.Type, "id": b.ID, "name": b.Name, "input": struct{}{}}
			}
			s.send("content_block_start", map[string]any{"index": i, "content_block": empty})
		},
		more: func(i int, text string) {
			delta := map[string]any{"type": "text_delta", "text": text}
			switch blocks[i].Type {
			case "thinking":
				delta = map[string]any{"type": "thinking_delta", "thinking": text}
			case "tool_use":
				delta = map[string]any{"type": "input_json_delta", "partial_json": text}
			}
			s.send("content_block_delta", map[string]any{"index": i, "delta": delta})
		},
		end: func(i int) { s.send("content_block_stop", map[string]any{"index": i}) },
	})
}
