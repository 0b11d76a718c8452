package tokenizer

import (
	"encoding/json"
	"fmt"
)

// frame holds the special tokens that a post-processor puts around a text.
type frame struct{ before, after []int32 }

func newFrame(data json.RawMessage, where string) (frame, error) {
	kind, err := component(data, where)
	if err != nil || kind == "" {
		return frame{}, err
	}
	switch kind {
	case "Sequence":
		return newFrameSequence(data, where)
	case "ByteLevel":
		var offsets struct { // settings of offsets, which this package does not compute
			Type           string
			AddPrefixSpace bool `json:"add_prefix_space"`
			TrimOffsets    bool `json:"trim_offsets"`
			UseRegex       bool `json:"use_regex"`
		}
		return frame{}, strict(data, where, &offsets)
	case "TemplateProcessing":
		return newTemplate(data, where)
	}
	return frame{}, unsupported(where, kind, "Sequence", "ByteLevel", "TemplateProcessing")
}

func newFrameSequence(data json.RawMessage, where string) (frame, error) {
	var all frame
	err := eachPart(data, where, "processors", func(part json.RawMessage, where string) error {
		f, err := newFrame(part, where)
		all.before, all.after = append(f.before, all.before...), append(all.after, f.after...)
		return err
	})
	if err != nil {
		return frame{}, err
	}
	return all, nil
}

type templatePiece struct {
	SpecialToken *templateItem `json:"SpecialToken,omitempty"`
	Sequence     *templateItem `json:"Sequence,omitempty"`
}

type templateItem struct {
	ID     string `json:"id"`
	TypeID int32  `json:"type_id"`
}

type templateToken struct {
	ID     string   `json:"id"`
	IDs    []int32  `json:"ids"`
	Tokens []string `json:"tokens"`
}

// maxFrame bounds the special tokens around a text.
const maxFrame = 1 << 10

// template is TemplateProcessing. Encode uses only its form for a single text.
type template struct {
	Type          string                   `json:"type"`
	Single        []templatePiece          `json:"single"`
	Pair          []templatePiece          `json:"pair"`
	SpecialTokens map[string]templateToken `json:"special_tokens"`
}

func newTemplate(data json.RawMessage, where string) (frame, error) {
	var t template
	if err := strict(data, where, &t); err != nil {
		return frame{}, err
	}
	var f frame
	texts := 0
	for i, p := range t.Single {
		switch {
		case p.Sequence != nil && p.SpecialToken == nil && p.Sequence.ID == "A":
			texts++
		case p.SpecialToken != nil && p.Sequence == nil:
			token, ok := t.SpecialTokens[p.SpecialToken.ID]
			if !ok {
				return frame{}, fmt.Errorf("%s.single[%d] is %q, which is not in special_tokens", where, i, p.SpecialToken.ID)
			}
			if len(f.before)+len(f.after) > maxFrame {
				continue // the error follows
			}
			if texts == 0 {
				f.before = append(f.before, token.IDs...)
			} else {
				f.after = append(f.after, token.IDs...)
			}
		default:
			return frame{}, fmt.Errorf("%s.single[%d]: expected a SpecialToken or the Sequence A", where, i)
		}
	}
	if len(f.before)+len(f.after) > maxFrame {
		return frame{}, fmt.Errorf("%s.single adds more than %d special tokens to each text", where, maxFrame)
	}
	if texts != 1 {
		return frame{}, fmt.Errorf("%s.single has the Sequence A %d times; expected once", where, texts)
	}
	return f, nil
}
