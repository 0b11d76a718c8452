package studio

import (
	"slices"
	"strings"
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

// assign sets the roles from the texts. Without a marker, what training does not learn is the prompt.
func (s *spelled) assign(mask []bool) {
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
func (s *spelled) mark(mask []bool) (marked bool) {
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
