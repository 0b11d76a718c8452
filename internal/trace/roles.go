package trace

import (
	"encoding/hex"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/trinity-go/trinity"
)

// Markers of usual chat templates.
var (
	opens  = []string{"<|im_start|>", "<|start_header_id|>", "<start_of_turn>", "<|start|>", "<|start_of_role|>"}
	named  = []string{"<|end_header_id|>", "<|message|>", "<|end_of_role|>", "<|im_middle|>"} // end of the role's name
	closes = []string{"<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<end_of_turn>", "<|end|>", "<|endoftext|>", "<|end_of_text|>", "</s>"}
	// brackets are markers, each with its own role and the role of the text behind it.
	brackets = map[string][2]string{
		"[INST]": {"user", "user"}, "[/INST]": {"user", "assistant"},
		"[TOOL_RESULTS]": {"tool", "tool"}, "[/TOOL_RESULTS]": {"tool", "assistant"},
		"[SYSTEM_PROMPT]": {"system", "system"}, "[/SYSTEM_PROMPT]": {"system", ""},
		"[AVAILABLE_TOOLS]": {"system", "system"}, "[/AVAILABLE_TOOLS]": {"system", ""},
		"[TOOL_CALLS]": {"assistant", "assistant"},
	}
)

// maxName is how many characters a role's name has at most.
const maxName = 32

// Spelled is how the tokens of an answer read.
type Spelled struct {
	Texts   []string       `json:"texts"`
	Bytes   map[int]string `json:"bytes"`   // of tokens that are no characters alone, in hex, by place
	Special []bool         `json:"special"` // control tokens
	Roles   []string       `json:"roles"`   // of the message that the token is in; "" if unknown

	images []trinity.Image // see Show
}

var (
	// isControl finds tokens that no text has: <|im_start|>, <s>, </s>, [INST], <start_of_turn>, …
	isControl = regexp.MustCompile(`^(<[|｜][^<>]{1,60}[|｜]>|</?s>|<(bos|eos|pad|unk|mask)>|<(start|end)_of_(turn|image)>|` +
		`\[(CLS|SEP|PAD|BOS|EOS)\]|\[/?(INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\])$`)
	// isByte finds tokens that are one byte of a character.
	isByte = regexp.MustCompile(`^<0x([0-9A-Fa-f]{2})>$`)
)

// roleWords are the words of chat templates for the roles.
var roleWords = map[string]string{
	"system": "system", "developer": "system", "user": "user", "human": "user", "assistant": "assistant", "model": "assistant",
	"gpt": "assistant", "tool": "tool", "ipython": "tool", "function": "tool", "observation": "tool", "environment": "tool",
}

// Spell returns how the tokens of an answer read. Roles follow the markers of usual chat templates.
// Without one, tokens that the model sampled are the assistant's, and the others are the prompt.
func Spell(tokens []int32, mask []bool, texts map[int32]string) *Spelled {
	n := len(tokens)
	s := &Spelled{Texts: make([]string, n), Bytes: map[int]string{}, Special: make([]bool, n), Roles: make([]string, n)}
	for t, token := range tokens {
		text := texts[token]
		if m := isByte.FindStringSubmatch(text); m != nil {
			s.Bytes[t], text = strings.ToLower(m[1]), "\uFFFD"
			if b, err := hex.DecodeString(m[1]); err == nil && b[0] < utf8.RuneSelf {
				text = string(b)
				delete(s.Bytes, t)
			}
		}
		s.Texts[t], s.Special[t] = text, isControl.MatchString(text)
	}
	s.assign(mask)
	return s
}

// assign sets the roles from the texts. Without a marker, what training does not learn is the prompt.
func (s *Spelled) assign(mask []bool) {
	if s.mark(mask) || !slices.Contains(mask, true) {
		return
	}
	for t, role := range s.Roles {
		switch {
		case role != "":
		case t < len(mask) && mask[t]: // the end of an answer
			s.Roles[t] = "assistant"
		case !s.Special[t]:
			s.Roles[t] = "prompt"
		}
	}
}

// mark sets the roles that markers, the mask and thoughts tell, and reports whether a marker told one.
func (s *Spelled) mark(mask []bool) (marked bool) {
	role, thinks, recent := "", false, ""
	header, name := -1, "" // where the header of a message began, and what it says so far
	for t, text := range s.Texts {
		s.Roles[t] = role
		switch {
		case s.Special[t] && slices.Contains(opens, text):
			role, thinks, header, name = "", false, t, ""
			s.Roles[t] = ""
			continue
		case s.Special[t] && slices.Contains(named, text), header >= 0 && strings.Contains(text, "\n"):
			name += strings.TrimRight(text, "\n")
			if s.Special[t] {
				name = strings.TrimSuffix(name, text)
			}
			role = roleWords[strings.ToLower(strings.TrimSpace(name))]
			for ; header >= 0 && header <= t; header++ {
				s.Roles[header] = role
			}
			header, recent, marked = -1, "", marked || role != ""
			continue
		case header >= 0:
			if name += text; len(name) > maxName {
				header = -1
			}
			continue
		case s.Special[t] && slices.Contains(closes, text):
			role, thinks = "", false
			continue
		}
		of, known := brackets[text]
		if !known {
			word := roleWords[strings.ToLower(strings.Trim(text, "<>|｜"))]
			of, known = [2]string{word, word}, word != ""
		}
		if s.Special[t] && known {
			s.Roles[t], role, thinks, recent, marked = of[0], of[1], false, "", true
			continue
		}
		if s.Roles[t] == "" && t < len(mask) && mask[t] {
			s.Roles[t] = "assistant"
		}
		recent += text
		if said := strings.TrimSpace(recent); strings.HasSuffix(said, "<think>") {
			thinks = true
		} else if strings.HasSuffix(said, "</think>") {
			thinks = false
		}
		if thinks {
			s.Roles[t] = "think"
		}
		recent = recent[max(0, len(recent)-16):]
	}
	return marked
}
